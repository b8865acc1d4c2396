package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// request is what a hostile client writes, its target untouched by any library.
func (d *daemon) request(method, target string) answer {
	return d.raw(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", method, target, d.addr))
}

func TestHostileCodesReachNeitherSureMNorRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	d := w.start()
	for name, code := range map[string]string{
		"NUL": "%00", "NUL inside": "T%001", "CR LF": "T1%0D%0AX-Evil:%201", "LF": "%0A", "tab": "a%09b", "DEL": "%7F", "C1": "%C2%85",
		"dot": ".", "dots": "..", "escaped dot": "%2e", "escaped dots": "%2E%2e", "half escaped dots": ".%2e",
		"blank": "%20", "blanks": "%20%20", "no-break space": "%C2%A0", "ideographic space": "%E3%80%80", "empty": "",
		"129 bytes": strings.Repeat("a", 129), "43 Hangul": strings.Repeat("%EA%B0%80", 43), "very long": strings.Repeat("a", 100_000),
		"bad UTF-8": "%ff", "cut UTF-8": "%EA%B0", "overlong": "%C0%AF", "surrogate": "%ED%A0%80",
		"bad escape": "%zz", "cut escape": "%", "another segment": "T1/T2", "up and down": "x/../T1", "backslash of nothing": "%00%5c",
	} {
		for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodHead} {
			a := d.request(method, listPath("H001")+"/"+code)
			switch a.status {
			case http.StatusBadRequest, http.StatusNotFound:
			case http.StatusRequestURITooLong, http.StatusRequestHeaderFieldsTooLarge:
				if name != "very long" {
					t.Errorf("%s %s: %d", method, name, a.status)
				}
			case http.StatusMethodNotAllowed: // DELETE on what is the list's place
				if name != "empty" {
					t.Errorf("%s %s: %d", method, name, a.status)
				}
			default:
				t.Errorf("%s %s: %d %v", method, name, a.status, a.err)
			}
			if a.header.Get("X-Evil") != "" || a.header.Get("Location") != "" {
				t.Errorf("%s %s: headers %v", method, name, a.header)
			}
		}
	}
	d.request(http.MethodGet, listPath("H001")+"/%00").problem(t, http.StatusBadRequest)
	w.wantUntouched(d)
}

func TestHostileHospitalsReachNeitherSureMNorRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	d := w.start()
	for _, id := range []string{
		"%00", "H001%00", "H001%0d%0aX-Evil:%201", ".", "..", "%2e%2e", "%20", "H001%20", "", strings.Repeat("H", 65), strings.Repeat("H", 100_000),
		"{H001}", "%7BH001%7D", "H*", "*", "H00%3F", "H001%2F..%2FH001", "H001}:x%7B", "%EB%B3%91%EC%9B%90", "%ff", "H001:", "H404", "h001", "H001;x=1",
	} {
		for method, path := range map[string]string{
			http.MethodGet: "/v1/hospitals/" + id + "/templates/T1", http.MethodHead: "/v1/hospitals/" + id + "/templates",
			http.MethodPost: "/v1/hospitals/" + id + "/sync", http.MethodDelete: "/v1/hospitals/" + id + "/templates/T1",
		} {
			a := d.request(method, path)
			if a.status != http.StatusBadRequest && a.status != http.StatusNotFound && (len(id) < 1000 || a.status != http.StatusRequestHeaderFieldsTooLarge) {
				t.Errorf("%s %.80s: %d %v", method, path, a.status, a.err)
			}
			if a.header.Get("X-Evil") != "" || a.header.Get("Location") != "" {
				t.Errorf("%s %.80s: headers %v", method, path, a.header)
			}
		}
	}
	d.request(http.MethodGet, "/v1/hospitals/%7BH001%7D/templates/T1").problem(t, http.StatusBadRequest)
	d.request(http.MethodGet, "/v1/hospitals/H404/templates/T1").problem(t, http.StatusNotFound)
	w.wantUntouched(d)
}

// wantUntouched fails the test when SureM was called, something stands in Redis, or the daemon
// serves no more.
func (w *world) wantUntouched(d *daemon) {
	w.t.Helper()
	if calls := w.surem.calls(func(call) bool { return true }); len(calls) != 0 {
		w.t.Errorf("calls to SureM: %+v", calls)
	}
	if keys := w.redis.keys("*"); len(keys) != 0 {
		w.t.Errorf("keys in Redis: %q", keys)
	}
	w.offer("H001", template{code: "T1", status: "APPROVED"})
	d.read("H001", "T1").want(w.t, http.StatusOK)
}

func TestACodeReachesSureMEscapedExactlyOnce(t *testing.T) {
	t.Parallel()
	escaped := regexp.MustCompile(`^([A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})*$`)
	w := newWorld(t, "H001").quiet()
	d := w.start()
	codes := []string{
		"a/b", "/", "a?b", "a#b", "{a}", "{?senderKey}", "100%", "%41", "%2F", "예약확인", "a b", " padded ", "a+b", "a&b=c", "..a", "...", "../../etc", "a;b", "a:b",
		"a@b", "'quoted\"", "a\\b", "~tilde-_.", "é", "e\u0301", "😀", "a,b", "a$b!*()", strings.Repeat("a", 128), strings.Repeat("가", 42) + "ab", "\ufeffbom", "*", "<b>", "a|b^c`",
	}
	for _, code := range codes {
		one := template{code: code, status: "APPROVED"}
		w.offer("H001", one)
		escapedOnce := listPath("H001") + "/" + strings.ReplaceAll(url.QueryEscape(code), "+", "%20")
		d.request(http.MethodGet, escapedOnce).document(t, one).via(t, "fwd=miss; stored")
		d.request(http.MethodGet, escapedOnce).document(t, one).via(t, "hit")
		calls := w.surem.calls(func(c call) bool { return c.op == detail && c.code == code })
		if len(calls) != 1 {
			t.Errorf("%q: %d detail calls with exactly this code, want one", code, len(calls))
			continue
		}
		path, query, _ := strings.Cut(calls[0].uri, "?")
		segment := strings.TrimPrefix(path, templatePath+"/")
		if got, err := url.PathUnescape(segment); err != nil || got != code || !escaped.MatchString(segment) {
			t.Errorf("%q reached SureM as %q", code, segment)
		}
		if query != "senderKey="+senderKey("H001") {
			t.Errorf("%q: query %q", code, query)
		}
		if v, ok := w.redis.get(key("H001", code)); !ok || v != one.document() {
			t.Errorf("%q: stored %q", code, v)
		}
	}
	if n := w.surem.anyDetails(); n != len(codes) {
		t.Errorf("%d detail calls for %d codes", n, len(codes))
	}
}

func TestASenderKeyReachesSureMEscapedExactlyOnce(t *testing.T) {
	t.Parallel()
	const odd = "k+/=& é%41#9f2c"
	w := newWorld(t)
	w.quiet()
	w.surem.put(odd, template{code: "T1", status: "APPROVED"})
	file := w.hospitalsFile(`[{"id":"H001","senderKey":"k+/=& é%41#9f2c"}]`)
	d := w.start("HOSPITALS=", "HOSPITALS_FILE="+file)
	d.read("H001", "T1").want(t, http.StatusOK)
	if r := d.sync("H001").report(t); r.Listed != 1 {
		t.Errorf("%+v", r)
	}
}

// net/http tells package log of bytes behind an answer, and quotes them.
func TestBytesBehindAnAnswerStayOutOfTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	seen := make(chan struct{}, 100)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					return
				}
				body := `{"code":"A0000","data":{"accessToken":"` + secretKey + `","expiresIn":3600}}`
				_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body)-20, body+secretKey+textMark)
				seen <- struct{}{}
				_, _ = c.Read(make([]byte, 1)) // the other side closes first
			}()
		}
	}()
	d := w.start("SUREM_BASE_URL=http://"+l.Addr().String(), "SUREM_MAX_RETRIES=0")
	for range 3 { // logins of passes; finish looks through the log
		receive(t, soon, "SureM is asked", seen)
	}
	if log := d.stderr.String(); strings.Contains(log, "Unsolicited") {
		t.Errorf("net/http writes to the log: %s", log)
	}
}
