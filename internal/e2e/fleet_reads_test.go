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
	replicas := f.runs(3, "FLIGHT_LOADER_TIMEOUT=1m", "SUREM_TIMEOUT=1m")
	for _, code := range []string{"T1", "T2", "T3"} { // again only where this machine stood still
		vias := f.fiveHundredReaders(replicas, code)
		if vias["alimtalk-syncer; fwd=bypass"] > 0 {
			continue // Redis did not answer a replica in time
		}
		if vias["alimtalk-syncer; fwd=miss; stored"] != 1 || vias["alimtalk-syncer; fwd=miss; collapsed"] != 499 {
			t.Errorf("%v: want one who stores, and 499 who wait for that", vias)
		}
		n := f.surem.details(senderKey("H001"), code)
		if n != 1 {
			t.Errorf("%d detail calls for 500 readers, want one", n)
		}
		t.Logf("500 readers over three replicas, one cold key: %d call to SureM, %v", n, vias)
		return
	}
	t.Error("Redis did not answer in time")
}

// fiveHundredReaders has them all wait for one held call, and says how they got their answers.
func (f *fleet) fiveHundredReaders(replicas []*life, code string) map[string]int {
	f.t.Helper()
	one := template{code: code, status: "APPROVED"}
	f.offer("H001", one)
	gate := f.surem.hold(detail, senderKey("H001"), 0, code)
	before := sum(replicas, claims("load", "lost"))
	all := make(chan []answer, 1)
	go func() {
		all <- together(500, func(i int) answer { return replicas[i%3].read("H001", code) })
	}()
	eventually(f.t, 2*soon, "500 readers wait", func() bool { return sum(replicas, "single_flight_waiters") == 500 })
	eventually(f.t, 2*soon, "every replica has a load that calls SureM or waits for another", func() bool {
		return float64(f.surem.details(senderKey("H001"), code))+sum(replicas, claims("load", "lost"))-before == 3
	})
	gate.release()
	vias := map[string]int{}
	for _, a := range receive(f.t, time.Minute, "500 answers", all) {
		vias[a.document(f.t, one).header.Get("Cache-Status")]++
	}
	return vias
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
	alone := sum(replicas, `syncer_fleet_slots_total{result="alone"}`)                    // where Redis did not answer in time
	if most := burst + perSecond*took.Seconds() + 3 + alone; float64(len(calls)) > most { // one call of each may have been on its way
		t.Errorf("%d calls in %v, want at most %.0f", len(calls), took, most)
	}
	t.Logf("three replicas at %d calls a second: %d calls in %v", perSecond, len(calls), took.Round(time.Millisecond))
	if shared := sum(replicas, `syncer_fleet_slots_total{result="shared"}`); alone > shared/10 {
		t.Errorf("%v slots were taken without the others' knowledge, and %v with it", alone, shared)
	}
}
