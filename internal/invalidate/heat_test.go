package invalidate

import (
	"context"
	"testing"
	"time"

	"alimtalk-syncer/internal/order"
)

func TestALookCostsOneRoundTripAndTwoWhereSomethingChanged(t *testing.T) {
	w := newWorld(t, 10, nil)
	ids := []string{"H1", "H2", "H3", "H4", "H5", "H6", "H7", "H8", "H9", "H10"}
	w.cache("REQUESTED", ids...)
	trips := func(want int32, what string, do func()) {
		t.Helper()
		before := w.trips.Load()
		do()
		if n := w.trips.Load() - before; n != want {
			t.Errorf("%s: %d round trips, want %d", what, n, want)
		}
	}
	pass := func() { w.Pass(t.Context(), TriggerManual, w.Hospitals.All()) }
	w.set(func() { w.status["H1"] = "APPROVED" })
	pass() // connects, and makes Redis know the script that deletes
	w.set(func() { w.status["H1"] = "REQUESTED" })
	w.cache("REQUESTED", "H1")
	trips(10, "a pass, nothing changed", pass)
	// A tick reads the holdings at its begin, and corrects them at its end where they differ.
	trips(10+2, "a tick that finds another program's entries", func() { w.round(10) })
	trips(10+1, "a tick, nothing changed", func() { w.round(10) })
	w.set(func() { w.status["H3"], w.status["H7"] = "APPROVED", "APPROVED" })
	trips(10+2+2, "a tick, two changed", func() { w.round(10) })
	trips(10+1, "a tick, nothing changed", func() { w.round(10) })
}

func TestPastATicksCallsHotAndColdTakeTurns(t *testing.T) {
	w := newWorld(t, 8, nil)
	if got := w.round(8); got != "H1 H2 H3 H4 H5 H6 H7 H8" {
		t.Errorf("a round that fits: %s", got)
	}
	w.fill("H5", "REQUESTED")
	w.fill("H6", "REGISTERED")
	w.fill("H8", "A_NEW_WORD")
	w.fill("H7", "APPROVED")
	w.set(func() { w.status["H6"], w.status["H7"], w.status["H8"] = "REGISTERED", "APPROVED", "A_NEW_WORD" })
	for i, want := range []string{"H5 H1 H6 H2", "H8 H3 H5 H4", "H6 H7 H8 H1"} {
		if got := w.round(4); got != want {
			t.Errorf("tick %d: %s, want %s", i, got, want)
		}
	}
}

func TestLooksCorrectWhatIsKnown(t *testing.T) {
	w := newWorld(t, 3, nil)
	known := func(id string) order.Holding {
		t.Helper()
		all, err := w.Cache.Holdings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all[id]
	}
	w.cache("REQUESTED", "H1", "H2") // by another program
	w.round(3)
	if k := known("H1"); k.Hot == 0 || k.Cold != 0 {
		t.Errorf("another program's entry in review: %+v", k)
	}
	if k := known("H3"); k != (order.Holding{}) {
		t.Errorf("nothing cached: %+v", k)
	}
	w.set(func() { w.status["H1"], w.status["H2"] = "APPROVED", "REJECTED" })
	w.round(3) // H1's is deleted; H2's is no longer compared, but may be there
	if k := known("H1"); k != (order.Holding{}) {
		t.Errorf("deleted, and nothing left: %+v", k)
	}
	if k := known("H2"); k.Hot != 0 || k.Cold == 0 {
		t.Errorf("an entry that is not looked at: %+v", k)
	}
	w.cache("APPROVED", "H1")
	w.round(3)
	if k := known("H1"); k.Hot != 0 || k.Cold == 0 {
		t.Errorf("another program's settled entry: %+v", k)
	}
}

func TestWithoutOtherWritersWhatHoldsNothingNeedsNoLook(t *testing.T) {
	w := newWorld(t, 4, func(o *Options) { o.Shared = false })
	w.fill("H4", "REQUESTED")
	if got := w.round(3); got != "H1 H4 H2" {
		t.Errorf("nobody knows yet what they hold: %s", got)
	}
	if got := w.round(3); got != "H4 H3" {
		t.Errorf("only H3 is still unknown: %s", got)
	}
	if got := w.round(3); got != "H4" {
		t.Errorf("only H4 holds anything: %s", got)
	}
	if n := figure(t, w.Metrics.LastSuccess); n == 0 {
		t.Error("no success")
	}
	w.list(map[string]string{"H1": "key-H1", "H2": "another", "H3": "key-H3", "H4": "key-H4"})
	if got := w.round(3); got != "H2 H4" {
		t.Errorf("a changed sender key counts as hot: %s", got)
	}
	if got := w.round(4); got != "H1 H3 H2 H4" {
		t.Errorf("a round that fits takes all: %s", got)
	}
	w.redis.Client.Del(t.Context(), w.redis.Client.Keys(t.Context(), "alimtalk-syncer:hot:*").Val()...) // evicted
	if got := w.round(3); got != "H4" {
		t.Errorf("what Redis has lost is looked at once more: %s", got)
	}
	if got := w.round(3); got != "H4" {
		t.Errorf("and is known again: %s", got)
	}
}

func TestNothingInPlayIsASuccess(t *testing.T) {
	w := newWorld(t, 3, func(o *Options) { o.Shared = false })
	w.round(3)
	w.Metrics.LastSuccess.Set(0)
	if got := w.round(1); got != "" {
		t.Errorf("looked at %s", got)
	}
	if figure(t, w.Metrics.LastSuccess) == 0 {
		t.Error("no success, though all that was planned was done")
	}
}

func TestRedisAwayTheOrderComesFromMemory(t *testing.T) {
	w := newWorld(t, 4, nil)
	w.fill("H3", "REQUESTED")
	w.round(4)
	w.redis.Kill()
	if got := w.round(2); got != "H3 H1" {
		t.Errorf("Redis away: %s", got)
	}
	w.redis.Restart() // empty
	if got := w.round(2); got != "H2 H4" {
		t.Errorf("Redis back: %s", got)
	}
}

func TestWhatCannotBeCorrectedIsTriedAgain(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.cache("REQUESTED", "H1")
	w.round(2)
	hot := w.redis.Client.Keys(t.Context(), "alimtalk-syncer:hot:*").Val()[0]
	w.set(func() { w.status["H1"] = "APPROVED" })
	w.redis.Client.Rename(t.Context(), hot, "aside")
	w.learn()
	w.Pass(t.Context(), TriggerManual, w.Hospitals.All())
	w.redis.Client.Set(t.Context(), hot, "no sorted set", time.Minute)
	w.mu.Lock()
	w.found["H2"] = order.Found{Hot: true}
	w.mu.Unlock()
	w.correct()
	w.redis.Client.Rename(t.Context(), "aside", hot)
	w.learn()
	w.correct()
	known, err := w.Cache.Holdings(t.Context())
	if err != nil || known["H1"].Hot != 0 || known["H2"].Hot == 0 {
		t.Errorf("known %+v, %v", known, err)
	}
}

// A pass begins no hospital once the next tick is due; what it did not reach is first in the
// next one, which begins as soon as the pass has ended. Every tick is counted once.
func TestAPassStopsAtTheNextTickWhosePassThenRunsLate(t *testing.T) {
	w := newWorld(t, 3, nil)
	hold := make(chan struct{})
	w.set(func() { w.hold = hold })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		w.Schedule(ctx, every(200*time.Millisecond), true)
		close(ended)
	}()
	ticks := func(result string) float64 { return figure(t, w.Metrics.Ticks.WithLabelValues(result)) }
	await(t, "one tick waits and two are skipped", func() bool { return ticks("skipped") >= 2 })
	if got := w.called(); got != "H1" || ticks("run") != 0 {
		t.Errorf("called %s, %v ticks run", got, ticks("run"))
	}
	w.set(func() { w.hold = nil })
	close(hold)
	await(t, "the tick that waited runs", func() bool { return ticks("run") >= 1 })
	await(t, "its pass has ended", func() bool { return figure(t, w.Metrics.LastSuccess) > 0 })
	stop()
	<-ended
	w.at.Lock()
	defer w.at.Unlock()
	if len(w.calls) < 3 || w.calls[0] != "H2" || w.calls[1] != "H3" || w.calls[2] != "H1" {
		t.Errorf("then called %v", w.calls)
	}
	if w.Healthy() != nil {
		t.Error(w.Healthy())
	}
}

func TestAPassThatWasCutIsNoSuccess(t *testing.T) {
	w := newWorld(t, 2, nil)
	hold := make(chan struct{})
	w.set(func() { w.hold = hold })
	soon := every(50 * time.Millisecond)
	w.expect(soon)
	passed := make(chan struct{})
	go func() {
		w.tick(t.Context(), soon)
		close(passed)
	}()
	await(t, "the pass has begun, and the next tick has been due for long enough that its timer has fired", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.desk) == 1 && time.Since(w.next) > time.Second
	})
	close(hold)
	<-passed
	if got := w.called(); got != "H1" {
		t.Errorf("called %s", got)
	}
	if s := w.Status().Pass; s.NotReached != 1 || s.OK != 1 || s.Hospitals != 2 || figure(t, w.Metrics.LastSuccess) != 0 {
		t.Errorf("%+v", s)
	}
}
