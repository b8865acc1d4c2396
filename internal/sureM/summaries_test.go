package surem

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"alimtalk-syncer/internal/templates"
)

func rowJSON(code, status string) string {
	return fmt.Sprintf(`{"templateCode":%s,"inspectionStatus":%s}`, quoted(code), quoted(status))
}

// pageOf returns data with one good row per code, and more members such as `"total":5`.
func pageOf(more string, codes ...string) string {
	rows := make([]string, len(codes))
	for i, code := range codes {
		rows[i] = rowJSON(code, "APR")
		if code == "bad" {
			rows[i] = `{"templateCode":""}`
		}
	}
	if more != "" {
		more = "," + more
	}
	return `{"list":[` + strings.Join(rows, ",") + `]` + more + `}`
}

func codesOf(l templates.List) string {
	var codes []string
	for _, s := range l.Summaries {
		codes = append(codes, s.Code)
	}
	return strings.Join(codes, " ")
}

// TestWhereAListEnds is the paging rules. SureM is asked for pages of 3; the answers are
// given in turn and the last for ever.
func TestWhereAListEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pages     []string
		codes     string
		listed    int
		complete  bool
		calls     int
		says      string
		templates string // the path's, when not the usual one
	}{
		"a short page, nothing said":     {pages: []string{pageOf("", "A", "B")}, codes: "A B", listed: 2, complete: true, calls: 1},
		"an empty list, nothing said":    {pages: []string{`{"list":[]}`}, complete: true, calls: 1},
		"a bare array":                   {pages: []string{`[` + rowJSON("A", "APR") + `]`}, codes: "A", listed: 1, complete: true, calls: 1},
		"a bare empty array":             {pages: []string{`[]`}, complete: true, calls: 1},
		"full, then short":               {pages: []string{pageOf("", "A", "B", "C"), pageOf("", "D")}, codes: "A B C D", listed: 4, complete: true, calls: 2},
		"full, then empty":               {pages: []string{pageOf("", "A", "B", "C"), `{"list":[]}`}, codes: "A B C", listed: 3, complete: true, calls: 2},
		"total reached on a full page":   {pages: []string{pageOf(`"total":3`, "A", "B", "C")}, codes: "A B C", listed: 3, complete: true, calls: 1},
		"total as a string":              {pages: []string{pageOf(`"total":" 3 "`, "A", "B", "C")}, codes: "A B C", listed: 3, complete: true, calls: 1},
		"total null":                     {pages: []string{pageOf(`"total":null`, "A", "B")}, codes: "A B", listed: 2, complete: true, calls: 1},
		"the server's own cap":           {pages: []string{pageOf(`"total":5`, "A", "B"), pageOf(`"total":5`, "C", "D"), pageOf(`"total":5`, "E")}, codes: "A B C D E", listed: 5, complete: true, calls: 3},
		"hasNext":                        {pages: []string{pageOf(`"hasNext":"Y"`, "A"), pageOf(`"hasNext":1`, "B"), pageOf(`"hasNext":false`, "C", "D", "E")}, codes: "A B C D E", listed: 5, complete: true, calls: 3},
		"the latest total counts: more":  {pages: []string{pageOf(`"total":3`, "A", "B"), pageOf(`"total":4`, "C"), pageOf(`"total":4`, "D")}, codes: "A B C D", listed: 4, complete: true, calls: 3},
		"the latest total counts: fewer": {pages: []string{pageOf(`"total":6`, "A", "B", "C"), pageOf(`"total":4`, "D")}, codes: "A B C D", listed: 4, complete: true, calls: 2},
		"total said once":                {pages: []string{pageOf(`"total":4`, "A", "B"), pageOf("", "C", "D")}, codes: "A B C D", listed: 4, complete: true, calls: 2},
		"bad rows count for the total":   {pages: []string{pageOf(`"total":5`, "A", "bad", "B"), pageOf(`"total":5`, "bad", "bad")}, codes: "A B", listed: 5, complete: true, calls: 2},
		"pages that overlap":             {pages: []string{pageOf(`"total":5`, "A", "B", "C"), pageOf(`"total":5`, "C", "D"), pageOf(`"total":5`, "E")}, codes: "A B C C D E", listed: 5, complete: true, calls: 3},
		"the same code twice in a page":  {pages: []string{pageOf(`"total":3`, "A", "A", "B")}, codes: "A A B", listed: 3, complete: true, calls: 1},
		"total below the rows":           {pages: []string{pageOf(`"total":0`, "A", "B")}, codes: "A B", listed: 2, complete: true, calls: 1},
		"short first page below total":   {pages: []string{pageOf(`"total":9`, "A"), pageOf(`"total":9`)}, codes: "A", listed: 1, calls: 2, says: "page 2 is empty, though SureM says there is more: 1 rows of 9"},
		"empty first page below total":   {pages: []string{pageOf(`"total":9`)}, calls: 1, says: "page 1 is empty"},
		"empty page with hasNext":        {pages: []string{pageOf(`"hasNext":true`, "A"), pageOf(`"hasNext":true`)}, codes: "A", listed: 1, calls: 2, says: "page 2 is empty"},
		"hasNext false below total":      {pages: []string{pageOf(`"total":9,"hasNext":false`, "A", "B", "C"), pageOf(`"total":9`)}, codes: "A B C", listed: 3, calls: 2, says: "page 2 is empty"},
		"the same page for ever":         {pages: []string{pageOf("", "A", "B", "C")}, codes: "A B C", listed: 3, calls: 2, says: "page 2 repeats the one before"},
		"the same page, with a total":    {pages: []string{pageOf(`"total":9`, "A", "B")}, codes: "A B", listed: 2, calls: 2, says: "page 2 repeats"},
		"the same bad page for ever":     {pages: []string{pageOf(`"total":9`, "bad", "bad")}, listed: 2, calls: 2, says: "page 2 repeats"},
		"a later page is no list":        {pages: []string{pageOf("", "A", "B", "C"), `null`}, codes: "A B C", listed: 3, calls: 2, says: "neither data nor data.list is a list"},
		"list null":                      {pages: []string{`{"list":null,"total":0}`}, calls: 1, says: "neither data nor data.list"},
		"list missing":                   {pages: []string{`{"total":0}`}, calls: 1, says: "neither data nor data.list"},
		"list an object":                 {pages: []string{`{"list":{"0":` + rowJSON("A", "APR") + `}}`}, calls: 1, says: "neither data nor data.list"},
		"list twice":                     {pages: []string{`{"list":[],"list":[` + rowJSON("A", "APR") + `]}`}, calls: 1, says: "list twice"},
		"List in another case":           {pages: []string{`{"List":[]}`}, calls: 1, says: "neither data nor data.list"},
		"total unreadable":               {pages: []string{pageOf(`"total":"many"`, "A")}, calls: 1, says: "data.total cannot be read"},
		"total negative":                 {pages: []string{pageOf(`"total":-1`, "A")}, calls: 1, says: "data.total cannot be read"},
		"total a fraction":               {pages: []string{pageOf(`"total":1.5`, "A")}, calls: 1, says: "data.total cannot be read"},
		"total twice":                    {pages: []string{pageOf(`"total":1,"total":9`, "A")}, calls: 1, says: "data.total cannot be read"},
		"total beyond all bounds":        {pages: []string{pageOf(`"total":1e99`, "A")}, calls: 1, says: "data.total cannot be read"},
		"hasNext unreadable":             {pages: []string{pageOf(`"hasNext":"perhaps"`, "A")}, calls: 1, says: "data.hasNext cannot be read"},
		"no page variable":               {pages: []string{pageOf("", "A", "B", "C")}, codes: "A B C", listed: 3, complete: true, calls: 1, templates: "/list{?senderKey}"},
		"no page variable, and a total":  {pages: []string{pageOf(`"total":9`, "A", "B", "C")}, codes: "A B C", listed: 3, calls: 1, says: "SUREM_SUMMARY_PATH asks for no page: 3 rows of 9", templates: "/list{?senderKey}"},
		"no size variable":               {pages: []string{pageOf("", "A"), pageOf("", "B"), `{"list":[]}`}, codes: "A B", listed: 2, complete: true, calls: 3, templates: "/list{?senderKey,page}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVendor(t)
			var handlers []http.HandlerFunc
			for _, p := range tc.pages {
				handlers = append(handlers, data(p))
			}
			v.list = inTurn(handlers...)
			c, _ := v.client(t, func(o *Options) {
				if tc.templates != "" {
					o.SummaryPath, _ = ParsePath(tc.templates, []string{"senderKey"}, summaryVars)
				}
			})
			list, err := c.Summaries(t.Context(), h001, nil)
			if codesOf(list) != tc.codes || list.Listed != tc.listed || list.Complete != tc.complete {
				t.Fatalf("got %s, listed %d, complete %v; want %s, %d, %v (%v)", codesOf(list), list.Listed, list.Complete, tc.codes, tc.listed, tc.complete, err)
			}
			var e *Error
			if tc.complete && err != nil || !tc.complete && (!errors.As(err, &e) || !strings.Contains(err.Error(), tc.says)) {
				t.Fatalf("error %v, want one that says %q", err, tc.says)
			}
			if n := len(v.calls()); n != tc.calls {
				t.Fatalf("%d calls, want %d: %v", n, tc.calls, v.calls())
			}
		})
	}
}

func TestPagesAreAskedForInOrder(t *testing.T) {
	t.Parallel()
	for _, first := range []int{0, 1} {
		v := newVendor(t)
		v.list = inTurn(data(pageOf("", "A", "B", "C")), data(pageOf("", "D", "E", "F")), data(`[]`))
		c, _ := v.client(t, func(o *Options) { o.FirstPage = first })
		if list, err := c.Summaries(t.Context(), h001, nil); err != nil || !list.Complete {
			t.Fatal(err)
		}
		for i, got := range v.calls() {
			if want := fmt.Sprintf("GET /list?senderKey=sender%%2Bkey%%2Fof%%3DH001&page=%d&size=3", first+i); got != want {
				t.Errorf("call %d was %s, want %s", i, got, want)
			}
		}
	}
}

func TestALaterPageThatFailsLeavesWhatWasRead(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"500": answer(500, ""), "closed": hijacked(""), "403": answer(403, ""), "error under 200": answer(200, `{"code":"E1"}`), "null": data(`null`), "429": answer(429, ""),
	} {
		v := newVendor(t)
		v.list = inTurn(data(pageOf("", "A", "B", "C")), h, h)
		c, _ := v.client(t, nil)
		list, err := c.Summaries(t.Context(), h001, nil)
		if err == nil || list.Complete || codesOf(list) != "A B C" || list.Listed != 3 {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
}

func TestAnEndlessListEndsAtAThousandPages(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.list = func(w http.ResponseWriter, r *http.Request) {
		n := r.URL.Query().Get("page")
		data(pageOf(`"hasNext":true`, "A"+n, "B"+n, "C"+n))(w, r)
	}
	c, _ := v.client(t, nil)
	list, err := c.Summaries(t.Context(), h001, nil)
	if err == nil || !strings.Contains(err.Error(), "more than 1000 pages") || list.Complete || list.Listed != 3000 || len(v.calls()) != 1000 {
		t.Fatalf("%d rows in %d calls, complete %v: %v", list.Listed, len(v.calls()), list.Complete, err)
	}
}

func TestAListEndsAtItsBytes(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	padding := strings.Repeat(" ", 7<<20)
	v.list = func(w http.ResponseWriter, r *http.Request) {
		n := r.URL.Query().Get("page")
		data(padding+pageOf(`"hasNext":true`, "A"+n))(w, r)
	}
	c, _ := v.client(t, nil)
	list, err := c.Summaries(t.Context(), h001, nil)
	if err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") || list.Complete || list.Listed != 10 {
		t.Fatalf("%d rows, complete %v: %v", list.Listed, list.Complete, err)
	}
}

func TestTheEndOfTheContextKeepsItsCause(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the reading's time is up")
	v.list = func(w http.ResponseWriter, r *http.Request) {
		if n, _ := strconv.Atoi(r.URL.Query().Get("page")); n == 2 {
			cancel(cause)
			<-r.Context().Done()
		}
		data(pageOf("", "A", "B", "C"))(w, r)
	}
	c, _ := v.client(t, nil)
	list, err := c.Summaries(ctx, h001, NewTurn(false, nil, nil))
	if !errors.Is(err, cause) || list.Complete || codesOf(list) != "A B C" {
		t.Fatalf("%+v, %v", list, err)
	}
}

func TestRows(t *testing.T) {
	for raw, want := range map[string]struct {
		bad     bool
		code    string
		name    string
		status  templates.Status
		dormant bool
	}{
		`{"templateCode":"T1","inspectionStatus":"APR","name":"예약 확정"}`:       {code: "T1", name: "예약 확정", status: "APR"},
		`{"templateCode":" T1 ","inspectionStatus":" kreq "}`:                 {code: " T1 ", status: " kreq "},
		`{"templateCode":"T1","inspectionStatus":"TSC03"}`:                    {code: "T1", status: "TSC03"},
		`{"templateCode":"T1","inspectionStatus":"APR","dormant":true}`:       {code: "T1", status: "APR", dormant: true},
		`{"templateCode":"T1","inspectionStatus":"APR","dormant":"true"}`:     {code: "T1", status: "APR", dormant: true},
		`{"templateCode":"T1","inspectionStatus":"APR","dormant":"Y"}`:        {code: "T1", status: "APR", dormant: true},
		`{"templateCode":"T1","inspectionStatus":"APR","dormant":1}`:          {code: "T1", status: "APR", dormant: true},
		`{"templateCode":"T1","inspectionStatus":"APR","dormant":"1"}`:        {code: "T1", status: "APR", dormant: true},
		`{"templateCode":"T1","inspectionStatus":"APR","dormant":"N"}`:        {code: "T1", status: "APR"},
		`{"templateCode":"T1","inspectionStatus":"APR","dormant":0}`:          {code: "T1", status: "APR"},
		`{"templateCode":"T1","inspectionStatus":"APR","dormant":null}`:       {code: "T1", status: "APR"},
		`{"templateCode":"T1","inspectionStatus":"APR","dormant":"perhaps"}`:  {code: "T1", status: "APR"},
		`{"templateCode":"T1","inspectionStatus":"APR","dormant":{"a":"Y"}}`:  {code: "T1", status: "APR"},
		`{"templateCode":"T1","inspectionStatus":"APR","name":7}`:             {code: "T1", status: "APR"},
		`{"templateCode":"T1","inspectionStatus":"APR","status":"R"}`:         {code: "T1", status: "APR"},
		`{"templateCode":"T1","status":"R"}`:                                  {bad: true, code: "T1"},
		`{"templateCode":"T1","inspectionStatus":null}`:                       {bad: true, code: "T1"},
		`{"templateCode":"T1","inspectionStatus":" "}`:                        {bad: true, code: "T1"},
		`{"templateCode":"T1","inspectionStatus":1}`:                          {bad: true, code: "T1"},
		`{"templateCode":"T1","inspectionStatus":"A","inspectionStatus":"A"}`: {bad: true, code: "T1"},
		`{"inspectionStatus":"APR"}`:                                          {bad: true},
		`{"templateCode":null,"inspectionStatus":"APR"}`:                      {bad: true},
		`{"templateCode":7,"inspectionStatus":"APR"}`:                         {bad: true},
		`{"templateCode":"","inspectionStatus":"APR"}`:                        {bad: true},
		`{"templateCode":"..","inspectionStatus":"APR"}`:                      {bad: true},
		`{"templateCode":"a\u0000","inspectionStatus":"APR"}`:                 {bad: true},
		`{"templateCode":"A","templateCode":"B","inspectionStatus":"APR"}`:    {bad: true},
		`{"TemplateCode":"A","inspectionStatus":"APR"}`:                       {bad: true},
		`"T1"`: {bad: true}, `null`: {bad: true}, `[]`: {bad: true}, `7`: {bad: true}, `{}`: {bad: true},
	} {
		got := readRow(gjson.Parse(raw))
		s := got.summary
		if got.bad != want.bad || got.code != want.code {
			t.Errorf("%s: bad %v, code %q", raw, got.bad, got.code)
		}
		if !want.bad && (s.Code != want.code || s.Name != want.name || s.Status != want.status || s.Dormant != want.dormant || s.Raw != raw) {
			t.Errorf("%s: %+v", raw, s)
		}
	}
}

// One bad row is counted and skipped, and the others count.
func TestABadRowIsSkipped(t *testing.T) {
	p, err := readPage(gjson.Parse(`{"list":[` + rowJSON("A", "APR") + `,{"templateCode":"B"},null,7,` + rowJSON("C", "REQ") + `],"total":5}`))
	l := listing{paged: true, asked: 3, total: unknown}
	end, why := l.add(p)
	if err != nil || why != nil || !end || codesOf(l.list) != "A C" || l.list.BadRows != 3 || l.list.Listed != 5 {
		t.Fatalf("%+v, end %v, %v, %v", l.list, end, err, why)
	}
}
