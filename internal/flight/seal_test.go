package flight_test

import (
	"context"
	"sync"
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
