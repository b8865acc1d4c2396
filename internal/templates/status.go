package templates

import "strings"

// State is an inspection state with its spellings folded: two statuses are the same
// exactly when their States are equal.
type State string

// The states that Kakao's vendors have words for.
const (
	Registered State = "REGISTERED"
	Requested  State = "REQUESTED"
	Approved   State = "APPROVED"
	Rejected   State = "REJECTED"
	Deleted    State = "DELETED"
)

// Pending reports whether a reviewer's decision is to be expected: the state is none of
// APPROVED, REJECTED and DELETED. A word nobody knows may mean anything, so it is pending.
func (s State) Pending() bool { return s != Approved && s != Rejected && s != Deleted }

// words are the spellings seen at SureM and its sister vendors.
var words = map[string]State{
	"REGISTERED": Registered, "REG": Registered,
	"REQUESTED": Requested, "REQ": Requested, "KREQ": Requested, "INSPECTING": Requested,
	"APPROVED": Approved, "APR": Approved,
	"REJECTED": Rejected, "REJ": Rejected, "HREJ": Rejected, "KREJ": Rejected,
	"DELETED": Deleted,
}

// Status is an inspectionStatus as it was spelled. The zero Status means that there is none.
type Status string

// spelled returns a Status that outlives the document it is read from.
func spelled(s string) Status {
	if state := words[s]; string(state) == s {
		return Status(state)
	}
	return Status(strings.Clone(s))
}

// State folds the spelling: known words in any case, blanks around them ignored, become
// their state; a word nobody knows is compared exactly as it is written; blanks alone are
// no state, "".
func (s Status) State() State {
	switch st := State(s); st { // nearly always, and told without a look-up
	case Registered, Requested, Approved, Rejected, Deleted:
		return st
	}
	word := strings.ToUpper(strings.TrimSpace(string(s)))
	if st, ok := words[word]; ok {
		return st
	}
	if word == "" {
		return ""
	}
	return State(s)
}

// KnownState returns the state of a word, and false for a word nobody knows.
func KnownState(word string) (State, bool) {
	st, ok := words[strings.ToUpper(strings.TrimSpace(word))]
	return st, ok
}
