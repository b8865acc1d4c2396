package surem

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"alimtalk-syncer/internal/metrics"
)

func header(h http.HandlerFunc, pairs ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			w.Header().Set(pairs[i], pairs[i+1])
		}
		h(w, r)
	}
}

// hijacked writes raw bytes instead of an answer, and closes.
func hijacked(raw string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = conn.Write([]byte(raw))
		_ = conn.Close()
	}
}

func packed(body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(body)
	_ = z.Close()
	return b.Bytes()
}

// TestEveryAnswerIsTakenForWhatItIs asks for T1 and for a list; both must come out alike but
// for "not found", which only a detail can be.
func TestEveryAnswerIsTakenForWhatItIs(t *testing.T) {
	t.Parallel()
	html := "<html><body>403 Forbidden</body></html>"
	for name, tc := range map[string]struct {
		h    http.HandlerFunc
		want string // outcome
		says string
	}{
		"401":                       {answer(401, ``), "refused", "HTTP 401: refused: the token"},
		"403 with an envelope":      {answer(403, `{"code":"A1005","message":"denied!"}`), "refused", `HTTP 403 (code A1005, "denied!"): refused: wrong secret, or this machine's IP`},
		"403 in HTML":               {answer(403, html), "refused", "HTTP 403: refused"},
		"403 empty":                 {answer(403, ""), "refused", "HTTP 403: refused"},
		"403 cut off":               {hijacked("HTTP/1.1 403 Forbidden\r\nContent-Length: 900\r\n\r\nabc"), "refused", "HTTP 403: refused"},
		"403 and not-found code":    {answer(403, `{"code":"A4040"}`), "refused", "403"},
		"relogin code under 200":    {answer(200, `{"code":"A1001","message":"expired"}`), "refused", `(code A1001, "expired")`},
		"relogin code under 400":    {answer(400, `{"code":"A1006"}`), "refused", "code A1006"},
		"relogin code under 500":    {answer(500, `{"code":"A1006"}`), "server_error", "in trouble"},
		"404 without an envelope":   {answer(404, html), "client_error", "no such path"},
		"404 empty":                 {answer(404, ""), "client_error", "no such path"},
		"404 in other JSON":         {answer(404, `{"error":"Not Found","status":404}`), "client_error", "no such path"},
		"400":                       {answer(400, `{"code":"A9999","message":"bad"}`), "client_error", "does not take the call"},
		"429":                       {header(answer(429, html), "Retry-After", "1"), "rate_limited", "too many calls"},
		"500 in HTML":               {answer(500, html), "server_error", "in trouble"},
		"503 with A0000":            {answer(503, fmt.Sprintf(okEnvelope, testDetail)), "server_error", "in trouble"},
		"301":                       {header(answer(301, ""), "Location", "https://elsewhere.example/"), "bad_answer", "redirects are not followed"},
		"302 to nowhere":            {header(answer(302, ""), "Location", ":%zz"), "bad_answer", "redirects are not followed"},
		"304":                       {answer(304, ""), "bad_answer", "redirects"},
		"204":                       {answer(204, ""), "bad_answer", "empty"},
		"200 empty":                 {answer(200, ""), "bad_answer", "empty"},
		"200 blank":                 {answer(200, " \r\n"), "bad_answer", "empty"},
		"200 in HTML":               {answer(200, html), "bad_answer", "not JSON"},
		"200 cut-off JSON":          {answer(200, `{"code":"A0000","data":{"templateCode":"T1","inspec`), "bad_answer", "not JSON"},
		"200 two values":            {answer(200, `{"code":"A0000"}{"code":"A0000"}`), "bad_answer", "not JSON"},
		"200 an array":              {answer(200, `["A0000"]`), "bad_answer", "without SureM's envelope"},
		"200 a string":              {answer(200, `"A0000"`), "bad_answer", "without SureM's envelope"},
		"code missing":              {answer(200, `{"message":"ok","data":`+testDetail+`}`), "bad_answer", "without SureM's envelope"},
		"code null":                 {answer(200, `{"code":null,"data":`+testDetail+`}`), "bad_answer", "without SureM's envelope"},
		"code twice":                {answer(200, `{"code":"A9","code":"A0000","data":`+testDetail+`}`), "bad_answer", "twice"},
		"code twice by an escape":   {answer(200, `{"code":"A0000","c\u006fde":"A9","data":`+testDetail+`}`), "bad_answer", "twice"},
		"data twice":                {answer(200, `{"code":"A0000","data":null,"data":`+testDetail+`}`), "bad_answer", "twice"},
		"code in another case":      {answer(200, `{"Code":"A0000","data":`+testDetail+`}`), "bad_answer", "without SureM's envelope"},
		"code an object":            {answer(200, `{"code":{},"data":`+testDetail+`}`), "bad_answer", "neither a string nor a number"},
		"code a number":             {answer(200, `{"code":1001,"message":"broken"}`), "client_error", `(code 1001, "broken")`},
		"code 200":                  {answer(200, `{"code":200,"data":`+testDetail+`}`), "client_error", "code 200"},
		"code with a blank":         {answer(200, `{"code":"A0000 ","data":`+testDetail+`}`), "client_error", `code "A0000 "`},
		"error under 200":           {answer(200, `{"code":"TSC03","message":"x","data":`+testDetail+`}`), "client_error", "reports an error"},
		"very long code":            {answer(200, `{"code":"`+strings.Repeat("A", 90)+`"}`), "client_error", "(code " + strings.Repeat("A", 32) + ")"},
		"very long message":         {answer(200, `{"code":"A9","message":"`+strings.Repeat("예", 90)+`"}`), "client_error", `"` + strings.Repeat("예", 33) + `"`},
		"data null":                 {data(`null`), "bad_answer", `HTTP 200 (code A0000, "ok")`},
		"data missing":              {answer(200, `{"code":"A0000","message":"ok"}`), "bad_answer", ""},
		"data a string":             {data(`"T1"`), "bad_answer", ""},
		"data a number":             {data(`7`), "bad_answer", ""},
		"data in data":              {data(`{"data":` + testDetail + `}`), "bad_answer", ""},
		"data an array in an array": {data(`{"list":{"list":[]}}`), "bad_answer", ""},
		"oversized":                 {answer(200, strings.Repeat(" ", maxBody+1)+`{"code":"A0000"}`), "bad_answer", "larger than 8 MiB"},
		"oversized when unpacked":   {header(answer(200, string(packed(make([]byte, maxBody+100)))), "Content-Encoding", "gzip"), "bad_answer", "larger than 8 MiB"},
		"oversized 500":             {answer(500, strings.Repeat(" ", maxBody+1)), "server_error", "in trouble"},
		"no gzip though it says so": {header(data(testDetail), "Content-Encoding", "gzip"), "network", "gzip"},
		"closed at once":            {hijacked(""), "network", "EOF"},
		"closed half-way":           {hijacked("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"code\""), "network", "unexpected EOF"},
		"half a chunk":              {hijacked("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{"), "network", "unexpected EOF"},
		"no HTTP":                   {hijacked("220 smtp ready\r\n\r\n"), "network", "malformed HTTP"},
		"endless header":            {hijacked("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n"), "network", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVendor(t)
			v.detail, v.list = tc.h, tc.h
			if tc.want == "refused" { // again with a second token: the same
				v.detail, v.list = inTurn(tc.h, tc.h), inTurn(tc.h, tc.h)
			}
			c, _ := v.client(t, nil)
			doc, err := c.Detail(t.Context(), h001, "T1")
			check := func(op string, err error) {
				t.Helper()
				var e *Error
				if !errors.As(err, &e) || e.Outcome != tc.want || !strings.Contains(err.Error(), tc.says) || e.Op != op {
					t.Fatalf("%s: %v (%+v), want outcome %s and %q", op, err, e, tc.want, tc.says)
				}
				if errors.Is(err, ErrRefused) != (tc.want == "refused") || errors.Is(err, ErrNotFound) {
					t.Fatalf("%s: %v answers errors.Is wrongly", op, err)
				}
				if n := counted(c, op, tc.want); n == 0 {
					t.Fatalf("%s: not counted as %s", op, tc.want)
				}
				if e.Message != "" && strings.Contains(e.Public(), e.Message) {
					t.Fatalf("Public shows SureM's text: %s", e.Public())
				}
				noSecrets(t, err.Error())
			}
			check(opDetail, err)
			if doc.Raw != "" || doc.Status != "" {
				t.Fatalf("a failure brought the document %+v", doc)
			}
			list, err := c.Summaries(t.Context(), h001, nil)
			check(opSummaries, err)
			if list.Complete || list.Listed != 0 || list.Summaries != nil {
				t.Fatalf("a failure brought the list %+v", list)
			}
		})
	}
}

func TestOutcomesAreThoseOfTheMetrics(t *testing.T) {
	for _, o := range []string{outcomeOK, outcomeNotFound, outcomeRefused, outcomeLimited, outcomeClient, outcomeServer, outcomeNetwork, outcomeTimeout, outcomeBad, outcomeCancelled} {
		if !slices.Contains(metrics.Outcomes, o) {
			t.Errorf("%s is no outcome of the metrics", o)
		}
	}
}

func TestNotFoundMustBeSaidInAnEnvelope(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"404 with an envelope":   answer(404, `{"code":"A4000","message":"none"}`),
		"404 with A0000":         answer(404, `{"code":"A0000","data":null}`),
		"404 with a number code": answer(404, `{"code":404}`),
		"its code under 200":     answer(200, `{"code":"A4040"}`),
		"its code under 400":     answer(400, `{"code":"A4040"}`),
	} {
		t.Run(name, func(t *testing.T) {
			v := newVendor(t)
			v.detail, v.list = h, h
			c, _ := v.client(t, func(o *Options) { o.MaxRetries = 3 })
			if _, err := c.Detail(t.Context(), h001, "T1"); !errors.Is(err, ErrNotFound) {
				t.Fatalf("detail: %v, want ErrNotFound", err)
			}
			if counted(c, opDetail, "not_found") != 1 || len(v.calls()) != 1 {
				t.Fatal("it was tried again")
			}
			if _, err := c.Summaries(t.Context(), h001, nil); err == nil || errors.Is(err, ErrNotFound) {
				t.Fatalf("summaries: %v, want a failure that is not ErrNotFound", err)
			}
		})
	}
}

func TestADocumentTravelsUnchangedToTheByte(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{
		testDetail,
		" \t{ \"inspectionStatus\" : \"kreq\",\r\n\"templateCode\":\"T1\", \"b\":1.0, \"a\":1e2, \"\\u0061\":\"\\/\" } \n",
		`{"templateCode":"T1","inspectionStatus":"XYZ","buttons":[{"inspectionStatus":"REJ","templateCode":"T2"}]}`,
		`{"templateCode":"\u0054\u0031","inspectionStatus":" apr "}`,
		`{"templateCode":"T1","inspectionStatus":"APR","templateContent":"` + strings.Repeat("가나다 #{이름}\\r\\n", 3000) + `"}`,
	} {
		v := newVendor(t)
		body := fmt.Sprintf(`{"data":%s,"code":"A0000"}`, doc)
		v.detail = header(answer(200, string(packed([]byte(body)))), "Content-Encoding", "gzip")
		c, _ := v.client(t, nil)
		got, err := c.Detail(t.Context(), h001, "T1")
		if err != nil || got.Raw != strings.Trim(doc, " \t\r\n") {
			t.Fatalf("sent %s\ngot  %s (%v)", doc, got.Raw, err)
		}
		if want := gjson.Get(doc, "inspectionStatus").Str; string(got.Status) != want {
			t.Fatalf("status %q, want %q", got.Status, want)
		}
	}
}

func TestADetailIsTheOneAskedForOrAFailure(t *testing.T) {
	for _, doc := range []string{
		`{"inspectionStatus":"APR"}`,
		`{"templateCode":"t1","inspectionStatus":"APR"}`,
		`{"templateCode":"T1 ","inspectionStatus":"APR"}`,
		`{"templateCode":1,"inspectionStatus":"APR"}`,
		`{"templateCode":"T2","templateCode":"T1","inspectionStatus":"APR"}`,
		`{"templateCode":"T1"}`,
		`{"templateCode":"T1","status":"R"}`,
		`{"templateCode":"T1","inspectionStatus":null}`,
		`{"templateCode":"T1","inspectionStatus":""}`,
		`{"templateCode":"T1","inspectionStatus":"  "}`,
		`{"templateCode":"T1","inspectionStatus":7}`,
		`{"templateCode":"T1","inspectionStatus":"APR","inspectionStatus":"REJ"}`,
		`{"templateCode":"T1","InspectionStatus":"APR"}`,
		`[{"templateCode":"T1","inspectionStatus":"APR"}]`,
	} {
		if got, err := readDetail(gjson.Parse(doc), "T1"); err == nil || got.Raw != "" {
			t.Errorf("%s was taken for T1", doc)
		}
	}
}

func TestACodeReachesSureMEscapedExactlyOnce(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	var code, sender string
	v.detail = func(w http.ResponseWriter, r *http.Request) {
		code, sender = strings.TrimPrefix(r.URL.Path, "/detail/"), r.URL.Query().Get("senderKey")
		data(`{"templateCode":`+quoted(code)+`,"inspectionStatus":"APR"}`)(w, r)
	}
	c, _ := v.client(t, nil)
	for want, uri := range map[string]string{
		"a/b":         "/detail/a%2Fb",
		"a?b=1":       "/detail/a%3Fb%3D1",
		"a#b":         "/detail/a%23b",
		"{x}":         "/detail/%7Bx%7D",
		"100%":        "/detail/100%25",
		"%2F":         "/detail/%252F",
		"%2e%2e":      "/detail/%252e%252e",
		" T1 ":        "/detail/%20T1%20",
		"예약_확정":       "/detail/%EC%98%88%EC%95%BD_%ED%99%95%EC%A0%95",
		"...":         "/detail/...",
		"../secret":   "/detail/..%2Fsecret",
		"a+b&c":       "/detail/a%2Bb%26c",
		"A-b_c.1~":    "/detail/A-b_c.1~",
		"<script>\\'": "/detail/%3Cscript%3E%5C%27",
	} {
		if _, err := c.Detail(t.Context(), h001, want); err != nil {
			t.Fatalf("%q: %v", want, err)
		}
		calls := v.calls()
		if got := calls[len(calls)-1]; code != want || sender != testSender.Reveal() || !strings.HasPrefix(got, "GET "+uri+"?") {
			t.Fatalf("%q arrived as %q of %q in %s, want %s", want, code, sender, got, uri)
		}
	}
	before := len(v.calls())
	for _, code := range []string{"", ".", "..", "a\nb", "\xff", "   "} {
		if _, err := c.Detail(t.Context(), h001, code); err == nil {
			t.Errorf("%q was asked for", code)
		}
	}
	if len(v.calls()) != before {
		t.Fatal("a bad code reached SureM")
	}
}

// Whatever SureM writes back, secrets stay out of errors and of the log, masked before
// anything is cut, and template text stays out of the log.
func TestSecretsThatComeBackAreHidden(t *testing.T) {
	t.Parallel()
	leak := "tok-1 " + testSecret.Reveal() + " " + testSender.Reveal() + " senderKey=sender%2Bkey%2Fof%3DH001 "
	for name, h := range map[string]http.HandlerFunc{
		"message":      answer(400, `{"code":"A9","message":`+quoted(leak)+`}`),
		"at the cut":   answer(400, `{"code":"A9","message":`+quoted(strings.Repeat("x", 90)+testSecret.Reveal())+`}`),
		"code":         answer(400, `{"code":`+quoted(leak)+`}`),
		"HTML":         answer(500, "<html>"+leak+"</html>"),
		"HTML cut":     answer(500, "<html>"+strings.Repeat("x", 184)+testSecret.Reveal()+"</html>"),
		"status line":  hijacked("HTTP/1.1 abc " + leak + "\r\n\r\n"),
		"header":       hijacked("HTTP/1.1 200 OK\r\n" + leak + "\r\n\r\n"),
		"redirect":     header(answer(302, ""), "Location", "/?"+leak),
		"truncated":    answer(200, `{"code":"A0000","data":{"templateContent":"검진 결과`),
		"after a BOM":  answer(200, "\ufeff{\"code\":\"A0000\",\"data\":{\"templateContent\":\"검진 결과"),
		"after blanks": answer(200, "  \n[\"검진 결과"),
	} {
		t.Run(name, func(t *testing.T) {
			v := newVendor(t)
			v.detail = h
			c, out := v.client(t, nil)
			_, err := c.Detail(t.Context(), h001, "T1")
			if err == nil {
				t.Fatal("no error")
			}
			noSecrets(t, err.Error()+fmt.Sprintf("%+v", err))
			noSecrets(t, out.String())
			if strings.HasPrefix(name, "HTML") && !strings.Contains(out.String(), "surem strange answer") {
				t.Fatalf("the strange body is not in the log: %s", out)
			}
		})
	}
}

func TestAStrangeBodyIsLoggedOnceAndShort(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.detail = answer(200, "<html>\x00\n"+strings.Repeat("예", 500))
	c, out := v.client(t, nil)
	for range 5 {
		_, _ = c.Detail(t.Context(), h001, "T1")
	}
	if n := strings.Count(out.String(), "surem strange answer"); n != 1 {
		t.Fatalf("logged %d times", n)
	}
	if body := gjson.Get(out.String(), "body").Str; !strings.HasPrefix(body, `"<html>\x00\n예`) || len(body) > 220 {
		t.Fatalf("logged %s", body)
	}
}

func TestStrangeBodiesThatDifferEachTimeAreNoFlood(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	n := 0
	strange := func(w http.ResponseWriter, _ *http.Request) {
		n++
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, "<html>Reference #%d</html>", n)
	}
	v.detail, v.list = strange, strange
	c, out := v.client(t, nil)
	for range 5 {
		_, _ = c.Detail(t.Context(), h001, "T1")
		_, _ = c.Summaries(t.Context(), h001, nil)
	}
	if n := strings.Count(out.String(), "surem strange answer"); n != 2 {
		t.Fatalf("%d lines about two operations with strange answers", n)
	}
}

func TestADrippingBodyHoldsNobodyLongerThanTheTimeOut(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.detail = func(w http.ResponseWriter, r *http.Request) {
		for tick := time.NewTicker(20 * time.Millisecond); r.Context().Err() == nil; <-tick.C {
			_, _ = w.Write([]byte(" "))
			_ = http.NewResponseController(w).Flush()
		}
	}
	c, _ := v.client(t, func(o *Options) { o.Timeout = 300 * time.Millisecond })
	began := time.Now()
	_, err := c.Detail(t.Context(), h001, "T1")
	var e *Error
	if !errors.As(err, &e) || e.Outcome != "timeout" || time.Since(began) > 3*time.Second {
		t.Fatalf("%v after %s", err, time.Since(began))
	}
}
