package e2e

import (
	"net/http"
	"testing"
	"time"
)

func TestWhoAsksDuringAReadingSharesTheNextOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", template{code: "T1", status: "REQUESTED"})
	w.cache("H001", template{code: "T1", status: "REQUESTED"})
	d := w.start()
	gate := w.surem.hold(summaries, senderKey("H001"), 1)
	first := inBackground(func() answer { return d.sync("H001") })
	gate.await(1)
	w.surem.setStatus(senderKey("H001"), "T1", "APPROVED")
	later := []<-chan answer{}
	for range 5 {
		later = append(later, d.asked(http.MethodPost, syncPath("H001")))
	}
	list := d.asked(http.MethodGet, listPath("H001"))
	gate.release()
	if r := receive(t, soon, "the first", first).report(t); len(r.Invalidated) != 0 {
		t.Errorf("the first reading began before the change: %+v", r)
	}
	for _, c := range later {
		if r := receive(t, soon, "who asked later", c).report(t); !r.OK || r.Listed != 1 {
			t.Errorf("%+v", r)
		}
	}
	if l, _ := receive(t, soon, "the list", list).listing(t); !l.Compared {
		t.Errorf("%+v", l)
	}
	if w.cached("H001", "T1") {
		t.Error("who asked after the change was answered, and the entry is still there")
	}
	if n := w.surem.summaries(senderKey("H001")); n != 2 {
		t.Errorf("%d readings for one, and six who asked during it: want two", n)
	}
}

func TestWhoAsksBeforeTheFirstSlotJoins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", template{code: "T1", status: "APPROVED"})
	d := w.start("SUREM_RATE_LIMIT=0.5", "SUREM_RATE_BURST=1")
	d.sync("H001").report(t) // the next slot is two seconds away
	asked := time.Now()
	answers := together(8, func(i int) answer {
		if i%2 == 0 {
			return d.get(listPath("H001"))
		}
		return d.sync("H001")
	})
	for _, a := range answers {
		a.want(t, http.StatusOK)
	}
	if n := w.surem.summaries(senderKey("H001")); n != 2 {
		t.Errorf("%d readings, want one for all who asked before its slot, after %v", n-1, time.Since(asked))
	}
}

func TestWhoAsksBehindAReadingThatWaitsThroughALongHoldIsTurnedAwayAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", template{code: "T1", status: "APPROVED"}, template{code: "T2", status: "APPROVED"})
	w.surem.each(func(c call) *reply {
		if c.op == detail {
			return &reply{status: http.StatusTooManyRequests, header: map[string]string{"Retry-After": "60"}, body: `{"code":"E429","message":"slow down"}`}
		}
		return nil
	})
	gate := w.surem.hold(summaries, senderKey("H001"), 1)
	d := w.start("SYNC_ON_START=true", "SUREM_PAGE_SIZE=1", "SYNC_TIMEOUT=3s", "SHUTDOWN_GRACE=1s")
	gate.await(1) // the pass reads its first page
	d.read("H001", "T1").problem(t, http.StatusBadGateway)
	gate.release() // and queues for its second one
	eventually(t, soon, "the first page is read", func() bool {
		return d.metric(`syncer_surem_requests_total{operation="summaries",outcome="ok"}`) == 1
	})
	for _, a := range []answer{d.get(listPath("H001")), d.sync("H001")} {
		a.problem(t, http.StatusBadGateway)
		a.retryAfter(t)
		if a.took > 2*time.Second {
			t.Errorf("turned away after %v, and what it asks for cannot begin for a minute", a.took)
		}
	}
}

func TestAListThatAHoldOvertakesInTheQueueIsSureMsFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.surem.each(func(c call) *reply {
		if c.op == detail {
			return &reply{status: http.StatusTooManyRequests, header: map[string]string{"Retry-After": "60"}, body: `{"code":"E429","message":"slow down"}`}
		}
		return nil
	})
	// The login takes the first slot, the read the one two seconds later, the pass the next.
	d := w.start("SYNC_ON_START=true", "SUREM_RATE_LIMIT=0.5", "SUREM_RATE_BURST=1", "SYNC_TIMEOUT=7s", "SHUTDOWN_GRACE=1s")
	eventually(t, soon, "the login is over", func() bool {
		return d.metric(`syncer_surem_requests_total{operation="login",outcome="ok"}`) == 1
	})
	read := inBackground(func() answer { return d.read("H001", "T1") })
	d.awaitWaiters(1)
	list := d.asked(http.MethodGet, listPath("H001")) // joins the pass' reading, which has no deadline of its own
	receive(t, soon, "the read", read).problem(t, http.StatusBadGateway)
	a := receive(t, soon, "the list", list)
	a.problem(t, http.StatusBadGateway)
	if after := a.retryAfter(t); after < 30*time.Second {
		t.Errorf("come back after %v, and SureM has asked for a minute", after)
	}
}

func TestHospitalsOfOneSenderShareTheSummaryCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.surem.put("sk-shared-9f2c", template{code: "T1", status: "REQUESTED"})
	w.cache("H001", template{code: "T1", status: "REQUESTED"})
	w.cache("H002", template{code: "T1", status: "REQUESTED"})
	d := w.start("HOSPITALS=H001=sk-shared-9f2c,H002=sk-shared-9f2c", "SYNC_SCHEDULE=@every 2s")
	w.surem.awaitReadings("sk-shared-9f2c", 1)
	w.surem.setStatus("sk-shared-9f2c", "T1", "APPROVED")
	eventually(t, soon, "both entries are gone", func() bool { return !w.cached("H001", "T1") && !w.cached("H002", "T1") })
	ticks := `syncer_sync_ticks_total{result="run"}`
	// Between two passes calls and passes can be counted against each other.
	eventually(t, soon, "as many summary calls as passes", func() bool {
		m := d.metrics()
		n := float64(w.surem.summaries("sk-shared-9f2c"))
		return m[ticks] >= 2 && (n == m[ticks] || n == m[ticks]+1) // the pass at start may be no tick
	})
}

func TestAFailingHospitalStopsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001", "H002", "H003")
	for _, h := range []string{"H001", "H002", "H003"} {
		w.listed(h, 1, "APPROVED", "REQUESTED")
	}
	w.surem.each(func(c call) *reply {
		if c.op == summaries && c.sender == senderKey("H001") {
			return failure
		}
		return nil
	})
	d := w.start("SYNC_CONCURRENCY=1", "SUREM_MAX_RETRIES=0")
	eventually(t, soon, "the others are compared", func() bool { return w.countCached("H002")+w.countCached("H003") == 0 })
	eventually(t, soon, "one hospital fails", func() bool { return d.metric("syncer_hospitals_failing") == 1 })
	if w.countCached("H001") != 1 {
		t.Error("an entry of the failing hospital is gone")
	}
	success := d.metric("syncer_sync_last_success_timestamp_seconds")
	eventually(t, soon, "passes go on to succeed", func() bool { return d.metric("syncer_sync_last_success_timestamp_seconds") > success })
	w.surem.each(nil)
	eventually(t, soon, "it heals", func() bool { return w.countCached("H001") == 0 && d.metric("syncer_hospitals_failing") == 0 })
}

func TestAHangingHospitalStopsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001", "H002", "H003")
	for _, h := range []string{"H001", "H002", "H003"} {
		w.listed(h, 1, "APPROVED", "REQUESTED")
	}
	w.surem.hold(summaries, senderKey("H001"), 0)
	d := w.start("SYNC_CONCURRENCY=1", "SYNC_TIMEOUT=2s", "SUREM_TIMEOUT=1m")
	eventually(t, soon, "the others are compared", func() bool { return w.countCached("H002")+w.countCached("H003") == 0 })
	eventually(t, soon, "one hospital fails", func() bool { return d.metric("syncer_hospitals_failing") == 1 })
	d.get("/healthz").want(t, http.StatusOK)
}

func TestATickDuringAPassIsSkippedAndCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	w.listed("H001", 1, "APPROVED", "REQUESTED")
	gate := w.surem.hold(summaries, senderKey("H001"), 1)
	d := w.start()
	gate.await(1)
	eventually(t, soon, "two ticks are skipped", func() bool { return d.metric(`syncer_sync_ticks_total{result="skipped"}`) >= 2 })
	if n := w.surem.summaries(senderKey("H001")); n != 1 {
		t.Errorf("%d summary calls during one pass", n)
	}
	run := d.metric(`syncer_sync_ticks_total{result="run"}`)
	gate.release()
	eventually(t, soon, "the pass ends", func() bool { return w.countCached("H001") == 0 })
	eventually(t, soon, "ticks run again", func() bool { return d.metric(`syncer_sync_ticks_total{result="run"}`) > run })
}
