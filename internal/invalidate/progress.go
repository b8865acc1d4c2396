package invalidate

import (
	"sync"
	"time"
)

// progress measures how long a pass has finished no hospital, the time left out in which all
// that it is at wait for slots of the rate limit.
type progress struct {
	mu     sync.Mutex // guards what follows
	passes int        // that run: 0 or 1
	busy   int        // sender keys at work, those that wait for a slot not counted
	since  time.Time  // busy has been above 0; zero while it is not
	quiet  time.Duration
}

func (p *progress) add(passes, busy int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle()
	p.passes += passes
	p.busy += busy
	if passes != 0 {
		p.quiet = 0
	}
}

// finished notes that a hospital is done, be others of its sender key still to come.
func (p *progress) finished() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle()
	p.quiet = 0
}

// settle adds the time since it was last called, if that was spent at work.
func (p *progress) settle() {
	now := time.Now()
	if p.busy > 0 && !p.since.IsZero() {
		p.quiet += now.Sub(p.since)
	}
	p.since = now
}

// stuck reports whether a pass runs, and how long it has finished nothing.
func (p *progress) stuck() (runs bool, quiet time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle()
	return p.passes > 0, p.quiet
}

// pauser returns a switch for one reading's waits: true when one begins, false when it ends.
func (p *progress) pauser() func(bool) {
	paused := false // guarded by p.mu
	return func(pause bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if pause == paused {
			return
		}
		p.settle()
		paused = pause
		if pause {
			p.busy--
		} else {
			p.busy++
		}
	}
}
