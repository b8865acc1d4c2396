package surem

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"alimtalk-syncer/internal/templates"
)

// asSuccess returns the data of a body that is a success.
func asSuccess(body string) (data gjson.Result, ok bool) {
	env, err := readEnvelope(body)
	return env.data, err == nil && env.code == success
}

// standard is how encoding/json reads a body: the last of equal keys, and keys in any case.
func standard(body string, into any) error {
	d := json.NewDecoder(strings.NewReader(body))
	return d.Decode(into)
}

// FuzzDetail checks that what is taken for a template is one, to another reader as well,
// and that its bytes are a part of the answer and survive being put into another.
func FuzzDetail(f *testing.F) {
	for _, doc := range []string{
		testDetail,
		` { "inspectionStatus" : "kreq" , "templateCode":"\u0054\u0031", "n":1.0e5,"x":[{"templateCode":"T2"}] } `,
		`{"templateCode":"T1","templateCode":"T1","inspectionStatus":"APR"}`,
		`{"templateCode":"T1","inspectionStatus":null}`, `null`, `[]`, `"T1"`, `{"data":{}}`,
		`{"templateCode":"T1","inspectionStatus":"APR","templateContent":"#{고객명}님\r\n<b>&\u00a0 ","buttons":[{"type":"WL","name":"예약 확인"}]}`,
	} {
		f.Add(`{"code":"A0000","message":"ok","data":` + doc + `}`)
		f.Add(`{"data":` + doc + `,"code":"A0000","code":"A0000"}`)
	}
	f.Add(`{"code":1,"data":{}}`)
	f.Fuzz(func(t *testing.T, body string) {
		data, ok := asSuccess(body)
		if !ok {
			return
		}
		doc, err := readDetail(data, "T1")
		if err != nil {
			return
		}
		var seen struct {
			Code string          `json:"code"`
			Data json.RawMessage `json:"data"`
		}
		if err := standard(body, &seen); err != nil || !strings.Contains(body, doc.Raw) {
			t.Fatalf("%q is no JSON, or %q no part of it: %v", body, doc.Raw, err)
		}
		again, ok := asSuccess(`{"code":"A0000","data":` + doc.Raw + `}`)
		if !ok {
			t.Fatalf("%q is no document by itself", doc.Raw)
		}
		if same, err := readDetail(again, "T1"); err != nil || same != doc {
			t.Fatalf("%+v became %+v, %v", doc, same, err)
		}
		if strings.TrimSpace(string(doc.Status)) == "" {
			t.Fatalf("a document without a status: %q", doc.Raw)
		}
	})
}

// FuzzSummaries checks that rows add up, that each good row's status and code can be found
// in its own bytes, and that a list is called complete only by what it said.
func FuzzSummaries(f *testing.F) {
	for _, p := range []string{
		pageOf(`"total":2`, "A", "B"), pageOf(`"total":"9","hasNext":"Y"`, "A", "bad"), pageOf(`"hasNext":false`, "A", "A", "B"),
		`[` + rowJSON("예약_확정", "REJ") + `]`, `[]`, `null`, `{"list":null}`, `{"list":[null,7,[]]}`, `{"list":[],"total":1.5}`,
		`{"list":[{"templateCode":"A","inspectionStatus":"APR","dormant":"Y","status":"R","modifiedAt":"2026-11-29 10:00:00"}]}`,
	} {
		f.Add(`{"code":"A0000","message":"ok","data":`+p+`}`, true, 3)
	}
	f.Fuzz(func(t *testing.T, body string, paged bool, asked int) {
		data, ok := asSuccess(body)
		if !ok {
			return
		}
		p, err := readPage(data)
		if err != nil {
			return
		}
		l := listing{paged: paged, asked: asked, total: unknown}
		end, why := l.add(p)
		if len(l.list.Summaries)+l.list.BadRows != len(p.rows) || l.list.Listed != len(p.rows) {
			t.Fatalf("%d good and %d bad rows of %d, listed %d", len(l.list.Summaries), l.list.BadRows, len(p.rows), l.list.Listed)
		}
		if end && (why != nil || p.more || p.total > l.list.Listed) {
			t.Fatalf("called complete: %+v", p)
		}
		for _, s := range l.list.Summaries {
			var row map[string]any
			if err := standard(s.Raw, &row); err != nil || !strings.Contains(body, s.Raw) {
				t.Fatalf("row %q: %v", s.Raw, err)
			}
			if templates.CheckCode(s.Code) != nil || s.Status.State() == "" {
				t.Fatalf("a row that must be bad: %+v", s)
			}
			if again := readRow(gjson.Parse(s.Raw)); again.bad || again.summary != s {
				t.Fatalf("%+v became %+v", s, again)
			}
			if code, _ := row["templateCode"].(string); code != s.Code && !strings.ContainsRune(code, '\ufffd') && !strings.ContainsRune(s.Code, '\ufffd') {
				t.Fatalf("code %q is %q to encoding/json", s.Code, code)
			}
		}
		if !end && why == nil {
			if _, why := l.add(p); why == nil && len(p.rows) > 0 {
				t.Fatalf("the same page again goes unnoticed: %+v", p)
			}
		}
	})
}

// FuzzToken checks that a token can be sent in a header and lives within its bounds.
func FuzzToken(f *testing.F) {
	for _, d := range []string{
		`{"accessToken":"eyJ.a-b_c","expiresIn":3600}`, `{"accessToken":"a b","expiresIn":"60"}`, `{"accessToken":"t","expiresIn":-1}`,
		`{"accessToken":"t","expiresIn":1e-30}`, `{"accessToken":"t\r\n"}`, `{"accessToken":"t","expiresIn":"Inf"}`, `null`, `"t"`,
	} {
		f.Add(`{"code":"A0000","data":` + d + `}`)
	}
	f.Fuzz(func(t *testing.T, body string) {
		data, ok := asSuccess(body)
		if !ok {
			return
		}
		value, life, err := readToken(data)
		if err != nil {
			return
		}
		if life < 0 || life > maxLife {
			t.Fatalf("a life of %s from %q", life, body)
		}
		r, _ := http.NewRequest(http.MethodGet, "http://surem.example/", nil)
		r.Header.Set("Authorization", "Bearer "+value.Reveal())
		var wire strings.Builder
		if err := r.Write(&wire); err != nil || strings.Count(wire.String(), "\r\n") != 5 || !strings.Contains(wire.String(), "Bearer "+value.Reveal()+"\r\n") {
			t.Fatalf("%q cannot be sent: %v\n%s", value.Reveal(), err, wire.String())
		}
	})
}

// FuzzRetryAfter checks the bounds, and that a number of seconds is that number.
func FuzzRetryAfter(f *testing.F) {
	for _, v := range []string{"0", "7", "-7", "99999999999999999999", "Sun, 29 Nov 2026 10:00:07 GMT", "Sunday, 29-Nov-26 10:00:07 GMT", "soon", ""} {
		f.Add(v, "Sun, 29 Nov 2026 10:00:00 GMT")
		f.Add(v, "")
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		d := retryAfter(http.Header{"Retry-After": {value}, "Date": {date}})
		if d < 0 || d > maxRetryAfter {
			t.Fatalf("Retry-After %q with Date %q is %s", value, date, d)
		}
		var seconds uint32
		if json.Unmarshal([]byte(value), &seconds) == nil && strings.Trim(value, "0123456789") == "" && seconds <= 86400 && d != time.Duration(seconds)*time.Second {
			t.Fatalf("Retry-After %q is %s", value, d)
		}
	})
}
