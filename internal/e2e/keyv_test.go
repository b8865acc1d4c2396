package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// enveloped is a document as NestJS' cache-manager stores it.
func enveloped(t template, expires time.Time) string {
	return fmt.Sprintf(`{"value":%s,"expires":%d}`, t.document(), expires.UnixMilli())
}

func TestKeyvValuesAreWrittenAndReadAsCacheManagerDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	const at = "keyv::keyv:infotalk:template:{H001}:T1"
	d := w.start("CACHE_VALUE_FORMAT=keyv", "CACHE_TTL=2h", "CACHE_KEY_FORMAT=keyv::keyv:infotalk:template:{<hospitalId>}:<templateCode>")
	before := time.Now()
	d.read("H001", "T1").document(t, one).via(t, "fwd=miss; stored")
	stored, _ := w.redis.get(at)
	e := parse[struct {
		Value   json.RawMessage
		Expires int64
	}](t, stored)
	if string(e.Value) != one.document() {
		t.Errorf("stored %q", stored)
	}
	if expires := time.UnixMilli(e.Expires); expires.Before(before.Add(2*time.Hour-time.Second)) || expires.After(time.Now().Add(2*time.Hour+time.Second)) {
		t.Errorf("expires %v, want in two hours", expires)
	}
	if left := w.redis.ttl(at); left > 2*time.Hour || left < 2*time.Hour-2*time.Minute {
		t.Errorf("%v to live, want two hours", left)
	}
	d.read("H001", "T1").document(t, one).via(t, "hit")
	w.redis.set(at, one.document(), aLongTime) // the other shape is read as well
	d.read("H001", "T1").document(t, one).via(t, "hit")
	if r := d.sync("H001").report(t); len(r.Invalidated) != 0 || r.Compared != 1 {
		t.Errorf("%+v", r)
	}
}

func TestComparingReadsBothShapes(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"document", "keyv"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "H001").quiet()
			for _, code := range []string{"BARE", "BARE_OLD", "KEYV", "KEYV_OLD", "KEYV_EXPIRED"} {
				w.offer("H001", template{code: code, status: "APPROVED"})
			}
			later := time.Now().Add(time.Hour)
			w.cache("H001", template{code: "BARE", status: "APPROVED"})
			w.cache("H001", template{code: "BARE_OLD", status: "REQUESTED"})
			w.redis.set(key("H001", "KEYV"), enveloped(template{code: "KEYV", status: "APPROVED"}, later), aLongTime)
			w.redis.set(key("H001", "KEYV_OLD"), enveloped(template{code: "KEYV_OLD", status: "REQUESTED"}, later), aLongTime)
			w.redis.set(key("H001", "KEYV_EXPIRED"), enveloped(template{code: "KEYV_EXPIRED", status: "APPROVED"}, time.Now().Add(-time.Minute)), aLongTime)
			d := w.start("CACHE_VALUE_FORMAT=" + format)
			d.read("H001", "BARE").document(t, template{code: "BARE", status: "APPROVED"}).via(t, "hit")
			d.read("H001", "KEYV").document(t, template{code: "KEYV", status: "APPROVED"}).via(t, "hit")
			d.read("H001", "KEYV_EXPIRED").want(t, http.StatusOK).via(t, "fwd=bypass")
			want := map[string]string{"BARE_OLD": "status", "KEYV_OLD": "status", "KEYV_EXPIRED": "unreadable"}
			r := d.sync("H001").report(t)
			if len(r.Invalidated) != len(want) {
				t.Errorf("%+v", r)
			}
			for _, i := range r.Invalidated {
				if want[i.TemplateCode] != i.Reason {
					t.Errorf("%+v", i)
				}
			}
			if !w.cached("H001", "BARE") || !w.cached("H001", "KEYV") {
				t.Error("an entry that agrees is gone")
			}
		})
	}
}

func TestCompareAlsoLooksAtFurtherFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	at := func(when string) string { return `"modifiedAt":` + when + `,` }
	for _, c := range []struct{ code, row, entry string }{
		{"EDITED", `"2026-01-02 10:00:00"`, `"2026-01-01 10:00:00"`},
		{"SAME", `"2026-01-01 10:00:00"`, `"2026-01-01 10:00:00"`},
		{"NOT_IN_ENTRY", `"2026-01-02 10:00:00"`, ""},
		{"NOT_IN_ROW", "", `"2026-01-01 10:00:00"`},
	} {
		row, entry := template{code: c.code, status: "APPROVED"}, template{code: c.code, status: "APPROVED"}
		if c.row != "" {
			row.rest = at(c.row)
		}
		if c.entry != "" {
			entry.rest = at(c.entry)
		}
		w.offer("H001", row)
		w.cache("H001", entry)
	}
	d := w.start("SYNC_COMPARE_ALSO=modifiedAt")
	r := d.sync("H001").report(t)
	if len(r.Invalidated) != 1 || r.Invalidated[0].TemplateCode != "EDITED" || r.Invalidated[0].Reason != "field" {
		t.Errorf("%+v", r)
	}
}
