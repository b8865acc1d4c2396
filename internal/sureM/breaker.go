package surem

import (
	"errors"
	"sync"
	"time"
)

const (
	breakerWindow = 30 // seconds of calls that are weighed
	breakerFloor  = 20 // calls that say something

	breakerPause = 10 * time.Second // between calls that find out whether SureM is back, passes aside
)

// ErrOpen means that most calls of the account fail just now, so that this one was not made;
// or that it was made to find out whether SureM is back, and failed too. errors.Is finds it in
// an *Error, whose RetryAfter says when the next call may be made.
var ErrOpen = errors.New("SureM's breaker is open")

// breaker keeps an account's reads from waiting for a SureM that fails. It opens when over
// half of at least breakerFloor calls in breakerWindow failed by 5xx, network or time-out, and
// closes with the first answer to a call made since. While it is open a pass's calls go
// through, and a read's every breakerPause.
//
// It is not gobreaker, which lets nothing through while it is open and cannot be told that
// SureM is back.
type breaker struct {
	told func(open bool, why *Error) // when it opens or closes; must not call the breaker

	mu     sync.Mutex // guards what follows
	start  time.Time
	window [breakerWindow]tally
	opened time.Time // zero: closed
	next   time.Time // while open: a read may go through
}

// tally is a second's calls.
type tally struct{ second, calls, failed int }

func newBreaker(told func(open bool, why *Error)) *breaker {
	return &breaker{told: told, start: time.Now()}
}

// wait is how long a read must not be sent: 0 = it may be.
func (b *breaker) wait() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened.IsZero() {
		return 0
	}
	return max(0, time.Until(b.next))
}

// pass lets a call through, and puts off the next read's while the breaker is open. It is
// wait that is returned to a read that may not pass.
func (b *breaker) pass(probe bool) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened.IsZero() {
		return 0
	}
	now := time.Now()
	if b.next.After(now) && !probe {
		return b.next.Sub(now)
	}
	b.next = now.Add(breakerPause)
	return 0
}

func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.opened.IsZero()
}

// note takes what came of a call that was sent at began.
func (b *breaker) note(began time.Time, failure *Error, failed, answered bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.opened.IsZero() {
		if answered && began.After(b.opened) { // else it tells of the time before
			b.opened, b.window = time.Time{}, [breakerWindow]tally{}
			b.told(false, nil)
		}
		return
	}
	calls, failures := b.count(failed)
	if failed && calls >= breakerFloor && 2*failures > calls {
		b.opened = time.Now()
		b.next = b.opened.Add(breakerPause)
		b.told(true, failure)
	}
}

// count adds a call to the window and returns what is in it.
func (b *breaker) count(failed bool) (calls, failures int) {
	second := int(time.Since(b.start) / time.Second)
	now := &b.window[second%breakerWindow]
	if now.second != second {
		*now = tally{second: second}
	}
	now.calls++
	if failed {
		now.failed++
	}
	for _, t := range b.window {
		if t.second > second-breakerWindow {
			calls, failures = calls+t.calls, failures+t.failed
		}
	}
	return calls, failures
}

// weigh tells the breaker of an attempt, unless that says nothing about SureM: it was
// cancelled, its caller had next to no time for it, or it was answered that the call was
// wrong, which neither counts as a failure nor makes up for one.
func (c *Client) weigh(a *account, r *request, failure *Error) {
	answered := failure == nil || failure.Status != 0 && failure.Outcome != outcomeServer
	failed := failure != nil && failure.isAway() &&
		!(failure.Outcome == outcomeTimeout && time.Since(r.began) < min(c.o.Timeout, time.Second))
	counts := failed || failure == nil || failure.Outcome == outcomeBad
	if counts || answered && a.breaker.isOpen() {
		a.breaker.note(r.began, failure, failed, answered)
	}
}

// open is the failure of a read that is not sent.
func open(op string, wait time.Duration) *Error {
	return &Error{Op: op, Outcome: outcomeCancelled, RetryAfter: max(wait, time.Second), Err: ErrOpen}
}

// breakerTold keeps account of the breakers that are open, and reports once for all of them.
func (c *Client) breakerTold(a *account, open bool, why *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if open {
		c.open[a] = true
		if len(c.open) == 1 {
			c.log.Warn().Err(why).Msg("surem breaker open")
		}
		return
	}
	delete(c.open, a)
	if len(c.open) == 0 {
		c.log.Info().Msg("surem breaker closed")
	}
}

// BreakerOpen reports whether the breaker of an account whose secret is still known is open.
func (c *Client) BreakerOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isOpen()
}

// isOpen is BreakerOpen. The caller holds c.mu.
func (c *Client) isOpen() bool {
	for a := range c.open {
		if _, known := c.o.Secret(a.userCode); known {
			return true
		}
	}
	return false
}
