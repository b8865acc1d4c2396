package simulator

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	anyCall  = []string{Login, Summaries, Detail}
	readings = []string{Summaries, Detail}
)

var statusKinds = []Kind{
	{"status-400", "400 with an error envelope", anyCall, envelope(http.StatusBadRequest, "A4000")},
	{"status-403-html", "403 with a web page: an address that is not on the list, or a wrong secret", anyCall, page(http.StatusForbidden, forbiddenPage)},
	{"status-403-empty", "403 with nothing", anyCall, page(http.StatusForbidden, "")},
	{"status-404-html", "404 with a web page: a wrong path, no missing template", anyCall, page(http.StatusNotFound, "<html><body><h1>404 Not Found</h1></body></html>")},
	{"status-500", "500 with an error envelope", anyCall, envelope(http.StatusInternalServerError, "A9999")},
	{"status-500-success", "500 with the envelope of a success", anyCall, func(a *answer) { a.status = http.StatusInternalServerError }},
	{"status-502-html", "502 with a gateway's web page", anyCall, page(http.StatusBadGateway, "<html><body><h1>502 Bad Gateway</h1><hr>nginx</body></html>")},
	{"status-204", "204: a success without an answer", anyCall, page(http.StatusNoContent, "")},
	{"redirect-302", "302 to a trap (GET /_sim/stats counts who follows)", anyCall, redirect(http.StatusFound)},
	{"redirect-307", "307 to the trap: a POST would carry its body along", anyCall, redirect(http.StatusTemporaryRedirect)},
}

var limitKinds = []Kind{
	{"limit-seconds", "429, Retry-After in seconds: 1", anyCall, limit(http.StatusTooManyRequests, seconds("1"))},
	{"limit-date", "429, Retry-After as a date two seconds ahead", anyCall, limit(http.StatusTooManyRequests, date)},
	{"limit-day", "429, Retry-After a whole day", anyCall, limit(http.StatusTooManyRequests, seconds("86400"))},
	{"limit-bare", "429 without Retry-After", anyCall, limit(http.StatusTooManyRequests, nil)},
	{"limit-nonsense", "429, Retry-After a word", anyCall, limit(http.StatusTooManyRequests, seconds("soon"))},
	{"limit-negative", "429, Retry-After below zero", anyCall, limit(http.StatusTooManyRequests, seconds("-5"))},
	{"busy-seconds", "503, Retry-After in seconds: 1", anyCall, limit(http.StatusServiceUnavailable, seconds("1"))},
	{"busy-date", "503, Retry-After as a date two seconds ahead", anyCall, limit(http.StatusServiceUnavailable, date)},
	{"busy-day", "503, Retry-After a whole day", anyCall, limit(http.StatusServiceUnavailable, seconds("86400"))},
	{"busy-bare", "503 without Retry-After", anyCall, limit(http.StatusServiceUnavailable, nil)},
}

var bodyKinds = []Kind{
	{"empty", "200 with no body", anyCall, page(http.StatusOK, "")},
	{"html", "200 with a web page: maintenance", anyCall, page(http.StatusOK, "<html><body>시스템 점검 중입니다.</body></html>")},
	{"null", "200 with the JSON value null", anyCall, raw("null")},
	{"truncated", "JSON that breaks off in the middle", anyCall, func(a *answer) { a.body = a.bytes()[:len(a.bytes())/2] }},
	{"trailing", "JSON followed by more text", anyCall, func(a *answer) { a.body = append(a.bytes(), "\n<!-- 12ms -->"...) }},
	{"bom", "JSON behind a byte order mark", anyCall, func(a *answer) { a.body = append([]byte("\xef\xbb\xbf"), a.bytes()...) }},
	{"euc-kr", "an error whose message is not UTF-8", anyCall, raw("{\"code\":\"A9999\",\"message\":\"\xbd\xc7\xc6\xd0\",\"data\":null}")},
	{"oversized", "valid JSON of nine MiB", anyCall, func(a *answer) { a.body = append(a.bytes(), bytes.Repeat([]byte(" "), 9<<20)...) }},
	{"gzip", "a good answer, compressed whether it was asked for or not", anyCall, compressed},
	{"gzip-broken", "says it is compressed, and is not", anyCall, func(a *answer) { a.header = map[string]string{"Content-Encoding": "gzip"} }},
	{"gzip-bomb", "64 MiB of blanks, compressed to a few KB", anyCall, func(a *answer) {
		compressed(a)
		a.body = append(a.body, bytes.Repeat(mebibyte(), 64)...) // a gzip file may have many members
	}},
	{"html-type", "a good answer labelled as a web page", anyCall, func(a *answer) { a.contentType = "text/html" }},
}

var wireKinds = []Kind{
	{"slow", "a good answer, late (delayMs, else a second)", anyCall, func(*answer) {}},
	{"silent", "no answer at all, until the caller leaves", anyCall, func(a *answer) {
		a.send = func(_ http.ResponseWriter, r *http.Request, _ *answer) {
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // a handler that returns has answered 200
		}
	}},
	{"hang-up", "the connection is closed without an answer", anyCall, func(a *answer) {
		a.send = func(http.ResponseWriter, *http.Request, *answer) { panic(http.ErrAbortHandler) }
	}},
	{"reset", "the connection is reset without an answer", anyCall, onTheWire(func(conn net.Conn, _ []byte) {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	})},
	{"not-http", "bytes that are no HTTP answer", anyCall, onTheWire(func(conn net.Conn, _ []byte) {
		_, _ = conn.Write([]byte("-ERR unknown command\r\n\r\n"))
	})},
	{"closed-half-way", "the connection is closed in the middle of the body", anyCall, func(a *answer) {
		a.send = func(w http.ResponseWriter, _ *http.Request, a *answer) {
			body := a.bytes()
			a.begin(w, len(body))
			_, _ = w.Write(body[:len(body)/2])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}},
	{"length-short", "Content-Length ends the body ten bytes early, the rest follows it", anyCall, onTheWire(func(conn net.Conn, body []byte) {
		writeRaw(conn, max(0, len(body)-10), body)
	})},
	{"length-long", "Content-Length promises a hundred bytes more than come", anyCall, onTheWire(func(conn net.Conn, body []byte) {
		writeRaw(conn, len(body)+100, body)
	})},
	{"dripping", "a good answer, ten bytes a second", anyCall, func(a *answer) { a.send = drip }},
	{"endless-body", "a body that never ends", anyCall, func(a *answer) {
		a.send = func(w http.ResponseWriter, r *http.Request, a *answer) {
			a.begin(w, -1)
			chunk := bytes.Repeat([]byte(" "), 64<<10)
			_, err := w.Write(a.bytes())
			for err == nil && r.Context().Err() == nil {
				_, err = w.Write(chunk)
			}
		}
	}},
}

// page answers with something that is no envelope.
func page(status int, body string) func(*answer) {
	return func(a *answer) { a.status, a.body, a.contentType = status, []byte(body), "text/html;charset=UTF-8" }
}

// raw answers 200 with exactly these bytes.
func raw(body string) func(*answer) { return func(a *answer) { a.body = []byte(body) } }

// envelope answers with an error in SureM's own form.
func envelope(status int, code string) func(*answer) {
	return func(a *answer) {
		a.status, a.code, a.message = status, code, "처리 중 오류가 발생했습니다."
		a.replace(json.RawMessage("null"))
	}
}

func redirect(status int) func(*answer) {
	return func(a *answer) {
		a.status, a.body = status, []byte{}
		a.header = map[string]string{"Location": trapPath}
	}
}

// limit answers that it is too much, with a Retry-After when there is one to say.
func limit(status int, retryAfter func() string) func(*answer) {
	return func(a *answer) {
		envelope(status, "A4290")(a)
		if retryAfter != nil {
			a.header = map[string]string{"Retry-After": retryAfter()}
		}
	}
}

func seconds(s string) func() string { return func() string { return s } }

func date() string { return time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat) }

func compressed(a *answer) {
	a.body, a.header = deflate(a.bytes()), map[string]string{"Content-Encoding": "gzip"}
}

func deflate(body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(body)
	_ = z.Close()
	return b.Bytes()
}

// mebibyte is a compressed MiB of blanks.
var mebibyte = sync.OnceValue(func() []byte { return deflate(bytes.Repeat([]byte(" "), 1<<20)) })

func drip(w http.ResponseWriter, r *http.Request, a *answer) {
	body := a.bytes()
	a.begin(w, len(body))
	for i := range body {
		if _, err := w.Write(body[i : i+1]); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		pause(r.Context(), 100*time.Millisecond)
		if r.Context().Err() != nil {
			return
		}
	}
}

// onTheWire takes the connection from the server; it is closed when write returns.
func onTheWire(write func(conn net.Conn, body []byte)) func(*answer) {
	return func(a *answer) {
		a.send = func(w http.ResponseWriter, _ *http.Request, a *answer) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			defer conn.Close()
			write(conn, a.bytes())
		}
	}
}

// writeRaw writes a 200 whose Content-Length need not be true.
func writeRaw(conn net.Conn, length int, body []byte) {
	head := []string{"HTTP/1.1 200 OK", "Content-Type: application/json", "Content-Length: " + strconv.Itoa(length), "", ""}
	_, _ = conn.Write(append([]byte(strings.Join(head, "\r\n")), body...))
}
