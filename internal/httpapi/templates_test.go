package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/templates"
)

const document = "{ \"templateCode\" : \"T1\",\"templateContent\":\"<b>예약\u00a0확정</b> & \\r\\n끝 \" ,\"inspectionStatus\":\"APR\"}"

func TestADocumentIsServedByteForByte(t *testing.T) {
	w := newWorld(t).serve()
	w.read = func(context.Context, hospitals.Hospital, string) (templates.Answer, error) {
		return templates.Answer{Document: document}, nil
	}
	a := w.do("GET", "/v1/hospitals/H001/templates/T1")
	if a.status != 200 || a.body != document {
		t.Errorf("%d %q", a.status, a.body)
	}
	if a.header.Get("Content-Type") != "application/json" || a.header.Get("Content-Length") != strconv.Itoa(len(document)) {
		t.Errorf("header %v", a.header)
	}
	wantNoStore(t, a)

	head := w.do("HEAD", "/v1/hospitals/H001/templates/T1")
	if head.status != 200 || head.body != "" || head.header.Get("Content-Length") != strconv.Itoa(len(document)) {
		t.Errorf("HEAD: %+v", head)
	}
	w.wantCalls("read H001 T1", "read H001 T1")
}

func TestCacheStatusSaysWhereTheDocumentCameFrom(t *testing.T) {
	w := newWorld(t).serve()
	for via, want := range map[templates.Via]string{
		templates.Hit:       "alimtalk-syncer; hit",
		templates.Stored:    "alimtalk-syncer; fwd=miss; stored",
		templates.Missed:    "alimtalk-syncer; fwd=miss",
		templates.Collapsed: "alimtalk-syncer; fwd=miss; collapsed",
		templates.Bypass:    "alimtalk-syncer; fwd=bypass",
	} {
		w.read = func(context.Context, hospitals.Hospital, string) (templates.Answer, error) {
			return templates.Answer{Document: document, Via: via}, nil
		}
		if got := w.do("GET", "/v1/hospitals/H001/templates/T1").header.Get("Cache-Status"); got != want {
			t.Errorf("%v: %q, want %q", via, got, want)
		}
	}
}

func TestACodeArrivesExactlyAsItWasGiven(t *testing.T) {
	w := newWorld(t).serve()
	for _, code := range []string{
		"T1", " T1 ", "a/b", "a//b", "/", "//", "../x", "a/../b", "...", "예약-확정", "a?b#c{d}e%f", "%2F", "%00", `"quoted"`, "a|b/c", "+", "a+b c", "~._-", "*",
		strings.Repeat("x", 128),
	} {
		if a := w.do("GET", "/v1/hospitals/H002/templates/"+url.PathEscape(code)); a.status != 200 {
			t.Errorf("%q: %d %s", code, a.status, a.body)
		}
		w.wantCalls("read H002 " + code)
		if a := w.do("DELETE", "/v1/hospitals/H002/templates/"+url.PathEscape(code)); a.status != 204 {
			t.Errorf("DELETE %q: %d %s", code, a.status, a.body)
		}
		w.wantCalls("forget H002 " + code)
	}
}

func TestForgetting(t *testing.T) {
	w := newWorld(t).serve()
	a := w.do("DELETE", "/v1/hospitals/H001/templates/T1")
	if a.status != 204 || a.body != "" {
		t.Errorf("%+v", a)
	}
	wantNoStore(t, a)
	for status, err := range map[int]error{
		409: templates.ErrWrongType,
		503: errors.New("dial tcp 10.0.0.9:6379: refused"),
	} {
		w.forget = func(context.Context, hospitals.Hospital, string) error { return err }
		w.wantProblem(w.do("DELETE", "/v1/hospitals/H001/templates/T1"), status)
	}
}

func summaries(rows ...templates.Summary) templates.List {
	return templates.List{Summaries: rows, Complete: true}
}

func row(name, status string, dormant bool) templates.Summary {
	return templates.Summary{Name: name, Status: templates.Status(status), Dormant: dormant,
		Raw: "{\"name\" : " + strconv.Quote(name) + ", \"x\":\"<&> \" }"}
}

func TestTheListShowsUsableRowsAsSureMSentThem(t *testing.T) {
	w := newWorld(t).serve()
	rows := []templates.Summary{
		row("예약 확정", "APR", false), row("예약 변경", "APPROVED", true), row("예약 취소", "DELETED", false),
		row("검진 결과", "REJ", false), row("예약 확정", "APR", false), row("삭제", " deleted ", false), row("b", "TSC03", false),
	}
	w.look = func(context.Context, hospitals.Hospital, string) (invalidate.Reading, error) {
		return invalidate.Reading{List: summaries(rows...)}, nil
	}
	for query, want := range map[string][]int{
		"":                                 {0, 3, 4, 6},
		"?name=":                           {0, 3, 4, 6},
		"?name=" + url.QueryEscape("예약"):   {0, 4},
		"?name=" + url.QueryEscape("예약 확"): {0, 4},
		"?name=B":                          {},
		"?other=1&name=b":                  {6},
	} {
		var raws []string
		for _, i := range want {
			raws = append(raws, rows[i].Raw)
		}
		a := w.do("GET", "/v1/hospitals/H001/templates"+query)
		body := `{"hospitalId":"H001","complete":true,"compared":true,"templates":[` + strings.Join(raws, ",") + `]}`
		if a.status != 200 || a.body != body || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s\nwant %s", query, a.status, a.body, body)
		}
		if !json.Valid([]byte(a.body)) {
			t.Errorf("%s: no JSON: %s", query, a.body)
		}
		wantNoStore(t, a)
		w.wantCalls("look H001 list")
	}
}

func TestAListSaysWhatItLacks(t *testing.T) {
	w := newWorld(t).serve()
	partial := templates.List{Summaries: []templates.Summary{row("a", "APR", false)}}
	for _, c := range []struct {
		reading            invalidate.Reading
		complete, compared string
	}{
		{invalidate.Reading{List: partial, ListErr: errors.New("page 2")}, "false", "true"},
		{invalidate.Reading{List: partial}, "false", "true"},
		{invalidate.Reading{List: summaries(), CacheErr: errors.New("redis")}, "true", "false"},
		{invalidate.Reading{List: partial, ListErr: errors.New("page 2"), CacheErr: errors.New("redis")}, "false", "false"},
	} {
		w.look = func(context.Context, hospitals.Hospital, string) (invalidate.Reading, error) { return c.reading, nil }
		a := w.do("GET", "/v1/hospitals/H001/templates")
		if a.status != 200 || !strings.HasPrefix(a.body, `{"hospitalId":"H001","complete":`+c.complete+`,"compared":`+c.compared+`,"templates":[`) {
			t.Errorf("%+v: %d %s", c.reading, a.status, a.body)
		}
	}
}

func TestAQueryThatCannotBeReadIsRefused(t *testing.T) {
	w := newWorld(t).serve()
	for _, query := range []string{"?name=%zz", "?name=a;b"} {
		w.wantProblem(w.do("GET", "/v1/hospitals/H001/templates"+query), 400)
	}
	w.wantCalls()
}

func TestAPassOnDemandAnswersWithItsReport(t *testing.T) {
	w := newWorld(t).serve()
	report := invalidate.Report{HospitalID: "H001", OK: true, Error: "<&>"}
	w.look = func(context.Context, hospitals.Hospital, string) (invalidate.Reading, error) {
		return invalidate.Reading{Report: report}, nil
	}
	a := w.do("POST", "/v1/hospitals/H001/sync")
	var got invalidate.Report
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || got.HospitalID != "H001" || !got.OK || a.status != 200 {
		t.Errorf("%v: %d %s", err, a.status, a.body)
	}
	if !strings.Contains(a.body, "<&>") || strings.ContainsAny(a.body, "\n\t ") {
		t.Errorf("not compact, or its text changed: %q", a.body)
	}
	w.wantCalls("look H001 manual")
}

func TestAFailedPassAnswersWithWhatWasDoneUntilThen(t *testing.T) {
	w := newWorld(t).serve()
	report := invalidate.Report{HospitalID: "H001", Listed: 7, Error: "vendor text from 10.0.0.9"}
	for _, c := range []struct {
		reading invalidate.Reading
		status  int
	}{
		{invalidate.Reading{Report: report, Unread: true, ListErr: errors.New("first page")}, 502},
		{invalidate.Reading{Report: report, ListErr: errors.New("page 2")}, 502},
		{invalidate.Reading{Report: report, ListErr: context.DeadlineExceeded}, 502},
		{invalidate.Reading{Report: report, ListErr: errors.New("page 2"), CacheErr: errors.New("redis")}, 502},
		{invalidate.Reading{Report: report, CacheErr: errors.New("dial tcp 10.0.0.9:6379")}, 503},
	} {
		w.look = func(context.Context, hospitals.Hospital, string) (invalidate.Reading, error) { return c.reading, nil }
		a := w.do("POST", "/v1/hospitals/H001/sync")
		w.wantProblem(a, c.status)
		var p struct {
			Detail string
			Report invalidate.Report
		}
		if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.Report.Listed != 7 || p.Report.Error != p.Detail {
			t.Errorf("%v: no report in %s", err, a.body)
		}
	}
}
