package flight_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"alimtalk-syncer/internal/flight"
)

// No test of this package leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// books is an Observer that writes everything down.
type books struct {
	mu                                   sync.Mutex
	requested, started, starters, shared int
	rejected                             map[string]int
	loaded                               []error
	took                                 []time.Duration
}

func (b *books) Requested() { b.do(func() { b.requested++ }) }
func (b *books) Started()   { b.do(func() { b.started++ }) }
func (b *books) Rejected(reason string) {
	b.do(func() {
		if b.rejected == nil {
			b.rejected = make(map[string]int)
		}
		b.rejected[reason]++
	})
}
func (b *books) Loaded(took time.Duration, err error) {
	b.do(func() { b.loaded, b.took = append(b.loaded, err), append(b.took, took) })
}
func (b *books) Waited(_ time.Duration, shared bool) {
	b.do(func() {
		if shared {
			b.shared++
		} else {
			b.starters++
		}
	})
}
func (b *books) loadedSoFar() (all []error) {
	b.do(func() { all = slices.Clone(b.loaded) })
	return all
}
func (b *books) do(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// count is what the books say: callers that came, loaders that started, callers that shared,
// callers that were turned away.
type count struct{ requested, started, shared, rejected int }

func (b *books) count() count {
	b.mu.Lock()
	defer b.mu.Unlock()
	return count{b.requested, b.started, b.shared, b.rejected["keys"] + b.rejected["waiters"]}
}

// checkRest fails the test unless the books balance (contract §7) and nothing is left.
func checkRest(t testing.TB, stats flight.Stats, b *books) {
	t.Helper()
	c := b.count()
	if c.requested != c.started+c.shared+c.rejected {
		t.Errorf("requests %d ≠ started %d + shared %d + rejected %d", c.requested, c.started, c.shared, c.rejected)
	}
	if b.starters != b.started || len(b.loaded) != b.started {
		t.Errorf("%d loaders started, %d callers count as starters, %d ends", b.started, b.starters, len(b.loaded))
	}
	if stats != (flight.Stats{}) {
		t.Errorf("left behind: %+v", stats)
	}
}

type group = flight.Group[string, int]

// bubble runs a test in a synctest bubble; when it is done the books must balance and the
// group be empty, whatever the test was about.
func bubble(t *testing.T, o flight.Options, test func(t *testing.T, g *group, b *books)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &books{}
		o.Observer = b
		g := flight.New[string, int](o)
		test(t, g, b)
		synctest.Wait()
		checkRest(t, g.Stats(), b)
	})
}

// answer is what a call of Do came back with, and when.
type answer struct {
	v      int
	shared bool
	err    error
	at     time.Duration // since the call
}

// call calls Do in a goroutine. It returns when the call waits or has its answer, which the
// channel then gives.
func call(ctx context.Context, g *group, key string, load flight.Loader[int]) <-chan answer {
	got := make(chan answer, 1)
	began := time.Now()
	go func() {
		v, shared, err := g.Do(ctx, key, load)
		got <- answer{v, shared, err, time.Since(began)}
	}()
	synctest.Wait()
	return got
}

// after loads v in the given time, and does not look at its context.
func after(d time.Duration, v int) flight.Loader[int] {
	return func(context.Context, *flight.Run) (int, error) {
		time.Sleep(d)
		return v, nil
	}
}

func never(context.Context, *flight.Run) (int, error) { panic("this loader must not run") }

func TestBooksBalance(t *testing.T) {
	const step = 10 * time.Millisecond
	sealing := func(_ context.Context, run *flight.Run) (int, error) {
		run.Seal(run.Mark())
		time.Sleep(step)
		return 1, nil
	}
	leaving := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), step/2)
		t.Cleanup(cancel)
		return ctx
	}
	for name, c := range map[string]struct {
		scene func(t *testing.T, g *group)
		want  count
	}{
		"one alone": {func(t *testing.T, g *group) {
			call(t.Context(), g, "k", after(step, 1))
		}, count{1, 1, 0, 0}},
		"three share": {func(t *testing.T, g *group) {
			for range 3 {
				call(t.Context(), g, "k", after(step, 1))
			}
		}, count{3, 1, 2, 0}},
		"two carried": {func(t *testing.T, g *group) {
			for range 3 {
				call(t.Context(), g, "k", sealing)
			}
		}, count{3, 2, 1, 0}},
		"carried, after one of them has left": {func(t *testing.T, g *group) {
			call(t.Context(), g, "k", sealing)
			call(leaving(t), g, "k", sealing)
			call(t.Context(), g, "k", sealing)
		}, count{3, 2, 1, 0}},
		"carried, then all leave": {func(t *testing.T, g *group) {
			call(t.Context(), g, "k", sealing)
			ctx, cancel := context.WithTimeout(t.Context(), step*3/2)
			t.Cleanup(cancel)
			call(ctx, g, "k", sealing)
			call(ctx, g, "k", sealing)
		}, count{3, 2, 1, 0}},
		"all late ones gone": {func(t *testing.T, g *group) {
			call(t.Context(), g, "k", sealing)
			call(leaving(t), g, "k", sealing)
			call(leaving(t), g, "k", sealing)
		}, count{3, 1, 2, 0}},
		"starter cancelled": {func(t *testing.T, g *group) {
			call(leaving(t), g, "k", after(step, 1))
			call(t.Context(), g, "k", after(step, 1))
		}, count{2, 1, 1, 0}},
		"everybody cancelled": {func(t *testing.T, g *group) {
			call(leaving(t), g, "k", after(step, 1))
			call(leaving(t), g, "k", after(step, 1))
		}, count{2, 1, 1, 0}},
		"overdue key": {func(t *testing.T, g *group) {
			call(t.Context(), g, "k", after(200*step, 1))
			time.Sleep(101 * step)
			call(t.Context(), g, "k", never)
			call(t.Context(), g, "k", never)
		}, count{3, 1, 2, 0}},
		"too many waiters": {func(t *testing.T, g *group) {
			for range 5 {
				call(t.Context(), g, "k", after(step, 1))
			}
		}, count{5, 1, 2, 2}},
		"too many keys": {func(t *testing.T, g *group) {
			for _, key := range []string{"a", "b", "c", "d"} {
				call(t.Context(), g, key, after(step, 1))
			}
		}, count{4, 2, 0, 2}},
		"panic": {func(t *testing.T, g *group) {
			call(t.Context(), g, "k", never)
		}, count{1, 1, 0, 0}},
		"turned away before they count": {func(t *testing.T, g *group) {
			dead, cancel := context.WithCancel(t.Context())
			cancel()
			call(dead, g, "k", never)
			call(t.Context(), g, "k", nil)
		}, count{}},
		"closed while they wait": {func(t *testing.T, g *group) {
			call(t.Context(), g, "k", sealing)
			call(t.Context(), g, "k", sealing)
			_ = g.Close(t.Context())
			call(t.Context(), g, "k", never)
		}, count{2, 1, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, flight.Options{MaxKeys: 2, MaxWaiters: 3, LoaderTimeout: 100 * step}, func(t *testing.T, g *group, b *books) {
				c.scene(t, g)
				time.Sleep(time.Minute)
				if got := b.count(); got != c.want {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
			})
		})
	}
}

func TestPanicWithNobodyWaitingIsReported(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, b *books) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		call(ctx, g, "k", func(context.Context, *flight.Run) (int, error) {
			time.Sleep(2 * time.Millisecond)
			panic("nobody is here")
		})
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		var panicked *flight.PanicError
		if !slices.ContainsFunc(b.loaded, func(err error) bool { return errors.As(err, &panicked) && panicked.Value == "nobody is here" }) {
			t.Errorf("the observer heard %v", b.loaded)
		}
	})
}
