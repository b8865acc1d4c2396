package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"testing"
)

// listing is the answer of the list, its rows as they were sent.
type listing struct {
	HospitalID         string
	Complete, Compared bool
	Templates          []json.RawMessage
}

func (a answer) listing(t *testing.T) (listing, []string) {
	t.Helper()
	a.want(t, http.StatusOK)
	l := parse[listing](t, a.body)
	rows := []string{}
	for _, r := range l.Templates {
		rows = append(rows, string(r))
	}
	if l.Templates == nil {
		t.Errorf("templates is no list: %s", a.body)
	}
	return l, rows
}

func rowsOf(templates ...template) []string {
	rows := []string{}
	for _, t := range templates {
		rows = append(rows, t.summary())
	}
	return rows
}

var (
	confirm  = template{code: "APPT_CONFIRM", name: "예약 확정", status: "APPROVED"}
	change   = template{code: "APPT_CHANGE", name: "예약 변경", status: "REQUESTED"}
	sleeping = template{code: "SLEEPING", name: "예약 휴면", status: "APPROVED", dormant: true}
	deleted  = template{code: "DELETED", name: "예약 삭제", status: "DELETED"}
	checkup  = template{code: "CHECKUP", name: "검진 결과 <1> & 안내", status: "REJECTED"}
)

func TestTheListShowsSureMsRowsAsTheyCame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", checkup, sleeping, confirm, deleted, change)
	d := w.start("SUREM_PAGE_SIZE=2")
	l, rows := d.get(listPath("H001")).listing(t)
	if want := rowsOf(checkup, confirm, change); !slices.Equal(rows, want) {
		t.Errorf("rows\n%q, want\n%q", rows, want)
	}
	if l.HospitalID != "H001" || !l.Complete || !l.Compared {
		t.Errorf("%+v", l)
	}
	for _, c := range []struct {
		name string
		want []template
	}{
		{"예약", []template{confirm, change}},
		{"변경", []template{change}},
		{"<1> &", []template{checkup}},
		{"없음", nil},
		{"", []template{checkup, confirm, change}},
		{"APPT", nil}, // the name, not the code
	} {
		a := d.get(listPath("H001") + "?name=" + url.QueryEscape(c.name))
		if _, rows := a.listing(t); !slices.Equal(rows, rowsOf(c.want...)) {
			t.Errorf("name=%s: %q", c.name, rows)
		}
	}
	if n := w.surem.summaries(senderKey("H001")); n != 7*3 {
		t.Errorf("%d summary calls: the list is live, three pages each", n)
	}
}

func TestTheListComparesAllBeforeItAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", confirm, change, sleeping, deleted, checkup)
	w.cache("H001", template{code: "APPT_CONFIRM", status: "REQUESTED"})
	w.cache("H001", change)
	w.cache("H001", template{code: "SLEEPING", status: "REQUESTED"})
	w.cache("H001", template{code: "DELETED", status: "APPROVED"})
	w.cache("H001", template{code: "CHECKUP", status: "REQUESTED"})
	d := w.start()
	if l, rows := d.get(listPath("H001") + "?name=nothing").listing(t); len(rows) != 0 || !l.Compared {
		t.Errorf("%+v", l)
	}
	for code, want := range map[string]bool{"APPT_CONFIRM": false, "APPT_CHANGE": true, "SLEEPING": false, "DELETED": false, "CHECKUP": true} {
		if w.cached("H001", code) != want {
			t.Errorf("%s cached: %t, want %t", code, !want, want)
		}
	}
	if n := d.metric(`syncer_invalidations_total{trigger="list"}`); n != 3 {
		t.Errorf("%v invalidations by lists, want 3", n)
	}
}

func TestTheListGoesOnWithRedisAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", confirm)
	d := w.start()
	w.redis.Kill()
	l, rows := d.get(listPath("H001")).listing(t)
	if !slices.Equal(rows, rowsOf(confirm)) || l.Compared || !l.Complete {
		t.Errorf("%+v", l)
	}
}

func TestTheListSaysWhenItIsIncomplete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", confirm, change, checkup)
	w.cache("H001", template{code: "APPT_CONFIRM", status: "REQUESTED"})
	w.cache("H001", template{code: "CHECKUP", status: "REQUESTED"})
	failFrom := func(page int) {
		w.surem.each(func(c call) *reply {
			if c.op == summaries && c.page >= page {
				return failure
			}
			return nil
		})
	}
	failFrom(2)
	d := w.start("SUREM_PAGE_SIZE=2", "SUREM_MAX_RETRIES=0")
	l, rows := d.get(listPath("H001")).listing(t)
	if l.Complete || !l.Compared || !slices.Equal(rows, rowsOf(confirm, change)) {
		t.Errorf("%+v", l)
	}
	if w.cached("H001", "APPT_CONFIRM") {
		t.Error("an incomplete list shows what it shows: the changed entry should be gone")
	}
	if !w.cached("H001", "CHECKUP") {
		t.Error("an incomplete list proves nothing about what it does not show")
	}
	p := d.sync("H001").problem(t, http.StatusBadGateway)
	if p.Report == nil || p.Report.OK || p.Report.Complete || p.Report.Listed != 2 || p.Report.Error == "" {
		t.Errorf("a pass whose second page failed: %+v", p)
	}
	failFrom(1)
	d.get(listPath("H001")).problem(t, http.StatusBadGateway)
	if p := d.sync("H001").problem(t, http.StatusBadGateway); p.Report == nil || p.Report.OK || p.Report.Listed != 0 || p.Report.HospitalID != "H001" {
		t.Errorf("a pass whose first page failed: %+v", p)
	}
}

func TestInADryRunComparingDeletesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	w.offer("H001", confirm)
	w.cache("H001", template{code: "APPT_CONFIRM", status: "REQUESTED"})
	d := w.start("SYNC_DRY_RUN=true")
	w.surem.awaitReadings(senderKey("H001"), 1)
	if l, _ := d.get(listPath("H001")).listing(t); !l.Compared {
		t.Errorf("%+v", l)
	}
	if r := d.sync("H001").report(t); !r.DryRun || !r.OK || len(r.Invalidated) != 1 {
		t.Errorf("%+v", r)
	}
	if !w.cached("H001", "APPT_CONFIRM") {
		t.Fatal("a dry run has deleted")
	}
	d.delete("H001", "APPT_CONFIRM").want(t, http.StatusNoContent)
	if w.cached("H001", "APPT_CONFIRM") {
		t.Error("DELETE still forgets in a dry run")
	}
}

func TestOneBadRowIsCountedAndTheOthersCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", confirm, template{code: "BAD1", row: `{"name":"no code","inspectionStatus":"APPROVED"}`},
		template{code: "BAD2", row: `{"templateCode":"BAD2","name":"no status"}`}, template{code: "BAD3", row: `"text"`},
		template{code: "BAD4", row: `{"templateCode":"..","inspectionStatus":"APPROVED"}`})
	w.cache("H001", template{code: "APPT_CONFIRM", status: "REQUESTED"})
	w.cache("H001", template{code: "BAD2", status: "REQUESTED"})
	d := w.start()
	r := d.sync("H001").report(t)
	if !r.OK || !r.Complete || r.BadRows != 4 || r.Listed != 5 || len(r.Invalidated) != 1 || !w.cached("H001", "BAD2") {
		t.Errorf("%+v", r)
	}
}

func TestRowsOfOneCodeThatDisagreeAreAChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	row := func(code, status string) template {
		return template{code: code + status, row: template{code: code, status: status}.summary()}
	}
	w.offer("H001", row("T1", "APPROVED"), row("T1", "REJECTED"), row("T2", "APPROVED"), row("T2", "APR"))
	w.cache("H001", template{code: "T1", status: "APPROVED"})
	w.cache("H001", template{code: "T2", status: "APPROVED"})
	d := w.start()
	r := d.sync("H001").report(t)
	if len(r.Invalidated) != 1 || r.Invalidated[0].TemplateCode != "T1" || r.Invalidated[0].Reason != "ambiguous" || !w.cached("H001", "T2") {
		t.Errorf("%+v", r)
	}
}
