package invalidate

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"alimtalk-syncer/internal/templates"
)

// spellings are each state's words; those nobody knows have but one spelling.
var spellings = [][]string{
	{"REGISTERED", "REG", "reg", "Registered", " REG "},
	{"REQUESTED", "REQ", "KREQ", "INSPECTING", "inspecting", "kReq"},
	{"APPROVED", "APR", "apr", "Approved", "APPROVED  "},
	{"REJECTED", "REJ", "HREJ", "KREJ", "hrej", "\tRejected"},
	{"DELETED", "deleted", "Deleted"},
	{"TSC03"}, {"tsc03"}, {"S"}, {"APPROVED."},
}

// FuzzSpelling: how a state is spelled, in rows, entries or both, never changes a plan.
func FuzzSpelling(f *testing.F) {
	f.Add("\x02\x01\x02", "\x02", uint64(0), uint8(8))
	f.Add("\x02\x01\x02\x03\x04\x05\x06", "\x01\x01\x01\x03\x02\x05\x05", uint64(12345), uint8(8))
	f.Add("\x02\x22\x42", "\xff\xfe\xfd", uint64(7), uint8(0))
	f.Add("\x13\x02\x22\x13\x33", "\x02\x02", uint64(99), uint8(31))
	f.Fuzz(func(t *testing.T, listed, cached string, seed uint64, policy uint8) {
		if len(listed) > 64 || len(cached) > 64 {
			return
		}
		skip := map[templates.State]bool{}
		for i := range 5 {
			if policy>>i&1 == 1 {
				skip[templates.Status(spellings[i][0]).State()] = true
			}
		}
		plan := func(spell func(state byte) templates.Status) Plan {
			var rows []templates.Summary
			for i := range len(listed) { // the low half is the state, the high half a code that comes again
				code := fmt.Sprintf("T%d", i-int(listed[i]>>4)%(i+1))
				status := spell(listed[i] & 15)
				rows = append(rows, templates.Summary{Code: code, Status: status, Raw: fmt.Sprintf(`{"n":%d}`, listed[i]>>6)})
			}
			entries := map[string]templates.Entry{}
			for i := range len(cached) {
				e := templates.Entry{Kind: templates.Unreadable}
				switch {
				case cached[i] == 0xfe:
					e.Kind = templates.WrongType
				case cached[i] == 0xfd:
					e.Kind = templates.Missing
				case cached[i] != 0xff:
					e = templates.Entry{Kind: templates.Readable, Doc: templates.Document{Raw: fmt.Sprintf(`{"n":%d}`, cached[i]>>6), Status: spell(cached[i] & 15)}}
				}
				entries[fmt.Sprintf("T%d", i)] = e
			}
			p := NewPlan(ByCode(rows), entries, Policy{Skip: skip, Fields: []string{"n"}, Moved: policy>>5&1 == 1})
			for i, c := range p.Delete { // how they are spelled is all that may differ
				p.Delete[i].From, p.Delete[i].To = templates.Status(c.From.State()), templates.Status(c.To.State())
			}
			return p
		}
		plain := plan(func(state byte) templates.Status { return templates.Status(spellings[int(state)%len(spellings)][0]) })
		spelled := plan(func(state byte) templates.Status {
			words := spellings[int(state)%len(spellings)]
			seed = seed*6364136223846793005 + 1442695040888963407
			word := words[seed>>33%uint64(len(words))]
			if len(words) > 1 && seed>>60&1 == 1 {
				word = strings.ToLower(word) + " "
			}
			return templates.Status(word)
		})
		if !reflect.DeepEqual(plain, spelled) {
			t.Fatalf("%+v became %+v", plain, spelled)
		}
		if p := plan(func(state byte) templates.Status { return templates.Status(spellings[2][int(state)%3]) }); len(skip) == 0 && !p.AllUnreadable {
			for _, c := range p.Delete {
				if c.Reason == ReasonStatus {
					t.Fatalf("all is approved, and yet %+v", c)
				}
			}
		}
	})
}
