package surem

import (
	"context"
	"sync/atomic"
	"time"
)

// Turn is how one reading of summaries queues for its account's slots. A nil *Turn is a
// reader's: urgent, and its waiting counts against its context's deadline.
type Turn struct {
	// Left says how much of the reading's time is left, for a context that has no deadline
	// of its own because waiting for a slot does not count: what SureM asks to wait beyond
	// it ends the call at once. nil = not known.
	Left func() time.Duration

	// Probe lets the reading through an open breaker, each call once: a scheduled pass finds
	// out whether SureM is back.
	Probe bool

	waiting, slot func()
	urgent        atomic.Bool
	queued        atomic.Pointer[limiter] // the last one it queued at
}

// NewTurn returns a reading's Turn, of the reads' class when urgent. For each call of the
// reading, pages and retries included and logins not, waiting is called as it begins to
// queue and slot when it has got its slot; a call that is refused gets none. Both may be nil.
func NewTurn(urgent bool, waiting, slot func()) *Turn {
	t := &Turn{waiting: waiting, slot: slot}
	t.urgent.Store(urgent)
	return t
}

// Lift puts the reading's calls into the reads' class, from now on and also one that is
// already queued. The error, *LimitError or *Error after a 429, says that a queued call's
// slot is further away than within; the call stays queued.
func (t *Turn) Lift(within time.Duration) error {
	// In this order, as wait stores its limiter first and then looks at urgent: one of the
	// two sees the other.
	t.urgent.Store(true)
	if l := t.queued.Load(); l != nil {
		return l.lift(t, within)
	}
	return nil
}

func (t *Turn) queueAt(l *limiter) {
	if t != nil {
		t.queued.Store(l)
	}
}

func (t *Turn) isUrgent() bool { return t == nil || t.urgent.Load() }

func (t *Turn) probes() bool { return t != nil && t.Probe }

func (t *Turn) begins() {
	if t != nil && t.waiting != nil {
		t.waiting()
	}
}

func (t *Turn) served() {
	if t != nil && t.slot != nil {
		t.slot()
	}
}

// left is how long a call may still take, false when nobody knows.
func (t *Turn) left(ctx context.Context) (time.Duration, bool) {
	left, known := time.Duration(0), false
	if deadline, ok := ctx.Deadline(); ok {
		left, known = time.Until(deadline), true
	}
	if t != nil && t.Left != nil {
		if own := t.Left(); !known || own < left {
			left, known = own, true
		}
	}
	return left, known
}
