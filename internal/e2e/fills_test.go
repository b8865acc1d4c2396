package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// wantUnstored fails the test unless the read was answered from SureM and says nothing of storing.
func wantUnstored(t *testing.T, a answer, want template) {
	t.Helper()
	a.document(t, want)
	if s := a.header.Get("Cache-Status"); strings.Contains(s, "stored") || strings.Contains(s, "hit") {
		t.Errorf("Cache-Status %q of a fill that failed", s)
	}
}

func (d *daemon) fills() (stored, failed float64) {
	d.w.t.Helper()
	m := d.metrics()
	return m[`syncer_cache_writes_total{result="stored"}`], m[`syncer_cache_writes_total{result="error"}`] + m[`syncer_cache_writes_total{result="refused"}`]
}

func TestAFullRedisFailsNoRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one, two := template{code: "T1", status: "APPROVED"}, template{code: "T2", status: "APPROVED"}
	w.offer("H001", one, two)
	w.cache("H001", one)
	d := w.start()
	w.redis.do("CONFIG SET maxmemory-policy noeviction")
	w.redis.do("CONFIG SET maxmemory 1")
	d.read("H001", "T1").document(t, one).via(t, "hit")
	wantUnstored(t, d.read("H001", "T2"), two)
	if stored, failed := d.fills(); stored != 0 || failed != 1 {
		t.Errorf("%v fills stored, %v failed, want one failed", stored, failed)
	}
	// Deleting needs no memory: a pass goes on.
	w.surem.setStatus(senderKey("H001"), "T1", "REQUESTED")
	if r := d.sync("H001").report(t); !r.OK || len(r.Invalidated) != 1 || w.cached("H001", "T1") {
		t.Errorf("%+v", r)
	}
	w.redis.do("CONFIG SET maxmemory 0")
	d.read("H001", "T2").document(t, two).via(t, "fwd=miss; stored")
}

func TestAReadOnlyRedisFailsNoRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one, two := template{code: "T1", status: "APPROVED"}, template{code: "T2", status: "APPROVED"}
	w.offer("H001", one, two)
	w.cache("H001", one)
	d := w.start()
	w.redis.do("REPLICAOF 127.0.0.1 1")
	d.read("H001", "T1").document(t, one).via(t, "hit")
	wantUnstored(t, d.read("H001", "T2"), two)
	if p := d.sync("H001").problem(t, http.StatusServiceUnavailable); p.Report == nil || p.Report.OK {
		t.Errorf("a fence that was not confirmed is a failed pass: %+v", p)
	}
	if l, _ := d.get(listPath("H001")).listing(t); l.Compared {
		t.Errorf("%+v", l)
	}
	d.delete("H001", "T1").problem(t, http.StatusServiceUnavailable)
	if v, ok := w.redis.get(key("H001", "T1")); !ok || v != one.document() {
		t.Error("the entry is gone")
	}
	w.redis.do("REPLICAOF NO ONE")
	d.read("H001", "T2").document(t, two).via(t, "fwd=miss; stored")
	d.sync("H001").report(t)
}

func TestARedisUserWithoutTheRightToWriteFailsNoRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one, two := template{code: "T1", status: "APPROVED"}, template{code: "T2", status: "APPROVED"}
	w.offer("H001", one, two)
	w.cache("H001", one)
	w.redis.do("ACL SETUSER reader on >redis-password-9f2c ~* &* -@all +@read +@connection")
	d := w.start("REDIS_URL=redis://reader:redis-password-9f2c@" + w.redis.Addr + "/0")
	d.read("H001", "T1").document(t, one).via(t, "hit")
	wantUnstored(t, d.read("H001", "T2"), two)
	d.sync("H001").problem(t, http.StatusServiceUnavailable)
	d.delete("H001", "T1").problem(t, http.StatusServiceUnavailable)
	if v, ok := w.redis.get(key("H001", "T1")); !ok || v != one.document() {
		t.Error("the entry is gone")
	}
}

func TestARedisThatDiesBetweenLookAndStoreFailsNoRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	d := w.start()
	gate := w.surem.hold(detail, senderKey("H001"), 1)
	read := inBackground(func() answer { return d.read("H001", "T1") })
	gate.await(1)
	w.redis.Kill()
	gate.release()
	wantUnstored(t, receive(t, soon, "the read", read), one)
	if n := d.metric(`syncer_cache_writes_total{result="error"}`); n != 1 {
		t.Errorf("%v failed fills, want one", n)
	}
	w.redis.Restart()
	d.read("H001", "T1").document(t, one).via(t, "fwd=miss; stored")
}

func TestARedisThatRefusesThePasswordFailsNoRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	w.redis.do("ACL SETUSER syncer on >right ~* &* +@all")
	d := w.start("REDIS_URL=redis://syncer:redis-password-9f2c@" + w.redis.Addr + "/0")
	d.read("H001", "T1").document(t, one).via(t, "fwd=bypass")
	d.awaitReady(http.StatusOK, "redis: away", true)
	if a := d.sync("H001"); strings.Contains(a.body, "redis-password") || a.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", a.status, a.body)
	}
	w.redis.do("ACL SETUSER syncer >redis-password-9f2c")
	d.awaitReady(http.StatusOK, "redis: away", false)
	d.read("H001", "T1").document(t, one).via(t, "fwd=miss; stored")
	// The daemon's own end looks for the password in its log.
}

func TestEverythingElseTheDaemonKeepsHasItsPrefixTagAndTTL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001", "H002")
	for _, h := range []string{"H001", "H002"} {
		w.offer(h, template{code: "T1", status: "APPROVED"})
	}
	d := w.start("FLIGHT_LOADER_TIMEOUT=7s")
	gate := w.surem.hold(detail, senderKey("H001"), 0)
	read := inBackground(func() answer { return d.read("H001", "T1") })
	gate.await(1)
	d.read("H002", "T1").want(t, http.StatusOK)
	fences := 0
	for _, k := range w.redis.keys("*") {
		switch own := strings.HasPrefix(k, "alimtalk-syncer:"); {
		case strings.HasPrefix(k, "alimtalk-syncer:hot:"), strings.HasPrefix(k, "alimtalk-syncer:cold:"): // of all hospitals, and in scripts of their own
			if left := w.redis.ttl(k); left <= 0 {
				t.Errorf("%s has no TTL", k)
			}
		case own:
			fences++
			if left := w.redis.ttl(k); left <= 0 {
				t.Errorf("%s has no TTL", k)
			}
			if !strings.Contains(k, "{H001}") && !strings.Contains(k, "{H002}") {
				t.Errorf("%s lacks the hospital's hash tag", k)
			}
		case k != key("H001", "T1") && k != key("H002", "T1"):
			t.Errorf("%s is neither an entry nor under the daemon's prefix", k)
		}
	}
	if fences > 2 {
		t.Errorf("%d keys of the daemon's own for two hospitals", fences)
	}
	gate.release()
	receive(t, soon, "the held read", read).want(t, http.StatusOK)
}
