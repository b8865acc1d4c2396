package flight

import "time"

// clock ends the runs of a Group at their deadlines. All runs are given the same time, so
// they come due in the order in which they began, and one timer, set for the oldest, serves
// them all: a timer for each was a third of what a run costs. Guarded by Group.mu.
type clock[K comparable, V any] struct {
	line    call[K, V]  // of its links only: younger is the oldest run, older the newest
	timer   *time.Timer // nil until the first run
	running bool        // the timer is set
}

// watch puts a call that begins at the end of the line. The caller holds mu.
func (g *Group[K, V]) watch(c *call[K, V]) {
	timeout, line := g.options.LoaderTimeout, &g.clock.line
	if timeout <= 0 {
		return
	}
	c.ctx.deadline = c.began.Add(timeout)
	c.older, c.younger = line.older, line
	c.older.younger, line.older = c, c
	switch {
	case g.clock.running:
	case g.clock.timer == nil:
		g.clock.timer = time.AfterFunc(timeout, g.ring)
	default:
		g.clock.timer.Reset(timeout)
	}
	g.clock.running = true
}

// unwatch takes a call out of the line. The caller holds mu.
func (g *Group[K, V]) unwatch(c *call[K, V]) {
	if c.older != nil {
		c.older.younger, c.younger.older = c.younger, c.older
		c.older, c.younger = nil, nil
	}
}

// ring abandons the runs that are due and sets the timer for the next.
func (g *Group[K, V]) ring() {
	var due []*call[K, V]
	g.mu.Lock()
	now, line := time.Now(), &g.clock.line
	for line.younger != line && !now.Before(line.younger.ctx.deadline) {
		due = append(due, line.younger)
		g.unwatch(line.younger)
	}
	g.clock.running = line.younger != line
	if g.clock.running {
		g.clock.timer.Reset(line.younger.ctx.deadline.Sub(now))
	}
	g.mu.Unlock()
	for _, c := range due {
		g.abandon(c, endDeadline)
	}
}
