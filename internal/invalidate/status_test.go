package invalidate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/sureM"
	"alimtalk-syncer/internal/templates"
)

// rememberer is a Syncer that is told how looks ended, without looking.
type rememberer struct {
	*Syncer
	log strings.Builder
}

func newRememberer(t testing.TB, ids ...string) *rememberer {
	t.Helper()
	var entries []hospitals.Entry
	for _, id := range ids {
		entries = append(entries, hospitals.Entry{ID: id, SenderKey: hospitals.Secret("key-of-" + id)})
	}
	directory, err := hospitals.New(entries, "clinic", "secret")
	if err != nil {
		t.Fatal(err)
	}
	r := &rememberer{}
	r.Syncer = New(Options{Hospitals: directory, Metrics: metrics.New("v", "c", "go"), Log: zerolog.New(&r.log)})
	return r
}

// ended notes a look that took a second.
func (r *rememberer) ended(id string, failure error, changes ...Change) {
	reading := Reading{ListErr: failure, began: time.Now(), Report: Report{HospitalID: id, DryRun: r.DryRun, Invalidated: changes}}
	time.Sleep(time.Second)
	reading.sum(Plan{})
	r.remember(map[string]Reading{id: reading})
}

func approved(code string) Change {
	return Change{Code: code, From: "REQUESTED", To: "APPROVED", Reason: ReasonStatus}
}

func TestAChangeIsWithinTheTimeSinceTheLastGoodLookBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRememberer(t, "H001", "H002")
		observed := func(n uint64, sum time.Duration) {
			t.Helper()
			count, total := detected(t, r.Metrics)
			if count != n || total != sum.Seconds() {
				t.Fatalf("%d observations, %v s; want %d, %v s", count, total, n, sum.Seconds())
			}
		}
		r.ended("H001", nil, approved("T1"))
		observed(0, 0) // the first look after the start: nobody knows
		time.Sleep(9 * time.Second)
		r.ended("H001", nil, approved("T1"), approved("T2"))
		observed(2, 2*11*time.Second)
		time.Sleep(time.Minute)
		r.ended("H001", errors.New("SureM is away"), approved("T3"))
		observed(3, 2*11*time.Second+62*time.Second)
		r.ended("H001", nil, approved("T4")) // the failed look does not count as one
		observed(4, 2*11*time.Second+62*time.Second+63*time.Second)
		r.ended("H002", nil, approved("T1")) // nor does another hospital's
		observed(4, 2*11*time.Second+62*time.Second+63*time.Second)

		var within []time.Duration
		for _, c := range r.Status().Changes {
			within = append(within, c.Within)
		}
		if fmt.Sprint(within) != "[0s 1m3s 1m2s 11s 11s 0s]" {
			t.Errorf("within %v", within)
		}
		if f := r.Metrics.Figures(); f.LooksClean != 0 || f.LooksChanged != 4 || f.LooksFailed != 1 {
			t.Errorf("looks %+v", f)
		}
	})
}

// detected reads syncer_change_detection_seconds.
func detected(t *testing.T, m *metrics.Metrics) (count uint64, sum float64) {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "syncer_change_detection_seconds" {
			h := f.GetMetric()[0].GetHistogram()
			return h.GetSampleCount(), h.GetSampleSum()
		}
	}
	t.Fatal("no syncer_change_detection_seconds")
	return 0, 0
}

func TestALookThatCouldReadNoEntryIsNoGoodLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRememberer(t, "H001")
		r.ended("H001", nil)
		unreadable := Reading{began: time.Now(), Report: Report{HospitalID: "H001"}}
		unreadable.sum(Plan{Compared: 3, AllUnreadable: true})
		time.Sleep(time.Minute)
		r.remember(map[string]Reading{"H001": unreadable})
		h := r.Status().Hospitals[0]
		if !h.OK || h.Failing() || h.Error != allUnreadableText {
			t.Errorf("%+v", h)
		}
		if !strings.Contains(r.log.String(), allUnreadableText) {
			t.Error("the log does not say so")
		}
		r.ended("H001", nil, approved("T1"))
		if _, sum := detected(t, r.Metrics); sum != 62 {
			t.Errorf("within %v s, want 62", sum)
		}
	})
}

func TestDryRunsAreToldOnceAndMeasureNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRememberer(t, "H001")
		r.DryRun = true
		for range 3 {
			r.ended("H001", nil, approved("T1"), approved("T2"))
		}
		if n, _ := detected(t, r.Metrics); n != 0 {
			t.Errorf("%d observations", n)
		}
		if c := r.Status().Changes; len(c) != 2 || !c[0].DryRun || c[0].Code != "T2" || c[1].Code != "T1" {
			t.Errorf("%+v", c)
		}
	})
}

func TestWhatIsShownQuotesNobodyAndNamesNoAddress(t *testing.T) {
	for _, c := range []struct {
		reading Reading
		want    string
	}{
		{Reading{ListErr: fmt.Errorf("page 1: %w", &surem.Error{Op: "summaries", Outcome: "refused", Status: 403, Code: "A1001", Message: "vendor text", Err: surem.ErrRefused})},
			"summaries: SureM answered HTTP 403 (code A1001): refused"},
		{Reading{CacheErr: errors.New("reading the entries: dial tcp 10.0.0.9:6379: connection refused")}, "Redis did not confirm"},
		{Reading{ListErr: errors.New("took longer than 30s (SYNC_TIMEOUT)"), CacheErr: errors.New("10.0.0.9")}, "took longer than 30s (SYNC_TIMEOUT)"},
	} {
		r := newRememberer(t, "H001")
		c.reading.sum(Plan{})
		r.remember(map[string]Reading{"H001": c.reading})
		if got := r.Status().Hospitals[0].Error; got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestWhatOurOwnEndCutsIsNoFailure(t *testing.T) {
	r := newRememberer(t, "H001")
	closed := Reading{ListErr: flight.ErrClosed}
	closed.sum(Plan{})
	r.remember(map[string]Reading{"H001": closed})
	r.kill()
	cut := Reading{ListErr: context.Canceled}
	cut.sum(Plan{})
	r.remember(map[string]Reading{"H001": cut})
	if s := r.Status(); s.Failing != 0 || s.Hospitals[0].Error != "" || r.log.Len() > 0 {
		t.Errorf("%+v, log %s", s, r.log.String())
	}
}

func TestFailuresOutlastTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRememberer(t, "H001", "H002", "H003")
		began := time.Now()
		r.ended("H001", nil)
		r.ended("H001", errors.New("first"))
		r.ended("H001", errors.New("second"))
		r.ended("H002", errors.New("other"))
		s := r.Status()
		h := s.Hospitals[0]
		if h.OK || h.Error != "second" || h.FailingSince != began.Add(2*time.Second) || h.LastSuccess != began.Add(time.Second) || h.LastAttempt != began.Add(3*time.Second) {
			t.Errorf("%+v", h)
		}
		if h := s.Hospitals[2]; h.HospitalID != "H003" || h.Failing() || !h.LastAttempt.IsZero() {
			t.Errorf("not looked at yet: %+v", h)
		}
		if s.Failing != 2 || len(s.Recovered) != 0 {
			t.Errorf("failing %d, recovered %+v", s.Failing, s.Recovered)
		}
		r.ended("H001", nil)
		s = r.Status()
		want := Recovery{HospitalID: "H001", Error: "second", Since: began.Add(2 * time.Second), Until: began.Add(5 * time.Second)}
		if s.Failing != 1 || len(s.Recovered) != 1 || s.Recovered[0] != want || s.Hospitals[0].Error != "" {
			t.Errorf("failing %d, recovered %+v, %+v", s.Failing, s.Recovered, s.Hospitals[0])
		}
		r.past.forget(func(id string) bool { return id == "H001" })
		if s := r.Status(); s.Failing != 0 || len(r.past.standings) != 1 {
			t.Errorf("after H002 has gone: failing %d, %d standings", s.Failing, len(r.past.standings))
		}
		for _, line := range []string{`"hospital failing"`, `"hospital recovered"`} {
			if !strings.Contains(r.log.String(), line) {
				t.Errorf("no %s in the log", line)
			}
		}
	})
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	long := strings.Repeat("가", 10_000)
	r := newRememberer(t, "H001")
	r.Log = zerolog.Nop()
	failure := errors.New("failed: " + long)
	before := heap()
	const n = 70_000
	for i := range n {
		id := fmt.Sprintf("H%05d", i)
		// As texts out of an answer's body are, these are parts of something larger.
		reading := Reading{ListErr: failure, Report: Report{HospitalID: id, Invalidated: []Change{{
			Code: (long + "T")[:90], From: templates.Status(long), To: "APPROVED", Reason: ReasonStatus}}}}
		reading.sum(Plan{})
		r.remember(map[string]Reading{id: reading})
		r.remember(map[string]Reading{id: {Report: Report{HospitalID: id, OK: true}}})
		r.remember(map[string]Reading{id: reading})
	}
	s := r.Status()
	if s.Failing != n || len(s.Changes) != maxRemembered || len(s.Recovered) != maxRemembered {
		t.Errorf("failing %d, %d changes, %d recovered", s.Failing, len(s.Changes), len(s.Recovered))
	}
	if c := s.Changes[0]; c.HospitalID != "H69999" || len(c.From) > maxStatus+len("…") || len(s.Recovered[0].Error) > maxError+len("…") {
		t.Errorf("the newest: %+v", c)
	}
	if grown := heap() - before; grown > 64<<20 {
		t.Errorf("%d hospitals that fail take %d MiB", n, grown>>20)
	}
	runtime.KeepAlive(r)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
