package order

import (
	"math"
	"time"
)

// Pace says when a read may ask for a look: at most every second call of an account's limit,
// so that the reads that have nothing to show yet keep the other half. The zero Pace is not
// limited. It is not safe for concurrent use.
type Pace struct {
	interval time.Duration
	burst    int
	full     time.Time // when all of the burst is to be had again
}

// NewPace returns the pace of an account with this limit (calls per second, and at once).
func NewPace(rate float64, burst int) Pace {
	if rate <= 0 {
		return Pace{}
	}
	interval := min(2*float64(time.Second)/rate, float64(24*time.Hour))
	return Pace{interval: time.Duration(math.Ceil(interval)), burst: max(1, burst/2)}
}

// Take takes the next call that is to be had at now or later and returns how long to wait for
// it; false, and nothing is taken, when that is longer than within.
func (p *Pace) Take(now time.Time, within time.Duration) (wait time.Duration, ok bool) {
	base := p.full
	if now.After(base) {
		base = now
	}
	wait = max(0, base.Sub(now)-time.Duration(p.burst-1)*p.interval)
	if wait > within {
		return 0, false
	}
	p.full = base.Add(p.interval)
	return wait, true
}

// Spend counts n more calls: a look whose list has more pages than one.
func (p *Pace) Spend(n int) {
	p.full = p.full.Add(time.Duration(n) * p.interval)
}
