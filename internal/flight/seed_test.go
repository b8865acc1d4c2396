package flight_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"alimtalk-syncer/internal/flight"
)

// The four tests of the single-flight seed document.

func TestSameKeyAtOnceLoadsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := flight.New[string, string](flight.Options{})
		var loads atomic.Int32
		load := func(context.Context, *flight.Run) (string, error) {
			loads.Add(1)
			time.Sleep(20 * time.Millisecond)
			return "product-42", nil
		}
		var all sync.WaitGroup
		var starters atomic.Int32
		for range 50 {
			all.Go(func() {
				v, shared, err := g.Do(t.Context(), "product-42", load)
				if v != "product-42" || err != nil {
					t.Errorf("got %q, %v", v, err)
				}
				if !shared {
					starters.Add(1)
				}
			})
		}
		all.Wait()
		if loads.Load() != 1 || starters.Load() != 1 {
			t.Errorf("%d loads, %d starters, want 1 and 1", loads.Load(), starters.Load())
		}
		if s := g.Stats(); s != (flight.Stats{}) {
			t.Errorf("left behind: %+v", s)
		}
	})
}

func TestDifferentKeysLoadSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := flight.New[string, string](flight.Options{})
		began := time.Now()
		var all sync.WaitGroup
		for _, key := range []string{"product-42", "product-77"} {
			all.Go(func() {
				v, shared, err := g.Do(t.Context(), key, func(context.Context, *flight.Run) (string, error) {
					time.Sleep(10 * time.Millisecond)
					return "value of " + key, nil
				})
				if v != "value of "+key || shared || err != nil {
					t.Errorf("%s: got %q, shared %v, %v", key, v, shared, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != 10*time.Millisecond {
			t.Errorf("two loads of 10ms took %v: one waited for the other", took)
		}
	})
}

func TestFailureIsForgotten(t *testing.T) {
	g := flight.New[string, string](flight.Options{})
	temporary := errors.New("temporary failure")
	_, _, err := g.Do(t.Context(), "product-42", func(context.Context, *flight.Run) (string, error) { return "", temporary })
	if !errors.Is(err, temporary) {
		t.Fatalf("got %v", err)
	}
	v, _, err := g.Do(t.Context(), "product-42", func(context.Context, *flight.Run) (string, error) { return "recovered", nil })
	if v != "recovered" || err != nil {
		t.Fatalf("got %q, %v", v, err)
	}
}

func TestCancelledWaiterTakesNobodyWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := flight.New[string, string](flight.Options{})
		gone := errors.New("caller disconnected")
		ctx, cancel := context.WithCancelCause(t.Context())
		var loads atomic.Int32
		load := func(ctx context.Context, _ *flight.Run) (string, error) {
			loads.Add(1)
			select {
			case <-time.After(30 * time.Millisecond):
				return "shared-result", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		var all sync.WaitGroup
		all.Go(func() {
			if _, _, err := g.Do(ctx, "product-42", load); !errors.Is(err, gone) {
				t.Errorf("the one that left got %v", err)
			}
		})
		synctest.Wait() // it has started the load
		all.Go(func() {
			if v, _, err := g.Do(t.Context(), "product-42", load); v != "shared-result" || err != nil {
				t.Errorf("the one that stayed got %q, %v", v, err)
			}
		})
		synctest.Wait()
		cancel(gone)
		all.Wait()
		if loads.Load() != 1 {
			t.Errorf("%d loads, want 1", loads.Load())
		}
	})
}
