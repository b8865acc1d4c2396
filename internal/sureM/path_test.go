package surem

import (
	"net/url"
	"strings"
	"testing"
)

var (
	summaryVars = []string{"senderKey", "page", "size"}
	detailVars  = []string{"templateCode", "senderKey"}
)

func TestParsePathAcceptsWhatReachesSureMEscapedOnce(t *testing.T) {
	for _, template := range []string{
		"/api/v1/alimtalk/templates/{templateCode}{?senderKey}",
		"/t?sender={senderKey}&code={templateCode}",
		"/t?x=1{&senderKey,templateCode}",
		"/t{/senderKey,templateCode}",
		"/{senderKey}/t;v=1{;templateCode}",
		"/t/{templateCode}/%7E{?senderKey}",
		"/t{?senderKey}&code={templateCode}",
	} {
		if _, err := ParsePath(template, detailVars, detailVars); err != nil {
			t.Errorf("%s: %v", template, err)
		}
	}
}

func TestParsePathRefuses(t *testing.T) {
	for template, want := range map[string]string{
		"":                                  "exactly one /",
		"t/{templateCode}{?senderKey}":      "exactly one /",
		"//evil/{templateCode}{?senderKey}": "exactly one /",
		"https://x/{templateCode}":          "exactly one /",
		"/t/{templateCode}":                 "must hold the variable senderKey",
		"/t{?senderKey}":                    "must hold the variable templateCode",
		"/t/{templateCode}{?senderkey}":     `"senderkey"`,
		"/t/{templateCode}{?senderKey,}":    `""`,
		"/t/{templateCode:3}{?senderKey}":   `"templateCode:3"`,
		"/t/{templateCode*}{?senderKey}":    `"templateCode*"`,
		"/t/{+templateCode}{?senderKey}":    "would not be escaped",
		"/t/{#templateCode}{?senderKey}":    "would not be escaped",
		"/t/{templateCode}?a=1{?senderKey}": "more than one ?",
		"/t/{templateCode}{?senderKey}?a=1": "more than one ?",
		"/t/{templateCode}{&senderKey}":     "before any ?",
		"/t/{templateCode{?senderKey}":      `"templateCode{?senderKey"`,
		"/t/{templateCode}{?senderKey":      "without its }",
		"/t/templateCode}{?senderKey}":      `'}'`,
		"/t/{templateCode}{?senderKey}#top": "fragment",
		"/t /{templateCode}{?senderKey}":    `' '`,
		"/예약/{templateCode}{?senderKey}":    "must not stand in a URL",
		"/t%2/{templateCode}{?senderKey}":   "begins no escape",
		"/a/../{templateCode}{?senderKey}":  ".. step",
		"/t\n/{templateCode}{?senderKey}":   `'\n'`,
	} {
		_, err := ParsePath(template, detailVars, detailVars)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one that says %s", template, err, want)
		}
	}
}

func TestExpandRefusesPathStepsAndMissingValues(t *testing.T) {
	p, err := ParsePath("/t/{templateCode}{?senderKey}", detailVars, detailVars)
	if err != nil {
		t.Fatal(err)
	}
	for _, vars := range []map[string]any{
		{"templateCode": "..", "senderKey": "S-secret"},
		{"templateCode": ".", "senderKey": "S-secret"},
		{"senderKey": "S-secret"},
		{"templateCode": "a\xffb", "senderKey": "S-secret"},
	} {
		got, err := p.Expand(vars)
		if err == nil || strings.Contains(err.Error(), "S-secret") {
			t.Errorf("%v: %q, %v", vars, got, err)
		}
	}
}

// FuzzPathEscapes checks that any code comes back from the URL as it was, in the path as
// in the query, and never becomes another step of the path.
func FuzzPathEscapes(f *testing.F) {
	for _, code := range []string{"T1", "a/b", "a?b", "a#b", "{x}", "100%", "%2F", " x ", "예약_확정", "...", "..%2f", "a+b", "a&b=c", "~*!'()", "😀"} {
		f.Add(code)
	}
	p, err := ParsePath("/t/{templateCode}{?senderKey,templateCode}", detailVars, detailVars)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, code string) {
		expanded, err := p.Expand(map[string]any{"templateCode": code, "senderKey": "S"})
		if err != nil {
			return
		}
		u, err := url.Parse("https://surem.example" + expanded)
		if err != nil {
			t.Fatalf("%q gave %q: %v", code, expanded, err)
		}
		escaped := strings.TrimPrefix(u.EscapedPath(), "/t/")
		step, err := url.PathUnescape(escaped)
		if err != nil || step != code || strings.Contains(escaped, "/") {
			t.Fatalf("%q came out of the path %q as %q (%v)", code, expanded, step, err)
		}
		if q := u.Query(); q.Get("templateCode") != code || q.Get("senderKey") != "S" || len(q) != 2 {
			t.Fatalf("%q came out of the query %q as %v", code, expanded, q)
		}
	})
}
