package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"alimtalk-syncer/internal/redistest"
)

func TestTokensAreCheckedBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	d := w.start("API_TOKENS=crm-token-1111,crm-token-2222")
	for _, path := range []string{
		detailPath("H001", "T1"), listPath("H001"), syncPath("H001"), detailPath("H404", "T1"), detailPath("H001", "%00"),
		"/v1", "/v1/", "/v1/nothing", "/v1/hospitals/{H001}/templates", "/v1/hospitals/H001/templates/..",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodPut, "BREW"} {
			for _, header := range [][]string{
				nil, {"Authorization: Bearer "}, {"Authorization: Bearer crm-token-3333"}, {"Authorization: Bearer crm-token-111"},
				{"Authorization: Bearer crm-token-11111"}, {"Authorization: Bearer crm-token-1111,crm-token-2222"},
				{"Authorization: crm-token-1111"}, {"Authorization: Basic Y3JtOmNybS10b2tlbi0xMTEx"},
				{"Host: evil.example"}, {"Origin: http://evil.example"},
			} {
				a := d.do(context.Background(), method, path, header...)
				if a.err != nil || a.status != http.StatusUnauthorized || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
					t.Errorf("%s %s %q: %d, WWW-Authenticate %q, %v", method, path, header, a.status, a.header.Get("WWW-Authenticate"), a.err)
				}
			}
		}
	}
	d.get(listPath("H001")).problem(t, http.StatusUnauthorized)
	if n := len(w.surem.calls(func(call) bool { return true })); n != 0 {
		t.Errorf("%d calls to SureM", n)
	}
	for _, token := range []string{"crm-token-1111", "crm-token-2222"} {
		d.get(detailPath("H001", "T1"), "Authorization: Bearer "+token).document(t, one)
	}
	d.get(detailPath("H001", "T1"), "Authorization: bearer crm-token-2222").document(t, one)
	d.get(detailPath("H001", "T1"), "Authorization: Bearer crm-token-1111", "Host: crm.example").document(t, one)
	d.get(detailPath("H404", "T1"), "Authorization: Bearer crm-token-1111").problem(t, http.StatusNotFound)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		d.get(path).want(t, http.StatusOK)
	}
	if log := d.stderr.String(); strings.Contains(log, "crm-token-") {
		t.Error("the log shows a token")
	}
}

func TestAPublicAddressNeedsTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	for _, addr := range []string{":0", "0.0.0.0:18080", "[::]:18080", "192.0.2.1:18080", "syncer.example:18080"} {
		if r := w.command([]string{"config"}, "HTTP_ADDR="+addr).want(t, 2); !strings.Contains(r.stderr, "API_TOKENS") {
			t.Errorf("%s: %s", addr, r)
		}
	}
	for _, addr := range []string{"127.0.0.1:18080", "127.9.9.9:18080", "[::1]:18080", "localhost:18080"} {
		w.command([]string{"config"}, "HTTP_ADDR="+addr).want(t, 0)
	}
	_, port, _ := strings.Cut(redistest.FreeAddr(t), ":")
	d := w.launch("HTTP_ADDR=0.0.0.0:"+port, "API_TOKENS=crm-token-1111")
	d.addr = "127.0.0.1:" + port
	eventually(t, soon, "the daemon answers", func() bool { return d.get("/healthz").status == http.StatusOK })
	d.get(listPath("H001")).problem(t, http.StatusUnauthorized)
	d.get(listPath("H001"), "Authorization: Bearer crm-token-1111").want(t, http.StatusOK)
}

func TestWithoutTokensOnlyLoopbackHostsAreServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", template{code: "T1", status: "APPROVED"})
	d := w.start()
	for _, host := range []string{"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "192.0.2.1", "10.0.0.1:80", "[2001:db8::1]:80"} {
		d.get(detailPath("H001", "T1"), "Host: "+host).problem(t, http.StatusMisdirectedRequest)
		d.do(context.Background(), http.MethodPost, syncPath("H001"), "Host: "+host).problem(t, http.StatusMisdirectedRequest)
	}
	for what, request := range map[string]string{
		"another host's absolute target": "GET http://evil.example" + detailPath("H001", "T1") + " HTTP/1.1\r\nHost: " + d.addr + "\r\nConnection: close\r\n\r\n",
		"no host at all":                 "GET " + detailPath("H001", "T1") + " HTTP/1.0\r\n\r\n",
	} {
		if a := d.raw(request); a.status != http.StatusMisdirectedRequest {
			t.Errorf("%s: %d %v", what, a.status, a.err)
		}
	}
	if n := len(w.surem.calls(func(call) bool { return true })); n != 0 {
		t.Errorf("%d calls to SureM", n)
	}
	for _, host := range []string{d.addr, "localhost", "LOCALHOST:1234", "127.0.0.1", "127.1.2.3:99", "[::1]:8080", "[::1]"} {
		d.get(detailPath("H001", "T1"), "Host: "+host).want(t, http.StatusOK)
	}
}

func TestPostAndDeleteFromAnotherOriginAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.cache("H001", template{code: "T1", status: "APPROVED"})
	d := w.start()
	for _, header := range []string{"Origin: http://evil.example", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"} {
		d.do(context.Background(), http.MethodPost, syncPath("H001"), header).problem(t, http.StatusForbidden)
		d.do(context.Background(), http.MethodDelete, detailPath("H001", "T1"), header).problem(t, http.StatusForbidden)
		d.get(detailPath("H001", "T1"), header).want(t, http.StatusOK)
	}
	if !w.cached("H001", "T1") || w.surem.summaries(senderKey("H001")) != 0 {
		t.Error("a refused request has been carried out")
	}
	for _, header := range []string{"Origin: http://" + d.addr, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none"} {
		d.do(context.Background(), http.MethodPost, syncPath("H001"), header).want(t, http.StatusOK)
	}
	d.do(context.Background(), http.MethodDelete, detailPath("H001", "T1"), "Sec-Fetch-Site: same-origin").want(t, http.StatusNoContent)
}
