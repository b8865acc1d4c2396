package invalidate

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/sureM"
	"alimtalk-syncer/internal/templates"
)

// Bounds of what is remembered, so that 70,000 failing hospitals cost some 20 MB at most.
const (
	maxRemembered = 100 // changes, and recoveries
	maxError      = 300 // bytes of an error
	maxStatus     = 64  // bytes of a status
)

// Status is what is remembered of the passes, for people. Its times are zero for what has
// not happened since the process began.
type Status struct {
	Next      time.Time        // the tick that is due next
	Running   bool             // a pass runs
	Pass      PassStatus       // the last one that ended
	Failing   int              // hospitals, of all
	Hospitals []HospitalStatus // all, in the list's order
	Changes   []PastChange     // the last ones, newest first
	Recovered []Recovery       // the last ones, newest first
}

// PassStatus is what the last pass has come to.
type PassStatus struct {
	Began       time.Time `json:"began,omitzero"`
	DurationMS  int64     `json:"durationMs"`
	Hospitals   int       `json:"hospitals"` // that it had planned
	OK          int       `json:"ok"`
	Failed      int       `json:"failed"`
	Elsewhere   int       `json:"elsewhere"` // read by other replicas (FLEET)
	NotReached  int       `json:"notReached"`
	Compared    int       `json:"compared"`
	Invalidated int       `json:"invalidated"`
	MassChange  bool      `json:"massChange"`
}

// HospitalStatus is what is remembered of a hospital. The counts are the last look's.
type HospitalStatus struct {
	HospitalID   string    `json:"hospitalId"`
	OK           bool      `json:"ok"` // the last look's report was; false before the first one
	LastAttempt  time.Time `json:"lastAttempt,omitzero"`
	LastSuccess  time.Time `json:"lastSuccess,omitzero"`
	FailingSince time.Time `json:"failingSince,omitzero"` // the first of the looks that failed in a row
	Error        string    `json:"error,omitempty"`       // without secrets, addresses and what SureM wrote; a look may be ok and have one
	Listed       int       `json:"listed"`
	Compared     int       `json:"compared"`
	Skipped      int       `json:"skipped"`
	BadRows      int       `json:"badRows"`
	WrongType    int       `json:"wrongType"`
	Invalidated  int       `json:"invalidated"`
	DurationMS   int64     `json:"durationMs"`
}

// Failing reports whether the last look failed.
func (h HospitalStatus) Failing() bool { return !h.FailingSince.IsZero() }

// PastChange is an entry that was deleted, or in a dry run was not, and when.
type PastChange struct {
	HospitalID string    `json:"hospitalId"`
	Change               // its statuses cut
	At         time.Time `json:"at"`
	DryRun     bool      `json:"dryRun,omitempty"`
	// Within bounds how long the entry was wrong: the time since the previous successful look
	// at the hospital began. 0 = there was none since the start.
	Within time.Duration `json:"-"`
}

// Recovery is a time in which a hospital failed, now over.
type Recovery struct {
	HospitalID string    `json:"hospitalId"`
	Error      string    `json:"error"` // the last one
	Since      time.Time `json:"since"`
	Until      time.Time `json:"until"`
}

// standing is what is remembered of a hospital from one look to the next.
type standing struct {
	HospitalStatus
	looked time.Time // the last successful look began: what it saw was no older
	others time.Time // another replica claimed it last
	sure   bool      // a look has shown what it holds, and what we know of that was not lost since
	told   bool      // the log has said that it fails
}

// history is what is remembered. Syncer.mu guards it.
type history struct {
	standings map[string]standing // by hospital id
	failing   int                 // of them
	pass      PassStatus
	changes   []PastChange // oldest first
	recovered []Recovery   // oldest first
}

// Status returns what is remembered of the hospitals there are.
func (s *Syncer) Status() Status {
	hs := s.Hospitals.All()
	running, _ := s.progress.stuck()
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{
		Next: s.next, Running: running, Pass: s.past.pass, Failing: s.past.failing,
		Hospitals: make([]HospitalStatus, len(hs)),
		Changes:   newestFirst(s.past.changes), Recovered: newestFirst(s.past.recovered),
	}
	for i, h := range hs {
		status.Hospitals[i] = s.past.standings[h.ID].HospitalStatus
		status.Hospitals[i].HospitalID = h.ID
	}
	return status
}

// remember notes how looks ended, counts them, and says so in the log where that is news.
func (s *Syncer) remember(results map[string]Reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for id, r := range results {
		if s.life.Err() != nil || errors.Is(r.ListErr, flight.ErrClosed) {
			continue // cut by our own end, which says nothing about the hospital
		}
		was := s.past.standings[id]
		s.count(r.Report)
		s.noteChanges(id, was.looked, now, r.Report)
		failure := cut(r.public(), maxError)
		told := was.told && failure != ""
		switch {
		case errors.Is(r.ListErr, surem.ErrOpen): // which is told once for all hospitals
		case failure != "" && (failure != was.Error || !told):
			s.Log.Warn().Str("hospital", id).Str("error", r.Report.Error).Msg(EventFailing)
			told = true
		case was.told && !told:
			s.Log.Info().Str("hospital", id).Msg(EventRecovered)
		}
		was.told = told
		s.past.note(id, was, r, failure, now)
		if r.Report.OK && !r.Report.DryRun {
			s.found[id] = r.found
		}
	}
	s.Metrics.Failing.Set(float64(s.past.failing))
}

// public is the report's error as it may be shown outside the log: it quotes nothing that
// SureM wrote, but for its code, and names no address.
func (r *Reading) public() string {
	var vendor *surem.Error
	switch {
	case errors.As(r.ListErr, &vendor):
		return vendor.Public()
	case r.ListErr == nil && r.CacheErr != nil:
		return "Redis did not confirm"
	}
	return r.Report.Error
}

// count adds to syncer_looks_total.
func (s *Syncer) count(r Report) {
	result := "clean"
	switch {
	case r.Error != "":
		result = "failed"
	case len(r.Invalidated) > 0:
		result = "changed"
	}
	s.Metrics.Looks.WithLabelValues(result).Inc()
}

// noteChanges remembers what a look has found, and observes how long it may have been wrong.
func (s *Syncer) noteChanges(id string, looked, now time.Time, r Report) {
	for _, c := range r.Invalidated {
		past := PastChange{HospitalID: id, Change: c, At: now, DryRun: r.DryRun}
		past.Code = strings.Clone(c.Code) // of a page's body
		past.From, past.To = templates.Status(cut(string(c.From), maxStatus)), templates.Status(cut(string(c.To), maxStatus))
		if !looked.IsZero() {
			past.Within = now.Sub(looked)
		}
		switch {
		case !r.DryRun && past.Within > 0:
			s.Metrics.Detection.Observe(past.Within.Seconds())
		case r.DryRun && s.past.told(past):
			continue // it stays, so that every dry run finds it again
		}
		s.past.changes = push(s.past.changes, past)
	}
}

// told reports whether a change is remembered already.
func (p *history) told(c PastChange) bool {
	for _, past := range p.changes {
		if past.HospitalID == c.HospitalID && past.Change == c.Change {
			return true
		}
	}
	return false
}

// note remembers how a look at a hospital ended; was.told is already this look's.
func (p *history) note(id string, was standing, r Reading, failure string, now time.Time) {
	n := standing{looked: was.looked, others: was.others, told: was.told, sure: was.sure || r.Report.OK && !r.Report.DryRun, HospitalStatus: HospitalStatus{
		HospitalID: id, OK: r.Report.OK, LastAttempt: now, LastSuccess: was.LastSuccess, Error: failure,
		Listed: r.Report.Listed, Compared: r.Report.Compared, Skipped: r.Report.Skipped, BadRows: r.Report.BadRows,
		WrongType: r.Report.WrongType, Invalidated: len(r.Report.Invalidated), DurationMS: r.Report.DurationMS,
	}}
	if r.Report.OK {
		n.LastSuccess = now
		if failure == "" {
			n.looked = r.began
		}
		if was.Failing() {
			p.recover(&was, now)
		}
	} else {
		n.FailingSince = was.FailingSince
		if !was.Failing() {
			n.FailingSince = now
			p.failing++
		}
	}
	p.standings[id] = n
}

// recover remembers that a hospital which failed does so no longer.
func (p *history) recover(was *standing, now time.Time) {
	p.failing--
	p.recovered = push(p.recovered, Recovery{HospitalID: was.HospitalID, Error: was.Error, Since: was.FailingSince, Until: now})
}

// forget drops what is remembered of hospitals that are no longer there.
func (p *history) forget(there func(id string) bool) {
	for id, st := range p.standings {
		if there(id) {
			continue
		}
		delete(p.standings, id)
		if st.Failing() {
			p.failing--
		}
	}
}

// push appends to a list that drops its oldest item when it is full.
func push[T any](list []T, item T) []T {
	if len(list) == maxRemembered {
		list = list[1:]
	}
	return append(list, item)
}

func newestFirst[T any](list []T) []T {
	reversed := make([]T, len(list))
	for i, item := range list {
		reversed[len(list)-1-i] = item
	}
	return reversed
}

// cut returns a copy of at most n bytes of s: of a longer text nothing else is kept alive.
func cut(s string, n int) string {
	if len(s) <= n {
		return strings.Clone(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
