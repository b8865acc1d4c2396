package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// manyHospitals returns a world of n hospitals whose one pass, at two calls a second, begins
// at the start of the daemon.
func manyHospitals(t *testing.T, n int) *world {
	t.Helper()
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("H%03d", i+1))
	}
	w := newWorld(t, ids...)
	for _, id := range ids {
		w.offer(id, template{code: "T1", status: "APPROVED"})
	}
	w.env["SYNC_SCHEDULE"], w.env["SUREM_RATE_LIMIT"], w.env["SUREM_RATE_BURST"] = never, "2", "1"
	return w
}

func TestReadsAndPostsOvertakeAPassThatWaitsForSlots(t *testing.T) {
	t.Parallel()
	w := manyHospitals(t, 60) // half a minute of slots
	d := w.start("SHUTDOWN_GRACE=1s", "SYNC_CONCURRENCY=64")
	w.awaitAnySummary()
	for _, id := range []string{"H001", "H030", "H060"} {
		if a := d.read(id, "T1").want(t, http.StatusOK); a.took > 2*time.Second {
			t.Errorf("a lone read took %v, two slots are a second", a.took)
		}
	}
	for _, id := range []string{"H059", "H060"} {
		if a := d.sync(id).want(t, http.StatusOK); a.took > 3*time.Second {
			t.Errorf("a POST took %v among a pass that waits", a.took)
		}
	}
	if v := d.metric("syncer_sync_last_success_timestamp_seconds"); v != 0 {
		t.Error("the pass has ended: there was nothing to overtake")
	}
}

func (w *world) awaitAnySummary() {
	w.t.Helper()
	eventually(w.t, soon, "the pass has begun", func() bool {
		return len(w.surem.calls(func(c call) bool { return c.op == summaries })) > 0
	})
}

func TestWaitingForSlotsIsNotCountedInAScheduledPass(t *testing.T) {
	t.Parallel()
	w := manyHospitals(t, 8)
	d := w.start("SYNC_TIMEOUT=1s")
	eventually(t, soon, "the pass has ended", func() bool { return d.metric("syncer_sync_last_success_timestamp_seconds") > 0 })
	if v := d.metric("syncer_hospitals_failing"); v != 0 {
		t.Errorf("%v hospitals failed in a pass of four seconds with a second for each", v)
	}
	if n := len(w.surem.calls(func(c call) bool { return c.op == summaries })); n != 8 {
		t.Errorf("%d summary calls for 8 hospitals", n)
	}
}
