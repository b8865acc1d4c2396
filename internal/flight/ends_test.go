package flight_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"alimtalk-syncer/internal/flight"
)

// three has a starter and two followers share a load that ends as end says.
func three(t *testing.T, end func() (int, error), check func(answer)) {
	t.Helper()
	bubble(t, flight.Options{}, func(t *testing.T, g *group, _ *books) {
		loads := 0
		load := func(context.Context, *flight.Run) (int, error) {
			loads++
			time.Sleep(time.Millisecond)
			return end()
		}
		var calls []<-chan answer
		for range 3 {
			calls = append(calls, call(t.Context(), g, "k", load))
		}
		for i, c := range calls {
			a := <-c
			check(a)
			if a.shared != (i > 0) || a.at != time.Millisecond {
				t.Errorf("caller %d: shared %v, after %v", i, a.shared, a.at)
			}
		}
		if loads != 1 {
			t.Errorf("%d loads", loads)
		}
		synctest.Wait()
		if s := g.Stats(); s.Keys != 0 {
			t.Errorf("the key is still taken: %+v", s)
		}
		if v, shared, err := g.Do(t.Context(), "k", after(0, 2)); v != 2 || shared || err != nil {
			t.Errorf("the next call got %d, %v, %v", v, shared, err)
		}
	})
}

func TestValueReachesEveryWaiter(t *testing.T) {
	three(t, func() (int, error) { return 42, nil }, func(a answer) {
		if a.v != 42 || a.err != nil {
			t.Errorf("got %+v", a)
		}
	})
}

func TestErrorReachesEveryWaiter(t *testing.T) {
	three(t, func() (int, error) { return 0, fs.ErrNotExist }, func(a answer) {
		if a.err != fs.ErrNotExist {
			t.Errorf("got %+v", a)
		}
	})
}

func TestPanicReachesEveryWaiterWithItsErrorAndItsStack(t *testing.T) {
	cause := fmt.Errorf("while loading: %w", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist})
	three(t, func() (int, error) { explode(cause); return 1, nil }, func(a answer) {
		var panicked *flight.PanicError
		if !errors.As(a.err, &panicked) || panicked.Value != any(cause) {
			t.Fatalf("got %+v", a)
		}
		var path *fs.PathError
		if !errors.Is(a.err, fs.ErrNotExist) || !errors.As(a.err, &path) {
			t.Errorf("the panic's own error cannot be reached through %v", a.err)
		}
		if !strings.Contains(string(panicked.Stack), "flight_test.explode") {
			t.Errorf("the stack does not show who panicked:\n%s", panicked.Stack)
		}
		if !strings.Contains(a.err.Error(), cause.Error()) || strings.Contains(a.err.Error(), "goroutine") {
			t.Errorf("the text should have the value and not the stack: %v", a.err)
		}
	})
}

func explode(value any) { panic(value) }

func TestPanicWithWhatIsNoErrorReachesEveryWaiter(t *testing.T) {
	three(t, func() (int, error) { explode("boom"); return 1, nil }, func(a answer) {
		var panicked *flight.PanicError
		if !errors.As(a.err, &panicked) || panicked.Value != "boom" || errors.Unwrap(panicked) != nil {
			t.Errorf("got %+v", a)
		}
	})
}

func TestPanicWithNilReachesEveryWaiter(t *testing.T) {
	three(t, func() (int, error) { explode(nil); return 1, nil }, func(a answer) {
		var none *runtime.PanicNilError
		if !errors.As(a.err, &none) {
			t.Errorf("got %+v", a)
		}
	})
}

func TestGoexitReachesEveryWaiter(t *testing.T) {
	three(t, func() (int, error) { leave(); return 1, nil }, func(a answer) {
		var left *flight.GoexitError
		if !errors.As(a.err, &left) || a.err.Error() == "" {
			t.Fatalf("got %+v", a)
		}
		if !strings.Contains(string(left.Stack), "flight_test.leave") {
			t.Errorf("the stack does not show who left:\n%s", left.Stack)
		}
	})
}

func leave() { runtime.Goexit() }

// What a loader wrote down before it panicked or left is no result.
func TestHalfAResultIsNone(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("x") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			three(t, func() (v int, err error) {
				defer end()
				return 7, nil
			}, func(a answer) {
				if a.v != 0 || a.err == nil {
					t.Errorf("got %+v", a)
				}
			})
		})
	}
}

func TestCallFromInsideItsOwnLoaderIsRefused(t *testing.T) {
	type key struct{}
	for name, derive := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"its context": func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
		"derived": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		},
		"derived and freed": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithoutCancel(ctx), func() {}
		},
		"derived with value": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithValue(ctx, key{}, 1), func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, flight.Options{}, func(t *testing.T, g *group, _ *books) {
				v, _, err := g.Do(t.Context(), "k", func(ctx context.Context, _ *flight.Run) (int, error) {
					ctx, cancel := derive(ctx)
					defer cancel()
					if _, _, err := g.Do(ctx, "k", never); err != flight.ErrReentrant {
						t.Errorf("got %v", err)
					}
					// Another key may be loaded from here, but not come back to this one.
					v, _, err := g.Do(ctx, "other", func(ctx context.Context, _ *flight.Run) (int, error) {
						_, _, err := g.Do(ctx, "k", never)
						return 3, err
					})
					if v != 3 || !errors.Is(err, flight.ErrReentrant) {
						t.Errorf("through another key: got %d, %v", v, err)
					}
					return 5, nil
				})
				if v != 5 || err != nil {
					t.Errorf("got %d, %v", v, err)
				}
			})
		})
	}
}

func TestCallOfOneGroupFromInsideAnotherIsNoReentry(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, _ *books) {
		inner := flight.New[string, int](flight.Options{})
		v, _, err := g.Do(t.Context(), "k", func(ctx context.Context, _ *flight.Run) (int, error) {
			v, _, err := inner.Do(ctx, "k", after(0, 1))
			return v, err
		})
		if v != 1 || err != nil {
			t.Errorf("got %d, %v", v, err)
		}
	})
}

// Who carries a loader's values on after its end, to work in the background, is free.
func TestReentryEndsWithTheRun(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, _ *books) {
		var kept context.Context
		_, _, _ = g.Do(t.Context(), "k", func(ctx context.Context, _ *flight.Run) (int, error) {
			kept = context.WithoutCancel(ctx)
			return 1, nil
		})
		synctest.Wait()
		if v, _, err := g.Do(kept, "k", after(0, 2)); v != 2 || err != nil {
			t.Errorf("got %d, %v", v, err)
		}
	})
}
