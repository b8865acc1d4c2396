package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// listed offers n templates in this state to a hospital and caches them in another.
func (w *world) listed(hospital string, n int, now, cached string) {
	w.t.Helper()
	for i := range n {
		code := fmt.Sprintf("T%02d", i+1)
		w.offer(hospital, template{code: code, status: now})
		w.cache(hospital, template{code: code, status: cached})
	}
}

func (w *world) countCached(hospital string) int {
	w.t.Helper()
	return len(w.redis.keys(key(hospital, "*")))
}

func TestAMassChangeIsShownAndLoggedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001", "H002")
	w.env["SYNC_SCHEDULE"] = "@every 3s"
	w.listed("H001", 12, "APPROVED", "REQUESTED")
	w.listed("H002", 8, "APPROVED", "APPROVED")
	d := w.start()
	eventually(t, soon, "syncer_mass_change is 1", func() bool { return d.metric("syncer_mass_change") == 1 })
	if n := w.countCached("H001") + w.countCached("H002"); n != 8 {
		t.Errorf("%d entries left, want the 8 that agree: a mass change is told, not prevented", n)
	}
	eventually(t, soon, "the next pass ends it", func() bool { return d.metric("syncer_mass_change") == 0 })
	told := 0
	for line := range strings.Lines(d.stderr.String()) {
		if strings.Contains(line, "mass") && strings.Contains(line, "REQUESTED") && strings.Contains(line, "APPROVED") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d lines tell of the mass change and its commonest step, want one:\n%s", told, d.stderr.String())
	}
}

func TestFewOrMinorityChangesAreNoMassChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ changed, agree int }{
		"19 compared": {19, 0},
		"half of 20":  {10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "H001", "H002")
			w.env["SYNC_SCHEDULE"] = never
			w.listed("H001", c.changed, "APPROVED", "REQUESTED")
			w.listed("H002", c.agree, "APPROVED", "APPROVED")
			d := w.start()
			eventually(t, soon, "the pass has ended", func() bool { return d.metric("syncer_sync_last_success_timestamp_seconds") > 0 })
			if n := d.metric(`syncer_invalidations_total{trigger="schedule"}`); n != float64(c.changed) {
				t.Errorf("%v invalidations, want %d", n, c.changed)
			}
			if d.metric("syncer_mass_change") != 0 {
				t.Error("syncer_mass_change is 1")
			}
		})
	}
}

// unreadable are strings that are no template document.
var unreadable = []string{
	"not JSON",
	`{"templateCode":"T"}`,
	`{"inspectionStatus":"APPROVED","templateCode":"T","inspectionStatus":"APPROVED"}`,
	`{"value":{"inspectionStatus":"APPROVED"},"expires":1000}`,
	`{"value":"text","expires":99999999999999}`,
	`["inspectionStatus"]`,
	`{"inspectionStatus":7}`,
	``,
}

func TestWhenAllEntriesAreUnreadableNoneIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	for i, v := range unreadable {
		code := fmt.Sprintf("T%d", i)
		w.offer("H001", template{code: code, status: "APPROVED"})
		w.redis.set(key("H001", code), v, aLongTime)
	}
	d := w.start()
	r := d.sync("H001").report(t)
	if !r.OK || !r.Complete || r.Error == "" || r.Compared != len(unreadable) || len(r.Invalidated) != 0 || w.countCached("H001") != len(unreadable) {
		t.Errorf("%+v", r)
	}
	if l, _ := d.get(listPath("H001")).listing(t); !l.Compared || w.countCached("H001") != len(unreadable) {
		t.Errorf("%+v", l)
	}
	d.read("H001", "T0").document(t, template{code: "T0", status: "APPROVED"}).via(t, "fwd=bypass")
	if v, _ := w.redis.get(key("H001", "T0")); v != unreadable[0] {
		t.Errorf("a read over an unreadable string has stored %q", v)
	}

	// One readable entry among them, and the format is not to blame.
	w.offer("H001", template{code: "GOOD", status: "APPROVED"})
	w.cache("H001", template{code: "GOOD", status: "APPROVED"})
	r = d.sync("H001").report(t)
	if !r.OK || r.Error != "" || len(r.Invalidated) != len(unreadable) || w.countCached("H001") != 1 {
		t.Errorf("%+v", r)
	}
	for _, i := range r.Invalidated {
		if i.Reason != "unreadable" || i.To != "APPROVED" {
			t.Errorf("%+v", i)
		}
	}
}

func TestTwoUnreadableEntriesAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	for i := range 2 {
		code := fmt.Sprintf("T%d", i)
		w.offer("H001", template{code: code, status: "APPROVED"})
		w.redis.set(key("H001", code), unreadable[i], aLongTime)
	}
	d := w.start()
	if r := d.sync("H001").report(t); !r.OK || r.Error != "" || len(r.Invalidated) != 2 || w.countCached("H001") != 0 {
		t.Errorf("%+v", r)
	}
}

func TestReadsOverForeignValuesBypassTheCacheUntilAPassHasDeletedThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	text := template{code: "TEXT", status: "APPROVED"}
	hash := template{code: "HASH", status: "APPROVED"}
	w.offer("H001", text, hash)
	w.redis.set(key("H001", "TEXT"), "garbage", aLongTime)
	w.redis.do("HSET " + key("H001", "HASH") + " a b")
	kept := w.redis.standings(key("H001", "TEXT"), key("H001", "HASH"))
	d := w.start()
	d.read("H001", "TEXT").document(t, text).via(t, "fwd=bypass")
	d.read("H001", "HASH").document(t, hash).via(t, "fwd=bypass")
	w.redis.stillStand(kept)
	r := d.sync("H001").report(t)
	if !r.OK || r.WrongType != 1 || len(r.Invalidated) != 1 || r.Invalidated[0].TemplateCode != "TEXT" {
		t.Errorf("%+v", r)
	}
	d.read("H001", "TEXT").want(t, http.StatusOK).via(t, "fwd=miss; stored")
	w.redis.stillStand(kept[1:])
}
