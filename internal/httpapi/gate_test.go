package httpapi

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"alimtalk-syncer/internal/hospitals"
)

func withTokens(o *Options) {
	o.Tokens = []hospitals.Secret{"first", "second", "third"}
	o.Page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("page")) })
}

func password(token string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("anyone:"+token))
}

func TestWithoutATokenNothingElseIsLookedAt(t *testing.T) {
	w := newWorld(t, withTokens).serve()
	for _, target := range []string{
		"/v1", "/v1/", "/%761/x", "/v1/%2e%2e/x", "/v1//hospitals", "/v1/nowhere", "/v1/hospitals/H001/templates/T1", "/v1/hospitals/nobody/templates/T1",
		"/v1/hospitals/H*/templates/T1", "/v1/hospitals/H001/templates/%00", "/v1/hospitals/H001/templates?name=%zz", "/v1/hospitals/H001/sync",
		"/v1/hospitals/H001/templates/",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "DELETE", "PUT", "OPTIONS", "PROPFIND"} {
			a := w.do(method, target, "Host: elsewhere.example", "Origin: https://elsewhere.example", "Sec-Fetch-Site: cross-site")
			if method != "HEAD" {
				w.wantProblem(a, 401)
			}
			if a.status != 401 || strings.Join(a.header.Values("WWW-Authenticate"), "|") != `Bearer realm="alimtalk-syncer"` {
				t.Errorf("%s %s: %d %q", method, target, a.status, a.header.Values("WWW-Authenticate"))
			}
		}
	}
	w.wantCalls()
}

func TestOnlyAWholeTokenOpens(t *testing.T) {
	w := newWorld(t, withTokens).serve()
	for header, status := range map[string]int{
		"Authorization: Bearer first":          200,
		"Authorization: Bearer second":         200,
		"Authorization: Bearer third":          200,
		"Authorization: bearer third":          200,
		"Authorization: Bearer  third":         401,
		"Authorization: Bearer":                401,
		"Authorization: Bearer fir":            401,
		"Authorization: Bearer firstly":        401,
		"Authorization: Bearer FIRST":          401,
		"Authorization: Bearer first,second":   401,
		"Authorization: Bearer first second":   401,
		"Authorization: first":                 401,
		"X-Api-Token: first":                   401,
		"Authorization: Token first":           401,
		"Authorization: Bearer \u00e9":         401,
		"Proxy-Authorization: Bearer first":    401,
		password("first"):                      401, // Basic is the page's
		"Authorization: Bearer " + "Zmlyc3Q=":  401,
		"Cookie: Authorization=Bearer%20first": 401,
	} {
		if a := w.do("GET", "/v1/hospitals/H001/templates/T1", header, "Host: elsewhere.example"); a.status != status {
			t.Errorf("%s: %d, want %d", header, a.status, status)
		}
	}
}

func TestThePageTakesTheTokenAsPassword(t *testing.T) {
	w := newWorld(t, withTokens).serve()
	a := w.do("GET", "/")
	w.wantProblem(a, 401)
	if got := strings.Join(a.header.Values("WWW-Authenticate"), "|"); got != `Bearer realm="alimtalk-syncer"|Basic realm="alimtalk-syncer", charset="UTF-8"` {
		t.Errorf("WWW-Authenticate %s", got)
	}
	for header, status := range map[string]int{
		password("second"): 200, "Authorization: Bearer second": 200, password("wrong"): 401, password(""): 401, "Authorization: Basic !": 401,
	} {
		if a := w.do("GET", "/", header); a.status != status {
			t.Errorf("%s: %d, want %d", header, a.status, status)
		}
	}
}

func TestHealthAndMetricsAreOpen(t *testing.T) {
	w := newWorld(t, withTokens).serve()
	for _, target := range []string{"/healthz", "/readyz", "/metrics"} {
		for _, method := range []string{"GET", "HEAD"} {
			if a := w.do(method, target, "Host: 10.1.2.3:8080"); a.status != 200 {
				t.Errorf("%s: %d", target, a.status)
			}
		}
		a := w.do("POST", target)
		w.wantProblem(a, 405)
		if a.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: Allow %q", target, a.header.Get("Allow"))
		}
	}
}

func TestWithoutTokensOnlyThisMachineIsNamed(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Addr = "syncer.internal:8080" }).serve()
	for host, status := range map[string]int{
		"localhost": 200, "LOCALHOST:1": 200, "127.0.0.1": 200, "127.9.9.9:80": 200, "[::1]": 200, "[::1]:8080": 200, "[::ffff:127.0.0.1]:80": 200,
		"syncer.internal": 200, "Syncer.Internal:99": 200,
		"elsewhere.example": 421, "localhost.elsewhere.example": 421, "127.0.0.1.elsewhere.example": 421, "10.0.0.1:8080": 421,
		"0.0.0.0": 421, "[::]": 421, "[fe80::1]:80": 421, "127.1": 421, "2130706433": 421, "127.0.0.1:80:90": 421, "syncer.internal.": 421,
	} {
		a := w.do("GET", "/v1/hospitals/H001/templates/T1", "Host: "+host)
		if a.status != status {
			t.Errorf("%s: %d, want %d", host, a.status, status)
		}
		if a.status == 421 {
			w.wantProblem(a, 421)
			w.wantProblem(w.do("POST", "/v1/hospitals/H*/sync", "Host: "+host, "Sec-Fetch-Site: cross-site"), 421)
		}
	}
	if got := w.exchange("GET /v1/hospitals/H001/templates/T1 HTTP/1.0\r\n\r\n"); got != 421 {
		t.Errorf("no Host at all: %d", got)
	}
	if got := w.exchange("GET http://elsewhere.example/v1/hospitals/H001/sync HTTP/1.1\r\nHost: localhost\r\n\r\n"); got != 421 {
		t.Errorf("absolute form: %d", got)
	}
}

func TestAForeignPageChangesNothing(t *testing.T) {
	for _, change := range []func(*Options){withTokens, func(*Options) {}} {
		w := newWorld(t, change).serve()
		token := "Authorization: Bearer first"
		for _, foreign := range []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: https://elsewhere.example", "Origin: null"} {
			w.wantProblem(w.do("POST", "/v1/hospitals/H001/sync", token, foreign), 403)
			w.wantProblem(w.do("DELETE", "/v1/hospitals/H001/templates/T1", token, foreign), 403)
			w.wantProblem(w.do("DELETE", "/v1/hospitals/H*/templates/T1", token, foreign), 403)
		}
		w.wantCalls()
		for _, own := range []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none", "Origin: http://" + w.addr, "X-None: 1"} {
			if a := w.do("DELETE", "/v1/hospitals/H001/templates/T1", token, own); a.status != 204 {
				t.Errorf("%s: %d", own, a.status)
			}
		}
	}
}
