package e2e

import (
	"net/http"
	"testing"

	"alimtalk-syncer/internal/redistest"
)

func TestDeleteForgetsWhateverStringIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	d := w.start()
	for _, value := range []string{one.document(), "garbage", ""} {
		w.redis.set(key("H001", "T1"), value, aLongTime)
		if a := d.delete("H001", "T1").want(t, http.StatusNoContent); a.body != "" {
			t.Errorf("a 204 with a body: %q", a.body)
		}
		if w.cached("H001", "T1") {
			t.Errorf("%q is still there", value)
		}
	}
	d.delete("H001", "T1").want(t, http.StatusNoContent) // nothing there: forgotten all the same
	d.delete("H001", "NOT_AT_SUREM").want(t, http.StatusNoContent)
	if n := w.surem.anyDetails(); n != 0 {
		t.Errorf("%d detail calls", n)
	}
	for _, trigger := range []string{"schedule", "list", "manual"} {
		if n := d.metric(`syncer_invalidations_total{trigger="` + trigger + `"}`); n != 0 {
			t.Errorf("a DELETE is no invalidation, %v counted as %s", n, trigger)
		}
	}
}

func TestDeleteLeavesAnotherTypeAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	d := w.start()
	w.redis.do("HSET " + key("H001", "T1") + " a b")
	kept := w.redis.standings(key("H001", "T1"))
	d.delete("H001", "T1").problem(t, http.StatusConflict)
	w.redis.stillStand(kept)
}

func TestDeleteFailsWhenRedisDoesNotConfirm(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, newRedis(t, redistest.Durable...), "H001").quiet()
	w.cache("H001", template{code: "T1", status: "APPROVED"})
	d := w.start()
	w.redis.freeze()
	d.delete("H001", "T1").problem(t, http.StatusServiceUnavailable)
	w.redis.thaw()
	w.redis.Kill()
	d.delete("H001", "T1").problem(t, http.StatusServiceUnavailable)
	w.redis.Restart()
	eventually(t, soon, "DELETE heals", func() bool { return d.delete("H001", "T1").status == http.StatusNoContent })
	if w.cached("H001", "T1") {
		t.Error("still there")
	}
}

func TestDeleteEndsTheCoolDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one := template{code: "T1", status: "APPROVED"}
	d := w.start("FLIGHT_FAILURE_COOLDOWN=1m")
	d.read("H001", "T1").problem(t, http.StatusNotFound)
	w.offer("H001", one)
	d.read("H001", "T1").problem(t, http.StatusNotFound)
	d.delete("H001", "T1").want(t, http.StatusNoContent)
	d.read("H001", "T1").document(t, one)
}

func TestDeleteIsOfTheOneEntryOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001", "H002").quiet()
	for _, h := range []string{"H001", "H002"} {
		for _, code := range []string{"T1", "T2", "T1*", "T?"} {
			w.cache(h, template{code: code, status: "APPROVED"})
		}
	}
	kept := w.redis.standings(key("H001", "T1"), key("H001", "T2"), key("H002", "T1"), key("H002", "T1*"), key("H001", "T?"))
	d := w.start()
	d.delete("H001", "T1*").want(t, http.StatusNoContent)
	w.redis.stillStand(kept)
	if w.cached("H001", "T1*") {
		t.Error("still there")
	}
}
