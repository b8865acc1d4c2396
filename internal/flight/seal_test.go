package flight_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"alimtalk-syncer/internal/flight"
)

func TestThoseWhoCameAfterTheMarkShareOneFurtherRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := flight.New[string, int](flight.Options{})
		runs := 0
		load := func(_ context.Context, run *flight.Run) (int, error) {
			runs++
			n := runs
			time.Sleep(10 * time.Millisecond)
			run.Seal(run.Mark())
			time.Sleep(10 * time.Millisecond)
			return n, nil
		}
		var all sync.WaitGroup
		for _, c := range []struct {
			came time.Duration
			want int
		}{{0, 1}, {5 * time.Millisecond, 1}, {11 * time.Millisecond, 2}, {19 * time.Millisecond, 2}, {25 * time.Millisecond, 2}} {
			all.Go(func() {
				time.Sleep(c.came)
				v, shared, err := g.Do(t.Context(), "k", load)
				if v != c.want || shared != (c.came > 0) || err != nil {
					t.Errorf("the caller of %v got run %d (shared %v, %v), want run %d", c.came, v, shared, err, c.want)
				}
			})
		}
		all.Wait()
		if runs != 2 || g.Stats() != (flight.Stats{}) {
			t.Errorf("%d runs, left behind %+v", runs, g.Stats())
		}
	})
}

func TestNoFurtherRunWhenAllWhoCameLateHaveLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := flight.New[string, int](flight.Options{})
		runs := 0
		load := func(_ context.Context, run *flight.Run) (int, error) {
			runs++
			run.Seal(run.Mark())
			time.Sleep(20 * time.Millisecond)
			return runs, nil
		}
		var all sync.WaitGroup
		all.Go(func() { _, _, _ = g.Do(t.Context(), "k", load) })
		synctest.Wait()
		late, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		all.Go(func() {
			if _, _, err := g.Do(late, "k", load); err != context.DeadlineExceeded {
				t.Errorf("got %v", err)
			}
		})
		all.Wait()
		if runs != 1 {
			t.Errorf("%d runs, want 1: nobody was left to carry", runs)
		}
	})
}

// stepped is a loader whose runs are finished by hand: each takes what it does from a channel.
type stepped struct {
	runs int
	step chan func(run *flight.Run) (v int, err error, done bool)
}

func (s *stepped) load(_ context.Context, run *flight.Run) (int, error) {
	s.runs++
	for step := range s.step {
		if v, err, done := step(run); done {
			return v, err
		}
	}
	return 0, nil
}

// do has the loader that runs do something and go on.
func (s *stepped) do(f func(run *flight.Run)) {
	s.step <- func(run *flight.Run) (int, error, bool) { f(run); return 0, nil, false }
	synctest.Wait()
}

func (s *stepped) end(v int, err error) {
	s.step <- func(*flight.Run) (int, error, bool) { return v, err, true }
	synctest.Wait()
}

func newStepped() *stepped {
	return &stepped{step: make(chan func(*flight.Run) (int, error, bool))}
}

func want(t *testing.T, who string, c <-chan answer, v int, err error) {
	t.Helper()
	select {
	case a := <-c:
		if a.v != v || a.err != err {
			t.Errorf("%s got %d, %v, want %d, %v", who, a.v, a.err, v, err)
		}
	default:
		t.Errorf("%s still waits", who)
	}
}

func waits(t *testing.T, who string, c <-chan answer) {
	t.Helper()
	select {
	case a := <-c:
		t.Errorf("%s got %+v, and should wait", who, a)
	default:
	}
}

func TestCarryingIsOneStepWithTheKeyTakenThroughout(t *testing.T) {
	bubble(t, flight.Options{MaxKeys: 1}, func(t *testing.T, g *group, _ *books) {
		s := newStepped()
		early := call(t.Context(), g, "k", s.load)
		s.do(func(run *flight.Run) { run.Seal(run.Mark()) })
		late := call(t.Context(), g, "k", s.load)
		s.end(1, nil)
		want(t, "the one before the mark", early, 1, nil)
		waits(t, "the one after it", late)
		if st := g.Stats(); st != (flight.Stats{Keys: 1, Waiters: 1, WaitersPerKey: 1}) || s.runs != 2 {
			t.Errorf("%+v in run %d", st, s.runs)
		}
		if a := <-call(t.Context(), g, "other", never); a.err != flight.ErrTooManyKeys {
			t.Errorf("the key was free: %+v", a)
		}
		s.end(2, nil)
		want(t, "the one after it", late, 2, nil)
	})
}

func TestSealSplitsAtTheMarkThatItNames(t *testing.T) {
	for _, c := range []struct {
		seal   int // which of the marks, counted from 0; -1 = no seal
		served int // how many of the callers get the first result
	}{{0, 1}, {1, 3}, {2, 3}, {3, 4}, {-1, 5}} {
		bubble(t, flight.Options{}, func(t *testing.T, g *group, _ *books) {
			s := newStepped()
			var calls []<-chan answer
			var marks []flight.Mark
			come := func() { calls = append(calls, call(t.Context(), g, "k", s.load)) }
			mark := func() { s.do(func(run *flight.Run) { marks = append(marks, run.Mark()) }) }
			come()
			mark()
			come()
			come()
			mark()
			mark() // nobody came between
			come()
			mark()
			come()
			if c.seal >= 0 {
				s.do(func(run *flight.Run) { run.Seal(marks[0]); run.Seal(marks[c.seal]) }) // the last one counts
			}
			s.end(1, nil)
			for i, call := range calls {
				if i < c.served {
					want(t, "one before the mark", call, 1, nil)
				} else {
					waits(t, "one after the mark", call)
				}
			}
			if c.served == len(calls) {
				return
			}
			s.end(2, nil)
			for _, call := range calls[c.served:] {
				want(t, "one that was carried", call, 2, nil)
			}
			if s.runs != 2 {
				t.Errorf("%d runs", s.runs)
			}
		})
	}
}

func TestFailureGoesToAllAlsoWhenSealed(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, _ *books) {
		s, failure := newStepped(), errors.New("SureM is away")
		early := call(t.Context(), g, "k", s.load)
		s.do(func(run *flight.Run) { run.Seal(run.Mark()) })
		late := call(t.Context(), g, "k", s.load)
		s.end(0, failure)
		want(t, "the one before the mark", early, 0, failure)
		want(t, "the one after it", late, 0, failure)
	})
}

func TestFurtherRunStandsForOneWhoIsStillThere(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, _ *books) {
		s := newStepped()
		early := call(t.Context(), g, "k", s.load)
		s.do(func(run *flight.Run) { run.Seal(run.Mark()) })
		left, leave := context.WithCancel(context.WithValue(t.Context(), traceKey{}, "left"))
		gone := call(left, g, "k", never)
		s.do(func(run *flight.Run) { run.Mark() })
		stayed := call(context.WithValue(t.Context(), traceKey{}, "stayed"), g, "k", func(ctx context.Context, run *flight.Run) (int, error) {
			if ctx.Value(traceKey{}) != "stayed" || ctx.Err() != nil {
				t.Errorf("run for %v, %v", ctx.Value(traceKey{}), ctx.Err())
			}
			return s.load(ctx, run)
		})
		leave()
		synctest.Wait()
		want(t, "the one that left", gone, 0, context.Canceled)
		s.end(1, nil)
		want(t, "the one before the mark", early, 1, nil)
		s.end(2, nil)
		want(t, "the one that stayed", stayed, 2, nil)
	})
}

// Also when a loader seals with a mark of an earlier run, or with none at all.
func TestNobodyIsCarriedTwice(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, _ *books) {
		s := newStepped()
		var first flight.Mark
		early := call(t.Context(), g, "k", s.load)
		s.do(func(run *flight.Run) { first = run.Mark(); run.Seal(first) })
		a := call(t.Context(), g, "k", s.load)
		s.do(func(run *flight.Run) { run.Mark() })
		b := call(t.Context(), g, "k", s.load)
		s.end(1, nil)
		want(t, "the first", early, 1, nil)
		s.do(func(run *flight.Run) { run.Mark() })
		c := call(t.Context(), g, "k", s.load)
		s.do(func(run *flight.Run) { run.Seal(first - 1) })
		s.end(2, nil)
		want(t, "one that was carried", a, 2, nil)
		want(t, "another that was carried", b, 2, nil)
		waits(t, "one that came in the further run", c)
		s.end(3, nil)
		want(t, "one that came in the further run", c, 3, nil)
	})
}

// joining is a context that tells when its caller has taken its place.
type joining struct {
	context.Context
	joined func()
}

func (c joining) Done() <-chan struct{} {
	c.joined()
	return c.Context.Done()
}

func TestSealingUnder64CallersInATightLoop(t *testing.T) {
	const rounds = 500
	b := &books{}
	g := flight.New[string, [2]int64](flight.Options{Observer: b})
	// What is loaded has a version that any caller may raise before it comes; the result may
	// not be older.
	var version, runs, running atomic.Int64
	load := func(_ context.Context, run *flight.Run) ([2]int64, error) {
		if running.Add(1) != 1 {
			t.Error("two loaders at a time")
		}
		defer running.Add(-1)
		n := runs.Add(1)
		good := run.Mark()
		v := version.Load()
		runtime.Gosched()
		if n%2 == 0 { // a second look, as after a store that was accepted
			good = run.Mark()
			v = version.Load()
			runtime.Gosched()
		}
		run.Seal(good)
		return [2]int64{v, n}, nil
	}
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for n := range rounds {
				if (i+n)%7 == 0 {
					version.Add(1)
				}
				allowed, joined := version.Load(), int64(0)
				ctx := joining{t.Context(), func() { joined = runs.Load() }}
				got, _, err := g.Do(ctx, "k", load)
				switch {
				case err != nil:
					t.Errorf("got %v", err)
				case got[0] < allowed:
					t.Errorf("got version %d, and %d was there before the call", got[0], allowed)
				case got[1] > joined+1: // the run it joined was that or the next, and in the next it came before the mark
					t.Errorf("got the result of run %d, having joined in run %d at the latest", got[1], joined)
				}
			}
		})
	}
	all.Wait()
	if err := g.Close(t.Context()); err != nil || runs.Load() >= 64*rounds {
		t.Errorf("%v after %d runs of %d calls", err, runs.Load(), 64*rounds)
	}
	for len(b.loadedSoFar()) < b.count().started { // the last report comes after the last answer
		runtime.Gosched()
	}
	checkRest(t, g.Stats(), b)
}
