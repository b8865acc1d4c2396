package e2e

import (
	"bytes"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"alimtalk-syncer/internal/redistest"
)

// expireAll makes every key of the daemons' own run out, as if its time had passed: a test
// does not wait for the two minutes of a tick's claim, or the fence's.
func (f *fleet) expireAll() {
	f.t.Helper()
	for _, k := range f.redis.keys("alimtalk-syncer:*") {
		if left := f.redis.ttl(k); left == -1 {
			f.t.Errorf("%s lives for ever", k)
		}
		f.redis.do("PEXPIRE " + k + " 1")
	}
	eventually(f.t, soon, "all has run out", func() bool { return len(f.redis.keys("alimtalk-syncer:*")) == 0 })
}

func (l *life) freeze() {
	l.w.t.Helper()
	l.signal(syscall.SIGSTOP)
	eventually(l.w.t, soon, "the replica is frozen", func() bool { return stopped(l.cmd.Process.Pid) })
}

func (l *life) thaw() { l.signal(syscall.SIGCONT) }

// A load is frozen while SureM's answer is on its way; meanwhile the state changes, all that
// the load has claimed runs out, and others load and store the new version.
func TestAFrozenReplicasLateFillIsRefused(t *testing.T) {
	t.Parallel()
	for _, others := range []struct {
		name  string
		store bool
	}{{"where nothing stands", false}, {"where another's stands", true}} {
		t.Run(others.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 1, time.Second)
			f.offer("H001", v1)
			frozen := f.run(1, "SYNC_SCHEDULE="+never, "SYNC_ON_START=false", "FLIGHT_LOADER_TIMEOUT=1m", "SUREM_TIMEOUT=1m")
			gate := f.surem.hold(detail, senderKey("H001"), 1)
			before := inBackground(func() answer { return frozen.read("H001", "T1") })
			gate.await(1)
			frozen.freeze()
			gate.release()

			f.offer("H001", v2)
			second := f.run(2)
			third := f.run(3)
			f.surem.awaitReadings(senderKey("H001"), 1)
			if others.store {
				third.read("H001", "T1").document(t, v2) // when the frozen one's claim has run out
				second.read("H001", "T1").document(t, v2)
			}
			second.stop() // no later pass hides what is stored, nor makes a fence
			third.stop()
			f.expireAll()

			frozen.thaw()
			if a := receive(t, soon, "who came before", before).want(t, http.StatusOK); a.body != v1.document() && a.body != v2.document() {
				t.Errorf("neither version: %q", a.body)
			}
			f.wantNoV1()
			if n := frozen.metric(`syncer_cache_writes_total{result="refused"}`); n != 1 {
				t.Errorf("%v fills are refused, want the late one", n)
			}
			frozen.read("H001", "T1").document(t, v2)
			f.wantNoV1()
		})
	}
}

// The frozen replica's claim of a load has run out and is another's by now.
func TestAThawedReplicaReleasesNobodyElsesClaim(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, time.Second)
	f.quiet()
	f.offer("H001", v1)
	replicas := f.runs(3, "FLIGHT_LOADER_TIMEOUT=1m", "SUREM_TIMEOUT=1m")
	frozen, second, third := replicas[0], replicas[1], replicas[2]
	gate := f.surem.hold(detail, senderKey("H001"), 1)
	before := inBackground(func() answer { return frozen.read("H001", "T1") })
	gate.await(1)
	frozen.freeze()
	next := f.surem.hold(detail, senderKey("H001"), 0) // all after the first one
	its := inBackground(func() answer { return second.read("H001", "T1") })
	next.await(1) // the claim has run out, and is the second replica's
	gate.release()
	frozen.thaw()
	receive(t, soon, "the thawed replica's reader", before).want(t, http.StatusOK)

	// What the thawed one has stored may be read; what it has claimed is no longer its own.
	f.redis.do("DEL " + key("H001", "T1"))
	last := inBackground(func() answer { return third.read("H001", "T1") })
	eventually(t, soon, "the third replica waits for the second one's load", func() bool {
		return third.metric(claims("load", "lost")) == 1
	})
	next.release()
	receive(t, soon, "the second replica's reader", its).document(t, v1)
	receive(t, soon, "the third replica's reader", last).document(t, v1)
	if n := f.surem.details(senderKey("H001"), "T1"); n != 2 {
		t.Errorf("%d detail calls, want the frozen one's and the next one's", n)
	}
}

// A pass is frozen with its summaries on their way. Meanwhile its tick's claims run out, the
// state changes on, and the others' passes and reads have made a newer entry.
func TestAFrozenReplicasLatePassHarmsNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, time.Second) // both are held, so that no command is under way
	changed, agreeing := "H001", "H002"
	old := template{code: "T1", status: "REQUESTED", version: "old"}
	f.offer(changed, v1)
	f.cache(changed, old)
	steady := template{code: "T1", status: "APPROVED"}
	f.cache(agreeing, steady)
	gates := []*gate{f.surem.hold(summaries, senderKey(changed), 1), f.surem.hold(summaries, senderKey(agreeing), 1)}
	frozen := f.run(1, "SYNC_TIMEOUT=1m", "SUREM_TIMEOUT=1m")
	for _, g := range gates {
		g.await(1)
	}
	frozen.freeze()
	f.offer(changed, v2)
	for _, g := range gates {
		g.release()
	}
	f.expireAll()
	second, third := f.run(2), f.run(3)
	f.awaitPassesOf(second, 2)
	f.awaitPassesOf(third, 2)
	eventually(t, soon, "the new version is stored", func() bool {
		second.read(changed, "T1").document(t, v2)
		return f.cached(changed, "T1")
	})
	second.stop()
	third.stop()

	frozen.thaw()
	f.awaitPassesOf(frozen, 1)
	for _, p := range frozen.passes() {
		if p.Failed > 0 {
			t.Errorf("a late pass has failed: %+v", p)
		}
	}
	if v, ok := f.redis.get(key(agreeing, "T1")); !ok || v != steady.document() {
		t.Errorf("an entry that agrees is gone, or another: %q", v)
	}
	f.wantNoV1()
	frozen.read(changed, "T1").document(t, v2)
}

// awaitPassesOf waits until a replica has ended n passes in all.
func (f *fleet) awaitPassesOf(l *life, n int) {
	f.t.Helper()
	eventually(f.t, soon, "the passes of replica "+l.name, func() bool { return len(l.passes()) >= n })
}

// A delete is on its way to Redis while its replica freezes; what it is to delete has been
// replaced when it comes.
func TestAFrozenReplicasLateDeleteHarmsNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, time.Second)
	old := template{code: "T1", status: "REQUESTED", version: "old"}
	f.offer("H001", v2, template{code: "T2", status: "APPROVED"})
	sent, arrives := make(chan struct{}), make(chan struct{})
	arrive := sync.OnceFunc(func() { close(arrives) })
	var held atomic.Bool
	proxy := redistest.NewProxy(t, f.redis.Addr, func(request []byte) (redistest.Fault, time.Duration) {
		if bytes.Contains(bytes.ToLower(request), []byte("eval")) && bytes.Contains(request, []byte(old.document())) && !held.Swap(true) {
			close(sent)
			<-arrives
		}
		return redistest.None, 0
	})
	t.Cleanup(arrive)
	f.cache("H001", template{code: "T2", status: "REQUESTED"})
	frozen := f.run(1, "REDIS_URL=redis://"+proxy.Addr+"/0")
	eventually(t, soon, "Redis knows the script that deletes", func() bool { return !f.cached("H001", "T2") })
	f.cache("H001", old)
	receive(t, soon, "the delete is on its way", sent)
	frozen.freeze()
	f.expireAll()
	second := f.run(2)
	eventually(t, soon, "the new version is stored", func() bool {
		second.read("H001", "T1").want(t, http.StatusOK)
		v, _ := f.redis.get(key("H001", "T1"))
		return v == v2.document()
	})
	second.stop()
	arrive()
	frozen.thaw()
	f.awaitPassesOf(frozen, len(frozen.passes())+2)
	if v, ok := f.redis.get(key("H001", "T1")); !ok || v != v2.document() {
		t.Errorf("the newer entry is gone, or another: %q", v)
	}
}
