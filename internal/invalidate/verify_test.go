package invalidate

import (
	"context"
	"sync"
	"testing"
	"time"
)

// newVerifier returns a world whose looks are stale at once.
func newVerifier(t *testing.T, n int, change func(*Options)) *world {
	t.Helper()
	return newWorld(t, n, func(o *Options) {
		o.VerifyAfter, o.VerifyWithin = time.Nanosecond, 10*time.Second
		if change != nil {
			change(o)
		}
	})
}

func TestAReadersLookFindsWhatHasChanged(t *testing.T) {
	w := newVerifier(t, 1, nil)
	w.cache("REQUESTED", "H1")
	w.set(func() { w.status["H1"] = "APPROVED" })
	if !w.Verify(t.Context(), w.h("H1")) {
		t.Error("there was no look")
	}
	if n := w.redis.Client.Exists(t.Context(), "t:{H1}:T1").Val(); n != 0 || w.called() != "H1" {
		t.Error("the stale entry is still there")
	}
}

func TestNoLookIsMadeWhereNoneIsNeededOrToBeHad(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		before func(*world)
	}{
		"off":                                    {func(o *Options) { o.VerifyAfter = 0 }, nil},
		"the process has just begun":             {func(o *Options) { o.VerifyAfter = time.Hour }, nil},
		"looked at lately":                       {func(o *Options) { o.VerifyAfter = time.Hour }, func(w *world) { w.began = time.Time{}; w.round(1) }},
		"failed just now":                        {func(o *Options) { o.VerifyAfter = time.Hour }, func(w *world) { w.began = time.Time{}; w.fail["H1"] = true; w.round(1) }},
		"a dry run":                              {func(o *Options) { o.DryRun = true }, nil},
		"SureM is away":                          {func(o *Options) { o.Serving = func() bool { return false } }, nil},
		"every second call is for looks at most": {func(o *Options) { o.Rate, o.Burst, o.VerifyWithin = .1, 1, time.Second }, func(w *world) { w.Verify(w.t.Context(), w.h("H1")) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newVerifier(t, 1, c.change)
			if c.before != nil {
				c.before(w)
			}
			w.called()
			if w.Verify(t.Context(), w.h("H1")) || w.called() != "" {
				t.Error("there was a look")
			}
		})
	}
}

func TestAFailedLookIsNone(t *testing.T) {
	w := newVerifier(t, 1, nil)
	w.fail["H1"] = true
	if w.Verify(t.Context(), w.h("H1")) || w.called() != "H1" {
		t.Error("it counts as one")
	}
}

func TestReadersShareALookAndJoinOneThatRuns(t *testing.T) {
	w := newVerifier(t, 1, func(o *Options) { o.Rate, o.Burst = .001, 1 }) // one look of its own, and no more
	w.cache("REQUESTED", "H1")
	verify := func(n int) func() int {
		var readers sync.WaitGroup
		looked := make(chan bool, n)
		for range n {
			readers.Go(func() { looked <- w.Verify(t.Context(), w.h("H1")) })
		}
		return func() (yes int) {
			readers.Wait()
			for range n {
				if <-looked {
					yes++
				}
			}
			return yes
		}
	}
	held := func(begin func()) (release func()) {
		hold := make(chan struct{})
		w.set(func() { w.hold = hold })
		begin()
		await(t, "a look has begun", func() bool {
			w.at.Lock()
			defer w.at.Unlock()
			return len(w.calls) == 1
		})
		return func() { w.set(func() { w.hold = nil }); close(hold) }
	}
	var first func() int
	release := held(func() { first = verify(20) })
	second := verify(20)
	await(t, "all wait", func() bool { return w.verifying.Stats().Waiters == 40 })
	release()
	if n := first() + second(); n != 40 || w.called() != "H1" {
		t.Errorf("%d of 40 have had a look; they were to share one", n)
	}

	// A pass's look that has begun is as good, and takes no call from anyone.
	passed := make(chan struct{})
	release = held(func() {
		go func() {
			w.Pass(t.Context(), TriggerSchedule, w.Hospitals.All())
			close(passed)
		}()
	})
	readers := verify(20)
	await(t, "all wait", func() bool { return w.verifying.Stats().Waiters == 20 })
	release()
	<-passed
	if n := readers(); n != 20 || w.called() != "H1" {
		t.Errorf("%d of 20 have shared the pass's look", n)
	}
}

func TestAReaderWaitsNoLongerThanForALoad(t *testing.T) {
	w := newVerifier(t, 1, func(o *Options) { o.VerifyWithin = 50 * time.Millisecond })
	hold := make(chan struct{})
	w.set(func() { w.hold = hold })
	began := time.Now()
	if w.Verify(t.Context(), w.h("H1")) {
		t.Error("the look has ended?")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if w.Verify(ctx, w.h("H1")) {
		t.Error("a reader who has left has had a look")
	}
	close(hold)
}

func TestPagesCountAgainstTheReadersShare(t *testing.T) {
	w := newVerifier(t, 2, func(o *Options) { o.Rate, o.Burst, o.VerifyWithin = 2, 1, 4*time.Second })
	w.set(func() { w.pages = 6 }) // five seconds of further calls
	if !w.Verify(t.Context(), w.h("H1")) || w.Verify(t.Context(), w.h("H2")) {
		t.Error("six pages count as one call")
	}
}
