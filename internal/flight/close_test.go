package flight_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"alimtalk-syncer/internal/flight"
)

func TestCloseRefusesCancelsAndDrains(t *testing.T) {
	bubble(t, flight.Options{LoaderTimeout: time.Minute}, func(t *testing.T, g *group, _ *books) {
		slow := func(ctx context.Context, _ *flight.Run) (int, error) {
			<-ctx.Done()
			if ctx.Err() != context.Canceled || context.Cause(ctx) != flight.ErrClosed {
				t.Errorf("the loader was told %v, %v", ctx.Err(), context.Cause(ctx))
			}
			time.Sleep(time.Second) // it tidies up
			return 1, nil
		}
		calls := []<-chan answer{call(t.Context(), g, "a", slow), call(t.Context(), g, "a", never), call(t.Context(), g, "b", slow)}
		time.Sleep(time.Second)
		began := time.Now()
		closed := make(chan error, 2)
		for range 2 { // whoever closes waits for the end
			go func() { closed <- g.Close(t.Context()) }()
		}
		synctest.Wait()
		for _, c := range calls {
			if a := <-c; a.err != flight.ErrClosed || a.at != time.Second {
				t.Errorf("who waited got %+v", a)
			}
		}
		for _, key := range []string{"a", "c"} {
			if a := <-call(t.Context(), g, key, never); a.err != flight.ErrClosed || a.at != 0 {
				t.Errorf("who came after it got %+v", a)
			}
		}
		for range 2 {
			if err := <-closed; err != nil || time.Since(began) != time.Second {
				t.Errorf("Close ended with %v after %v, the loaders after a second", err, time.Since(began))
			}
		}
		if err := g.Close(t.Context()); err != nil || time.Since(began) != time.Second {
			t.Errorf("closing again: %v after %v", err, time.Since(began))
		}
	})
}

func TestCloseOfAnIdleGroupIsImmediate(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, _ *books) {
		dead, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 {
			if err := g.Close(dead); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestCloseEndsWithItsContextAndNamesWhatStillRuns(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, _ *books) {
		call(t.Context(), g, "stubborn", after(time.Minute, 1))
		call(t.Context(), g, "brief", after(time.Millisecond, 1))
		enough := errors.New("the grace time is over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, enough)
		defer cancel()
		began := time.Now()
		err := g.Close(ctx)
		if !errors.Is(err, enough) || time.Since(began) != time.Second {
			t.Fatalf("got %v after %v", err, time.Since(began))
		}
		if !strings.Contains(err.Error(), "stubborn") || strings.Contains(err.Error(), "brief") {
			t.Errorf("it should name the one that runs: %v", err)
		}
		if err := g.Close(t.Context()); err != nil || time.Since(began) != time.Minute {
			t.Errorf("closing again: %v after %v", err, time.Since(began))
		}
	})
}

func TestCloseWaitsForALoaderThatIsOverdue(t *testing.T) {
	bubble(t, flight.Options{LoaderTimeout: time.Second}, func(t *testing.T, g *group, b *books) {
		call(t.Context(), g, "k", after(time.Minute, 1))
		time.Sleep(2 * time.Second)
		began := time.Now()
		if err := g.Close(t.Context()); err != nil || time.Since(began) != 58*time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		synctest.Wait()
		if len(b.loaded) != 1 || b.loaded[0] != flight.ErrDeadline {
			t.Errorf("reported: %v", b.loaded)
		}
	})
}

// stalling is an Observer that holds up whoever cuts off the first loader: the clock, or Close.
type stalling struct {
	books
	at      error
	stalled chan struct{}
}

func (s *stalling) Loaded(took time.Duration, err error) {
	s.books.Loaded(took, err)
	if err == s.at && len(s.loadedSoFar()) == 1 {
		<-s.stalled
	}
}

// A load that ends well after the group was closed, before Close has come to it, answers
// those whom its result is for and begins no further run for the others.
func TestCloseCarriesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &stalling{at: flight.ErrClosed, stalled: make(chan struct{})}
		g := flight.New[string, int](flight.Options{Observer: b})
		finish := make(chan struct{})
		load := func(_ context.Context, run *flight.Run) (int, error) {
			run.Seal(run.Mark())
			<-finish
			return 1, nil
		}
		early, late := make(map[string]<-chan answer), make(map[string]<-chan answer)
		for _, key := range []string{"a", "b"} {
			early[key], late[key] = call(t.Context(), g, key, load), call(t.Context(), g, key, load)
		}
		closed := make(chan error, 1)
		go func() { closed <- g.Close(t.Context()) }()
		synctest.Wait() // Close has cut one off and not come to the other
		close(finish)
		synctest.Wait()
		cut := 0
		for key := range early {
			e, l := <-early[key], <-late[key]
			if l.err != flight.ErrClosed {
				t.Errorf("%s: who came after the mark got %+v", key, l)
			}
			if e.err == flight.ErrClosed {
				cut++
			} else if e.v != 1 || e.err != nil {
				t.Errorf("%s: who came before the mark got %+v", key, e)
			}
		}
		if cut != 1 {
			t.Errorf("%d of 2 were cut off before they ended, want 1", cut)
		}
		close(b.stalled)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		checkRest(t, g.Stats(), &b.books)
	})
}
