package simulator_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"alimtalk-syncer/internal/sureM/simulator"
)

func TestEachKindDoesWhatItSays(t *testing.T) {
	for name := range checks {
		if !slices.ContainsFunc(simulator.Kinds, func(k simulator.Kind) bool { return k.Name == name }) {
			t.Errorf("%q is checked and does not exist", name)
		}
	}
	for _, kind := range simulator.Kinds {
		check, ok := checks[kind.Name]
		if !ok || kind.Meaning == "" || len(kind.Operations) == 0 {
			t.Errorf("%q is not checked, says nothing or befalls nothing", kind.Name)
			continue
		}
		for _, op := range kind.Operations {
			t.Run(kind.Name+"/"+op, func(t *testing.T) {
				t.Parallel()
				v := newVendor(t)
				token := v.token()
				if err := v.SetFaults(simulator.Fault{Name: kind.Name, Operation: op, Times: 1, DelayMS: delays[kind.Name]}); err != nil {
					t.Fatal(err)
				}
				ctx := t.Context()
				if bound, ok := bounds[kind.Name]; ok {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, bound)
					defer cancel()
				}
				page := max(1, pages[kind.Name])
				start := time.Now()
				s := spoilt{got: v.call(ctx, op, token, page), v: v, op: op}
				s.took = time.Since(start)
				check(t, s)

				// The fault is spent.
				if kind.Name == "token-ends-others" {
					token = v.token()
				}
				good(t, spoilt{got: v.call(t.Context(), op, token, 1), v: v, op: op})
			})
		}
	}
}

// Kinds that never end are called with a bound, slow ones are made shorter, and some show
// themselves on the second page.
var (
	bounds = map[string]time.Duration{"silent": 100 * time.Millisecond, "dripping": 350 * time.Millisecond}
	delays = map[string]int{"slow": 150}
	pages  = map[string]int{"overlap": 2, "page-cap": 2, "same-page": 2, "same-page-no-total": 2, "endless": 2}
)

var checks = map[string]check{
	"status-400":         refusal(400, "A4000"),
	"status-403-html":    plain(403, "<html>"),
	"status-403-empty":   plain(403, ""),
	"status-404-html":    plain(404, "<html>"),
	"status-500":         refusal(500, "A9999"),
	"status-500-success": refusal(500, "A0000"),
	"status-502-html":    plain(502, "nginx"),
	"status-204":         plain(204, ""),
	"redirect-302":       redirected(302),
	"redirect-307":       redirected(307),

	"limit-seconds":  limited(429, is("1")),
	"limit-date":     limited(429, soon),
	"limit-day":      limited(429, is("86400")),
	"limit-bare":     limited(429, is("")),
	"limit-nonsense": limited(429, is("soon")),
	"limit-negative": limited(429, is("-5")),
	"busy-seconds":   limited(503, is("1")),
	"busy-date":      limited(503, soon),
	"busy-day":       limited(503, is("86400")),
	"busy-bare":      limited(503, is("")),

	"empty":     plain(200, ""),
	"html":      plain(200, "시스템 점검"),
	"null":      func(t *testing.T, s spoilt) { s.envelope(t); exactly(t, s, "null") },
	"truncated": plain(200, `{"code":"A0000"`),
	"trailing":  plain(200, "-->"),
	"bom":       plain(200, "\xef\xbb\xbf{"),
	"euc-kr": func(t *testing.T, s spoilt) {
		s.refusal(t, 200, "A9999")
		if !bytes.Contains(s.body, []byte{0xbd, 0xc7, 0xc6, 0xd0}) {
			t.Errorf("body %q", s.body)
		}
	},
	"oversized": func(t *testing.T, s spoilt) {
		if good(t, s); len(s.body) < 9<<20 {
			t.Errorf("%d bytes", len(s.body))
		}
	},
	"gzip":        good, // net/http asked for it and takes it apart
	"gzip-broken": failed("gzip"),
	"gzip-bomb": func(t *testing.T, s spoilt) {
		if len(s.body) != 12<<20 { // as far as it was read
			t.Errorf("%d bytes, %v", len(s.body), s.err)
		}
	},
	"html-type": func(t *testing.T, s spoilt) {
		if good(t, s); s.header.Get("Content-Type") != "text/html" {
			t.Errorf("type %q", s.header.Get("Content-Type"))
		}
	},

	"slow": func(t *testing.T, s spoilt) {
		if good(t, s); s.took < 150*time.Millisecond {
			t.Errorf("took %v", s.took)
		}
	},
	"silent":          failed("deadline"),
	"hang-up":         failed("EOF"),
	"reset":           failed("reset"),
	"not-http":        failed("malformed"),
	"closed-half-way": failed("unexpected EOF"),
	"length-short":    plain(200, `{"code":"A0000"`),
	"length-long":     failed("unexpected EOF"),
	"dripping": func(t *testing.T, s spoilt) {
		if s.failed(t, "deadline"); s.status != 200 || len(s.body) == 0 || len(s.body) > 5 {
			t.Errorf("status %d, %q", s.status, s.body)
		}
	},
	"endless-body": func(t *testing.T, s spoilt) {
		if s.err != nil || len(s.body) != 12<<20 {
			t.Errorf("%d bytes, %v", len(s.body), s.err)
		}
	},

	"error-code":        refusal(200, "A9999"),
	"code-missing":      func(t *testing.T, s spoilt) { s.refusalAny(t, nil); exactly(t, s, `{"message":`) },
	"code-null":         func(t *testing.T, s spoilt) { s.refusalAny(t, nil); exactly(t, s, `{"code":null,`) },
	"code-number":       func(t *testing.T, s spoilt) { s.refusalAny(t, 9999.0) },
	"code-case":         func(t *testing.T, s spoilt) { s.refusalAny(t, "a0000") },
	"code-object":       func(t *testing.T, s spoilt) { exactly(t, s, `{"code":{"value":"A0000"},`) },
	"envelope-array":    func(t *testing.T, s spoilt) { exactly(t, s, `[{"code":"A0000",`) },
	"envelope-missing":  func(t *testing.T, s spoilt) { s.refusalAny(t, nil); exactly(t, s, `{`) },
	"data-missing":      func(t *testing.T, s spoilt) { exactly(t, s, `{"code":"A0000","message":"성공"}`) },
	"data-null":         data("null"),
	"data-array":        data("[]"),
	"data-object":       data("{}"),
	"data-string":       data(`"{`),
	"data-number":       data("1"),
	"data-nested":       data(`{"data":{`),
	"data-nested-twice": data(`{"code":"A0000","message":"성공","data":{`),

	"list-bare":          data(`[{"templateCode":"T1",`),
	"list-missing":       data(`{"total":7}`),
	"list-null":          data(`{"list":null,"total":7}`),
	"list-object":        data(`{"list":{"0":{"templateCode":"T1",`),
	"list-string":        data(`{"list":"[{`),
	"list-nested":        data(`{"list":{"list":[{`),
	"list-in-list":       data(`{"list":[[{`),
	"list-empty":         total(0, 0.0),
	"pages-empty":        total(0, 7.0),
	"total-missing":      total(3, nil),
	"total-high":         total(3, 17.0),
	"total-low":          total(3, 6.0),
	"total-zero":         total(3, 0.0),
	"total-negative":     total(3, -1.0),
	"total-string":       total(3, "7"),
	"total-nonsense":     total(3, "many"),
	"total-null":         total(3, nil),
	"has-next":           func(t *testing.T, s spoilt) { total(3, nil)(t, s); contains(t, s, `"hasNext":true`) },
	"has-next-always":    func(t *testing.T, s spoilt) { total(3, nil)(t, s); contains(t, s, `"hasNext":true`) },
	"short-first-page":   total(2, 7.0),
	"same-page":          both(total(3, 14.0), row(0, with("templateCode", "T1"))),
	"same-page-no-total": both(total(3, nil), row(0, with("templateCode", "NOBODYS_0"))),
	"endless":            both(total(3, 9.0), row(0, with("templateCode", "NOBODYS_3"))),
	"page-cap":           both(total(3, 7.0), row(0, with("templateCode", "T4"))),
	"overlap":            both(total(3, 7.0), row(0, with("templateCode", "T3"))),

	"rows-wrong":        data(`{"list":[1,"T1",null],`),
	"row-bad":           both(row(0, without("templateCode")), row(1, with("templateCode", "T2"))),
	"row-no-status":     both(row(0, without("inspectionStatus")), row(1, with("inspectionStatus", "REQUESTED"))),
	"row-null-status":   row(0, with("inspectionStatus", nil)),
	"row-numeric-code":  row(0, with("templateCode", 1001.0)),
	"row-bad-code":      row(0, with("templateCode", "..")),
	"rows-padded":       both(row(0, with("templateCode", "T1  ")), row(2, with("templateCode", "T3  "))),
	"rows-status-only":  both(row(2, without("inspectionStatus")), row(2, with("status", "R"))),
	"rows-short-words":  row(2, with("inspectionStatus", "KREQ")),
	"rows-unknown-word": row(2, with("inspectionStatus", "TSC03")),
	"rows-yes-no":       row(2, with("dormant", "N")),
	"rows-zoned":        row(0, func(m map[string]any) bool { return strings.HasSuffix(fmt.Sprint(m["modifiedAt"]), "+09:00") }),
	"duplicates-agree":  both(total(4, 8.0), row(3, with("templateCode", "T1"))),
	"duplicates-differ": both(row(0, with("inspectionStatus", "REQUESTED")), row(3, with("inspectionStatus", "DELETED"))),

	"not-found":        refusal(404, "A4040"),
	"not-found-code":   refusal(200, "A4040"),
	"detail-other":     template(with("templateCode", "SOMEONE_ELSES")),
	"detail-no-code":   template(without("templateCode")),
	"detail-no-status": template(without("inspectionStatus")),
	"detail-status-twice": func(t *testing.T, s spoilt) {
		contains(t, s, `,"inspectionStatus":"TSC03"}`)
		contains(t, s, `"REQUESTED"`)
	},
	"detail-in-list": data(`[{"templateCode":"T1"`),
	"detail-huge": template(func(m map[string]any) bool {
		n := len(fmt.Sprint(m["templateContent"]))
		return n > 50<<10 && n < 70<<10
	}),

	"login-refused-code": refusal(200, "A1002"),
	"token-missing":      template(func(m map[string]any) bool { _, ok := m["accessToken"]; return !ok }),
	"token-empty":        template(func(m map[string]any) bool { return m["accessToken"] == "" }),
	"token-number":       template(func(m map[string]any) bool { return m["accessToken"] == 12345.0 }),
	"expires-string":     login(lasts("3600"), 200),
	"expires-zero":       login(lasts(0.0), 200),
	"expires-negative":   login(lasts(-1.0), 200),
	"expires-word":       login(lasts("hour"), 200),
	"expires-null":       login(lasts(nil), 200),
	"expires-missing":    login(func(m map[string]any) bool { _, ok := m["expiresIn"]; return !ok }, 200),
	"expires-huge":       login(lasts(1e18), 200),
	"expires-tiny": func(t *testing.T, s spoilt) {
		login(lasts(1.0), 200)(t, s)
		token := fmt.Sprint(s.template(t)["accessToken"])
		waitFor(t, func() bool { return s.v.call(t.Context(), simulator.Summaries, token, 1).status == 401 })
	},
	"token-one-call": login(lasts(3600.0), 200, 401),
	"token-dead":     login(lasts(3600.0), 401),
	"token-ends-others": func(t *testing.T, s spoilt) {
		if login(lasts(3600.0), 200)(t, s); s.v.Stats().Tokens != 1 {
			t.Errorf("%d tokens are left", s.v.Stats().Tokens)
		}
	},

	"refused-401":      refusal(401, "A1001"),
	"refused-401-html": plain(401, "<html>"),
	"refused-403":      refusal(403, "A1001"),
	"refused-code":     refusal(200, "A1006"),
}
