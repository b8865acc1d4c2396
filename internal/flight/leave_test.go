package flight_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"alimtalk-syncer/internal/flight"
)

func TestStarterThatLeavesLeavesItsFollowersTheValue(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, b *books) {
		gone := errors.New("the starter has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		load := func(ctx context.Context, _ *flight.Run) (int, error) {
			select {
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			case <-time.After(time.Second):
				return 1, nil
			}
		}
		starter := call(ctx, g, "k", load)
		follower := call(t.Context(), g, "k", load)
		cancel(gone)
		if a := <-starter; a.err != gone || a.at != 0 {
			t.Errorf("the starter got %+v", a)
		}
		if a := <-follower; a.v != 1 || a.err != nil {
			t.Errorf("the follower got %+v", a)
		}
		if b.count().started != 1 {
			t.Errorf("%d loaders for one key", b.count().started)
		}
	})
}

func TestFollowerThatLeavesReturnsAtOnce(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, _ *books) {
		starter := call(t.Context(), g, "k", after(time.Second, 1))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if a := <-call(ctx, g, "k", never); a.err != context.DeadlineExceeded || a.at != 10*time.Millisecond || !a.shared {
			t.Errorf("the follower got %+v", a)
		}
		if a := <-starter; a.v != 1 || a.err != nil || a.at != time.Second {
			t.Errorf("the starter got %+v", a)
		}
	})
}

func TestDeadContextStartsNoLoader(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, b *books) {
		gone := errors.New("gone before it came")
		dead, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if a := <-call(dead, g, "k", never); a.err != gone {
			t.Errorf("got %+v", a)
		}
		running := call(t.Context(), g, "k", after(time.Second, 1))
		if a := <-call(dead, g, "k", never); a.err != gone {
			t.Errorf("beside a running load: got %+v", a)
		}
		<-running
		if c := b.count(); c.requested != 1 {
			t.Errorf("it counts: %+v", c)
		}
	})
}

// lastMoment is a context that ends the moment its caller has begun to wait, when the result
// is ready as well.
type lastMoment struct {
	context.Context
	ready func()
}

func (c lastMoment) Done() <-chan struct{} {
	c.ready()
	ended := make(chan struct{})
	close(ended)
	return ended
}

func TestResultThatIsReadyWinsOverTheEndedContext(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, _ *books) {
		for range 100 { // select would choose either, half of the time
			finish := make(chan struct{})
			ctx := lastMoment{t.Context(), func() { close(finish); synctest.Wait() }}
			v, _, err := g.Do(ctx, "k", func(context.Context, *flight.Run) (int, error) {
				<-finish
				return 1, nil
			})
			if v != 1 || err != nil {
				t.Fatalf("got %d, %v", v, err)
			}
		}
	})
}

func TestNewcomerAfterAllHaveLeftSharesTheRunningLoad(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, b *books) {
		leaving, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		load := func(ctx context.Context, _ *flight.Run) (int, error) {
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(3 * time.Second):
				return 1, nil
			}
		}
		one, two := call(leaving, g, "k", load), call(leaving, g, "k", load)
		for _, c := range []<-chan answer{one, two} {
			if a := <-c; a.err != context.DeadlineExceeded {
				t.Errorf("the one that left got %+v", a)
			}
		}
		synctest.Wait()
		if s := g.Stats(); s != (flight.Stats{Keys: 1}) {
			t.Errorf("with nobody waiting: %+v", s)
		}
		if a := <-call(t.Context(), g, "k", load); a.v != 1 || a.err != nil || a.at != 2*time.Second || !a.shared {
			t.Errorf("the newcomer got %+v", a)
		}
		if b.count().started != 1 {
			t.Errorf("%d loaders", b.count().started)
		}
	})
}

func TestLoadGoesOnWhenAllHaveLeft(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, b *books) {
		leaving, cancel := context.WithCancel(t.Context())
		ended := false
		call(leaving, g, "k", func(ctx context.Context, _ *flight.Run) (int, error) {
			time.Sleep(time.Second)
			ended = ctx.Err() == nil
			return 1, nil
		})
		cancel()
		time.Sleep(time.Second)
		synctest.Wait()
		if !ended || len(b.loaded) != 1 || b.loaded[0] != nil {
			t.Errorf("ended well: %v, reported %v", ended, b.loaded)
		}
	})
}

func TestThousandCancelledWaitersLeaveNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	g := flight.New[string, int](flight.Options{LoaderTimeout: time.Minute})
	finish := make(chan struct{})
	load := func(context.Context, *flight.Run) (int, error) { <-finish; return 1, nil }
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if _, _, err := g.Do(ctx, "k", load); err != context.Canceled {
				t.Errorf("got %v", err)
			}
		})
	}
	for g.Stats().Waiters < 1000 {
		runtime.Gosched()
	}
	cancel()
	all.Wait()
	if s := g.Stats(); s != (flight.Stats{Keys: 1}) {
		t.Errorf("after they left: %+v", s)
	}
	close(finish)
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

func TestLoadersOfOneKeyNeverOverlap(t *testing.T) {
	g := flight.New[int, int64](flight.Options{})
	var running [4]atomic.Int32
	load := func(key int) flight.Loader[int64] {
		return func(_ context.Context, run *flight.Run) (int64, error) {
			if running[key].Add(1) != 1 {
				t.Errorf("key %d: two loaders at a time", key)
			}
			defer running[key].Add(-1)
			runtime.Gosched()
			switch {
			case key == 1:
				run.Seal(run.Mark())
			case key == 2:
				panic("now and then")
			}
			return 1, nil
		}
	}
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for n := range 300 {
				ctx, cancel := context.WithCancel(t.Context())
				if n%3 == 0 {
					go cancel()
				}
				_, _, _ = g.Do(ctx, i%4, load(i%4))
				cancel()
			}
		})
	}
	all.Wait()
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestUnusableCallFailsAloneAndLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &books{}
		g := flight.New[any, int](flight.Options{Observer: b, MaxKeys: 1})
		var none context.Context
		for name, c := range map[string]struct {
			ctx  context.Context
			key  any
			load flight.Loader[int]
		}{
			"a key that cannot be compared":        {t.Context(), []byte("k"), never},
			"one hidden in a struct":               {t.Context(), struct{ any }{map[int]int{}}, never},
			"a key that does not equal itself":     {t.Context(), math.NaN(), never},
			"one that does not, in a struct":       {t.Context(), struct{ f float64 }{math.NaN()}, never},
			"no loader":                            {t.Context(), "k", nil},
			"no context":                           {none, "k", never},
			"none of all":                          {none, math.NaN(), nil},
			"no loader though the key is not good": {t.Context(), []int{}, nil},
		} {
			for range 100 {
				if _, _, err := g.Do(c.ctx, c.key, c.load); !errors.Is(err, flight.ErrBadCall) {
					t.Fatalf("%s: got %v", name, err)
				}
			}
			if s := g.Stats(); s != (flight.Stats{}) {
				t.Errorf("%s left %+v", name, s)
			}
			if v, _, err := g.Do(t.Context(), "good", func(context.Context, *flight.Run) (int, error) { return 1, nil }); v != 1 || err != nil {
				t.Errorf("the good call after %s: %d, %v", name, v, err)
			}
		}
		synctest.Wait()
		checkRest(t, g.Stats(), b)
	})
}

func TestUnusableCallFailsBesideARunningLoad(t *testing.T) {
	bubble(t, flight.Options{}, func(t *testing.T, g *group, _ *books) {
		running := call(t.Context(), g, "k", after(time.Second, 1))
		var none context.Context
		if _, _, err := g.Do(none, "k", never); !errors.Is(err, flight.ErrBadCall) {
			t.Errorf("got %v", err)
		}
		if _, _, err := g.Do(t.Context(), "k", nil); !errors.Is(err, flight.ErrBadCall) {
			t.Errorf("got %v", err)
		}
		if a := <-running; a.v != 1 || a.err != nil {
			t.Errorf("the running load ended with %+v", a)
		}
	})
}
