package invalidate_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/sureM/simulator"
)

// What follows has happened to others who read such lists.

func TestStatusIsNotInspectionStatus(t *testing.T) {
	t.Parallel()
	c := newClinic(t, redistest.Start(t), nil, "H1")
	c.offer(t, "H1", "T1", "APPROVED")
	c.offer(t, "H1", "T2", "APPROVED")
	for _, code := range []string{"T1", "T2"} {
		_ = c.Edit(senderKey("H1"), code, func(t *simulator.Template) { t.Status = "R" }) // approved, and never sent
	}
	c.cache(t, "H1", "T1", "APPROVED") // its document has status A
	c.cache(t, "H1", "T2", "REQUESTED")
	for range 2 {
		if r := c.pass(t)["H1"]; !r.OK || r.BadRows != 0 || c.gone(t, "H1", "T1", "T2") != "T2" {
			t.Fatalf("%+v; gone: %s", r, c.gone(t, "H1", "T1", "T2"))
		}
	}
}

func TestApprovedRowsThatTurnDormantOrDeletedAreStillNoticed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, fields := range [][]string{nil, {"dormant"}} {
		c := newClinic(t, server, func(s *setting) { s.syncer.Fields = fields }, "H1")
		for _, code := range []string{"T1", "T2", "T3", "T4"} {
			c.offer(t, "H1", code, "APPROVED")
			c.cacheRaw(t, "H1", code, fmt.Sprintf(`{"templateCode":%q,"inspectionStatus":"APPROVED","dormant":false}`, code))
		}
		if r := c.pass(t)["H1"]; !r.OK || r.Compared != 4 || len(r.Invalidated) != 0 {
			t.Fatalf("at first: %+v", r)
		}
		sleep := func(status string) func(*simulator.Template) {
			return func(t *simulator.Template) { t.Dormant, t.InspectionStatus = true, status }
		}
		_ = c.Edit(senderKey("H1"), "T1", sleep("APPROVED"))
		_ = c.Edit(senderKey("H1"), "T2", sleep("REGISTERED"))
		_ = c.SetStatus(senderKey("H1"), "T3", "DELETED")
		want := "T2 T3"
		if fields != nil {
			want = "T1 T2 T3"
		}
		if r := c.pass(t)["H1"]; !r.OK || r.Compared != 4 || changed(r) != want || c.gone(t, "H1", "T1", "T2", "T3", "T4") != want {
			t.Fatalf("comparing %q: %+v", fields, r)
		}
	}
}

func TestAHundredHospitalsThatAlwaysFailStarveNotTheNext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for kind, calls := range map[string]int{"error-code": 1, "status-500": 2} { // with the breaker closed, and open
		var ids []string
		for i := range 101 {
			ids = append(ids, fmt.Sprintf("H%03d", i+1))
		}
		c := newClinic(t, server, func(s *setting) { s.surem.RateLimit, s.surem.RateBurst = 200, 1 }, ids...)
		var faults []simulator.Fault
		for _, id := range ids[:100] {
			faults = append(faults, simulator.Fault{Name: kind, SenderKey: senderKey(id)})
		}
		if err := c.SetFaults(faults...); err != nil {
			t.Fatal(err)
		}
		c.offer(t, "H101", "T1", "APPROVED")
		c.cache(t, "H101", "T1", "REQUESTED")
		passes := 0
		for ; c.gone(t, "H101", "T1") == "" && passes < 5; passes++ {
			cutAfter(c, 40)
		}
		most := 0
		for _, id := range ids {
			most = max(most, c.Calls(simulator.Summaries, senderKey(id), ""))
		}
		if passes < 2 || passes > 4 || most > 2*calls {
			t.Errorf("%s: the 101st was reached in pass %d; a failing one was asked %d times", kind, passes, most)
		}
		if n := c.Calls(simulator.Login, "", ""); n != 1 {
			t.Errorf("%s: %d logins", kind, n)
		}
	}
}

// cutAfter makes a pass that ends, as by a signal, when it has made about n calls.
func cutAfter(c *clinic, n int) {
	ctx, cut := context.WithCancel(context.Background())
	defer cut()
	before := c.Calls(simulator.Summaries, "", "")
	done := make(chan struct{})
	go func() {
		c.Pass(ctx, invalidate.TriggerSchedule, c.hospitals.All())
		close(done)
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if c.Calls(simulator.Summaries, "", "") >= before+n {
				cut()
			}
		}
	}
}

func TestAnErrorCodeThatStaysForEverIsNoHotLoop(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for kind, most := range map[string][2]int{ // calls and logins in ten passes
		"error-code":   {10, 1},
		"code-missing": {10, 1},
		"list-missing": {10, 1},
		"rows-wrong":   {20, 1}, // two pages
		"status-500":   {20, 1}, // once more each
		"refused-code": {11, 2}, // the first pass logs in again; the others make do
		"data-array":   {10, 1}, // an empty list is none
		"same-page":    {20, 1}, // the second is the first
		"token-dead":   {11, 2}, // likewise
	} {
		c := newClinic(t, server, nil, "H1")
		for i := range 6 {
			c.offer(t, "H1", fmt.Sprintf("T%d", i+1), "APPROVED")
		}
		c.cache(t, "H1", "T1", "APPROVED")
		fault := simulator.Fault{Name: kind, Operation: simulator.Summaries}
		if kind == "token-dead" {
			fault.Operation = simulator.Login
		}
		if err := c.SetFaults(fault); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			c.pass(t)
		}
		calls, logins := c.Calls(simulator.Summaries, "", ""), c.Calls(simulator.Login, "", "")
		if calls > most[0] || logins > most[1] {
			t.Errorf("%s: ten passes made %d calls and %d logins, want at most %v", kind, calls, logins, most)
		}
		if c.gone(t, "H1", "T1") != "" {
			t.Errorf("%s: an entry that agrees is gone", kind)
		}
	}
}

// A word from another vendor's document is a state of its own: what does not say the same
// goes, and what says the same stays.
func TestAWordOfAnotherVendors(t *testing.T) {
	t.Parallel()
	c := newClinic(t, redistest.Start(t), nil, "H1")
	c.offer(t, "H1", "T1", "TSC03")
	c.cache(t, "H1", "T1", "APPROVED")
	if r := c.pass(t)["H1"]; !r.OK || changed(r) != "T1" || r.Invalidated[0].To != "TSC03" {
		t.Fatalf("%+v", r)
	}
	h, _ := c.hospitals.Get("H1")
	if answer, err := c.reader.Read(context.Background(), h, "T1"); err != nil || !strings.Contains(answer.Document, "TSC03") {
		t.Fatalf("%q, %v", answer.Document, err)
	}
	if r := c.pass(t)["H1"]; !r.OK || r.Compared != 1 || len(r.Invalidated) != 0 {
		t.Fatalf("%+v", r)
	}
}

// Times have no zone. They are compared as they are written, so that no clock or zone of ours
// can make a difference where there is none.
func TestTimesWithoutAZoneAreComparedAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	c := newClinic(t, redistest.Start(t), func(s *setting) { s.syncer.Fields = []string{"modifiedAt"} }, "H1")
	c.offer(t, "H1", "T1", "APPROVED")
	h, _ := c.hospitals.Get("H1")
	read := func() {
		t.Helper()
		if _, err := c.reader.Read(context.Background(), h, "T1"); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if r := c.pass(t)["H1"]; !r.OK || r.Compared != 1 || len(r.Invalidated) != 0 {
		t.Fatalf("as it was read: %+v", r)
	}
	if err := c.SetFaults(simulator.Fault{Name: "rows-zoned"}); err != nil {
		t.Fatal(err)
	}
	if r := c.pass(t)["H1"]; changed(r) != "T1" || r.Invalidated[0].Reason != invalidate.ReasonField {
		t.Fatalf("written otherwise: %+v", r)
	}
}

func TestTwoSendersBothOwnT1(t *testing.T) {
	t.Parallel()
	c := newClinic(t, redistest.Start(t), nil, "H1", "H2")
	c.offer(t, "H1", "T1", "APPROVED")
	c.offer(t, "H2", "T1", "REQUESTED")
	for _, id := range []string{"H1", "H2"} {
		c.cache(t, id, "T1", "REQUESTED")
	}
	reports := c.pass(t)
	if changed(reports["H1"]) != "T1" || changed(reports["H2"]) != "" || c.gone(t, "H1", "T1") == "" || c.gone(t, "H2", "T1") != "" {
		t.Fatalf("%+v", reports)
	}
	for _, id := range []string{"H1", "H2"} {
		h, _ := c.hospitals.Get(id)
		answer, err := c.reader.Read(context.Background(), h, "T1")
		if err != nil || strings.Contains(answer.Document, "APPROVED") != (id == "H1") {
			t.Fatalf("%s: %q, %v", id, answer.Document, err)
		}
	}
}

// moving is a SureM whose set changes between the pages of one reading.
type moving struct {
	*simulator.Simulator
	pages []string // data of one answer each, then the last for ever
	asked atomic.Int32
}

func (m *moving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != simulator.TemplatesPath {
		m.Simulator.ServeHTTP(w, r)
		return
	}
	n := min(int(m.asked.Add(1)), len(m.pages))
	_, _ = w.Write([]byte(`{"code":"A0000","data":` + m.pages[n-1] + `}`))
}

// rows writes a page of approved templates.
func rows(total int, codes string) string {
	var list []string
	for code := range strings.FieldsSeq(codes) {
		list = append(list, fmt.Sprintf(`{"templateCode":%q,"inspectionStatus":"APPROVED"}`, code))
	}
	return fmt.Sprintf(`{"list":[%s],"total":%d}`, strings.Join(list, ","), total)
}

func TestPagesThatMoveWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	all := strings.Fields("T0 T1 T2 T3 T4 T5 T6 T7 T8")
	good := []string{rows(8, "T1 T2 T3 T4"), rows(8, "T5 T6 T7 T8")}
	for name, one := range map[string]struct {
		pages    []string // of the first reading
		complete bool
		deleted  string
	}{
		"one is added in front":        {[]string{rows(8, "T1 T2 T3 T4"), rows(9, "T4 T5 T6 T7"), rows(9, "T8"), rows(9, "")}, false, "T1 T2 T3 T4 T5 T6 T7 T8"},
		"one is added at the end":      {[]string{rows(7, "T1 T2 T3 T4"), rows(8, "T5 T6 T7 T8")}, true, "T1 T2 T3 T4 T5 T6 T7 T8"},
		"one of the first goes":        {[]string{rows(9, "T0 T1 T2 T3"), rows(8, "T5 T6 T7 T8")}, true, "T0 T1 T2 T3 T5 T6 T7 T8"}, // T4 hides until the next pass
		"the last page comes again":    {[]string{rows(9, "T1 T2 T3 T4"), rows(9, "T5 T6 T7 T8"), rows(9, "T5 T6 T7 T8")}, false, "T1 T2 T3 T4 T5 T6 T7 T8"},
		"the last pages overlap":       {[]string{rows(8, "T1 T2 T3 T4"), rows(8, "T3 T4 T5 T6"), rows(8, "T7 T8")}, true, "T1 T2 T3 T4 T5 T6 T7 T8"},
		"all go while they are read":   {[]string{rows(8, "T1 T2 T3 T4"), rows(0, "")}, true, "T1 T2 T3 T4"},
		"the total forgets the others": {[]string{rows(8, "T1 T2 T3 T4"), rows(1, "T5 T6 T7 T8")}, true, "T1 T2 T3 T4 T5 T6 T7 T8"},
	} {
		t.Run(name, func(t *testing.T) {
			var vendor *moving
			c := newClinic(t, server, func(s *setting) {
				vendor = &moving{Simulator: s.vendor.(*simulator.Simulator), pages: append(one.pages, good...)}
				s.vendor = vendor
			}, "H1")
			for _, code := range all {
				c.cache(t, "H1", code, "REQUESTED")
			}
			r := c.pass(t)["H1"]
			if r.Complete != one.complete || r.OK != one.complete || c.gone(t, "H1", all...) != one.deleted {
				t.Fatalf("%+v; gone: %s", r, c.gone(t, "H1", all...))
			}
			if n := int(vendor.asked.Load()); n != len(one.pages) {
				t.Fatalf("%d pages were asked for", n)
			}
			if r := c.pass(t)["H1"]; !r.OK || !strings.HasSuffix(c.gone(t, "H1", all...), "T1 T2 T3 T4 T5 T6 T7 T8") {
				t.Fatalf("the next pass: %+v; gone: %s", r, c.gone(t, "H1", all...))
			}
		})
	}
}
