package flight_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"alimtalk-syncer/internal/flight"
)

// The model: what a Group is, told without locks, cohorts, goroutines or clocks.

const (
	modelKeys    = 3 // of four
	modelWaiters = 4
	modelTimeout = 10 * time.Millisecond
)

// outcome is what a caller gets.
type outcome struct {
	v   int
	err error
}

// modelRun is a key that is taken.
type modelRun struct {
	number  int
	began   time.Duration
	waiting []int // callers, in the order in which they came
	carried int   // of those who came by now, how many the run began with
	marks   []int // how many had come by then
	came    int   // callers that have come, those that left included
	order   map[int]int
	seal    int   // index into marks, -1 = none
	over    error // told to all before the loader's return
}

type model struct {
	now      time.Duration
	runs     map[string]*modelRun
	begun    int
	closed   bool
	outcomes map[int]outcome // of callers whose call has ended
}

func (m *model) begin(key string, callers ...int) {
	m.begun++
	r := &modelRun{number: m.begun, began: m.now, seal: -1, order: make(map[int]int)}
	for _, c := range callers {
		r.join(c)
	}
	r.carried = len(callers)
	m.runs[key] = r
}

func (r *modelRun) join(caller int) {
	r.order[caller] = r.came
	r.came++
	r.waiting = append(r.waiting, caller)
}

func (m *model) do(caller int, key string) {
	r := m.runs[key]
	switch {
	case m.closed:
		m.outcomes[caller] = outcome{err: flight.ErrClosed}
	case r == nil && len(m.runs) == modelKeys:
		m.outcomes[caller] = outcome{err: flight.ErrTooManyKeys}
	case r == nil:
		m.begin(key, caller)
	case r.over != nil:
		m.outcomes[caller] = outcome{err: r.over}
	case len(r.waiting) == modelWaiters:
		m.outcomes[caller] = outcome{err: flight.ErrTooManyWaiters}
	default:
		r.join(caller)
	}
}

func (m *model) leave(caller int) {
	for _, r := range m.runs {
		if i := slices.Index(r.waiting, caller); i >= 0 {
			r.waiting = slices.Delete(r.waiting, i, i+1)
			m.outcomes[caller] = outcome{err: errLeft}
		}
	}
}

func (m *model) finish(key string, o outcome) {
	r := m.runs[key]
	var late []int
	for _, c := range r.waiting {
		if o.err == nil && r.seal >= 0 && r.order[c] >= max(r.marks[r.seal], r.carried) {
			late = append(late, c)
		} else {
			m.outcomes[c] = o
		}
	}
	delete(m.runs, key)
	if len(late) > 0 {
		m.begin(key, late...)
	}
}

func (m *model) cut(why error, which func(*modelRun) bool) {
	for _, r := range m.runs {
		if r.over == nil && which(r) {
			r.over = why
			for _, c := range r.waiting {
				m.outcomes[c] = outcome{err: why}
			}
			r.waiting = nil
		}
	}
}

func (m *model) pass(d time.Duration) {
	m.now += d
	m.cut(flight.ErrDeadline, func(r *modelRun) bool { return m.now-r.began >= modelTimeout })
}

func (m *model) stats() (s flight.Stats) {
	for _, r := range m.runs {
		s.Keys++
		s.Waiters += len(r.waiting)
		s.WaitersPerKey = max(s.WaitersPerKey, len(r.waiting))
	}
	return s
}

// The real thing beside it.

var (
	errLeft  = errors.New("left")
	errLoad  = errors.New("the load failed")
	errPanic = errors.New("the loader panicked")
	errExit  = errors.New("the loader left")
)

// liveRun is a loader that runs, and does what it is sent.
type liveRun struct {
	key   string
	run   *flight.Run
	ctx   context.Context
	step  chan func() (outcome, bool)
	marks []flight.Mark
}

type machine struct {
	model
	g        *group
	books    *books
	live     map[int]*liveRun // by number
	leaving  map[int]context.CancelCauseFunc
	got      map[int]outcome
	running  map[string]int
	overlaps int
	closing  chan error
}

func newMachine(t *testing.T) *machine {
	m := &machine{
		model: model{runs: make(map[string]*modelRun), outcomes: make(map[int]outcome)},
		books: &books{}, live: make(map[int]*liveRun), leaving: make(map[int]context.CancelCauseFunc),
		got: make(map[int]outcome), running: make(map[string]int), closing: make(chan error, 1),
	}
	m.g = flight.New[string, int](flight.Options{MaxKeys: modelKeys, MaxWaiters: modelWaiters, LoaderTimeout: modelTimeout, Observer: m.books})
	return m
}

// load is a loader. Everything here happens between two synctest.Waits, so nothing is locked:
// one loader at most begins in a step.
func (m *machine) load(key string) flight.Loader[int] {
	return func(ctx context.Context, run *flight.Run) (int, error) {
		if m.running[key]++; m.running[key] > 1 {
			m.overlaps++
		}
		defer func() { m.running[key]-- }()
		l := &liveRun{key: key, run: run, ctx: ctx, step: make(chan func() (outcome, bool))}
		m.live[len(m.live)+1] = l
		for step := range l.step {
			if o, done := step(); done {
				return o.v, o.err
			}
		}
		panic("never closed")
	}
}

// do starts a call of both.
func (m *machine) do(t *rapid.T) {
	key := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key")
	caller := len(m.leaving) + 1
	ctx, cancel := context.WithCancelCause(context.Background())
	m.leaving[caller] = cancel
	if rapid.IntRange(0, 9).Draw(t, "dead on entry if 0") == 0 {
		cancel(errLeft)
		m.outcomes[caller] = outcome{err: errLeft}
	} else {
		m.model.do(caller, key)
	}
	go func() {
		v, _, err := m.g.Do(ctx, key, m.load(key))
		var panicked *flight.PanicError
		var left *flight.GoexitError
		switch {
		case errors.As(err, &panicked) && errors.Is(err, errPanic):
			err = errPanic
		case errors.As(err, &left):
			err = errExit
		}
		m.books.do(func() { m.got[caller] = outcome{v, err} }) // many may end in a step
	}()
}

func (m *machine) cancel(t *rapid.T) {
	if len(m.leaving) == 0 {
		return
	}
	caller := rapid.IntRange(1, len(m.leaving)).Draw(t, "caller")
	m.leaving[caller](errLeft)
	m.model.leave(caller)
}

// pick chooses a key that is taken, and its loader, if there is one.
func (m *machine) pick(t *rapid.T) (string, *modelRun, *liveRun) {
	if len(m.runs) == 0 {
		return "", nil, nil
	}
	key := rapid.SampledFrom(slices.Sorted(maps.Keys(m.runs))).Draw(t, "key")
	return key, m.runs[key], m.live[m.runs[key].number]
}

func (m *machine) mark(t *rapid.T) {
	_, r, l := m.pick(t)
	if r == nil {
		return
	}
	r.marks = append(r.marks, r.came)
	l.step <- func() (outcome, bool) { l.marks = append(l.marks, l.run.Mark()); return outcome{}, false }
}

func (m *machine) seal(t *rapid.T) {
	_, r, l := m.pick(t)
	if r == nil || len(r.marks) == 0 {
		return
	}
	r.seal = rapid.IntRange(0, len(r.marks)-1).Draw(t, "mark")
	l.step <- func() (outcome, bool) { l.run.Seal(l.marks[r.seal]); return outcome{}, false }
}

func (m *machine) reenter(t *rapid.T) {
	key, r, l := m.pick(t)
	if r == nil {
		return
	}
	want := flight.ErrReentrant
	if r.over != nil {
		want = r.over // its context is dead
	}
	got := make(chan error, 1)
	l.step <- func() (outcome, bool) {
		_, _, err := m.g.Do(l.ctx, key, never)
		got <- err
		return outcome{}, false
	}
	if err := <-got; err != want {
		t.Fatalf("a call from inside got %v, want %v", err, want)
	}
}

func (m *machine) finish(t *rapid.T) {
	key, r, l := m.pick(t)
	if r == nil {
		return
	}
	how := rapid.SampledFrom([]string{"value", "value", "value", "error", "panic", "goexit"}).Draw(t, "how")
	o := map[string]outcome{"value": {v: r.number}, "error": {err: errLoad}, "panic": {err: errPanic}, "goexit": {err: errExit}}[how]
	m.model.finish(key, o)
	l.step <- func() (outcome, bool) {
		switch how {
		case "panic":
			panic(fmt.Errorf("wrapped: %w", errPanic))
		case "goexit":
			runtime.Goexit()
		}
		return o, true
	}
}

func (m *machine) pass(t *rapid.T) {
	d := time.Duration(rapid.IntRange(1, 12).Draw(t, "ms")) * time.Millisecond
	m.model.pass(d)
	time.Sleep(d)
}

func (m *machine) close(t *rapid.T) {
	if m.closed || rapid.IntRange(0, 4).Draw(t, "close if 0") > 0 {
		return
	}
	m.shut()
}

func (m *machine) shut() {
	m.closed = true
	m.cut(flight.ErrClosed, func(*modelRun) bool { return true })
	go func() { m.closing <- m.g.Close(context.Background()) }()
}

// check compares the two.
func (m *machine) check(t *rapid.T) {
	synctest.Wait()
	if !maps.Equal(m.got, m.outcomes) {
		t.Fatalf("callers got %v, want %v", m.got, m.outcomes)
	}
	if got, want := m.g.Stats(), m.stats(); got != want {
		t.Fatalf("stats %+v, want %+v", got, want)
	}
	if len(m.live) != m.begun || m.overlaps > 0 {
		t.Fatalf("%d loaders, want %d; %d ran beside another of their key", len(m.live), m.begun, m.overlaps)
	}
	for key, r := range m.runs {
		if cause := context.Cause(m.live[r.number].ctx); cause != r.over {
			t.Fatalf("the loader of %s was told %v, want %v", key, cause, r.over)
		}
	}
}

// Random histories of everything a Group can do come out as the model says.
func TestGroupDoesWhatTheModelSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type noDeadline struct{ *testing.T } // rapid asks a *testing.T for it, which a bubble forbids
		rapid.Check(noDeadline{t}, func(rt *rapid.T) {
			m := newMachine(t)
			defer func() { // also of a history that failed: the bubble waits for its goroutines
				if !m.closed {
					m.shut()
				}
				for _, cancel := range m.leaving {
					cancel(errLeft)
				}
				for _, l := range m.live {
					if m.running[l.key] > 0 {
						select {
						case l.step <- func() (outcome, bool) { return outcome{err: errLoad}, true }:
						default:
						}
						synctest.Wait()
					}
				}
				if err := <-m.closing; err != nil {
					t.Error(err)
				}
				synctest.Wait()
				checkRest(t, m.g.Stats(), m.books)
			}()
			rt.Repeat(map[string]func(*rapid.T){
				"":        m.check,
				"do":      m.do,
				"do ":     m.do, // callers come more often than all else
				"do  ":    m.do,
				"cancel":  m.cancel,
				"mark":    m.mark,
				"seal":    m.seal,
				"reenter": m.reenter,
				"finish":  m.finish,
				"pass":    m.pass,
				"close":   m.close,
			})
		})
	})
}
