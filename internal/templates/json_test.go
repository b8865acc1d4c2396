package templates

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzWalk: what is called valid is what encoding/json calls so, and the members of an object
// are those that it finds.
func FuzzWalk(f *testing.F) {
	for _, s := range []string{
		`{"a":1,"b":[true,false,null],"c":{"d":"\u00e9\n"}}`, `{}`, `[]`, ` [ ] `, `"x"`, `-0.5e+10`, `01`, `1.`, `1e`, `-`, `tru`, `nullx`,
		`{"a":1,}`, `[1,]`, `{"a"}`, `{,}`, `{"a":1 "b":2}`, `"\x"`, `"\u12g4"`, `"\u12"`, "\"\x1f\"", "\"tab\t\"", "\"\x7f\xff\"", `"open`, `"ends with \`,
		`{"a":"sixteen plain bytes and then \"quotes\"","a":2}`, `{"\u0061":1}`, "", " ", `{"a":1} {}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		names := map[string]string{}
		valid := walk(s, func(name, value string) { names[name] = value })
		if valid != json.Valid([]byte(s)) {
			t.Fatalf("walk says %v of %q", valid, s)
		}
		var want map[string]json.RawMessage
		if !valid || json.Unmarshal([]byte(s), &want) != nil || strings.Contains(s, `\u`) || !utf8.ValidString(s) || !strings.HasPrefix(strings.TrimSpace(s), "{") {
			return // what they make of lone surrogates and of what is no UTF-8 differs
		}
		if len(want) != len(names) {
			t.Fatalf("%d members of %q, want %d", len(names), s, len(want))
		}
		for name, value := range want {
			if names[name] != string(value) {
				t.Fatalf("member %q of %q is %q, want %q", name, s, names[name], value)
			}
		}
	})
}

// TestWalkText: every byte is judged wherever it stands among the eight that are read at once.
func TestWalkText(t *testing.T) {
	for before := range 17 {
		for c := range 256 {
			for _, after := range []string{"", strings.Repeat("-", 20), strings.Repeat("\xff", 20), strings.Repeat("\x20!", 10)} {
				s := `"` + strings.Repeat("#", before) + string([]byte{byte(c)}) + after + `"`
				if got, want := ValidJSON(s), json.Valid([]byte(s)); got != want {
					t.Fatalf("byte %#x behind %d others, %q behind it: %v, want %v", c, before, after, got, want)
				}
			}
		}
	}
}

func TestDepth(t *testing.T) {
	for depth, want := range map[int]bool{1: true, maxDepth: true, maxDepth + 1: false, 1 << 20: false} {
		for _, brackets := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
			s := strings.Repeat(brackets[0], depth) + "1" + strings.Repeat(brackets[1], depth)
			if got := ValidJSON(s); got != want || got != json.Valid([]byte(s)) {
				t.Errorf("%d × %s: %v, want %v", depth, brackets[0], got, want)
			}
		}
	}
}
