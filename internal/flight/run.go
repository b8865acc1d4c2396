package flight

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"
)

// Run is one run of a loader, with which it can say whom its result is for.
type Run struct {
	mu      *sync.Mutex // the Group's; guards what follows
	cohorts int         // how many the call has now
	marked  bool        // the next caller begins a new cohort
	seal    Mark
}

// Mark is a moment in a run: the callers that had come by then.
type Mark int

// Mark takes the present moment.
func (r *Run) Mark() Mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marked = true
	return Mark(r.cohorts)
}

// Seal says that the value the loader is about to return is good only for callers that came
// before m. The later ones are carried into one further run, which begins as this one ends,
// the key taken throughout. The last Seal counts; a run that never seals answers everyone
// who came before its end, and so does one that returns an error.
func (r *Run) Seal(m Mark) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seal = m
}

// start begins a run on behalf of a cohort of c. The caller holds mu.
func (g *Group[K, V]) start(c *call[K, V], lead *cohort[V]) {
	lead.owed.Store(1)
	run := &Run{mu: &g.mu, cohorts: len(c.cohorts)}
	ctx, cancel := context.Background(), context.CancelFunc(nil)
	if g.options.LoaderTimeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, g.options.LoaderTimeout, ErrDeadline)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	c.run, c.cancel = run, cancel
	outer, _ := lead.ctx.Value(g).(*loadContext[K, V])
	go g.load(c, run, lead.load, &loadContext[K, V]{Context: ctx, values: lead.ctx, group: g, key: c.key, outer: outer})
}

// load runs a loader to its end, whatever end that is. It is its goroutine's whole life.
func (g *Group[K, V]) load(c *call[K, V], run *Run, load Loader[V], ctx *loadContext[K, V]) {
	began := time.Now()
	if g.options.Observer != nil {
		g.options.Observer.Started()
	}
	// A loader that ignores the end of its context must not hold those who wait.
	stop := context.AfterFunc(ctx, func() { g.abandon(c, run, ending(ctx), time.Since(began)) })
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
		} else if err != nil && ctx.Err() != nil {
			err = ending(ctx) // what the loader made of it says less
		}
		stop()
		g.finish(c, run, v, err, time.Since(began))
	}()
	v, err = load(ctx, run)
	returned = true
}

// ending says why a loader's context has ended: only Close cancels it while it runs.
func ending(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return ErrClosed
}

// finish publishes a run's result to those it is for, and in the same step either carries
// the others into a further run or forgets the key. Then it wakes those who have an answer.
func (g *Group[K, V]) finish(c *call[K, V], run *Run, v V, err error, took time.Duration) {
	g.mu.Lock()
	abandoned := c.over != nil
	served, late := c.cohorts, []*cohort[V](nil)
	if err == nil && run.seal > 0 && int(run.seal) < len(c.cohorts) {
		served, late = c.cohorts[:run.seal], c.cohorts[run.seal:]
	}
	publish(served, v, err)
	c.cancel()
	late = living(late)
	if g.closed {
		var none V
		publish(late, none, ErrClosed)
		served, late = append(served, late...), nil
	}
	if len(late) > 0 {
		c.cohorts, c.waiting = late, 0
		for _, co := range late {
			c.waiting += co.live
		}
		g.start(c, late[0])
	} else {
		delete(g.calls, c.key)
		if g.closed && len(g.calls) == 0 {
			close(g.idle)
		}
	}
	g.mu.Unlock()
	if !abandoned && g.options.Observer != nil {
		g.options.Observer.Loaded(took, err)
	}
	wake(served)
}

// abandon answers everyone who waits for a run whose context has ended while its loader goes
// on. The key stays taken until the loader returns.
func (g *Group[K, V]) abandon(c *call[K, V], run *Run, err error, took time.Duration) {
	g.mu.Lock()
	if c.run != run || g.calls[c.key] != c { // it has ended after all
		g.mu.Unlock()
		return
	}
	served := c.cohorts
	c.over, c.cohorts, c.waiting = err, nil, 0
	var none V
	publish(served, none, err)
	g.mu.Unlock()
	if g.options.Observer != nil {
		g.options.Observer.Loaded(took, err)
	}
	wake(served)
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

// loadContext is a loader's context: the life of its run, the values of its starter, and the
// loads of this group that it runs inside of.
type loadContext[K comparable, V any] struct {
	context.Context
	values context.Context
	group  *Group[K, V]
	key    K
	outer  *loadContext[K, V]
}

// Value implements context.Context. The group itself is the key of the innermost load.
func (c *loadContext[K, V]) Value(key any) any {
	if key == any(c.group) {
		return c
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// loads reports whether ctx belongs to a loader of key, or to one that runs inside it.
func (g *Group[K, V]) loads(ctx context.Context, key K) bool {
	inner, _ := ctx.Value(g).(*loadContext[K, V])
	for ; inner != nil; inner = inner.outer {
		if inner.key == key {
			return true
		}
	}
	return false
}
