package e2e

import (
	"net/http"
	"syscall"
	"testing"
)

// Two versions of one template: the reviewer approves v1 while a detail read of it is held back.
var (
	v1 = template{code: "T1", status: "REQUESTED", version: "v1"}
	v2 = template{code: "T1", status: "APPROVED", version: "v2"}
)

// wantNoV1 fails the test when the entry holds the old version.
func (w *world) wantNoV1() {
	w.t.Helper()
	if v, ok := w.redis.get(key("H001", "T1")); ok && v != v2.document() {
		w.t.Errorf("a stale document is stored: %q", v)
	}
}

func TestALoadHeldAcrossAPassStoresNothingStale(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	w.offer("H001", v1)
	d := w.start()
	gate := w.surem.hold(detail, senderKey("H001"), 1)
	before := inBackground(func() answer { return d.read("H001", "T1") })
	gate.await(1)
	w.offer("H001", v2)
	w.surem.awaitReadings(senderKey("H001"), 1)
	after := inBackground(func() answer { return d.read("H001", "T1") })
	d.awaitWaiters(2)
	gate.release()
	receive(t, soon, "who came after the pass", after).document(t, v2).via(t, "fwd=miss; collapsed")
	if a := receive(t, soon, "who came before", before).want(t, http.StatusOK); a.body != v1.document() && a.body != v2.document() {
		t.Errorf("neither version: %q", a.body)
	}
	w.wantNoV1()
	w.surem.awaitReadings(senderKey("H001"), 1)
	w.wantNoV1()
	d.read("H001", "T1").document(t, v2)
	requests, started, shared := d.metric("single_flight_requests_total"), d.metric("single_flight_loaders_started_total"), d.metric("single_flight_waiters_shared_total")
	if requests != started+shared {
		t.Errorf("%v requests, %v started, %v shared", requests, started, shared)
	}
}

func TestALoadHeldAcrossAnotherProcessesPassFillsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	w.offer("H001", v1)
	loads := w.start("SYNC_SCHEDULE="+never, "SYNC_ON_START=false")
	passes := w.start()
	gate := w.surem.hold(detail, senderKey("H001"), 1)
	before := inBackground(func() answer { return loads.read("H001", "T1") })
	gate.await(1)
	w.offer("H001", v2)
	w.surem.awaitReadings(senderKey("H001"), 1)
	passes.signal(syscall.SIGSTOP) // no later pass hides what is stored
	gate.release()
	receive(t, soon, "who came before", before).want(t, http.StatusOK)
	w.wantNoV1()
	loads.read("H001", "T1").document(t, v2)
	passes.signal(syscall.SIGCONT)
}

func TestALoadHeldAcrossAnotherProcessesPassAndFillReplacesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	w.offer("H001", v1)
	loads := w.start("SYNC_SCHEDULE="+never, "SYNC_ON_START=false")
	passes := w.start()
	gate := w.surem.hold(detail, senderKey("H001"), 1)
	before := inBackground(func() answer { return loads.read("H001", "T1") })
	gate.await(1)
	w.offer("H001", v2)
	w.surem.awaitReadings(senderKey("H001"), 1)
	eventually(t, soon, "the new version is stored", func() bool {
		passes.read("H001", "T1").document(t, v2)
		return w.cached("H001", "T1")
	})
	joins := inBackground(func() answer { return loads.read("H001", "T1") })
	receive(t, soon, "the reader who finds the new entry", joins).document(t, v2).via(t, "hit")
	gate.release()
	receive(t, soon, "who came before", before).want(t, http.StatusOK)
	w.wantNoV1()
	loads.read("H001", "T1").document(t, v2)
}

func TestAReaderAfterAListOrPostNeverGetsWhatItOutdated(t *testing.T) {
	t.Parallel()
	for _, look := range []struct {
		name string
		do   func(d *daemon) answer
	}{
		{"list", func(d *daemon) answer { return d.get(listPath("H001")) }},
		{"post", func(d *daemon) answer { return d.sync("H001") }},
	} {
		t.Run(look.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "H001").quiet()
			w.offer("H001", v1)
			d := w.start()
			gate := w.surem.hold(detail, senderKey("H001"), 1)
			before := inBackground(func() answer { return d.read("H001", "T1") })
			gate.await(1)
			w.offer("H001", v2)
			look.do(d).want(t, http.StatusOK)
			after := inBackground(func() answer { return d.read("H001", "T1") })
			d.awaitWaiters(2)
			gate.release()
			receive(t, soon, "who came after", after).document(t, v2)
			receive(t, soon, "who came before", before).want(t, http.StatusOK)
			w.wantNoV1()
		})
	}
}

func TestARunningLoadStoresNothingAfterDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", v1)
	d := w.start()
	gate := w.surem.hold(detail, senderKey("H001"), 1)
	before := inBackground(func() answer { return d.read("H001", "T1") })
	gate.await(1)
	w.offer("H001", v2)
	d.delete("H001", "T1").want(t, http.StatusNoContent)
	after := inBackground(func() answer { return d.read("H001", "T1") })
	d.awaitWaiters(2)
	gate.release()
	receive(t, soon, "who came after", after).document(t, v2)
	receive(t, soon, "who came before", before).want(t, http.StatusOK)
	w.wantNoV1()
}

func TestAFillNeverOverwritesWhatAnotherWriterHasPutThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", v1)
	d := w.start()
	gate := w.surem.hold(detail, senderKey("H001"), 1)
	read := inBackground(func() answer { return d.read("H001", "T1") })
	gate.await(1)
	w.cache("H001", v2)
	gate.release()
	receive(t, soon, "the read", read).want(t, http.StatusOK)
	if v, _ := w.redis.get(key("H001", "T1")); v != v2.document() {
		t.Errorf("another writer's entry is now %q", v)
	}
	if left := w.redis.ttl(key("H001", "T1")); left > aLongTime {
		t.Errorf("another writer's entry has got a TTL of %v", left)
	}
}

func TestAFillWhoseFenceIsLostIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", v1)
	d := w.start()
	gate := w.surem.hold(detail, senderKey("H001"), 1)
	read := inBackground(func() answer { return d.read("H001", "T1") })
	gate.await(1)
	w.offer("H001", v2)
	w.redis.do("FLUSHALL")
	w.redis.do("SCRIPT FLUSH")
	gate.release()
	receive(t, soon, "the read", read).want(t, http.StatusOK)
	w.wantNoV1()
	eventually(t, soon, "later fills are stored", func() bool {
		d.read("H001", "T1").document(t, v2)
		return w.cached("H001", "T1")
	})
}

func TestADaemonKilledInALoadLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", v1)
	d := w.start()
	gate := w.surem.hold(detail, senderKey("H001"), 1)
	read := inBackground(func() answer { return d.read("H001", "T1") })
	gate.await(1)
	d.kill()
	receive(t, soon, "the cut read", read)
	for _, k := range w.redis.keys("*") {
		if left := w.redis.ttl(k); left <= 0 {
			t.Errorf("%s lives for ever", k)
		}
	}
	w.offer("H001", v2)
	w.start().read("H001", "T1").document(t, v2).via(t, "fwd=miss; stored")
}
