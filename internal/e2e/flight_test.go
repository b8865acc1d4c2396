package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"
)

func TestTwoHundredReadsOfOneTemplateCostOneCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001", "H002").quiet() // a pass would fence the held loads
	one := template{code: "T1", status: "APPROVED", version: "of H001"}
	other := template{code: "T1", status: "APPROVED", version: "of H002"}
	w.offer("H001", one)
	w.offer("H002", other)
	d := w.start()
	gate := w.surem.hold(detail, senderKey("H001"), 0)
	otherGate := w.surem.hold(detail, senderKey("H002"), 0)

	all := make(chan []answer, 1)
	go func() { all <- together(200, func(int) answer { return d.read("H001", "T1") }) }()
	d.awaitWaiters(200)
	if n := d.metric("single_flight_waiters_per_key_max"); n != 200 {
		t.Errorf("single_flight_waiters_per_key_max %v, want 200", n)
	}
	gate.await(1)
	its := inBackground(func() answer { return d.read("H002", "T1") })
	otherGate.await(1) // at the same time as the other hospital's
	if n := d.metric("single_flight_in_flight"); n != 2 {
		t.Errorf("single_flight_in_flight %v, want 2", n)
	}
	otherGate.release()
	receive(t, soon, "the other hospital's read", its).document(t, other).via(t, "fwd=miss; stored")
	gate.release()

	collapsed := 0
	for _, a := range receive(t, soon, "200 answers", all) {
		a.document(t, one)
		if a.header.Get("Cache-Status") == "alimtalk-syncer; fwd=miss; collapsed" {
			collapsed++
		} else {
			a.via(t, "fwd=miss; stored")
		}
	}
	if collapsed != 199 {
		t.Errorf("%d collapsed, want 199", collapsed)
	}
	if n := w.surem.details(senderKey("H001"), "T1"); n != 1 {
		t.Errorf("%d detail calls, want one", n)
	}
	d.read("H001", "T1").document(t, one).via(t, "hit")
	if v, _ := w.redis.get(key("H001", "T1")); v != one.document() {
		t.Errorf("stored\n%q, want\n%q", v, one.document())
	}
	if left := w.redis.ttl(key("H001", "T1")); left > 24*time.Hour || left < 24*time.Hour-2*time.Minute {
		t.Errorf("stored for %v, want CACHE_TTL's 24h", left)
	}
	if n := w.surem.details(senderKey("H001"), "T1"); n != 1 {
		t.Errorf("%d detail calls after a hit, want one", n)
	}
}

func TestAnotherTemplateOfTheSameHospitalDoesNotWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet() // a pass would fence the held load
	w.offer("H001", template{code: "T1", status: "APPROVED"}, template{code: "T2", status: "APPROVED"})
	d := w.start()
	gate := w.surem.hold(detail, senderKey("H001"), 0, "T1")
	first := inBackground(func() answer { return d.read("H001", "T1") })
	gate.await(1)
	d.read("H001", "T2").want(t, http.StatusOK).via(t, "fwd=miss; stored")
	gate.release()
	receive(t, soon, "the held read", first).want(t, http.StatusOK)
}

func TestTheCallerWhoStartedALoadLeavesAndTheOthersGetIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet() // a pass would fence the held load
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	d := w.start()
	gate := w.surem.hold(detail, senderKey("H001"), 0)

	ctx, leave := context.WithCancel(context.Background())
	starter := inBackground(func() answer { return d.do(ctx, http.MethodGet, detailPath("H001", "T1")) })
	gate.await(1)
	all := make(chan []answer, 1)
	go func() { all <- together(10, func(int) answer { return d.read("H001", "T1") }) }()
	d.awaitWaiters(11)
	leave()
	if a := receive(t, soon, "the starter has left", starter); a.err == nil {
		t.Fatalf("the starter was answered: %d", a.status)
	}
	d.awaitWaiters(10)
	gate.release()
	for _, a := range receive(t, soon, "the others' answers", all) {
		a.document(t, one)
	}
	if n := w.surem.details(senderKey("H001"), "T1"); n != 1 {
		t.Errorf("%d detail calls, want one", n)
	}
}

func TestAFollowerWhoLeavesTakesNobodyAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet() // a pass would fence the held load
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	d := w.start()
	gate := w.surem.hold(detail, senderKey("H001"), 0)
	starter := inBackground(func() answer { return d.read("H001", "T1") })
	gate.await(1)
	ctx, leave := context.WithCancel(context.Background())
	follower := inBackground(func() answer { return d.do(ctx, http.MethodGet, detailPath("H001", "T1")) })
	d.awaitWaiters(2)
	leave()
	receive(t, soon, "the follower has left", follower)
	d.awaitWaiters(1)
	gate.release()
	receive(t, soon, "the starter's answer", starter).document(t, one)
}

func TestAllCallersLeaveAndTheEntryIsStoredAllTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet() // a pass would fence the held load
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	d := w.start()
	gate := w.surem.hold(detail, senderKey("H001"), 0)
	ctx, leave := context.WithCancel(context.Background())
	gone := make(chan []answer, 1)
	go func() {
		gone <- together(3, func(int) answer { return d.do(ctx, http.MethodGet, detailPath("H001", "T1")) })
	}()
	gate.await(1)
	d.awaitWaiters(3)
	leave()
	receive(t, soon, "all have left", gone)
	d.awaitWaiters(0)
	if n := d.metric("single_flight_in_flight"); n != 1 {
		t.Errorf("single_flight_in_flight %v: the load should go on", n)
	}
	gate.release()
	eventually(t, soon, "the entry is stored", func() bool { return w.cached("H001", "T1") })
	d.read("H001", "T1").document(t, one).via(t, "hit")
	if n := w.surem.details(senderKey("H001"), "T1"); n != 1 {
		t.Errorf("%d detail calls, want one", n)
	}
}

func TestAFailedLoadFailsForAllCoolsDownAndHeals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet() // a pass would fence the held load
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	w.surem.each(func(c call) *reply {
		if c.op == detail {
			return failure
		}
		return nil
	})
	d := w.start("SUREM_MAX_RETRIES=0", "FLIGHT_FAILURE_COOLDOWN=6s")
	gate := w.surem.hold(detail, senderKey("H001"), 0)
	all := make(chan []answer, 1)
	go func() { all <- together(20, func(int) answer { return d.read("H001", "T1") }) }()
	d.awaitWaiters(20)
	gate.release()
	for _, a := range receive(t, soon, "20 answers", all) {
		a.problem(t, http.StatusBadGateway)
	}
	failed := time.Now()
	w.surem.each(nil) // SureM is well again, but nobody may know yet

	stampede := together(100, func(int) answer { return d.read("H001", "T1") })
	if since := time.Since(failed); since > 5*time.Second {
		t.Fatalf("the stampede took %v, the cool-down may be over", since)
	}
	for _, a := range stampede {
		a.problem(t, http.StatusBadGateway)
		if a.retryAfter(t) > 6*time.Second {
			t.Errorf("Retry-After %v in a cool-down of 6s", a.retryAfter(t))
		}
	}
	if n := w.surem.details(senderKey("H001"), "T1"); n != 1 {
		t.Errorf("%d detail calls in the cool-down, want the failed one only", n)
	}
	eventually(t, soon, "the read heals", func() bool { return d.read("H001", "T1").status == http.StatusOK })
	if n := w.surem.details(senderKey("H001"), "T1"); n != 2 {
		t.Errorf("%d detail calls, want two", n)
	}
	d.read("H001", "T1").document(t, one).via(t, "hit")
}
