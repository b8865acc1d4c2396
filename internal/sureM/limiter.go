package surem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// maxHold is the longest that a 429's Retry-After holds its account back.
const maxHold = time.Minute

// share is how many slots in a row go to urgent calls while a patient one waits; the next
// is a patient call's.
const share = 4

// limiter hands out an account's slots: rate per second, and burst of them at once after a
// rest. Urgent calls (logins and what a reader waits for) go before patient ones (scheduled
// passes), in their order of coming; but under a flood of them every fifth slot goes to a
// patient call. So one urgent call alone waits for two slots at most; for five where the limit is
// shared with other processes (Shared), whose passes use four fifths of it.
type limiter struct {
	interval time.Duration // between slots
	burst    int

	mu      sync.Mutex // guards what follows
	full    time.Time  // when all of the burst is to be had again (GCRA's theoretical arrival time)
	held    time.Time  // no slot before this
	urgent  []*ticket  // oldest first
	patient []*ticket  // oldest first
	streak  int        // slots in a row that went to urgent calls while a patient one waited, share at most
	wake    *time.Timer
	shared  *sharedSlots // with other replicas; nil: all slots are this process's
}

// ticket is a call's place in a queue.
type ticket struct {
	turn     *Turn
	deadline time.Time     // zero: none
	done     chan struct{} // closed when the ticket has left its queue for a slot or a refusal
	refusal  error         // nil with a slot
	urgent   bool
}

// heldError refuses a call because of an earlier 429.
type heldError struct{ retryAfter time.Duration }

func (e *heldError) Error() string {
	return fmt.Sprintf("SureM has asked for a pause (429); it ends in %s", ceilSecond(e.retryAfter))
}

// refusal is what a call returns that the limiter has refused: a hold is SureM's doing.
func refusal(op string, err error) error {
	var held *heldError
	if errors.As(err, &held) {
		return &Error{Op: op, Outcome: outcomeLimited, RetryAfter: held.retryAfter, Err: held}
	}
	return err
}

func newLimiter(rate float64, burst int) *limiter {
	interval := min(float64(time.Second)/rate, float64(24*time.Hour))
	return &limiter{interval: time.Duration(math.Ceil(interval)), burst: burst}
}

// wait returns nil once the call has a slot. A call whose slot lies beyond its context's
// deadline is refused at once: with *LimitError, or with *heldError when a 429 is the
// reason. When the context ends otherwise the error is its cause.
func (l *limiter) wait(ctx context.Context, turn *Turn) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t := &ticket{turn: turn, done: make(chan struct{})}
	t.deadline, _ = ctx.Deadline()
	turn.queueAt(l)
	l.mu.Lock()
	t.urgent = turn.isUrgent()
	l.enqueue(t)
	l.serve()
	l.mu.Unlock()
	select {
	case <-t.done:
		return t.refusal
	case <-ctx.Done():
		return l.leave(t, ctx)
	}
}

// enqueue gives t the last place of its queue, or refuses it.
func (l *limiter) enqueue(t *ticket) {
	place := len(l.patient)
	if t.urgent {
		place = len(l.urgent)
	}
	if l.refuse(t, place, time.Now()) {
		return
	}
	if t.urgent {
		l.urgent = append(l.urgent, t)
	} else {
		l.patient = append(l.patient, t)
	}
}

// refuse ends t when the slot of its place, counted from 0, lies beyond its deadline.
func (l *limiter) refuse(t *ticket, place int, now time.Time) bool {
	if t.deadline.IsZero() {
		return false
	}
	t.refusal = l.beyond(t.deadline, place, t.urgent, now)
	if t.refusal == nil {
		return false
	}
	close(t.done)
	return true
}

// beyond says why the slot of a place in a queue lies beyond a deadline, or nil.
func (l *limiter) beyond(deadline time.Time, place int, urgent bool, now time.Time) error {
	n := l.slotsUntil(place, urgent)
	slot := l.slotTime(n, now, l.held)
	if urgent && l.shared != nil && slot.Before(l.shared.none[forUrgent]) {
		slot = l.shared.none[forUrgent]
	}
	switch {
	case !slot.After(deadline):
		return nil
	case !l.held.After(now) || l.slotTime(n, now, now).After(deadline):
		return &LimitError{RetryAfter: slot.Sub(now)}
	default:
		return &heldError{retryAfter: slot.Sub(now)}
	}
}

// slotsUntil counts the slots up to and with that of a place in a queue, the other queue's
// share among them.
func (l *limiter) slotsUntil(place int, urgent bool) int {
	if urgent {
		return place + 1 + min(len(l.patient), (l.streak+place)/share)
	}
	return place + 1 + min(len(l.urgent), share*(place+1)-l.streak)
}

// slotTime is when the n-th slot from now falls due, n from 1, if none is given before held.
func (l *limiter) slotTime(n int, now, held time.Time) time.Time {
	base := now
	if held.After(now) {
		base = held
	}
	after := max(0, float64(l.full.Sub(base))) + float64(n-l.burst)*float64(l.interval)
	return base.Add(time.Duration(max(0, min(after, math.MaxInt64/4))))
}

// serve gives out the slots that are due and sees to it that it is called for the next.
func (l *limiter) serve() {
	for len(l.urgent)+len(l.patient) > 0 {
		now := time.Now()
		if due := l.slotTime(1, now, l.held); due.After(now) {
			l.wakeAt(due.Sub(now))
			return
		}
		if l.shared != nil {
			l.ask(now)
			return
		}
		l.give(now, l.isPatientsTurn())
	}
	if l.wake != nil {
		l.wake.Stop()
	}
}

// give gives a slot to the first call of a class.
func (l *limiter) give(now time.Time, patient bool) {
	if now.After(l.full) {
		l.full = now
	}
	l.full = l.full.Add(l.interval)
	close(l.next(patient).done)
}

func (l *limiter) wakeAt(in time.Duration) {
	if l.wake == nil {
		l.wake = time.AfterFunc(in, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.serve()
		})
		return
	}
	l.wake.Reset(in)
}

// isPatientsTurn reports whose turn it is, of those who wait.
func (l *limiter) isPatientsTurn() bool {
	return len(l.patient) > 0 && (len(l.urgent) == 0 || l.streak >= share)
}

// next takes the first ticket of a class off its queue.
func (l *limiter) next(patient bool) (t *ticket) {
	switch {
	case patient:
		l.streak = 0
		t, l.patient = l.patient[0], l.patient[1:]
	case len(l.patient) == 0:
		l.streak = 0
		t, l.urgent = l.urgent[0], l.urgent[1:]
	default:
		l.streak = min(l.streak+1, share)
		t, l.urgent = l.urgent[0], l.urgent[1:]
	}
	return t
}

// leave takes t out after its context has ended. A slot that it got in the same moment goes
// to the next call.
func (l *limiter) leave(t *ticket, ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-t.done:
		if t.refusal != nil {
			return t.refusal
		}
		l.full = l.full.Add(-l.interval)
		if !t.urgent {
			l.streak = share // nor does its class lose its share
		}
		l.serve()
	default:
		l.drop(t)
		if ctx.Err() == context.DeadlineExceeded { // calls that came later went before it
			now := time.Now()
			if l.held.After(now) {
				return &heldError{retryAfter: l.held.Sub(now)}
			}
			n := l.slotsUntil(0, t.urgent)
			return &LimitError{RetryAfter: max(l.interval, l.slotTime(n, now, l.held).Sub(now))}
		}
	}
	return context.Cause(ctx)
}

func (l *limiter) drop(t *ticket) {
	queue := &l.patient
	if t.urgent {
		queue = &l.urgent
	}
	if i := slices.Index(*queue, t); i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
	}
}

// lift moves a queued call of turn to the end of the urgent queue, and says so when its slot
// is further away than within.
func (l *limiter) lift(turn *Turn, within time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := func(t *ticket) bool { return t.turn == turn }
	if i := slices.IndexFunc(l.patient, is); i >= 0 {
		t := l.patient[i]
		l.patient = slices.Delete(l.patient, i, i+1)
		t.urgent = true
		l.urgent = append(l.urgent, t)
		l.serve()
	}
	place := slices.IndexFunc(l.urgent, is)
	if place < 0 {
		return nil
	}
	now := time.Now()
	return refusal(opSummaries, l.beyond(now.Add(within), place, true, now))
}

// hold gives out no slot for d, at most maxHold. Calls that cannot wait that long are
// refused now. It reports whether the account was free before.
func (l *limiter) hold(d time.Duration) (begins bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	begins = !l.held.After(now)
	if until := now.Add(min(d, maxHold)); until.After(l.held) {
		l.held = until
	}
	l.urgent = l.keepable(l.urgent, now)
	l.patient = l.keepable(l.patient, now)
	l.serve()
	return begins
}

func (l *limiter) keepable(queue []*ticket, now time.Time) []*ticket {
	kept := queue[:0]
	for _, t := range queue {
		if !l.refuse(t, len(kept), now) {
			kept = append(kept, t)
		}
	}
	clear(queue[len(kept):])
	return kept
}

// late is what wait would refuse an urgent call of ctx with, had it come now, or nil.
func (l *limiter) late(ctx context.Context) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.beyond(deadline, len(l.urgent), true, time.Now())
}

// heldFor is how much longer a 429 holds the account.
func (l *limiter) heldFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, time.Until(l.held))
}

func ceilSecond(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}
