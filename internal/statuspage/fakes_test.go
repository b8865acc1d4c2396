package statuspage

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/templates"
)

// scene is what the parts say.
type scene struct {
	passes  invalidate.Status
	flights flight.Stats
	figures metrics.Figures
	health  Health
	stuck   error
	dryRun  bool
	version string
}

// calm is a scene in which all is well.
func calm(hospitals int) *scene {
	now := time.Now()
	s := &scene{
		health: Health{Redis: "ok", SureM: "ok", HospitalsFile: "ok"},
		figures: metrics.Figures{
			FlightRequests: 1000, FlightStarted: 50, FlightShared: 950, FlightFailed: 2, FlightRejected: 1,
			CacheHits: 9000, CacheMisses: 1000, CacheErrors: 3, LooksClean: 1234567, LooksChanged: 89, LooksFailed: 7,
		},
		flights: flight.Stats{Keys: 3, Waiters: 12, WaitersPerKey: 9},
		version: "v1.2.3",
	}
	s.passes.Next = now.Add(12 * time.Second)
	s.passes.Pass = invalidate.PassStatus{Began: now.Add(-48 * time.Second), DurationMS: 1234, Hospitals: hospitals, OK: hospitals, Compared: 12 * hospitals, Invalidated: 2}
	for i := range hospitals {
		s.passes.Hospitals = append(s.passes.Hospitals, invalidate.HospitalStatus{
			HospitalID: fmt.Sprintf("H%05d", i+1), OK: true, LastAttempt: now.Add(-47 * time.Second), LastSuccess: now.Add(-47 * time.Second), Listed: 14, Compared: 12,
		})
	}
	return s
}

// fail lets hospital i fail since some time ago.
func (s *scene) fail(i int, since time.Duration, text string) {
	h := &s.passes.Hospitals[i]
	h.OK, h.Error, h.FailingSince = false, text, time.Now().Add(-since)
	h.LastSuccess = h.FailingSince.Add(-time.Minute)
	s.passes.Failing++
	s.passes.Pass.OK--
	s.passes.Pass.Failed++
}

// change adds a change, the oldest so far.
func (s *scene) change(id, code, from, to string, ago, within time.Duration) {
	s.passes.Changes = append(s.passes.Changes, invalidate.PastChange{
		HospitalID: id, At: time.Now().Add(-ago), Within: within,
		Change: invalidate.Change{Code: code, From: templates.Status(from), To: templates.Status(to), Reason: invalidate.ReasonStatus},
	})
}

func (s *scene) options() Options {
	return Options{
		Passes:  func() invalidate.Status { return s.passes },
		Flights: func() flight.Stats { return s.flights },
		Figures: func() metrics.Figures { return s.figures },
		Health:  func() Health { return s.health },
		Healthy: func() error { return s.stuck },
		DryRun:  s.dryRun, Zone: time.FixedZone("Asia/Seoul", 9*60*60), Version: s.version, Commit: "0123456789ab",
		Started: time.Now().Add(-3 * time.Hour),
	}
}

// busy is a scene with everything that the page can show.
func busy() *scene {
	s := calm(120)
	s.fail(40, 3*time.Hour, "summaries: SureM answered HTTP 500: server error")
	s.fail(7, 26*time.Minute, `summaries: SureM answered HTTP 403 (code A1001, "not allowed"): refused`)
	s.passes.Hospitals[3].Error = "none of the cached entries can be read, so nothing was deleted: are CACHE_KEY_FORMAT and CACHE_VALUE_FORMAT right?"
	s.passes.Hospitals[119].LastAttempt, s.passes.Hospitals[119].LastSuccess, s.passes.Hospitals[119].OK = time.Time{}, time.Time{}, false
	for i := range 30 {
		s.change(fmt.Sprintf("H%05d", i+1), []string{"APPT_CONFIRM", "CHECKUP_RESULT", "예약안내_01", "a-very-long-template-code-of-one-hundred-and-twenty-eight-bytes-which-no-vendor-gives-but-which-the-contract-allows-0123456789012345"}[i%4],
			"REQUESTED", []string{"APPROVED", "REJECTED"}[i%2], time.Duration(i*i)*time.Minute, time.Duration(i%3)*31*time.Second)
	}
	s.passes.Changes[2].Reason, s.passes.Changes[2].From = invalidate.ReasonUnreadable, ""
	for i := range 14 {
		s.passes.Recovered = append(s.passes.Recovered, invalidate.Recovery{
			HospitalID: fmt.Sprintf("H%05d", i+50), Error: "summaries: SureM did not answer in time (10s)",
			Since: time.Now().Add(-time.Duration(i+2) * time.Hour), Until: time.Now().Add(-time.Duration(i+1) * time.Hour),
		})
	}
	s.passes.Hospitals[7].HospitalID = "a-hospital-id-of-sixty-four-characters-which-is-as-long-as-it-ge"
	s.passes.Changes[7].HospitalID = s.passes.Hospitals[7].HospitalID
	s.health.SureM = "limited"
	return s
}

// get asks a handler.
func get(t testing.TB, h http.Handler, target, language string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	if language != "" {
		r.Header.Set("Accept-Language", language)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d", target, w.Code)
	}
	return w
}
