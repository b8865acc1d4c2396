// Package flight is single-flight: of all who want the same key at the same time, one
// starts the load and the others wait for its result.
//
// It promises that
//   - at most one loader per key runs at a time; loaders of different keys never wait for
//     each other;
//   - a loader has a life of its own: callers that leave, the starter included, take nobody
//     with them, and when all have left it runs to its end;
//   - however a loader ends (value, error, panic, runtime.Goexit, deadline), everyone who
//     waits is woken and the key is forgotten: nothing is remembered of a success or failure;
//   - a loader may seal its result (Run): callers that came after the mark do not get it,
//     but share one further run. No caller takes part in more than two runs.
//
// Where the promise ends: the registry lives in one process, so N processes may run N loads
// of one key. Single-flight shares work in progress. It is no cache and solves neither TTL
// nor staleness: how long a finished result is good is its caller's business (the
// single-flight seed document). Everyone gets a copy of the same V, so V must hold nothing
// that a caller could change under another: strings and numbers, no slices, maps or pointers
// to what is written later.
package flight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Loader fetches the value of a key. Its context carries the values of the caller that
// started it, the deadline of Options.LoaderTimeout, and ends early only by Group.Close.
type Loader[V any] func(ctx context.Context, run *Run) (V, error)

// Options bound a Group. The zero value bounds nothing.
type Options struct {
	MaxKeys       int           // loaders at a time; 0 = no bound
	MaxWaiters    int           // callers waiting for one key, the starter included; 0 = no bound
	LoaderTimeout time.Duration // of one run, whoever waits; 0 = none
	Observer      Observer      // nil = none
}

// Observer is told what a Group does. Its methods are called from many goroutines and must
// return at once.
type Observer interface {
	Requested()                             // a caller has come
	Rejected(reason string)                 // it was turned away: "keys" or "waiters"
	Started()                               // a loader starts
	Loaded(took time.Duration, err error)   // it has ended, or its deadline has
	Waited(took time.Duration, shared bool) // a caller goes; shared: it started no loader
}

// Group is a registry of running loads. It must be made by New.
type Group[K comparable, V any] struct {
	options Options
	idle    chan struct{} // closed once the group is closed and the last loader has returned

	mu     sync.Mutex // guards what follows and what changes in a call, cohort or Run
	calls  map[K]*call[K, V]
	clock  clock[K, V]
	closed bool
}

// call is one run and those who wait for it. A key is taken as long as it has a call.
type call[K comparable, V any] struct {
	Run
	ctx     loadContext[K, V] // knows group and key
	began   time.Time
	cohorts []*cohort[V] // oldest first; none once the run is over
	waiting int          // callers in all cohorts that have not left
	over    error        // what they were told when it was over before its loader had returned
	ended   bool         // the loader has returned

	older, younger *call[K, V] // its neighbours in the clock's line

	// The first cohort and its place in cohorts are part of the call, so that a call without
	// marks is one allocation.
	own   cohort[V]
	place [1]*cohort[V]
}

// cohort is the callers between two marks: they share one fate and one channel.
type cohort[V any] struct {
	ctx  context.Context // of its first caller, for a run that starts on its behalf
	load Loader[V]       // likewise
	live int             // callers that have not left; guarded by Group.mu

	answered bool // val and err are written, once; guarded by Group.mu
	val      V
	err      error
	done     chan struct{} // closed after that, to wake those who wait

	// owed is 1 when a run was started on this cohort's behalf: one of its callers counts
	// as the run's starter, the others as shared.
	owed atomic.Int32
}

// New returns an empty Group.
func New[K comparable, V any](o Options) *Group[K, V] {
	g := &Group[K, V]{options: o, idle: make(chan struct{}), calls: make(map[K]*call[K, V])}
	line := &g.clock.line
	line.older, line.younger = line, line
	return g
}

// Do returns the value that load gives for key, from a run of its own or from one it shares;
// shared is false for the caller whose Do started the first run of the key.
//
// Do returns early, alone, with the cause of ctx when that ends; a result that is ready by
// then wins over the ended context. A context that is dead on entry starts nothing.
//
// Its own errors: ErrBadCall, ErrReentrant, ErrTooManyKeys, ErrTooManyWaiters, ErrDeadline,
// ErrClosed, *PanicError, *GoexitError. Any other is the loader's.
func (g *Group[K, V]) Do(ctx context.Context, key K, load Loader[V]) (v V, shared bool, err error) {
	switch {
	case ctx == nil:
		return v, false, fmt.Errorf("%w: nil context", ErrBadCall)
	case load == nil:
		return v, false, fmt.Errorf("%w: nil loader", ErrBadCall)
	case !equalsItself(key):
		return v, false, fmt.Errorf("%w: a key of type %T that cannot be compared or does not equal itself", ErrBadCall, key)
	case ctx.Err() != nil:
		return v, false, context.Cause(ctx)
	case g.loads(ctx, key):
		return v, false, ErrReentrant
	}
	var came time.Time
	if g.options.Observer != nil {
		came = time.Now()
	}
	co, started, err := g.join(ctx, key, load)
	if err != nil {
		return v, false, err
	}
	if started != nil {
		g.start(started, co)
	}
	v, err = g.wait(ctx, key, co)
	if g.options.Observer != nil {
		g.options.Observer.Waited(time.Since(came), co.owed.Add(-1) < 0)
	}
	return v, started == nil, err
}

// join takes a place among the callers of key. When there were none, it returns the call to
// start, too.
func (g *Group[K, V]) join(ctx context.Context, key K, load Loader[V]) (_ *cohort[V], started *call[K, V], err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, nil, ErrClosed
	}
	if g.options.Observer != nil {
		g.options.Observer.Requested()
	}
	c := g.calls[key]
	if c == nil {
		if g.options.MaxKeys > 0 && len(g.calls) >= g.options.MaxKeys {
			return nil, nil, g.reject("keys", ErrTooManyKeys)
		}
		c = new(call[K, V])
		c.own.begin(ctx, load)
		c.place[0] = &c.own
		g.take(c, key, c.place[:])
		return &c.own, c, nil
	}
	if c.over != nil {
		if g.options.Observer != nil {
			g.options.Observer.Waited(0, true)
		}
		return nil, nil, c.over
	}
	if g.options.MaxWaiters > 0 && c.waiting >= g.options.MaxWaiters {
		return nil, nil, g.reject("waiters", ErrTooManyWaiters)
	}
	c.waiting++
	if c.marked {
		co := new(cohort[V])
		co.begin(ctx, load)
		c.cohorts = append(c.cohorts, co)
		c.count, c.marked = len(c.cohorts), false
		return co, nil, nil
	}
	co := c.cohorts[len(c.cohorts)-1]
	co.live++
	return co, nil, nil
}

// begin makes a cohort of its first caller.
func (co *cohort[V]) begin(ctx context.Context, load Loader[V]) {
	co.ctx, co.load, co.live, co.done = ctx, load, 1, make(chan struct{})
}

func (g *Group[K, V]) reject(reason string, err error) error {
	if g.options.Observer != nil {
		g.options.Observer.Rejected(reason)
	}
	return err
}

// wait waits for the cohort's answer or for the caller's own end.
func (g *Group[K, V]) wait(ctx context.Context, key K, co *cohort[V]) (v V, err error) {
	select {
	case <-co.done:
		return co.val, co.err
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if co.answered { // both were ready: the result wins
		return co.val, co.err
	}
	co.live--
	g.calls[key].waiting-- // a cohort without an answer belongs to the call of its key
	return v, context.Cause(ctx)
}

// Stats is a Group's present load.
type Stats struct {
	Keys          int // loaders that run
	Waiters       int // callers that wait, of all keys
	WaitersPerKey int // callers that wait for the key that has most
}

// Stats counts who waits now. It walks all keys.
func (g *Group[K, V]) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := Stats{Keys: len(g.calls)}
	for _, c := range g.calls {
		s.Waiters += c.waiting
		s.WaitersPerKey = max(s.WaitersPerKey, c.waiting)
	}
	return s
}

// Close refuses new callers, ends the context of every loader, answers all who wait with
// ErrClosed and returns when the last loader has returned. When ctx ends first, the error
// wraps its cause and names keys whose loaders still run, ten at most. Closing again waits again.
func (g *Group[K, V]) Close(ctx context.Context) error {
	var cut []*call[K, V]
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		cut = slices.Collect(maps.Values(g.calls))
		if len(cut) == 0 {
			close(g.idle)
		}
	}
	g.mu.Unlock()
	for _, c := range cut {
		g.abandon(c, endClosed)
	}
	select {
	case <-g.idle:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.calls) == 0 {
		return nil
	}
	keys := slices.Collect(maps.Keys(g.calls))
	return fmt.Errorf("closing: %d loaders still run, of %+v: %w", len(keys), keys[:min(len(keys), 10)], context.Cause(ctx))
}

// equalsItself reports whether key can be found again in a map: an interface may hold
// something that cannot be compared, a float NaN.
func equalsItself[K comparable](key K) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	again := key
	return key == again
}
