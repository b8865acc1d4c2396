package flight_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"alimtalk-syncer/internal/flight"
)

type traceKey struct{}

func TestLoaderHasItsStartersValuesAndNotItsEnd(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, _ *books) {
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), traceKey{}, "trace 1"), time.Second)
		defer cancel()
		var loaded context.Context
		ended := make(chan struct{})
		call(ctx, g, "k", func(ctx context.Context, _ *flight.Run) (int, error) {
			defer close(ended)
			loaded = ctx
			time.Sleep(2 * time.Second)
			_, limited := ctx.Deadline()
			if limited || ctx.Err() != nil || context.Cause(ctx) != nil || ctx.Value(traceKey{}) != "trace 1" {
				t.Errorf("limited %v, ended with %v, %v, trace %v", limited, ctx.Err(), context.Cause(ctx), ctx.Value(traceKey{}))
			}
			select {
			case <-ctx.Done():
				t.Error("the starter's end is the loader's")
			default:
			}
			return 1, nil
		})
		<-ended
		synctest.Wait()
		if loaded.Err() != context.Canceled || context.Cause(loaded) != context.Canceled || loaded.Value(traceKey{}) != "trace 1" {
			t.Errorf("after its return: %v, %v", loaded.Err(), context.Cause(loaded))
		}
	})
}

func TestLoadersContextIsOverAlsoForWhoAsksFirstAfterItsEnd(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, _ *books) {
		var kept [3]context.Context
		for i := range kept {
			_, _, _ = g.Do(t.Context(), "k", func(ctx context.Context, _ *flight.Run) (int, error) {
				kept[i] = ctx
				return 1, nil
			})
			synctest.Wait()
		}
		select {
		case <-kept[0].Done():
		default:
			t.Error("not done")
		}
		child, cancel := context.WithCancel(kept[1])
		defer cancel()
		ran := false
		// As package context calls it when the end comes while a context is being derived.
		kept[2].(interface{ AfterFunc(func()) func() bool }).AfterFunc(func() { ran = true })
		synctest.Wait()
		if child.Err() != context.Canceled || !ran {
			t.Errorf("derived: %v, AfterFunc ran: %v", child.Err(), ran)
		}
	})
}

// However it ends, a loader's context and those derived from it agree on when and why.
func TestLoadersContextEndsAsThoseOfTheStandardLibraryDo(t *testing.T) {
	for name, c := range map[string]struct {
		end        func(t *testing.T, g *group)
		err, cause error
	}{
		"deadline": {func(*testing.T, *group) {}, context.DeadlineExceeded, flight.ErrDeadline}, // it comes by itself
		"close":    {func(t *testing.T, g *group) { go func() { _ = g.Close(t.Context()) }() }, context.Canceled, flight.ErrClosed},
		"return":   {nil, context.Canceled, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, flight.Options{LoaderTimeout: time.Minute}, func(t *testing.T, g *group, _ *books) {
				contexts := make(map[string]context.Context)
				finish, ran := make(chan struct{}), false
				began := time.Now()
				call(t.Context(), g, "k", func(ctx context.Context, _ *flight.Run) (int, error) {
					if deadline, ok := ctx.Deadline(); !ok || deadline.Sub(began) != time.Minute {
						t.Errorf("deadline %v, %v", deadline, ok)
					}
					child, cancelChild := context.WithCancel(ctx)
					t.Cleanup(cancelChild)
					timed, cancelTimed := context.WithTimeout(context.WithValue(child, traceKey{}, 2), time.Hour)
					t.Cleanup(cancelTimed)
					contexts["itself"], contexts["a child"], contexts["a grandchild"] = ctx, child, timed
					context.AfterFunc(ctx, func() { ran = true })
					stop := context.AfterFunc(ctx, func() { t.Error("stopped, and it ran") })
					if !stop() {
						t.Error("an AfterFunc cannot be stopped")
					}
					if c.end != nil {
						<-finish
					}
					return 1, nil
				})
				if c.end != nil {
					c.end(t, g)
				}
				for which, ctx := range contexts {
					<-ctx.Done()
					if ctx.Err() != c.err || context.Cause(ctx) != c.cause {
						t.Errorf("%s ended with %v, %v, want %v, %v", which, ctx.Err(), context.Cause(ctx), c.err, c.cause)
					}
				}
				close(finish)
				synctest.Wait()
				if !ran {
					t.Error("AfterFunc did not run")
				}
				late, cancel := context.WithCancel(contexts["itself"])
				defer cancel()
				ranLate := false
				context.AfterFunc(contexts["itself"], func() { ranLate = true })
				synctest.Wait()
				if late.Err() != c.err || context.Cause(late) != c.cause || !ranLate {
					t.Errorf("derived after the end: %v, %v, ran %v", late.Err(), context.Cause(late), ranLate)
				}
			})
		})
	}
}

func TestContextsDerivedFromALoadersCostNoGoroutine(t *testing.T) {
	g := flight.New[string, int](flight.Options{LoaderTimeout: time.Minute})
	_, _, _ = g.Do(t.Context(), "k", func(ctx context.Context, _ *flight.Run) (int, error) {
		before := runtime.NumGoroutine()
		for range 100 {
			_, cancel := context.WithCancelCause(ctx)
			defer cancel(errors.New("over"))
		}
		if n := runtime.NumGoroutine(); n > before+10 {
			t.Errorf("%d goroutines more for 100 contexts", n-before)
		}
		return 1, nil
	})
}
