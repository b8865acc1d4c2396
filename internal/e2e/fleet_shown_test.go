package e2e

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// Not parallel to other tests: three replicas, and a tick of a second for all of them.
func TestThreeReplicasReadThreeHundredHospitalsOncePerTickWhileReplicasAreKilled(t *testing.T) {
	const hospitals, ticks = 300, 60
	alone := callsPerTickOfOne(t, hospitals)

	seed := rand.Uint64()
	f := newFleet(t, hospitals, time.Second)
	posted := []string{"P001", "P002", "P003", "P004"} // beside the 300, since a POST is no tick's reading
	for _, id := range posted {
		f.env["HOSPITALS"] += "," + id + "=" + senderKey(id)
	}
	random := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }
	h := newHistory(f, f.ids[:12], posted)
	f.surem.slow(slowness(random(0)))
	s := &shown{history: h, running: f.runs(3)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var everybody sync.WaitGroup
	defer everybody.Wait()
	do := func(stream uint64, most time.Duration, step func(r *rand.Rand)) {
		r := random(stream)
		everybody.Go(func() {
			for pause(ctx, r, most) {
				step(r)
			}
		})
	}
	all := slices.Concat(h.passed, h.asked)
	for reader := range uint64(4) {
		do(1+reader, 20*time.Millisecond, func(r *rand.Rand) { h.readAt(s.any(r), all[r.IntN(len(all))]) })
	}
	do(5, 100*time.Millisecond, func(r *rand.Rand) { h.postAt(s.any(r), h.asked[r.IntN(len(h.asked))]) })
	do(6, 30*time.Millisecond, func(r *rand.Rand) { h.change(all[r.IntN(len(all))]) })
	do(7, 20*time.Millisecond, func(*rand.Rand) { h.look() })

	f.awaitTicks(1)
	sixty, over := context.WithTimeout(ctx, ticks*f.every)
	defer over()
	kills, r := 0, random(8)
	for sixty.Err() == nil {
		for _, i := range r.Perm(3) { // each as often as the others
			if pause(sixty, r, 8*time.Second) {
				s.killAndRestart(i)
				kills++
			}
		}
	}
	f.awaitTicks(2)
	cancel()
	everybody.Wait()
	f.stop()

	k := f.ledger()
	missed := k.judge(t)
	readings := h.judge()
	whole := k.whole(t)
	calls := 0
	for _, tick := range whole {
		for _, n := range k.reads[tick] {
			calls += n
		}
	}
	perTick := float64(calls) / float64(len(whole))
	if perTick > 1.02*alone || perTick < .98*alone {
		t.Errorf("%.1f summary calls per tick, and %.1f by one replica", perTick, alone)
	}
	least, most := slices.Min([]int{k.share[1], k.share[2], k.share[3]}), slices.Max([]int{k.share[1], k.share[2], k.share[3]})
	if most > 2*least {
		t.Errorf("the replicas' shares are %v, want them within a factor of two", k.share)
	}
	if readings < 1000 || len(h.answered) < 500 || len(h.sightings) < 500 || kills < 4 {
		t.Errorf("too tame: %d readings compared, %d answers, %d sightings, %d kills", readings, len(h.answered), len(h.sightings), kills)
	}
	t.Logf("seed %d: %d ticks of %d hospitals, %d of them whole, %d kills", seed, len(k.ticks), hospitals, len(whole), kills)
	t.Logf("summary calls per tick: %.2f, and %.2f by one replica alone (%+.2f %%); %d readings were lost to the kills, none was made twice", perTick, alone, 100*(perTick/alone-1), missed)
	t.Logf("calls to SureM in all: %d summaries, %d details, %d logins", len(f.surem.calls(func(c call) bool { return c.op == summaries })), f.surem.anyDetails(), f.surem.logins())
	t.Logf("summary calls by replica: %v (%.2f times)", k.share, float64(most)/float64(least))
	t.Logf("§8.1: %d readings of %d changing hospitals against %d answers and %d sightings in Redis, %d POSTs", readings, len(all), len(h.answered), len(h.sightings), len(h.posts))
}

// callsPerTickOfOne is what a pass of one replica without FLEET costs SureM.
func callsPerTickOfOne(t *testing.T, hospitals int) float64 {
	t.Helper()
	one := newFleet(t, hospitals, time.Second)
	l := one.run(1, "FLEET=false")
	one.awaitPassesOf(l, 6)
	one.stop()
	calls, whole := 0, 0
	passes := l.passes()
	count := map[int]int{}
	for _, c := range one.surem.calls(func(c call) bool { return c.op == summaries }) {
		count[passOf(passes, c.at)]++
	}
	for i, p := range passes {
		if p.Hospitals == hospitals && p.NotReached == 0 {
			calls, whole = calls+count[i], whole+1
		}
	}
	if whole < 2 {
		t.Fatalf("of %d ticks only %d were long enough for this machine", len(passes), whole)
	}
	return float64(calls) / float64(whole)
}

// shown is a fleet whose replicas are killed and started again.
type shown struct {
	*history
	mu      sync.Mutex // guards running
	running []*life
}

// any returns a replica that runs, or did so a moment ago.
func (s *shown) any(r *rand.Rand) *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[r.IntN(len(s.running))]
}

// killAndRestart kills a replica and starts it again at once; meanwhile readers go to the others.
func (s *shown) killAndRestart(i int) {
	s.t.Helper()
	s.mu.Lock()
	victim := s.running[0]
	for _, l := range s.running {
		if l.replica == i+1 {
			victim = l
		}
	}
	s.running = slices.DeleteFunc(s.running, func(l *life) bool { return l == victim })
	s.mu.Unlock()
	victim.kill()
	l := s.run(victim.replica)
	s.mu.Lock()
	s.running = append(s.running, l)
	s.mu.Unlock()
}

// pause waits for up to most and reports whether to go on.
func pause(ctx context.Context, r *rand.Rand, most time.Duration) bool {
	timer := time.NewTimer(time.Duration(r.Int64N(int64(most))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
