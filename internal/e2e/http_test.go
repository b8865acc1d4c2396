package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEveryV1AnswerMayNotBeStoredOrSniffed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", template{code: "T1", status: "APPROVED"})
	d := w.start("SUREM_MAX_RETRIES=0")
	ask := func(method, path string, status int, header ...string) {
		t.Helper()
		a := d.do(context.Background(), method, path, header...)
		a.want(t, status)
		if c, n := a.header.Get("Cache-Control"), a.header.Get("X-Content-Type-Options"); c != "no-store" || n != "nosniff" {
			t.Errorf("%s %s: Cache-Control %q, X-Content-Type-Options %q", method, path, c, n)
		}
		if want := "application/json"; status == http.StatusOK && a.header.Get("Content-Type") != want {
			t.Errorf("%s %s: Content-Type %q, want %q", method, path, a.header.Get("Content-Type"), want)
		}
	}
	ask(http.MethodGet, detailPath("H001", "T1"), 200)
	ask(http.MethodGet, detailPath("H001", "T1"), 200)
	ask(http.MethodGet, listPath("H001"), 200)
	ask(http.MethodPost, syncPath("H001"), 200)
	ask(http.MethodGet, detailPath("H001", "NONE"), 404)
	ask(http.MethodGet, detailPath("H001", "T1"), 421, "Host: evil.example")
	ask(http.MethodPost, syncPath("H001"), 403, "Origin: http://evil.example")
	ask(http.MethodGet, detailPath("H404", "T1"), 404)
	ask(http.MethodGet, "/v1/nothing", 404)
	ask(http.MethodPut, detailPath("H001", "T1"), 405)
	ask(http.MethodDelete, detailPath("H001", "T1"), 204)
	w.surem.kill()
	ask(http.MethodGet, detailPath("H001", "T1"), 502)
	ask(http.MethodGet, listPath("H001"), 502)
	ask(http.MethodPost, syncPath("H001"), 502)
}

func TestUnknownPathsAndMethodsAreProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	d := w.start()
	for _, path := range []string{"/v1", "/v1/", "/v1/hospitals", "/v1/hospitals/H001", "/v1/hospitals/H001/sync/", "/v2/hospitals/H001/templates", "/nothing", "/healthz/", "/healthz/x", "/debug/pprof/"} {
		d.get(path).problem(t, http.StatusNotFound)
	}
	for _, c := range []struct {
		path   string
		method string
		allow  []string
	}{
		{detailPath("H001", "T1"), http.MethodPut, []string{"DELETE", "GET", "HEAD"}},
		{detailPath("H001", "T1"), http.MethodPost, []string{"DELETE", "GET", "HEAD"}},
		{detailPath("H001", "T1"), "BREW", []string{"DELETE", "GET", "HEAD"}},
		{listPath("H001"), http.MethodDelete, []string{"GET", "HEAD"}},
		{syncPath("H001"), http.MethodGet, []string{"POST"}},
		{syncPath("H001"), http.MethodHead, []string{"POST"}},
		{"/healthz", http.MethodPost, []string{"GET", "HEAD"}},
		{"/readyz", http.MethodDelete, []string{"GET", "HEAD"}},
		{"/metrics", http.MethodPost, []string{"GET", "HEAD"}},
	} {
		a := d.do(context.Background(), c.method, c.path).want(t, http.StatusMethodNotAllowed)
		if c.method != http.MethodHead {
			a.problem(t, http.StatusMethodNotAllowed)
		}
		allow := strings.Split(strings.ReplaceAll(a.header.Get("Allow"), " ", ""), ",")
		slices.Sort(allow)
		if !slices.Equal(allow, c.allow) {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.path, allow, c.allow)
		}
	}
	if n := len(w.surem.calls(func(call) bool { return true })); n != 0 {
		t.Errorf("%d calls to SureM", n)
	}
}

func TestATemplateThatSureMDoesNotHaveIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	d := w.start("FLIGHT_FAILURE_COOLDOWN=1m", "SUREM_NOT_FOUND_CODES=T0404")
	for range 2 {
		d.read("H001", "NONE").problem(t, http.StatusNotFound)
	}
	if n := w.surem.details(senderKey("H001"), "NONE"); n != 1 {
		t.Errorf("%d detail calls: not found is neither retried nor asked again while it cools down", n)
	}
	w.surem.each(func(c call) *reply {
		switch c.code {
		case "CODED":
			return errorCode(http.StatusOK, "T0404")
		case "NULL":
			return envelope("null")
		case "HTML":
			return &reply{status: http.StatusNotFound, body: "<html>no such page</html>"}
		case "OTHER":
			return envelope(template{code: "ANOTHER", status: "APPROVED"}.document())
		case "STATELESS":
			return envelope(`{"templateCode":"STATELESS"}`)
		case "REFUSED":
			return errorCode(http.StatusOK, "E1234")
		}
		return nil
	})
	d.read("H001", "CODED").problem(t, http.StatusNotFound)
	for _, code := range []string{"NULL", "HTML", "OTHER", "STATELESS", "REFUSED"} {
		d.read("H001", code).problem(t, http.StatusBadGateway)
		if w.cached("H001", code) {
			t.Errorf("%s is stored", code)
		}
	}
	if v := d.metric("single_flight_loaders_failed_total"); v != 5 {
		t.Errorf("%v failed loads, want 5: not found is none", v)
	}
}

func TestOddRequestsAreTakenForWhatTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	d := w.start()
	d.get(detailPath("H001", "T1")+"?senderKey=evil&page=2").document(t, one)
	for _, c := range w.surem.calls(func(c call) bool { return c.op == detail }) {
		if c.uri != templatePath+"/T1?senderKey="+senderKey("H001") {
			t.Errorf("SureM was asked for %q", c.uri)
		}
	}
	for _, query := range []string{"?name=%ff", "?name=%zz", "?name=a;b", "?name=a&name=b", "?%00", "?name=" + strings.Repeat("x", 50_000)} {
		if a := d.request(http.MethodGet, listPath("H001")+query); a.status != http.StatusOK && a.status != http.StatusBadRequest && (len(query) < 1000 || a.status != http.StatusRequestHeaderFieldsTooLarge) {
			t.Errorf("%.40s: %d %v", query, a.status, a.err)
		}
	}
	for _, target := range []string{"*", "/../etc/passwd", "//v1/hospitals/H001/templates", "/v1//hospitals", "/./healthz", "/%2e%2e/healthz", "/v1/../metrics"} {
		a := d.request(http.MethodOptions, target)
		b := d.request(http.MethodGet, target)
		for _, x := range []answer{a, b} {
			if x.status >= 500 || x.status >= 300 && x.status < 400 || x.header.Get("Location") != "" {
				t.Errorf("%s: %d, Location %q", target, x.status, x.header.Get("Location"))
			}
		}
	}
	a := d.raw("POST " + syncPath("H001") + " HTTP/1.1\r\nHost: " + d.addr + "\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")
	a.report(t)
}

func TestHeadAnswersLikeGetWithoutABody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	d := w.start()
	a := d.do(context.Background(), http.MethodHead, detailPath("H001", "T1")).want(t, http.StatusOK)
	if a.body != "" || a.header.Get("Content-Length") != fmt.Sprint(len(one.document())) {
		t.Errorf("Content-Length %q, body %q", a.header.Get("Content-Length"), a.body)
	}
}

func TestRequestsInPiecesAreAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	d := w.start()
	conn, err := net.Dial("tcp", d.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.(*net.TCPConn).SetNoDelay(true)
	request := "GET " + detailPath("H001", "T1") + " HTTP/1.1\r\nHost: " + d.addr + "\r\nConnection: close\r\n\r\n"
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := range request {
		if _, err := conn.Write([]byte{request[i]}); err != nil {
			t.Fatal(err)
		}
		<-tick.C
	}
	_ = conn.SetReadDeadline(time.Now().Add(soon))
	readAnswer(conn).document(t, one)
}

func TestSlowHeadersAreCutOffAndHoldNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", template{code: "T1", status: "APPROVED"})
	d := w.start()
	var slow []net.Conn
	for range 200 {
		c, err := net.Dial("tcp", d.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nX-Slow: "); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
	}
	d.read("H001", "T1").want(t, http.StatusOK)
	// Closed by the daemon, with or without a word, and within a minute although one dribbles on.
	done := make(chan int, len(slow))
	for i, c := range slow {
		if i%20 == 0 {
			go func() {
				tick := time.NewTicker(time.Second)
				defer tick.Stop()
				for range 60 {
					if _, err := c.Write([]byte("x")); err != nil {
						return
					}
					<-tick.C
				}
			}()
		}
		go func() {
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := io.Copy(io.Discard, c); err != nil {
				if e, ok := err.(net.Error); ok && e.Timeout() {
					done <- 0
					return
				}
			}
			done <- 1
		}()
	}
	closed := 0
	for range slow {
		closed += receive(t, 70*time.Second, "a slow connection is closed", done)
	}
	if closed != len(slow) {
		t.Errorf("%d of %d slow connections closed", closed, len(slow))
	}
	d.read("H001", "T1").want(t, http.StatusOK).via(t, "hit")
}

func TestAThousandIdleConnectionsHoldNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", template{code: "T1", status: "APPROVED"})
	d := w.start()
	for range 1000 {
		c, err := net.Dial("tcp", d.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	for range 20 {
		if a := d.read("H001", "T1").want(t, http.StatusOK); a.took > 3*time.Second {
			t.Errorf("a read took %v", a.took)
		}
	}
	d.sync("H001").report(t)
}
