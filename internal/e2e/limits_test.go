package e2e

import (
	"net/http"
	"testing"
	"time"
)

func TestTheCapOnKeysTurnsOthersAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one, two := template{code: "T1", status: "APPROVED"}, template{code: "T2", status: "APPROVED"}
	w.offer("H001", one, two)
	d := w.start("FLIGHT_MAX_KEYS=1")
	gate := w.surem.hold(detail, senderKey("H001"), 0)
	held := inBackground(func() answer { return d.read("H001", "T1") })
	gate.await(1)
	a := d.read("H001", "T2")
	a.problem(t, http.StatusTooManyRequests)
	a.retryAfter(t)
	joined := inBackground(func() answer { return d.read("H001", "T1") })
	d.awaitWaiters(2)
	if n := d.metric(`single_flight_rejected_total{reason="keys"}`); n != 1 {
		t.Errorf("%v rejected, want one", n)
	}
	gate.release()
	receive(t, soon, "the held read", held).document(t, one)
	receive(t, soon, "who joined it", joined).document(t, one)
	eventually(t, soon, "the other key gets its turn", func() bool { return d.read("H001", "T2").status == http.StatusOK })
}

func TestTheCapOnWaitersTurnsOthersAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	d := w.start("FLIGHT_MAX_WAITERS=2")
	gate := w.surem.hold(detail, senderKey("H001"), 0)
	held := inBackground(func() answer { return d.read("H001", "T1") })
	joined := inBackground(func() answer { return d.read("H001", "T1") })
	d.awaitWaiters(2)
	for range 3 {
		a := d.read("H001", "T1")
		a.problem(t, http.StatusTooManyRequests)
		a.retryAfter(t)
	}
	if n := d.metric(`single_flight_rejected_total{reason="waiters"}`); n != 3 {
		t.Errorf("%v rejected, want 3", n)
	}
	gate.release()
	receive(t, soon, "the held read", held).document(t, one)
	receive(t, soon, "who joined it", joined).document(t, one)
	d.read("H001", "T1").document(t, one).via(t, "hit")
}

func TestWithoutACoolDownEveryReadAsksAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	d := w.start("FLIGHT_FAILURE_COOLDOWN=0s")
	for range 3 {
		d.read("H001", "NONE").problem(t, http.StatusNotFound)
	}
	if n := w.surem.details(senderKey("H001"), "NONE"); n != 3 {
		t.Errorf("%d detail calls for three reads", n)
	}
}

func TestACoolDownIsOfOneKeyOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001", "H002").quiet()
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H002", one)
	w.offer("H001", template{code: "T2", status: "APPROVED"})
	d := w.start("FLIGHT_FAILURE_COOLDOWN=1m")
	d.read("H001", "T1").problem(t, http.StatusNotFound)
	d.read("H002", "T1").document(t, one)
	d.read("H001", "T2").want(t, http.StatusOK)
}

func TestAsManyKeysCoolAsMayRunTheOldestForgottenFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	d := w.start("FLIGHT_FAILURE_COOLDOWN=1m", "FLIGHT_MAX_KEYS=2")
	for _, code := range []string{"A", "B", "C", "C", "B", "A"} {
		d.read("H001", code).problem(t, http.StatusNotFound)
	}
	for code, want := range map[string]int{"A": 2, "B": 1, "C": 1} {
		if n := w.surem.details(senderKey("H001"), code); n != want {
			t.Errorf("%d detail calls for %s, want %d", n, code, want)
		}
	}
}

func TestALoadThatTakesTooLongIsAGatewayTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	d := w.start("FLIGHT_LOADER_TIMEOUT=1s", "SUREM_TIMEOUT=1m", "FLIGHT_FAILURE_COOLDOWN=0s")
	gate := w.surem.hold(detail, senderKey("H001"), 0)
	for _, a := range together(5, func(int) answer { return d.read("H001", "T1") }) {
		a.problem(t, http.StatusGatewayTimeout)
		if a.took > 4*time.Second {
			t.Errorf("answered after %v, the load has a second", a.took)
		}
	}
	gate.release()
	eventually(t, soon, "it heals", func() bool { return d.read("H001", "T1").status == http.StatusOK })
	if n := d.metric("single_flight_in_flight"); n != 0 {
		t.Errorf("single_flight_in_flight %v", n)
	}
}

func TestAWaitForASlotThatWouldOutlastTheLoadIsTurnedAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", template{code: "T1", status: "APPROVED"}, template{code: "T2", status: "APPROVED"})
	d := w.start("SUREM_RATE_LIMIT=0.05", "SUREM_RATE_BURST=2", "FLIGHT_LOADER_TIMEOUT=5s", "SYNC_TIMEOUT=5s")
	d.read("H001", "T1").want(t, http.StatusOK) // a login and a detail call
	for _, a := range []answer{d.read("H001", "T2"), d.get(listPath("H001")), d.sync("H001")} {
		a.problem(t, http.StatusTooManyRequests)
		if wait := a.retryAfter(t); wait < 10*time.Second || wait > 20*time.Second {
			t.Errorf("Retry-After %v, the next slot is at most 20s away", wait)
		}
		if a.took > 3*time.Second {
			t.Errorf("refused after %v, not at once", a.took)
		}
	}
	d.read("H001", "T1").want(t, http.StatusOK).via(t, "hit")
}

func TestA429OfSureMHoldsTheAccountBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	limited := 0
	w.surem.each(func(c call) *reply {
		if c.op == detail && limited == 0 {
			limited++
			return &reply{status: http.StatusTooManyRequests, header: map[string]string{"Retry-After": "2"}, body: `{"code":"E429","message":"slow down"}`}
		}
		return nil
	})
	d := w.start()
	a := d.read("H001", "T1").document(t, one)
	if a.took < 1900*time.Millisecond {
		t.Errorf("answered after %v, SureM asked to wait 2s", a.took)
	}
	if n := w.surem.details(senderKey("H001"), "T1"); n != 2 {
		t.Errorf("%d detail calls, want the refused one and its retry", n)
	}
}

func TestARetryAfterBeyondTheLoadEndsItAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.surem.each(func(c call) *reply {
		if c.op == detail {
			return &reply{status: http.StatusServiceUnavailable, header: map[string]string{"Retry-After": "86400"}, body: "<html>maintenance</html>"}
		}
		return nil
	})
	d := w.start()
	a := d.read("H001", "T1")
	a.problem(t, http.StatusBadGateway)
	a.retryAfter(t)
	if a.took > 3*time.Second {
		t.Errorf("answered after %v", a.took)
	}
	if n := w.surem.details(senderKey("H001"), "T1"); n != 1 {
		t.Errorf("%d detail calls", n)
	}
}

func TestTransientFailuresAreRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	w.cache("H001", template{code: "T2", status: "REQUESTED"})
	failed := map[string]int{}
	w.surem.each(func(c call) *reply {
		if failed[c.op] < 2 {
			failed[c.op]++
			return failure
		}
		return nil
	})
	d := w.start("SUREM_MAX_RETRIES=2")
	d.read("H001", "T1").document(t, one)
	if r := d.sync("H001").report(t); !r.OK {
		t.Errorf("%+v", r)
	}
	if n := w.surem.details(senderKey("H001"), "T1"); n != 3 {
		t.Errorf("%d detail calls, want two failures and a success", n)
	}
}
