package invalidate

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/fleet"
	"alimtalk-syncer/internal/redistest"
)

// until is a schedule whose next tick falls at a time.
type until time.Time

func (u until) Next(time.Time) time.Time { return time.Time(u) }

// newReplica is a world whose hospitals are shared with others on the same Redis.
func newReplica(t *testing.T, server *redistest.Server, n int, change func(*Options)) *world {
	t.Helper()
	w := newWorldOn(t, server, n, change)
	w.Claims = fleet.NewClaims(w.rdb, w.Cache.Keys)
	return w
}

// newReplicas are three, and a tick that ends in an hour.
func newReplicas(t *testing.T, n int) (replicas []*world, tick until) {
	t.Helper()
	server := redistest.Start(t)
	for range 3 {
		replicas = append(replicas, newReplica(t, server, n, func(o *Options) { o.Concurrency = 4 }))
	}
	return replicas, until(time.Now().Add(time.Hour))
}

// run runs a tick's pass.
func (w *world) run(tick until) string {
	w.expect(tick)
	w.tick(w.t.Context(), tick)
	return w.called()
}

func (w *world) claims(result string) float64 {
	return figure(w.t, w.Metrics.FleetClaims.WithLabelValues("tick", result))
}

func TestReplicasReadEachHospitalOnceInATick(t *testing.T) {
	replicas, tick := newReplicas(t, 60)
	for range 5 {
		var all []string
		var mu sync.Mutex
		var passes sync.WaitGroup
		for _, w := range replicas {
			passes.Go(func() {
				called := strings.Fields(w.run(tick))
				mu.Lock()
				defer mu.Unlock()
				all = append(all, called...)
			})
		}
		passes.Wait()
		slices.Sort(all)
		if n := len(all); n != 60 || len(slices.Compact(all)) != 60 {
			t.Fatalf("%d readings of %d hospitals, want 60 of 60", n, len(slices.Compact(all)))
		}
		elsewhere, ok := 0, 0
		for _, w := range replicas {
			p := w.Status().Pass
			elsewhere, ok = elsewhere+p.Elsewhere, ok+p.OK
			if p.Hospitals != 60 || p.NotReached != 0 || p.OK+p.Elsewhere != 60 || figure(t, w.Metrics.LastSuccess) == 0 {
				t.Errorf("a pass that read what was left to it: %+v", p)
			}
		}
		if ok != 60 || elsewhere != 120 {
			t.Errorf("%d read and %d left to others, want 60 and 120", ok, elsewhere)
		}
		tick = until(time.Time(tick).Add(time.Hour))
	}
	for _, w := range replicas {
		if won, lost := w.claims("won"), w.claims("lost"); won == 0 || won+lost != 300 {
			t.Errorf("%v claims won, %v lost, want 300 in all, and a share of the work", won, lost)
		}
	}
}

func TestATickIsOverWhenItsHospitalsWereRead(t *testing.T) {
	replicas, tick := newReplicas(t, 2)
	w := replicas[0]
	if got := w.run(tick); got != "H1 H2" && got != "H2 H1" {
		t.Errorf("a start's pass: %s", got)
	}
	if got := w.run(tick); got != "" {
		t.Errorf("another pass of the same process in that tick: %s", got)
	}
	if got := replicas[1].run(tick); got != "" {
		t.Errorf("another replica that starts in that tick: %s", got)
	}
	if p := replicas[1].Status().Pass; p.Elsewhere != 2 || p.NotReached != 0 || figure(t, replicas[1].Metrics.LastSuccess) == 0 {
		t.Errorf("nothing was left to read, which is a success: %+v", p)
	}
	for _, trigger := range []string{TriggerManual, TriggerList} {
		if _, err := replicas[1].Look(t.Context(), replicas[1].h("H1"), trigger); err != nil {
			t.Fatal(err)
		}
		if got := replicas[1].called(); got != "H1" {
			t.Errorf("who asks gets a reading, whoever has claimed the tick: %s: %q", trigger, got)
		}
	}
	if reports := w.Pass(t.Context(), TriggerManual, w.Hospitals.All()); len(reports) != 2 {
		t.Errorf("syncer sync claims nothing: %+v", reports)
	}
}

func TestWhatADeadReplicaHasClaimedIsReadInTheNextTick(t *testing.T) {
	replicas, tick := newReplicas(t, 3)
	dead := replicas[2].Claims.Tick(time.Time(tick))
	if claim, err := dead.Claim(t.Context(), replicas[0].h("H2").Sender()); err != nil || !claim.Won {
		t.Fatal(claim, err)
	}
	w := replicas[0]
	w.Concurrency = 1
	if got := w.run(tick); got != "H1 H3" {
		t.Errorf("in the tick of its death: %s", got)
	}
	if got := w.run(until(time.Time(tick).Add(time.Minute))); !strings.Contains(got, "H2") {
		t.Errorf("in the next one: %s", got)
	}
}

// The clocks of replicas differ: one is at its next tick half a minute before the others, and
// still at an old one half a minute after.
func TestClocksThatDifferReadEachHospitalOnceInATick(t *testing.T) {
	replicas, _ := newReplicas(t, 2)
	ends := time.Now().Add(30 * time.Second)
	ahead, behind := replicas[0], replicas[1]
	next := ends.Add(time.Minute)
	for _, step := range []struct {
		what string
		w    *world
		end  time.Time
		read int
	}{
		{"the one ahead, in its next tick", ahead, next, 2},
		{"the other, in the tick that it has", behind, ends, 2},
		{"the one ahead, in that", ahead, ends, 0},
		{"the other, in its next", behind, next, 0},
	} {
		step.w.sharedPass(t.Context(), step.end)
		if got := strings.Fields(step.w.called()); len(got) != step.read {
			t.Errorf("%s reads %s, want %d", step.what, got, step.read)
		}
	}
}

func TestReplicasGoOnWithTheOrderOfAllOfThem(t *testing.T) {
	server := redistest.Start(t)
	first := newReplica(t, server, 5, nil)
	first.Claims = fleet.NewClaims(first.rdb, first.Cache.Keys)
	if got := first.round(3); got != "H1 H2" { // four fifths of the calls
		t.Fatalf("the first replica: %s", got)
	}
	second := newReplica(t, server, 5, nil) // has looked at nobody itself
	if got := second.round(3); got != "H3 H4" {
		t.Errorf("the second replica: %s", got)
	}
	if got := first.round(3); got != "H5" && got != "H5 H1" {
		t.Errorf("the first one again: %s", got)
	}
}

func TestWhatAnotherReplicaHasReadNeedsNoLookForAReader(t *testing.T) {
	server := redistest.Start(t)
	change := func(o *Options) { o.VerifyAfter, o.VerifyWithin = time.Minute, 5*time.Second }
	w, other := newReplica(t, server, 2, change), newReplica(t, server, 2, change)
	tick := until(time.Now().Add(time.Hour))
	if _, err := other.Claims.Tick(time.Time(tick)).Claim(t.Context(), w.h("H2").Sender()); err != nil {
		t.Fatal(err)
	}
	w.run(tick)
	w.mu.Lock()
	w.began = w.began.Add(-2 * time.Minute) // the start of the process counts as a look
	for _, id := range []string{"H1", "H2"} {
		st := w.past.standings[id]
		st.looked = time.Time{}
		w.past.standings[id] = st
	}
	w.mu.Unlock()
	if w.Verify(t.Context(), w.h("H2")) || w.called() != "" {
		t.Error("a look at what another replica has looked at a moment ago")
	}
	if !w.Verify(t.Context(), w.h("H1")) || w.called() != "H1" {
		t.Error("no look at what nobody has looked at")
	}
}

func TestAHospitalFailsUntilAReplicaHasReadIt(t *testing.T) {
	server := redistest.Start(t)
	var log strings.Builder
	w := newReplica(t, server, 2, func(o *Options) { o.Log = zerolog.New(&log) })
	other := newReplica(t, server, 2, nil)
	tick := until(time.Now().Add(time.Hour))
	next := func(replicas ...*world) {
		for _, w := range replicas {
			w.run(tick)
		}
		tick = until(time.Time(tick).Add(time.Hour))
	}
	failing := func() float64 { return figure(t, w.Metrics.Failing) }
	w.fail["H1"], other.fail["H1"] = true, true
	next(w, other)
	next(other, w)
	next(other, w)
	if failing() != 1 {
		t.Error("it fails elsewhere, too, but no longer here")
	}
	delete(other.fail, "H1")
	next(other, w)
	if s := w.Status(); failing() != 0 || s.Failing != 0 || s.Hospitals[0].Failing() || len(s.Recovered) != 1 {
		t.Errorf("another replica has read it, and here it fails: %+v", s)
	}
	if got := log.String(); strings.Count(got, EventFailing) != 1 || strings.Count(got, EventRecovered) != 1 {
		t.Errorf("not said once each:\n%s", got)
	}
}

// A pass that reads nothing since others have claimed all is no success while they all fail:
// else a fleet with fewer hospitals than workers would go on succeeding without SureM.
func TestAPassIsNoSuccessWhenAllThatIsReadElsewhereFails(t *testing.T) {
	server := redistest.Start(t)
	w, other := newReplica(t, server, 2, nil), newReplica(t, server, 2, nil)
	var succeeded atomic.Int64
	w.Succeeded = func() { succeeded.Add(1) }
	tick := until(time.Now().Add(time.Hour))
	passes := func(n int) {
		for range n {
			other.run(tick)
			w.run(tick)
			tick = until(time.Time(tick).Add(time.Hour))
		}
	}
	other.fail["H1"], other.fail["H2"] = true, true
	passes(1) // claims come before looks: nobody knows yet
	began := succeeded.Load()
	passes(3)
	if n := succeeded.Load() - began; n != 0 {
		t.Errorf("%d successes, while nobody can read anything", n)
	}
	delete(other.fail, "H2")
	passes(2)
	if n := succeeded.Load() - began; n != 2 {
		t.Errorf("%d successes in two ticks in which one of two was read", n)
	}
}

func TestWithoutRedisNothingIsReadAndItSaysSoOnce(t *testing.T) {
	server := redistest.Start(t)
	var log strings.Builder
	w := newReplica(t, server, 3, func(o *Options) {
		o.Concurrency, o.Log = 3, zerolog.New(zerolog.SyncWriter(&log))
	})
	server.Kill()
	tick := until(time.Now().Add(1500 * time.Millisecond)) // three workers, two claims each
	if got := w.run(tick); got != "" {
		t.Errorf("called %s", got)
	}
	if p := w.Status().Pass; p.NotReached != 3 || p.Elsewhere != 0 || figure(t, w.Metrics.LastSuccess) != 0 || w.claims("error") != 6 {
		t.Errorf("%+v, %v errors", p, w.claims("error"))
	}
	if n := strings.Count(log.String(), `"message":"claims"`); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}

	tick = until(time.Now().Add(time.Hour))
	passed := make(chan struct{})
	go func() {
		w.expect(tick)
		w.tick(t.Context(), tick)
		close(passed)
	}()
	await(t, "a claim of the next tick has failed", func() bool { return w.claims("error") >= 9 })
	server.Restart()
	<-passed
	if got := strings.Fields(w.called()); len(got) != 3 {
		t.Errorf("Redis is back within the tick: called %s", got)
	}
}

func TestWhatIsClaimedIsReadThoughTheProcessIsAskedToStop(t *testing.T) {
	w := newReplica(t, redistest.Start(t), 2, nil)
	w.run(until(time.Now().Add(time.Hour))) // and Redis knows the script
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w.set(func() {
		w.sending = func(commands string) {
			if commands == "evalsha" { // a claim is on its way
				stop()
			}
		}
	})
	tick := until(time.Now().Add(2 * time.Hour))
	w.called()
	w.expect(tick)
	w.tick(ctx, tick)
	if got := w.called(); len(strings.Fields(got)) != 1 {
		t.Errorf("one was claimed, and read: %q", got)
	}
}

func TestARedisThatIsFullIsComparedAllTheSame(t *testing.T) {
	server := redistest.Start(t)
	w := newReplica(t, server, 2, nil)
	w.cache("REQUESTED", "H1", "H2")
	w.set(func() { w.status["H1"] = "APPROVED" })
	if err := server.Client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if got := w.run(until(time.Now().Add(5 * time.Second))); got != "H1 H2" {
		t.Errorf("called %s", got)
	}
	if n, err := server.Client.Exists(t.Context(), "t:{H1}:T1", "t:{H2}:T1").Result(); n != 1 || err != nil {
		t.Errorf("%d entries left, %v", n, err)
	}
}

func TestWithoutFleetATickSendsWhatItDid(t *testing.T) {
	w := newWorld(t, 2, nil)
	tick := until(time.Now().Add(time.Hour))
	w.run(tick)
	if got, want := strings.Join(w.commands, "; "), "zrange zrange; del get; del get"; got != want {
		t.Errorf("a tick sends %q, want %q", got, want)
	}
}
