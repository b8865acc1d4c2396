package flight

import (
	"context"
	"runtime/debug"
	"sync"
	"time"
)

// Run is one run of a loader, with which it can say whom its result is for.
type Run struct {
	mu     *sync.Mutex // the Group's; guards what follows
	first  Mark        // the callers of its beginning, who take what it gives
	count  int         // cohorts by now
	marked bool        // the next caller begins a new cohort
	seal   Mark        // 0 = none
}

// Mark is a moment in a run: the callers that had come by then.
type Mark int

// Mark takes the present moment.
func (r *Run) Mark() Mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marked = true
	return Mark(r.count)
}

// Seal says that the value the loader is about to return is good only for callers that came
// before m, and for those it began with. The later ones are carried into one further run,
// which begins as this one ends, the key taken throughout. The last Seal counts; a run that
// never seals answers everyone who came before its end, and so does one that returns an error.
func (r *Run) Seal(m Mark) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seal = max(m, r.first)
}

// take gives key to a call of these cohorts, the first of which counts as its starter. The
// caller holds mu and calls start when it has let go.
func (g *Group[K, V]) take(c *call[K, V], key K, cohorts []*cohort[V]) {
	c.mu, c.first, c.count = &g.mu, Mark(len(cohorts)), len(cohorts)
	c.ctx.group, c.ctx.key = g, key
	c.cohorts, c.began = cohorts, time.Now()
	for _, co := range cohorts {
		c.waiting += co.live
	}
	cohorts[0].owed.Store(1)
	g.calls[key] = c
	g.watch(c)
}

// start starts the loader of a call that lead stands for.
func (g *Group[K, V]) start(c *call[K, V], lead *cohort[V]) {
	if g.options.Observer != nil {
		g.options.Observer.Started()
	}
	c.ctx.values = lead.ctx
	c.ctx.outer, _ = lead.ctx.Value(g).(*loadContext[K, V])
	go g.run(c, lead.load)
}

// run runs a loader to its end, whatever end that is. It is its goroutine's whole life.
func (g *Group[K, V]) run(c *call[K, V], load Loader[V]) {
	var v V
	var err error
	returned := false
	defer func() { // everything that may panic runs after this line
		if !returned {
			if value := recover(); value != nil {
				err = &PanicError{Value: value, Stack: debug.Stack()}
			} else {
				err = &GoexitError{Stack: debug.Stack()}
			}
		} else if err != nil && !c.ctx.deadline.IsZero() && !time.Now().Before(c.ctx.deadline) {
			err = ErrDeadline // what the loader made of it says less
		}
		g.finish(c, v, err)
	}()
	v, err = load(&c.ctx, &c.Run)
	returned = true
}

// finish publishes a run's result to those it is for, and in the same step either carries
// the others into a further run or forgets the key. Then it wakes those who have an answer.
func (g *Group[K, V]) finish(c *call[K, V], v V, err error) {
	g.mu.Lock()
	c.ended = true
	g.unwatch(c)
	served, late := c.cohorts, []*cohort[V](nil)
	if err == nil && c.seal > 0 && int(c.seal) < len(served) {
		served, late = served[:c.seal], served[c.seal:]
	}
	publish(served, v, err)
	if g.closed {
		var none V
		publish(late, none, ErrClosed)
		served, late = c.cohorts, nil
	}
	var next *call[K, V]
	if late = living(late); len(late) > 0 {
		next = new(call[K, V])
		g.take(next, c.ctx.key, late)
	} else {
		delete(g.calls, c.ctx.key)
		if g.closed && len(g.calls) == 0 {
			close(g.idle)
		}
	}
	over := c.over
	g.mu.Unlock()
	wake(served)
	if next != nil {
		g.start(next, late[0])
	}
	c.ctx.finish(endReturned)
	if over == nil {
		g.loaded(c, err)
	}
}

// abandon answers everyone who waits for a run and ends its context, while its loader goes
// on. The key stays taken until the loader returns.
func (g *Group[K, V]) abandon(c *call[K, V], end context.Context) {
	err := context.Cause(end)
	g.mu.Lock()
	if c.ended || c.over != nil {
		g.mu.Unlock()
		return
	}
	served := c.cohorts
	c.over, c.cohorts, c.waiting = err, nil, 0
	var none V
	publish(served, none, err)
	g.mu.Unlock()
	wake(served)
	c.ctx.finish(end)
	g.loaded(c, err)
}

func (g *Group[K, V]) loaded(c *call[K, V], err error) {
	if g.options.Observer != nil {
		g.options.Observer.Loaded(time.Since(c.began), err)
	}
}

func publish[V any](cohorts []*cohort[V], v V, err error) {
	for _, co := range cohorts {
		co.val, co.err, co.answered = v, err, true
	}
}

func wake[V any](cohorts []*cohort[V]) {
	for _, co := range cohorts {
		close(co.done)
	}
}

func living[V any](cohorts []*cohort[V]) []*cohort[V] {
	var live []*cohort[V]
	for _, co := range cohorts {
		if co.live > 0 {
			live = append(live, co)
		}
	}
	return live
}
