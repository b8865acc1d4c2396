package e2e

import (
	"net/http"
	"testing"
	"time"
)

func TestFiveHundredReadersOverThreeReplicasCostOneCall(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, time.Second)
	f.quiet() // a pass would fence the held load
	one := template{code: "T1", status: "APPROVED"}
	f.offer("H001", one)
	replicas := f.runs(3, "FLIGHT_LOADER_TIMEOUT=1m", "SUREM_TIMEOUT=1m")
	gate := f.surem.hold(detail, senderKey("H001"), 0)
	all := make(chan []answer, 1)
	go func() {
		all <- together(500, func(i int) answer { return replicas[i%3].read("H001", "T1") })
	}()
	waiting := func() (n float64) {
		for _, l := range replicas {
			n += l.metric("single_flight_waiters")
		}
		return n
	}
	eventually(t, soon, "500 readers wait", func() bool { return waiting() == 500 })
	eventually(t, soon, "two replicas wait for the third's load", func() bool {
		return sum(replicas, claims("load", "won")) == 1 && sum(replicas, claims("load", "lost")) == 2
	})
	gate.release()
	vias := map[string]int{}
	for _, a := range receive(t, time.Minute, "500 answers", all) {
		vias[a.document(t, one).header.Get("Cache-Status")]++
	}
	if n := f.surem.anyDetails(); n != 1 {
		t.Errorf("%d detail calls for 500 readers, want one", n)
	}
	if n := vias["alimtalk-syncer; fwd=miss; stored"]; n != 1 {
		t.Errorf("%d have stored what they loaded, want one: %v", n, vias)
	}
	t.Logf("500 readers, three replicas, one cold key: %d call to SureM, %v", f.surem.anyDetails(), vias)
	for _, l := range replicas {
		l.read("H001", "T1").document(t, one).via(t, "hit")
	}
}

// sum adds up one figure of several replicas.
func sum(replicas []*life, metric string) (total float64) {
	for _, l := range replicas {
		total += l.metric(metric)
	}
	return total
}

// One account's five calls a second, whoever makes them; of passes no more than four.
func TestTheRateLimitHoldsForTheFleet(t *testing.T) {
	t.Parallel()
	const perSecond, burst = 5, 2
	f := newFleet(t, 60, time.Minute) // so that no replica's pass ends meanwhile
	replicas := f.runs(3, "SUREM_RATE_LIMIT=5", "SUREM_RATE_BURST=2", "SHUTDOWN_GRACE=1s")
	count := func() int { return len(f.surem.calls(func(call) bool { return true })) }
	eventually(t, 2*soon, "the passes have used up the burst", func() bool { return count() >= 20 })
	var quickest time.Duration
	for i, l := range replicas {
		took := l.read(f.ids[i], "T1").want(t, http.StatusOK).took
		t.Logf("a lone read at replica %s amid three passes took %v", l.name, took.Round(time.Millisecond))
		if i == 0 || took < quickest {
			quickest = took
		}
	}
	if quickest > 5*time.Second/perSecond {
		t.Errorf("a lone read took %v at best, five slots are a second", quickest)
	}
	eventually(t, 2*soon, "half of all calls", func() bool { return count() >= 35 })
	calls := f.surem.calls(func(call) bool { return true })
	took := calls[len(calls)-1].at.Sub(calls[0].at)
	if most := burst + perSecond*took.Seconds() + 3; float64(len(calls)) > most { // one call of each may have been on its way
		t.Errorf("%d calls in %v, want at most %.0f", len(calls), took, most)
	}
	t.Logf("three replicas at %d calls a second: %d calls in %v", perSecond, len(calls), took.Round(time.Millisecond))
	if n := sum(replicas, `syncer_fleet_slots_total{result="alone"}`); n != 0 {
		t.Errorf("%v slots were taken without the others' knowledge", n)
	}
}
