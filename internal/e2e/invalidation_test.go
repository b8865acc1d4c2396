package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// standing is what Redis held before, and must hold on.
type standing struct{ key, dump string }

func (r *redisServer) standings(keys ...string) (all []standing) {
	r.t.Helper()
	for _, k := range keys {
		v, err := r.Client.Dump(context.Background(), k).Result()
		if err != nil {
			r.t.Fatalf("redis dump %s: %v", k, err)
		}
		all = append(all, standing{k, v})
	}
	return all
}

func (r *redisServer) stillStand(all []standing) {
	r.t.Helper()
	for _, s := range all {
		if !r.has(s.key) {
			r.t.Errorf("%s is gone", s.key)
		} else if now := r.standings(s.key)[0]; now != s {
			r.t.Errorf("%s has been changed", s.key)
		}
	}
}

func TestAChangedEntryIsGoneWithinATickAndEverythingElseStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001", "H002")
	changed := template{code: "APPT_CONFIRM", status: "REQUESTED"}
	equal := template{code: "APPT_CHANGE", status: "APPROVED"}
	spelled := template{code: "APPT_MOVE", status: "APR"}
	rejected := template{code: "APPT_CANCEL", status: "REQUESTED"}
	unlisted := template{code: "CHECKUP", status: "REQUESTED"}
	w.offer("H001", changed, equal,
		template{code: "APPT_MOVE", status: "approved"},
		template{code: "APPT_CANCEL", status: "REJECTED"},
		template{code: "A_HASH", status: "APPROVED"}, template{code: "A_LIST", status: "APPROVED"})
	w.offer("H002", changed)
	for _, e := range []template{changed, equal, spelled, rejected, unlisted} {
		w.cache("H001", e)
	}
	w.cache("H002", changed)
	w.redis.do("HSET " + key("H001", "A_HASH") + " inspectionStatus REQUESTED")
	w.redis.do("RPUSH " + key("H001", "A_LIST") + " REQUESTED")
	w.redis.set(key("H999", "APPT_CONFIRM"), changed.document(), aLongTime)
	w.redis.set(key("H001X", "APPT_CONFIRM"), changed.document(), aLongTime)
	w.redis.set("infotalk:template:H001:APPT_CONFIRM", changed.document(), aLongTime)
	w.redis.set("APPT_CONFIRM", changed.document(), 0)
	w.redis.set("session:{H001}:42", "somebody else's", aLongTime)
	kept := w.redis.standings(
		key("H001", "APPT_CHANGE"), key("H001", "APPT_MOVE"), key("H001", "APPT_CANCEL"), key("H001", "CHECKUP"),
		key("H001", "A_HASH"), key("H001", "A_LIST"), key("H002", "APPT_CONFIRM"),
		key("H999", "APPT_CONFIRM"), key("H001X", "APPT_CONFIRM"),
		"infotalk:template:H001:APPT_CONFIRM", "APPT_CONFIRM", "session:{H001}:42")
	d := w.start()
	w.surem.awaitReadings(senderKey("H001"), 1)
	if !w.cached("H001", "APPT_CONFIRM") {
		t.Fatal("an entry that agrees is gone")
	}

	w.surem.setStatus(senderKey("H001"), "APPT_CONFIRM", "APPROVED")
	start := time.Now()
	eventually(t, soon, "the changed entry is gone", func() bool { return !w.cached("H001", "APPT_CONFIRM") })
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("gone after %v at a tick a second", took)
	}
	w.surem.awaitReadings(senderKey("H001"), 2)
	w.surem.awaitReadings(senderKey("H002"), 1)
	w.redis.stillStand(kept)
	for _, code := range []string{"APPT_CHANGE", "APPT_CANCEL", "CHECKUP"} {
		if left := w.redis.ttl(key("H001", code)); left <= aLongTime-2*time.Minute || left > aLongTime {
			t.Errorf("%s has %v to live, it had %v", code, left, aLongTime)
		}
	}
	if left := w.redis.ttl("APPT_CONFIRM"); left != -1 {
		t.Errorf("a key without TTL has got one: %v", left)
	}
	if r := d.sync("H001").report(t); r.WrongType != 2 || !r.OK {
		t.Errorf("two entries are of another type: %+v", r)
	}
	if n := d.metric(`syncer_invalidations_total{trigger="schedule"}`); n != 1 {
		t.Errorf("%v invalidations counted, one happened", n)
	}
	w.wantLogged(d, "APPT_CONFIRM", map[string]string{"hospital": "H001", "from": "REQUESTED", "to": "APPROVED", "reason": "status"})
}

// wantLogged waits for the one line that tells of a template's invalidation.
func (w *world) wantLogged(d *daemon, code string, fields map[string]string) {
	w.t.Helper()
	var lines []map[string]any
	eventually(w.t, soon, "the log tells of "+code, func() bool {
		lines = nil
		for line := range strings.Lines(d.stderr.String()) {
			var l map[string]any
			if json.Unmarshal([]byte(line), &l) == nil && l["code"] == code && l["reason"] != nil {
				lines = append(lines, l)
			}
		}
		return len(lines) > 0
	})
	if len(lines) != 1 {
		w.t.Errorf("%d lines tell of %s, want one: %v", len(lines), code, lines)
	}
	for k, v := range fields {
		if lines[0][k] != v {
			w.t.Errorf("%s is %v, want %v, in %v", k, lines[0][k], v, lines[0])
		}
	}
}

func TestDormantAndDeletedSummariesAreComparedLikeOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	w.offer("H001",
		template{code: "SLEEPS", status: "APPROVED", dormant: true},
		template{code: "DELETED", status: "DELETED"},
		template{code: "SLEEPS_SAME", status: "APPROVED", dormant: true})
	w.cache("H001", template{code: "SLEEPS", status: "REQUESTED"})
	w.cache("H001", template{code: "DELETED", status: "APPROVED"})
	w.cache("H001", template{code: "SLEEPS_SAME", status: "APPROVED"})
	w.start()
	eventually(t, soon, "both are gone", func() bool { return !w.cached("H001", "SLEEPS") && !w.cached("H001", "DELETED") })
	w.surem.awaitReadings(senderKey("H001"), 1)
	if !w.cached("H001", "SLEEPS_SAME") {
		t.Error("a dormant template's entry that agrees is gone")
	}
}

func TestSkippedStatesAreASetting(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		skip string
		gone []string
	}{
		{"none", []string{"APPROVED", "REJECTED", "REGISTERED"}},
		{"REG,rej", []string{"APPROVED"}},
	} {
		t.Run(c.skip, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "H001").quiet()
			for _, status := range []string{"APPROVED", "REJECTED", "REGISTERED"} {
				w.offer("H001", template{code: "T_" + status, status: status})
				w.cache("H001", template{code: "T_" + status, status: "REQUESTED"})
			}
			d := w.start("SYNC_SKIP_STATUSES=" + c.skip)
			r := d.sync("H001").report(t)
			var gone []string
			for _, i := range r.Invalidated {
				gone = append(gone, strings.TrimPrefix(i.TemplateCode, "T_"))
			}
			if !slices.Equal(gone, c.gone) || r.Listed != 3 || r.Skipped != 3-len(c.gone) {
				t.Errorf("gone %v, want %v: %+v", gone, c.gone, r)
			}
		})
	}
}

func TestAPassOnStartIsASetting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	w.env["SYNC_SCHEDULE"] = never
	w.offer("H001", template{code: "T1", status: "APPROVED"})
	w.cache("H001", template{code: "T1", status: "REQUESTED"})
	w.start()
	eventually(t, soon, "the pass at start has deleted", func() bool { return !w.cached("H001", "T1") })
}

func TestAListOfSeveralPagesIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	for _, code := range []string{"T1", "T2", "T3", "T4", "T5"} {
		w.offer("H001", template{code: code, status: "APPROVED"})
		w.cache("H001", template{code: code, status: "REQUESTED"})
	}
	d := w.start("SUREM_PAGE_SIZE=2")
	r := d.sync("H001").report(t)
	if !r.OK || !r.Complete || r.Listed != 5 || r.Compared != 5 || len(r.Invalidated) != 5 {
		t.Errorf("%+v", r)
	}
	if n := w.surem.summaries(senderKey("H001")); n != 3 {
		t.Errorf("%d pages asked for, there are three", n)
	}
}
