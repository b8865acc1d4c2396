package simulator

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Kind is one way to misbehave.
type Kind struct {
	Name       string   `json:"name"`
	Meaning    string   `json:"meaning"`    // what the caller gets, in one line
	Operations []string `json:"operations"` // the calls it can befall

	spoil func(*answer)
}

// Kinds is every way to misbehave.
var Kinds = slices.Concat(statusKinds, limitKinds, bodyKinds, wireKinds, envelopeKinds, listKinds, rowKinds, detailKinds, loginKinds, tokenKinds)

// Fault says which calls misbehave, and how. Of several that fit a call the first is
// taken. A call whose token or secret is refused spends no fault.
type Fault struct {
	Name      string `json:"fault"`               // of a Kind
	Operation string `json:"operation,omitempty"` // empty = every one that the kind can befall
	SenderKey string `json:"senderKey,omitempty"` // only calls for this sender key
	Code      string `json:"code,omitempty"`      // only detail calls of this template
	Page      int    `json:"page,omitempty"`      // only this page of the summaries
	Times     int    `json:"times,omitempty"`     // so many calls; 0 = until taken away
	Every     int    `json:"every,omitempty"`     // every n-th call that fits; 0 and 1 = each
	DelayMS   int    `json:"delayMs,omitempty"`   // waits before the answer; "slow" alone waits a second
}

// laid is a Fault in force.
type laid struct {
	Fault
	kind  Kind
	seen  int // calls that fitted
	spent int // calls that were spoilt
}

// SetFaults puts these faults in the place of all others. A fault that names no kind, or a
// call that its kind cannot befall, is an error and nothing changes.
func (s *Simulator) SetFaults(faults ...Fault) error {
	next := make([]*laid, 0, len(faults))
	for _, f := range faults {
		l, err := lay(f)
		if err != nil {
			return fmt.Errorf("fault %q: %w", f.Name, err)
		}
		next = append(next, l)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = next
	return nil
}

// Faults returns the faults in force that are not yet spent.
func (s *Simulator) Faults() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := []Fault{}
	for _, f := range s.faults {
		if f.Times == 0 || f.spent < f.Times {
			open = append(open, f.Fault)
		}
	}
	return open
}

func lay(f Fault) (*laid, error) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == f.Name })
	switch {
	case i < 0:
		return nil, errors.New("no such kind")
	case f.Operation != "" && !slices.Contains(Kinds[i].Operations, f.Operation):
		return nil, fmt.Errorf("cannot befall %q, only %q", f.Operation, Kinds[i].Operations)
	case f.Operation == Login && f.SenderKey != "":
		return nil, errors.New("a login has no sender key")
	case f.Times < 0, f.Every < 0, f.Page < 0, f.DelayMS < 0:
		return nil, errors.New("times, every, page and delayMs must not be negative")
	}
	return &laid{Fault: f, kind: Kinds[i]}, nil
}

// fault returns the first fault that fits a call, and counts it. s.mu is held.
func (s *Simulator) fault(at ref, a *answer) *laid {
	for _, f := range s.faults {
		if !f.fits(at, a) || f.Times > 0 && f.spent == f.Times {
			continue
		}
		f.seen++
		if f.Every > 1 && f.seen%f.Every != 0 {
			continue
		}
		f.spent++
		return f
	}
	return nil
}

func (f *laid) fits(at ref, a *answer) bool {
	return slices.Contains(f.kind.Operations, at.operation) &&
		(f.Operation == "" || f.Operation == at.operation) &&
		(f.SenderKey == "" || f.SenderKey == at.senderKey) &&
		(f.Code == "" || f.Code == at.code) &&
		(f.Page == 0 || a.list != nil && a.list.page == f.Page)
}

func (f *laid) delay() time.Duration {
	if f.DelayMS == 0 && f.Name == "slow" {
		return time.Second
	}
	return time.Duration(f.DelayMS) * time.Millisecond
}
