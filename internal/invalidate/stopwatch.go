package invalidate

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// stopwatch ends a context when a time has run out from which pauses are left out: in a
// scheduled pass a hospital's wait for a slot of the rate limit is not its own slowness.
type stopwatch struct {
	timer *time.Timer

	mu     sync.Mutex    // guards what follows
	left   time.Duration // when it was last started or stopped
	since  time.Time     // it was started; zero while it is stopped
	closed bool
}

// withStopwatch returns a context that ends once the watch has run for d. Its cancel
// function stops the watch for good.
func withStopwatch(parent context.Context, d time.Duration) (context.Context, *stopwatch, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	w := &stopwatch{left: d, since: time.Now()}
	w.timer = time.AfterFunc(d, func() { cancel(fmt.Errorf("took longer than %v (SYNC_TIMEOUT): %w", d, context.DeadlineExceeded)) })
	return ctx, w, func() {
		w.mu.Lock()
		w.closed = true
		w.timer.Stop()
		w.mu.Unlock()
		cancel(context.Canceled)
	}
}

// stop leaves the time from now on out.
func (w *stopwatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.since.IsZero() && w.timer.Stop() {
		w.left -= time.Since(w.since)
		w.since = time.Time{}
	}
}

// start counts again.
func (w *stopwatch) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() && !w.closed {
		w.since = time.Now()
		w.timer.Reset(w.left)
	}
}

// remaining returns how much of the time is left.
func (w *stopwatch) remaining() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		return w.left
	}
	return w.left - time.Since(w.since)
}
