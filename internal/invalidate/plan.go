// Package invalidate finds the entries that SureM has overtaken and deletes them.
//
// A pass is, for each hospital: summaries → fence → cached entries → plan → delete what is
// still what we saw → report. It promises (contract: no stale entry survives a pass) that
// when it has ended, what stays agreed with its summaries and what comes later was loaded
// after them. It does not see an edit that leaves the inspection status as it is, nor one
// that comes back to the cached status while it was skipped.
package invalidate

import (
	"alimtalk-syncer/internal/templates"
)

// Reason says why an entry does not agree with the summaries.
type Reason string

// The reasons.
const (
	ReasonStatus     Reason = "status"     // another inspection state
	ReasonField      Reason = "field"      // another value in a field of Policy.Fields
	ReasonUnreadable Reason = "unreadable" // the entry cannot be shown to agree
	ReasonAmbiguous  Reason = "ambiguous"  // the summaries contradict each other
	ReasonSender     Reason = "sender"     // the entry may be a former sender key's
)

// Change is an entry that is to go, or has gone.
type Change struct {
	Code   string           `json:"templateCode"`
	From   templates.Status `json:"from"` // as the entry spells it; empty when unreadable
	To     templates.Status `json:"to"`   // as SureM spells it
	Reason Reason           `json:"reason"`
}

// Policy is what the settings and the hospital's history say about comparing.
type Policy struct {
	Skip   map[templates.State]bool // summaries in these states are not compared (SYNC_SKIP_STATUSES)
	Fields []string                 // compared too where row and entry have them (SYNC_COMPARE_ALSO)
	Moved  bool                     // the hospital got another sender key or account and no pass since was ok
}

// Plan is what a comparison has come to.
type Plan struct {
	Delete        []Change
	Compared      int  // entries found that are strings
	Skipped       int  // rows in skipped states
	WrongType     int  // keys that hold another type
	AllUnreadable bool // three entries or more, none readable: nothing is deleted
}

// allUnreadable is how many entries, all unreadable, mean that it is the format that is wrong.
const allUnreadable = 3

// Listing is a list's rows, gathered by code.
type Listing [][]templates.Summary

// ByCode gathers the rows of each code, codes in the order of their first row.
func ByCode(rows []templates.Summary) Listing {
	at := make(map[string]int, len(rows))
	listing := make(Listing, 0, len(rows))
	for i, row := range rows {
		if j, again := at[row.Code]; again {
			listing[j] = append(listing[j], row)
			continue
		}
		at[row.Code] = len(listing)
		listing = append(listing, rows[i:i+1:i+1])
	}
	return listing
}

// Codes returns the codes whose entries NewPlan looks at, in the list's order.
func (l Listing) Codes(policy Policy) []string {
	codes := make([]string, 0, len(l))
	for _, same := range l {
		if policy.compares(same) {
			codes = append(codes, same[0].Code)
		}
	}
	return codes
}

// NewPlan decides, for every code that a list shows, whether its entry agrees. It is a pure
// function of its arguments; entries holds what stands in Redis for the list's Codes. Dormant and
// DELETED summaries are compared like others.
//
//	rows of the code              entry                     verdict
//	any                           none                      nothing to do
//	any                           another type              kept, counted
//	any, hospital moved           readable or unreadable    deleted: sender
//	all in one skipped state      (not looked at)           kept
//	rows disagree                 readable or unreadable    deleted: ambiguous
//	agree, not skipped            unreadable                deleted: unreadable
//	agree, not skipped            another state             deleted: status
//	agree, not skipped            same state, other field   deleted: field
//	agree, not skipped            same state and fields     kept
//
// Rows disagree when their states differ, be one of them skipped or not, or a compared field
// does that both have. When three or more entries were found and all are unreadable, all are
// kept: the format is set wrong, not the entries.
func NewPlan(list Listing, entries map[string]templates.Entry, policy Policy) Plan {
	var p Plan
	unreadable := 0
	for _, same := range list {
		for _, row := range same {
			if policy.Skip[row.Status.State()] {
				p.Skipped++
			}
		}
		if !policy.compares(same) {
			continue
		}
		entry := entries[same[0].Code]
		switch entry.Kind {
		case templates.Missing:
			continue
		case templates.WrongType:
			p.WrongType++
			continue
		case templates.Unreadable:
			unreadable++
		}
		p.Compared++
		if reason := policy.judge(same, entry); reason != "" {
			p.Delete = append(p.Delete, Change{Code: same[0].Code, From: entry.Doc.Status, To: differing(same, entry).Status, Reason: reason})
		}
	}
	if unreadable >= allUnreadable && unreadable == p.Compared {
		p.AllUnreadable, p.Delete = true, nil
	}
	return p
}

// compares reports whether a code's entry is looked at.
func (p Policy) compares(same []templates.Summary) bool {
	return p.Moved || !p.Skip[same[0].Status.State()] || !p.agree(same)
}

// judge says why a code's entry must go, or "".
func (p Policy) judge(same []templates.Summary, entry templates.Entry) Reason {
	switch {
	case p.Moved:
		return ReasonSender
	case !p.agree(same):
		return ReasonAmbiguous
	case entry.Kind == templates.Unreadable:
		return ReasonUnreadable
	case same[0].Status.State() != entry.Doc.Status.State():
		return ReasonStatus
	case p.fieldsDiffer(same[0].Raw, entry.Doc.Raw):
		return ReasonField
	default:
		return ""
	}
}

// agree reports whether all rows of a code say the same.
func (p Policy) agree(same []templates.Summary) bool {
	if len(same) == 1 {
		return true
	}
	for _, row := range same[1:] {
		if row.Status.State() != same[0].Status.State() {
			return false
		}
	}
	for _, name := range p.Fields {
		said, known := "", false
		for _, row := range same {
			raw, ok := templates.Field(row.Raw, name)
			if ok && known && raw != said {
				return false
			}
			if ok {
				said, known = raw, true
			}
		}
	}
	return true
}

func (p Policy) fieldsDiffer(a, b string) bool {
	for _, name := range p.Fields {
		inA, okA := templates.Field(a, name)
		inB, okB := templates.Field(b, name)
		if okA && okB && inA != inB {
			return true
		}
	}
	return false
}

// differing returns the first row in another state than the entry's, or else the first.
func differing(same []templates.Summary, entry templates.Entry) templates.Summary {
	for _, row := range same {
		if row.Status.State() != entry.Doc.Status.State() {
			return row
		}
	}
	return same[0]
}
