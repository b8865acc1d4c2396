package templates

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestReadEntry(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	for _, c := range []struct {
		name, value string
		kind        EntryKind
		status      Status
		doc         string // "" = the value itself
	}{
		{name: "bare", value: `{"templateCode":"T","inspectionStatus":"APPROVED"}`, kind: Readable, status: "APPROVED"},
		{name: "blanks around", value: " \r\n{\"inspectionStatus\":\"REQ\"}", kind: Readable, status: "REQ", doc: `{"inspectionStatus":"REQ"}`},
		{name: "envelope", value: `{"value":{"inspectionStatus":"REG"},"expires":1700000000001}`, kind: Readable, status: "REG", doc: `{"inspectionStatus":"REG"}`},
		{name: "envelope for ever", value: `{"value":{"inspectionStatus":"REG"}}`, kind: Readable, status: "REG", doc: `{"inspectionStatus":"REG"}`},
		{name: "envelope expires null", value: `{"value":{"inspectionStatus":"REG"},"expires":null}`, kind: Readable, status: "REG", doc: `{"inspectionStatus":"REG"}`},
		{name: "envelope expired", value: `{"value":{"inspectionStatus":"REG"},"expires":1700000000000}`, kind: Unreadable},
		{name: "envelope expires in words", value: `{"value":{"inspectionStatus":"REG"},"expires":"2030"}`, kind: Unreadable},
		{name: "envelope twice", value: `{"value":{"inspectionStatus":"REG"},"value":{"inspectionStatus":"REG"}}`, kind: Unreadable},
		{name: "document as a string", value: `{"value":"{\"inspectionStatus\":\"REG\"}"}`, kind: Unreadable},
		{name: "status deeper", value: `{"data":{"inspectionStatus":"REG"}}`, kind: Unreadable},
		{name: "status twice", value: `{"inspectionStatus":"REG","inspectionStatus":"REG"}`, kind: Unreadable},
		{name: "status twice, once escaped", value: `{"inspectionStatus":"REG","inspection\u0053tatus":"APR"}`, kind: Unreadable},
		{name: "status in another case", value: `{"inspectionstatus":"REG"}`, kind: Unreadable},
		{name: "status a number", value: `{"inspectionStatus":1}`, kind: Unreadable},
		{name: "status null", value: `{"inspectionStatus":null}`, kind: Unreadable},
		{name: "status empty", value: `{"inspectionStatus":""}`, kind: Unreadable},
		{name: "status blank", value: `{"inspectionStatus":"  "}`, kind: Unreadable},
		{name: "status and a member called value", value: `{"inspectionStatus":"REG","value":{"inspectionStatus":"APR"}}`, kind: Readable, status: "REG"},
		{name: "array", value: `[{"inspectionStatus":"REG"}]`, kind: Unreadable},
		{name: "truncated", value: `{"inspectionStatus":"REG"`, kind: Unreadable},
		{name: "trailing", value: `{"inspectionStatus":"REG"} x`, kind: Unreadable},
		{name: "empty", value: ``, kind: Unreadable},
		{name: "deep", value: strings.Repeat("[", 1<<20), kind: Unreadable},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := readEntry(c.value, now)
			if e.Kind != c.kind || e.Doc.Status != c.status {
				t.Errorf("kind %d, status %q; want %d, %q", e.Kind, e.Doc.Status, c.kind, c.status)
			}
			want := c.doc
			if want == "" && c.kind == Readable {
				want = c.value
			}
			if e.Doc.Raw != want {
				t.Errorf("document %q, want %q", e.Doc.Raw, want)
			}
		})
	}
}

func TestStatusSpellings(t *testing.T) {
	for word, want := range map[Status]State{
		"REGISTERED": Registered, "reg": Registered, "Requested": Requested, "KREQ": Requested, "inspecting": Requested,
		"APR": Approved, "approved": Approved, "HREJ": Rejected, "KREJ": Rejected, "rej": Rejected, "deleted": Deleted,
		"APPROVED  ": Approved, "TSC03": "TSC03", "tsc03": "tsc03", "S": "S", "": "",
	} {
		if got := word.State(); got != want {
			t.Errorf("%q is %q, want %q", word, got, want)
		}
	}
}

// FuzzReadEntry: what is called readable is JSON whose document stands in the value byte for
// byte, and writing its status in another case never makes it another state.
func FuzzReadEntry(f *testing.F) {
	f.Add(`{"templateCode":"APPT_CONFIRM","templateContent":"[하나치과]\r\n#{이름}님, 예약이 확정되었습니다.","inspectionStatus":"APPROVED"}`)
	f.Add(`{"value":{"inspectionStatus":"REG"},"expires":1900000000000}`)
	f.Add(`{"inspectionStatus":"REG","a":[[[{}]]]}`)
	f.Fuzz(func(t *testing.T, value string) {
		e := readEntry(value, time.UnixMilli(1_700_000_000_000))
		if e.Kind != Readable {
			return
		}
		if !json.Valid([]byte(value)) || !json.Valid([]byte(e.Doc.Raw)) || !strings.Contains(value, e.Doc.Raw) {
			t.Fatalf("readable: %q gives %q", value, e.Doc.Raw)
		}
		if _, known := KnownState(string(e.Doc.Status)); known && Status(strings.ToLower(string(e.Doc.Status))).State() != e.Doc.Status.State() {
			t.Fatalf("spelling matters: %q", e.Doc.Status)
		}
	})
}
