package flight_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"alimtalk-syncer/internal/flight"
)

func TestKeysCapAtItsEdge(t *testing.T) {
	bubble(t, flight.Options{MaxKeys: 2}, func(t *testing.T, g *group, b *books) {
		one := call(t.Context(), g, "one", after(time.Second, 1))
		two := call(t.Context(), g, "two", after(2*time.Second, 2))
		if a := <-call(t.Context(), g, "three", never); a.err != flight.ErrTooManyKeys || a.at != 0 {
			t.Errorf("one key too many: %+v", a)
		}
		joined := call(t.Context(), g, "one", never) // who takes no key of his own is welcome
		for _, c := range []<-chan answer{one, joined} {
			if a := <-c; a.v != 1 || a.err != nil {
				t.Errorf("got %+v", a)
			}
		}
		synctest.Wait()
		if a := <-call(t.Context(), g, "three", after(0, 3)); a.v != 3 || a.err != nil {
			t.Errorf("with a key free again: %+v", a)
		}
		<-two
		if b.rejected["keys"] != 1 {
			t.Errorf("rejected: %v", b.rejected)
		}
	})
}

func TestWaitersCapAtItsEdge(t *testing.T) {
	bubble(t, flight.Options{MaxWaiters: 3}, func(t *testing.T, g *group, b *books) {
		leaving, cancel := context.WithCancel(t.Context())
		starter, follower := call(t.Context(), g, "k", after(time.Second, 1)), call(t.Context(), g, "k", never)
		left := call(leaving, g, "k", never)
		if a := <-call(t.Context(), g, "k", never); a.err != flight.ErrTooManyWaiters || a.at != 0 {
			t.Errorf("one waiter too many: %+v", a)
		}
		if a := <-call(t.Context(), g, "other", after(0, 2)); a.err != nil {
			t.Errorf("another key: %+v", a)
		}
		cancel()
		<-left
		newcomer := call(t.Context(), g, "k", never) // takes the place of the one that left
		for _, c := range []<-chan answer{starter, follower, newcomer} {
			if a := <-c; a.v != 1 || a.err != nil {
				t.Errorf("got %+v", a)
			}
		}
		if b.rejected["waiters"] != 1 {
			t.Errorf("rejected: %v", b.rejected)
		}
	})
}

// Those that are carried still count.
func TestWaitersCapHoldsAcrossASeal(t *testing.T) {
	bubble(t, flight.Options{MaxWaiters: 3}, func(t *testing.T, g *group, _ *books) {
		load := func(_ context.Context, run *flight.Run) (int, error) {
			run.Seal(run.Mark())
			time.Sleep(time.Second)
			return 1, nil
		}
		first := call(t.Context(), g, "k", load)
		call(t.Context(), g, "k", load)
		call(t.Context(), g, "k", load)
		if a := <-call(t.Context(), g, "k", never); a.err != flight.ErrTooManyWaiters {
			t.Errorf("before the carrying: %+v", a)
		}
		<-first
		synctest.Wait()
		if s := g.Stats(); s.Waiters != 2 {
			t.Errorf("carried: %+v", s)
		}
		call(t.Context(), g, "k", load)
		if a := <-call(t.Context(), g, "k", never); a.err != flight.ErrTooManyWaiters {
			t.Errorf("after the carrying: %+v", a)
		}
		time.Sleep(time.Minute)
	})
}

func TestCapsHoldUnderLoad(t *testing.T) {
	const maxKeys, maxWaiters = 3, 5
	b := &books{}
	g := flight.New[int, int](flight.Options{MaxKeys: maxKeys, MaxWaiters: maxWaiters, Observer: b})
	var loaders, full, crowded, served atomic.Int32
	load := func(context.Context, *flight.Run) (int, error) {
		if n := loaders.Add(1); n > maxKeys {
			t.Errorf("%d loaders at a time", n)
		}
		defer loaders.Add(-1)
		for range 3 {
			runtime.Gosched()
		}
		if s := g.Stats(); s.Keys > maxKeys || s.WaitersPerKey > maxWaiters {
			t.Errorf("too many: %+v", s)
		}
		return 1, nil
	}
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for n := range 300 {
				switch v, _, err := g.Do(t.Context(), (i+n)%5, load); {
				case err == nil && v == 1:
					served.Add(1)
				case err == flight.ErrTooManyKeys:
					full.Add(1)
				case err == flight.ErrTooManyWaiters:
					crowded.Add(1)
				default:
					t.Errorf("got %d, %v", v, err)
				}
			}
		})
	}
	all.Wait()
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for len(b.loadedSoFar()) < b.count().started { // the last report comes after the last answer
		runtime.Gosched()
	}
	checkRest(t, g.Stats(), b)
	if full.Load() == 0 || crowded.Load() == 0 || served.Load() == 0 {
		t.Errorf("served %d, too many keys %d, too many waiters %d: the edges were not met", served.Load(), full.Load(), crowded.Load())
	}
}

func TestDeadlineAnswersThoseWhoWaitForALoaderThatIgnoresIt(t *testing.T) {
	bubble(t, flight.Options{LoaderTimeout: time.Second}, func(t *testing.T, g *group, b *books) {
		starter := call(t.Context(), g, "k", after(5*time.Second, 1))
		time.Sleep(time.Second / 4)
		follower := call(t.Context(), g, "k", never)
		if a := <-starter; a.err != flight.ErrDeadline || a.at != time.Second {
			t.Errorf("the starter got %+v", a)
		}
		if a := <-follower; a.err != flight.ErrDeadline || a.at != 3*time.Second/4 {
			t.Errorf("the follower got %+v", a)
		}
		synctest.Wait()
		if s := g.Stats(); s != (flight.Stats{Keys: 1}) {
			t.Errorf("the key should stay taken, with nobody waiting: %+v", s)
		}
		time.Sleep(time.Second)
		if a := <-call(t.Context(), g, "k", never); a.err != flight.ErrDeadline || a.at != 0 {
			t.Errorf("who came while the loader went on got %+v", a)
		}
		time.Sleep(3 * time.Second) // it returns
		synctest.Wait()
		if a := <-call(t.Context(), g, "k", after(0, 2)); a.v != 2 || a.err != nil {
			t.Errorf("who came after its return got %+v", a)
		}
		if len(b.loaded) != 2 || b.loaded[0] != flight.ErrDeadline || b.took[0] != time.Second || b.loaded[1] != nil {
			t.Errorf("reported: %v after %v", b.loaded, b.took)
		}
	})
}

func TestDeadlineIsWhatIsReportedOfALoaderThatHeedsIt(t *testing.T) {
	for name, wait := range map[string]func(context.Context) error{
		"by its context": func(ctx context.Context) error { <-ctx.Done(); return errors.New("I gave up") },
		"by its own watch": func(ctx context.Context) error {
			deadline, _ := ctx.Deadline()
			time.Sleep(time.Until(deadline))
			return errors.New("i/o timeout")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, flight.Options{LoaderTimeout: time.Second}, func(t *testing.T, g *group, b *books) {
				a := <-call(t.Context(), g, "k", func(ctx context.Context, _ *flight.Run) (int, error) { return 0, wait(ctx) })
				if a.err != flight.ErrDeadline || a.at != time.Second {
					t.Errorf("got %+v", a)
				}
				synctest.Wait()
				if len(b.loaded) != 1 || b.loaded[0] != flight.ErrDeadline {
					t.Errorf("reported: %v", b.loaded)
				}
			})
		})
	}
}

func TestValueThatComesBeforeTheDeadlineCounts(t *testing.T) {
	bubble(t, flight.Options{LoaderTimeout: time.Second}, func(t *testing.T, g *group, _ *books) {
		for range 3 { // the group's clock goes on from run to run
			if a := <-call(t.Context(), g, "k", after(time.Second-1, 1)); a.v != 1 || a.err != nil {
				t.Errorf("got %+v", a)
			}
			synctest.Wait()
		}
	})
}

func TestEveryRunHasItsOwnDeadline(t *testing.T) {
	bubble(t, flight.Options{LoaderTimeout: time.Second}, func(t *testing.T, g *group, _ *books) {
		var calls []<-chan answer
		length := func(i int) time.Duration { // some end early, first, middle and last ones among them
			if i%3 == 0 || i == 7 {
				return time.Duration(100+300*(i%2)) * time.Millisecond
			}
			return time.Minute
		}
		for i := range 12 {
			calls = append(calls, call(t.Context(), g, fmt.Sprint(i), after(length(i), i)))
			time.Sleep(time.Duration(i%4) * 50 * time.Millisecond) // some at the same moment
		}
		for i, c := range calls {
			a := <-c
			if want := length(i); want < time.Second && (a.v != i || a.err != nil || a.at != want) {
				t.Errorf("%d: got %+v, want its value after %v", i, a, want)
			} else if want > time.Second && (a.err != flight.ErrDeadline || a.at != time.Second) {
				t.Errorf("%d: got %+v, want the deadline after a second", i, a)
			}
		}
		time.Sleep(time.Minute)
	})
}

func TestFurtherRunHasADeadlineOfItsOwn(t *testing.T) {
	bubble(t, flight.Options{LoaderTimeout: time.Second}, func(t *testing.T, g *group, _ *books) {
		load := func(_ context.Context, run *flight.Run) (int, error) {
			run.Seal(run.Mark())
			time.Sleep(900 * time.Millisecond)
			return 1, nil
		}
		call(t.Context(), g, "k", load)
		if a := <-call(t.Context(), g, "k", load); a.v != 1 || a.err != nil || a.at != 1800*time.Millisecond {
			t.Errorf("the one that was carried got %+v", a)
		}

		first, runs := time.Now(), 0
		stubborn := func(_ context.Context, run *flight.Run) (int, error) {
			run.Seal(run.Mark())
			if runs++; runs == 1 {
				time.Sleep(900 * time.Millisecond)
			} else {
				time.Sleep(time.Minute)
			}
			return 1, nil
		}
		call(t.Context(), g, "k", stubborn)
		if a := <-call(t.Context(), g, "k", stubborn); a.err != flight.ErrDeadline || time.Since(first) != 1900*time.Millisecond {
			t.Errorf("the one that was carried into a run that hangs got %+v", a)
		}
		time.Sleep(time.Minute)
	})
}

// A loader may notice its deadline before the group has come to it.
func TestErrorAfterTheDeadlineIsErrDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &stalling{at: flight.ErrDeadline, stalled: make(chan struct{})}
		g := flight.New[string, int](flight.Options{LoaderTimeout: time.Second, Observer: b})
		first := call(t.Context(), g, "one that holds up the clock", after(time.Minute, 1))
		second := call(t.Context(), g, "k", func(context.Context, *flight.Run) (int, error) {
			time.Sleep(time.Second + 1)
			return 0, errors.New("i/o timeout")
		})
		if a := <-second; a.err != flight.ErrDeadline || a.at != time.Second+1 {
			t.Errorf("got %+v", a)
		}
		close(b.stalled)
		if a := <-first; a.err != flight.ErrDeadline {
			t.Errorf("got %+v", a)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		checkRest(t, g.Stats(), &b.books)
	})
}

func TestNothingIsKeptOfARunThatHasEnded(t *testing.T) {
	g := flight.New[string, int](flight.Options{LoaderTimeout: time.Hour})
	defer func() { _ = g.Close(t.Context()) }()
	load := func() weak.Pointer[[1 << 10]int] {
		document := new([1 << 10]int)
		_, _, _ = g.Do(t.Context(), "k", func(context.Context, *flight.Run) (int, error) { return document[0], nil })
		return weak.Make(document)
	}
	kept := load()
	for began := time.Now(); kept.Value() != nil; runtime.GC() {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the group still holds the loader")
		}
	}
}
