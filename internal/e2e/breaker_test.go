package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// clinicsDown starts a daemon of three hospitals, each with a cached T1, and lets SureM fail
// until the breaker is open.
func clinicsDown(t *testing.T, changes ...string) (*world, *daemon) {
	t.Helper()
	w := newWorld(t, "H001", "H002", "H003")
	for _, h := range []string{"H001", "H002", "H003"} {
		w.offer(h, template{code: "T1", status: "APPROVED"}, template{code: "T2", status: "APPROVED"})
		w.cache(h, template{code: "T1", status: "APPROVED"})
	}
	d := w.start(changes...)
	eventually(t, soon, "a pass has ended", func() bool { return d.metric("syncer_sync_last_success_timestamp_seconds") > 0 })
	w.surem.each(func(call) *reply { return failure })
	together(20, func(i int) answer { return d.read("H001", fmt.Sprintf("X%d", i)) })
	eventually(t, soon, "the breaker is open", func() bool { return d.metric("syncer_surem_breaker_open") == 1 })
	return w, d
}

func TestWithTheBreakerOpenHitsGoOnAndMissesEndAtOnce(t *testing.T) {
	t.Parallel()
	w, d := clinicsDown(t, "SYNC_SCHEDULE="+never, "SYNC_ON_START=true")
	before := len(w.surem.calls(func(call) bool { return true }))
	for i := range 10 {
		a := d.read("H002", fmt.Sprintf("Y%d", i))
		a.problem(t, http.StatusServiceUnavailable)
		if after := a.retryAfter(t); after > 10*time.Second {
			t.Errorf("Retry-After %v", after)
		}
		if a.took > 2*time.Second {
			t.Errorf("it took %v", a.took)
		}
	}
	for _, a := range []answer{d.get(listPath("H002")), d.sync("H002")} {
		a.problem(t, http.StatusServiceUnavailable)
		a.retryAfter(t)
	}
	// A read in ten seconds finds out, and the above may have taken as long.
	if n := len(w.surem.calls(func(call) bool { return true })) - before; n > 2 {
		t.Errorf("SureM was asked %d times", n)
	}
	d.read("H002", "T1").want(t, http.StatusOK).via(t, "hit")
	d.awaitReady(http.StatusOK, "surem: away", true)

	w.surem.each(nil)
	eventually(t, 2*soon, "a read has found out that SureM is back", func() bool {
		return d.read("H003", "T2").status == http.StatusOK
	})
	if v := d.metric("syncer_surem_breaker_open"); v != 0 {
		t.Errorf("the breaker is still open: %v", v)
	}
}

// The cool-down of a key and the breaker of its account each answer at once; neither makes
// the other last longer than its own length.
func TestTheBreakerAndTheCoolDownTogether(t *testing.T) {
	t.Parallel()
	w, d := clinicsDown(t, "FLIGHT_FAILURE_COOLDOWN=3s")
	passes := func() int { return w.surem.summaries(senderKey("H001")) }
	asked := passes()
	for range 3 { // the second and third are answered from the cool-down
		a := d.read("H001", "T2")
		a.problem(t, http.StatusServiceUnavailable)
		a.retryAfter(t)
	}
	loads := d.metric("single_flight_loaders_started_total")
	d.read("H001", "T2").problem(t, http.StatusServiceUnavailable)
	if n := d.metric("single_flight_loaders_started_total"); n > loads+1 {
		t.Errorf("a key that cools was loaded: %v loads, then %v", loads, n)
	}
	eventually(t, soon, "passes go on", func() bool { return passes() >= asked+3 })
	if n := d.metric("syncer_surem_breaker_open"); n != 1 {
		t.Fatal("the breaker has closed while SureM is away")
	}
	if n := w.surem.details(senderKey("H001"), "T2"); n > 1 {
		t.Errorf("a read reached SureM %d times", n)
	}
	for _, h := range []string{"H001", "H002", "H003"} {
		if !w.cached(h, "T1") {
			t.Errorf("the entry of %s is lost", h)
		}
	}

	w.surem.setStatus(senderKey("H002"), "T1", "REQUESTED")
	w.surem.each(nil)
	began := time.Now()
	eventually(t, soon, "a pass closes it", func() bool { return d.metric("syncer_surem_breaker_open") == 0 })
	eventually(t, soon, "and compares", func() bool { return !w.cached("H002", "T1") })
	eventually(t, soon, "the cool-down ends", func() bool { return d.read("H001", "T2").status == http.StatusOK })
	t.Logf("all well after %v", time.Since(began))
	eventually(t, soon, "no hospital fails", func() bool { return d.metric("syncer_hospitals_failing") == 0 })
	d.awaitReady(http.StatusOK, "surem: away", false)
	log := d.stderr.String()
	for _, event := range []string{"surem breaker open", "surem breaker closed"} {
		if n := strings.Count(log, `"`+event+`"`); n != 1 {
			t.Errorf("%q stands %d times in the log", event, n)
		}
	}
}

func TestAPassAsksOncePerHospitalWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	w := manyHospitals(t, 60)
	w.env["SUREM_RATE_LIMIT"], w.env["SUREM_RATE_BURST"] = "1000", "1000"
	w.surem.each(func(c call) *reply {
		if c.op == login {
			return nil
		}
		return failure
	})
	d := w.start("SYNC_SCHEDULE="+never, "SYNC_ON_START=true", "SYNC_CONCURRENCY=1")
	eventually(t, 2*soon, "the pass is over", func() bool { return d.metric("syncer_hospitals_failing") == 60 })
	var most, once int
	for i := range 60 {
		n := w.surem.summaries(senderKey(fmt.Sprintf("H%03d", i+1)))
		most = max(most, n)
		if n == 1 {
			once++
		}
	}
	if most != 4 || once < 60-5 { // five hospitals of four attempts each open it
		t.Errorf("%d hospitals were asked once; the most often asked %d times", once, most)
	}
	if n := strings.Count(d.stderr.String(), `"hospital failing"`); n > 5 {
		t.Errorf("%d hospitals are reported one by one", n)
	}
}
