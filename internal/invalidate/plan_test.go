package invalidate_test

import (
	"reflect"
	"slices"
	"testing"

	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/templates"
)

func row(code, status string) templates.Summary {
	return templates.Summary{Code: code, Status: templates.Status(status), Raw: `{"templateCode":"` + code + `","inspectionStatus":"` + status + `"}`}
}

func rowAt(code, status, modified string) templates.Summary {
	r := row(code, status)
	r.Raw = `{"inspectionStatus":"` + status + `","modifiedAt":"` + modified + `"}`
	return r
}

func entry(status string) templates.Entry {
	return templates.Entry{Kind: templates.Readable, Doc: templates.Document{Raw: `{"inspectionStatus":"` + status + `"}`, Status: templates.Status(status)}}
}

func entryAt(status, modified string) templates.Entry {
	e := entry(status)
	e.Doc.Raw = `{"inspectionStatus":"` + status + `","modifiedAt":"` + modified + `"}`
	return e
}

var (
	missing    = templates.Entry{}
	unreadable = templates.Entry{Kind: templates.Unreadable}
	other      = templates.Entry{Kind: templates.WrongType}
)

// TestPlanTruthTable is the table in NewPlan's comment.
func TestPlanTruthTable(t *testing.T) {
	skipRejected := map[templates.State]bool{templates.Rejected: true}
	for _, c := range []struct {
		name   string
		rows   []templates.Summary
		entry  templates.Entry
		fields []string
		moved  bool
		looked bool // the entry is read at all
		reason invalidate.Reason
		to     templates.Status
	}{
		{name: "nothing cached", rows: []templates.Summary{row("T", "APPROVED")}, entry: missing, looked: true},
		{name: "another type", rows: []templates.Summary{row("T", "APPROVED")}, entry: other, looked: true},
		{name: "another type of a moved hospital", rows: []templates.Summary{row("T", "APPROVED")}, entry: other, moved: true, looked: true},
		{name: "same state", rows: []templates.Summary{row("T", "APPROVED")}, entry: entry("APPROVED"), looked: true},
		{name: "same state, other spelling", rows: []templates.Summary{row("T", "apr")}, entry: entry("APPROVED"), looked: true},
		{name: "another state", rows: []templates.Summary{row("T", "APPROVED")}, entry: entry("REQUESTED"), looked: true, reason: "status", to: "APPROVED"},
		{name: "a summary DELETED", rows: []templates.Summary{row("T", "DELETED")}, entry: entry("APPROVED"), looked: true, reason: "status", to: "DELETED"},
		{name: "a word nobody knows, the same", rows: []templates.Summary{row("T", "TSC03")}, entry: entry("TSC03"), looked: true},
		{name: "a word nobody knows, in another case", rows: []templates.Summary{row("T", "TSC03")}, entry: entry("tsc03"), looked: true, reason: "status", to: "TSC03"},
		{name: "skipped", rows: []templates.Summary{row("T", "REJECTED")}, entry: entry("APPROVED")},
		{name: "skipped by another spelling", rows: []templates.Summary{row("T", "KREJ")}, entry: entry("APPROVED")},
		{name: "skipped, unreadable", rows: []templates.Summary{row("T", "REJECTED")}, entry: unreadable},
		{name: "skipped of a moved hospital", rows: []templates.Summary{row("T", "REJECTED")}, entry: entry("REJECTED"), moved: true, looked: true, reason: "sender", to: "REJECTED"},
		{name: "moved, agreeing", rows: []templates.Summary{row("T", "APPROVED")}, entry: entry("APPROVED"), moved: true, looked: true, reason: "sender", to: "APPROVED"},
		{name: "unreadable", rows: []templates.Summary{row("T", "APPROVED")}, entry: unreadable, looked: true, reason: "unreadable", to: "APPROVED"},
		{name: "twice, agreeing", rows: []templates.Summary{row("T", "APPROVED"), row("T", "APR")}, entry: entry("APPROVED"), looked: true},
		{name: "twice, disagreeing", rows: []templates.Summary{row("T", "APPROVED"), row("T", "REQUESTED")}, entry: entry("APPROVED"), looked: true, reason: "ambiguous", to: "REQUESTED"},
		{name: "twice, disagreeing, one skipped", rows: []templates.Summary{row("T", "REJECTED"), row("T", "APPROVED")}, entry: entry("APPROVED"), looked: true, reason: "ambiguous", to: "REJECTED"},
		{name: "twice, disagreeing, nothing cached", rows: []templates.Summary{row("T", "APPROVED"), row("T", "REQUESTED")}, entry: missing, looked: true},
		{name: "twice, both skipped", rows: []templates.Summary{row("T", "REJECTED"), row("T", "REJ")}, entry: entry("APPROVED")},
		{name: "field not compared", rows: []templates.Summary{rowAt("T", "APPROVED", "2")}, entry: entryAt("APPROVED", "1"), looked: true},
		{name: "field differs", rows: []templates.Summary{rowAt("T", "APPROVED", "2")}, entry: entryAt("APPROVED", "1"), fields: []string{"modifiedAt"}, looked: true, reason: "field", to: "APPROVED"},
		{name: "field agrees", rows: []templates.Summary{rowAt("T", "APPROVED", "1")}, entry: entryAt("APPROVED", "1"), fields: []string{"modifiedAt"}, looked: true},
		{name: "field only in the row", rows: []templates.Summary{rowAt("T", "APPROVED", "1")}, entry: entry("APPROVED"), fields: []string{"modifiedAt"}, looked: true},
		{name: "field only in the entry", rows: []templates.Summary{row("T", "APPROVED")}, entry: entryAt("APPROVED", "1"), fields: []string{"modifiedAt"}, looked: true},
		{name: "twice, fields disagree", rows: []templates.Summary{rowAt("T", "APPROVED", "1"), rowAt("T", "APPROVED", "2")}, entry: entryAt("APPROVED", "1"), fields: []string{"modifiedAt"}, looked: true, reason: "ambiguous", to: "APPROVED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy := invalidate.Policy{Skip: skipRejected, Fields: c.fields, Moved: c.moved}
			if looked := slices.Contains(invalidate.ByCode(c.rows).Codes(policy), "T"); looked != c.looked {
				t.Errorf("entry read: %v, want %v", looked, c.looked)
			}
			plan := invalidate.NewPlan(invalidate.ByCode(c.rows), map[string]templates.Entry{"T": c.entry}, policy)
			var want []invalidate.Change
			if c.reason != "" {
				want = []invalidate.Change{{Code: "T", From: c.entry.Doc.Status, To: c.to, Reason: c.reason}}
			}
			if !reflect.DeepEqual(plan.Delete, want) {
				t.Errorf("deletes %+v, want %+v", plan.Delete, want)
			}
		})
	}
}

func TestPlanCounts(t *testing.T) {
	rows := []templates.Summary{row("A", "APPROVED"), row("B", "REJECTED"), row("C", "APPROVED"), row("D", "APPROVED"), row("E", "REQUESTED")}
	plan := invalidate.NewPlan(invalidate.ByCode(rows), map[string]templates.Entry{"A": entry("APPROVED"), "C": other, "E": unreadable},
		invalidate.Policy{Skip: map[templates.State]bool{templates.Rejected: true}})
	if plan.Compared != 2 || plan.Skipped != 1 || plan.WrongType != 1 || len(plan.Delete) != 1 || plan.AllUnreadable {
		t.Errorf("%+v", plan)
	}
}

func TestPlanKeepsEntriesThatAreAllUnreadable(t *testing.T) {
	rows := []templates.Summary{row("A", "APPROVED"), row("B", "APPROVED"), row("C", "REJECTED"), row("D", "APPROVED")}
	policy := invalidate.Policy{Skip: map[templates.State]bool{templates.Rejected: true}}
	for _, c := range []struct {
		name    string
		entries map[string]templates.Entry
		all     bool
		deletes int
	}{
		{"three", map[string]templates.Entry{"A": unreadable, "B": unreadable, "D": unreadable}, true, 0},
		{"two", map[string]templates.Entry{"A": unreadable, "B": unreadable}, false, 2},
		{"two and a skipped one", map[string]templates.Entry{"A": unreadable, "B": unreadable, "C": unreadable}, false, 2},
		{"two and another type", map[string]templates.Entry{"A": unreadable, "B": unreadable, "D": other}, false, 2},
		{"two and a readable one", map[string]templates.Entry{"A": unreadable, "B": unreadable, "D": entry("APPROVED")}, false, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := invalidate.NewPlan(invalidate.ByCode(rows), c.entries, policy)
			if plan.AllUnreadable != c.all || len(plan.Delete) != c.deletes {
				t.Errorf("%+v", plan)
			}
		})
	}
}
