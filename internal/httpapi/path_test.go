package httpapi

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"alimtalk-syncer/internal/templates"
)

// raw writes bytes to the server and leaves the connection open.
func (w *world) raw(bytes string) net.Conn {
	w.t.Helper()
	c, err := net.DialTimeout("tcp", w.addr, 5*time.Second)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte(bytes)); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// exchange returns the status that the bytes are answered with.
func (w *world) exchange(bytes string) int {
	w.t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(w.raw(bytes)), nil)
	if err != nil {
		w.t.Fatalf("%q: %v", bytes, err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

func TestHostilePathsReachNothing(t *testing.T) {
	w := newWorld(t).serve()
	long := strings.Repeat("x", 129)
	for target, status := range map[string]int{
		// the code's place
		"/v1/hospitals/H001/templates/":             400,
		"/v1/hospitals/H001/templates/.":            400,
		"/v1/hospitals/H001/templates/..":           400,
		"/v1/hospitals/H001/templates/%2e":          400,
		"/v1/hospitals/H001/templates/%2E%2e":       400,
		"/v1/hospitals/H001/templates/.%2e":         400,
		"/v1/hospitals/H001/templates/%00":          400,
		"/v1/hospitals/H001/templates/T1%00":        400,
		"/v1/hospitals/H001/templates/T1%0d%0aX:1":  400,
		"/v1/hospitals/H001/templates/%20":          400,
		"/v1/hospitals/H001/templates/%20%C2%A0":    400,
		"/v1/hospitals/H001/templates/%ff":          400,
		"/v1/hospitals/H001/templates/%ed%a0%80":    400,
		"/v1/hospitals/H001/templates/\xff":         400,
		"/v1/hospitals/H001/templates/%c2%85":       400,
		"/v1/hospitals/H001/templates/%7f":          400,
		"/v1/hospitals/H001/templates/" + long:      400,
		"/v1/hospitals/H001/templates/%zz":          400,
		"/v1/hospitals/H001/templates/T1%":          400,
		"/v1/hospitals/H001/templates/T1/":          404,
		"/v1/hospitals/H001/templates/T1//":         404,
		"/v1/hospitals/H001/templates/T1/..":        404,
		"/v1/hospitals/H001/templates/../T1":        404,
		"/v1/hospitals/H001/templates//T1":          404,
		"/v1/hospitals/H001/templates/a/b":          404,
		"/v1/hospitals/H003/templates/..":           404,
		"/v1/hospitals/H001/templates/..%2f..%2f":   200, // nine bytes of a code like any other
		"/v1/hospitals/H001/templates/a|b%2fc":      200,
		"/v1/hospitals/H001/templates/%EC%98%88":    200,
		"/v1/hospitals/H001/templates/\xec\x98\x88": 200,
		// the id's place
		"/v1/hospitals//templates/T1":             400,
		"/v1/hospitals/./templates/T1":            400,
		"/v1/hospitals/../templates/T1":           400,
		"/v1/hospitals/%2e%2e/templates/T1":       400,
		"/v1/hospitals/H*/templates/T1":           400,
		"/v1/hospitals/{H001}/templates/T1":       400,
		"/v1/hospitals/H001%7D:x/templates/T1":    400,
		"/v1/hospitals/H001%2f/templates/T1":      400,
		"/v1/hospitals/H001%00/templates/T1":      400,
		"/v1/hospitals/%48001%0a/templates/T1":    400,
		"/v1/hospitals/" + long + "/templates/T1": 400,
		"/v1/hospitals//templates":                400,
		"/v1/hospitals/../templates":              400,
		"/v1/hospitals/h001/templates/T1":         404,
		// elsewhere
		"//v1/hospitals/H001/templates/T1":     404,
		"/./v1/hospitals/H001/templates/T1":    404,
		"/x/../v1/hospitals/H001/templates/T1": 404,
		"/v1//hospitals/H001/templates/T1":     404,
		"/v1/./hospitals/H001/templates/T1":    404,
		"/v1/hospitals/H001/x/../templates/T1": 404,
		"/v1%2fhospitals/H001/templates/T1":    404,
		"/V1/hospitals/H001/templates/T1":      404,
		"/v1":                                  404,
		"/v1/":                                 404,
		"/v1/hospitals":                        404,
		"/v1/hospitals/":                       404,
		"/v1/hospitals/H001":                   404,
		"/v1/hospitals/H001/":                  404,
		"/v1/hospitals/H001/sync/":             404,
		"/":                                    404,
		"//":                                   404,
		"/.":                                   404,
		"/healthz/":                            404,
		"//healthz":                            404,
		"/debug/pprof/":                        404,
		"*":                                    404,
		"http://localhost":                     404,
		"http://localhost//v1":                 404,
		"foo:bar":                              404,
		"/%76%31/hospitals/H001/templates/%54%31": 200,
	} {
		got := w.exchange("GET " + target + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if got != status {
			t.Errorf("%s: %d, want %d", target, got, status)
		}
		w.mu.Lock()
		if reached := len(w.calls) > 0; reached != (status == 200) {
			t.Errorf("%s reached %v", target, w.calls)
		}
		w.calls = nil
		w.mu.Unlock()
	}
	if got := w.exchange("POST /v1/hospitals/..//sync HTTP/1.1\r\nHost: localhost\r\n\r\n"); got != 404 {
		t.Errorf("POST ..//sync: %d", got)
	}
	if got := w.exchange("POST /v1/hospitals/../sync HTTP/1.1\r\nHost: localhost\r\n\r\n"); got != 400 {
		t.Errorf("POST ../sync: %d", got)
	}
	for _, line := range []string{"CONNECT localhost:443", "CONNECT /v1", "OPTIONS *"} {
		if got := w.exchange(line + " HTTP/1.1\r\nHost: localhost\r\n\r\n"); got != 404 {
			t.Errorf("%s: %d", line, got)
		}
	}
}

func TestUnknownPathsAndMethodsAreProblems(t *testing.T) {
	w := newWorld(t).serve()
	for _, target := range []string{"/", "/x", "/v1", "/v1/hospitals/H001", "/v1/hospitals/H001/sync/x", "/favicon.ico"} {
		w.wantProblem(w.do("GET", target), 404)
	}
	for target, allow := range map[string]string{
		"/v1/hospitals/H001/templates/T1": "DELETE, GET, HEAD",
		"/v1/hospitals/H001/templates":    "GET, HEAD",
		"/v1/hospitals/H001/sync":         "POST",
	} {
		for _, method := range []string{"PUT", "PATCH", "OPTIONS", "TRACE", "get", "PROPFIND"} {
			a := w.do(method, target)
			w.wantProblem(a, 405)
			if got := a.header.Get("Allow"); got != allow {
				t.Errorf("%s %s: Allow %q, want %q", method, target, got, allow)
			}
		}
	}
	w.wantProblem(w.do("GET", "/v1/hospitals/H001/sync"), 405)
	w.wantProblem(w.do("POST", "/v1/hospitals/H001/templates"), 405)
	w.wantCalls()
}

// FuzzPath: whatever stands in a request line, nothing panics, nothing is redirected, and no
// id or code that must be refused reaches anything (the fakes check that).
func FuzzPath(f *testing.F) {
	for _, target := range []string{
		"/v1/hospitals/H001/templates/T1", "/v1/hospitals/H001/templates/%2e%2e", "/v1/hospitals/H001/templates//", "//v1/../healthz",
		"/v1/hospitals/H001/templates?name=%EC", "/v1/hospitals/H001/templates/a|b%2Fc", "*", "http://localhost/v1", "/v1/hospitals/H001/sync/.",
	} {
		f.Add("GET", target)
		f.Add("DELETE", target)
		f.Add("POST", target)
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n")))
		if err != nil {
			return
		}
		w := newWorld(t)
		got := httptest.NewRecorder()
		New(w.options).ServeHTTP(got, r)
		if got.Code >= 300 && (got.Code < 400 || got.Header().Get("Content-Type") != "application/problem+json" || got.Code >= 500) {
			t.Errorf("%q %q: %d %v", method, target, got.Code, got.Header())
		}
		if w.log.String() != "" {
			t.Errorf("%q %q: log %s", method, target, w.log.String())
		}
	})
}

// FuzzCode: an escaped code arrives exactly, or is refused, by CheckCode's judgement alone.
func FuzzCode(f *testing.F) {
	for _, code := range []string{"T1", "a/b", "..", "", " ", "/", "\xff", "%2F", "예약", "a|b/c", "?#", "./"} {
		f.Add(code)
	}
	f.Fuzz(func(t *testing.T, code string) {
		w := newWorld(t)
		r := httptest.NewRequest(http.MethodGet, "/v1/hospitals/H001/templates/"+url.PathEscape(code), nil)
		r.Host = "localhost"
		got := httptest.NewRecorder()
		New(w.options).ServeHTTP(got, r)
		if templates.CheckCode(code) != nil {
			if got.Code != http.StatusBadRequest {
				t.Errorf("%q: %d", code, got.Code)
			}
			w.wantCalls()
			return
		}
		if got.Code != http.StatusOK {
			t.Errorf("%q: %d", code, got.Code)
		}
		w.wantCalls("read H001 " + code)
	})
}
