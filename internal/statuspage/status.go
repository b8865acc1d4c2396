// Package statuspage shows how the daemon fares: to people as a page, to programs as JSON.
// It decides nothing and keeps nothing: it asks the parts and sets side by side what they
// say. Everything on the page is escaped, and neither form holds a secret, a sender key or
// the text of a template.
package statuspage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/metrics"
)

// maxHospitals is how many hospitals one answer shows, failing ones first.
const maxHospitals = 1000

// Options are the parts that are asked. All funcs are needed.
type Options struct {
	Passes  func() invalidate.Status
	Flights func() flight.Stats
	Figures func() metrics.Figures
	Health  func() Health
	Healthy func() error // nil while the process makes progress

	DryRun          bool
	Zone            *time.Location // of the page's clock
	Version, Commit string
	Started         time.Time
}

// Health is what the daemon stands on, in the words of /readyz.
type Health struct {
	Redis         string `json:"redis"`         // "ok" or "away"
	SureM         string `json:"surem"`         // "ok", "refused", "away" or "limited"
	HospitalsFile string `json:"hospitalsFile"` // "ok" or "bad"
	Stopping      bool   `json:"stopping"`
}

// Status is the answer to GET /v1/status. Times are UTC; what has not happened since the
// start, and a ratio of nothing, is left out.
type Status struct {
	OK       bool      `json:"ok"` // there are no problems
	Problems []Problem `json:"problems"`

	Now           time.Time `json:"now"`
	StartedAt     time.Time `json:"startedAt"`
	UptimeSeconds int64     `json:"uptimeSeconds"`
	Version       string    `json:"version"`
	Commit        string    `json:"commit"`
	DryRun        bool      `json:"dryRun"`
	Health

	Schedule     Schedule              `json:"schedule"`
	Hospitals    Hospitals             `json:"hospitals"`
	Changes      []Change              `json:"changes"`   // the last 100, newest first
	Recovered    []invalidate.Recovery `json:"recovered"` // the last 100 failures that are over, newest first
	Looks        Looks                 `json:"looks"`
	SingleFlight SingleFlight          `json:"singleFlight"`
	Cache        Cache                 `json:"cache"`
}

// Problem is a reason why not all is well.
type Problem struct {
	Kind string `json:"kind"` // one of the Kind constants
	Text string `json:"text"` // in English

	args []any // of the text
}

// The kinds of problems.
const (
	KindStopping         = "stopping"
	KindStuck            = "stuck"
	KindRedisAway        = "redis away"
	KindSureMRefused     = "surem refused"
	KindSureMAway        = "surem away"
	KindSureMLimited     = "surem limited"
	KindHospitalsFile    = "hospitals file bad"
	KindHospitalsFailing = "hospitals failing"
	KindMassChange       = "mass change"
)

// Schedule is when passes run.
type Schedule struct {
	Next     time.Time              `json:"next,omitzero"`
	Running  bool                   `json:"running"`
	LastPass *invalidate.PassStatus `json:"lastPass,omitempty"`
}

// Hospitals are those that ?q= names, all without it.
type Hospitals struct {
	Total    int                         `json:"total"`
	Failing  int                         `json:"failing"`
	Matching int                         `json:"matching"` // of all
	List     []invalidate.HospitalStatus `json:"list"`     // at most 1,000, failing ones first, the longest failing at the top
}

// Change is a past change.
type Change struct {
	invalidate.PastChange
	WithinSeconds float64 `json:"withinSeconds,omitempty"` // after the previous successful look began
}

// Looks counts looks at hospitals.
type Looks struct {
	Clean      uint64   `json:"clean"`
	Changed    uint64   `json:"changed"`
	Failed     uint64   `json:"failed"`
	CleanRatio *float64 `json:"cleanRatio,omitempty"` // of those that did not fail
}

// SingleFlight is the present and the past load of detail reads; the ratios are the
// single-flight seed document's.
type SingleFlight struct {
	InFlight          int      `json:"inFlight"`
	Waiters           int      `json:"waiters"`
	WaitersPerKeyMax  int      `json:"waitersPerKeyMax"`
	Requests          uint64   `json:"requests"`
	Loaders           uint64   `json:"loaders"`
	Shared            uint64   `json:"shared"`
	Failed            uint64   `json:"failed"`
	Rejected          uint64   `json:"rejected"`
	RequestsPerLoader *float64 `json:"requestsPerLoader,omitempty"`
	SuppressionRatio  *float64 `json:"suppressionRatio,omitempty"` // 1 - loaders/requests
}

// Cache counts detail reads by their first look into Redis.
type Cache struct {
	Hits     uint64   `json:"hits"`
	Misses   uint64   `json:"misses"`
	Errors   uint64   `json:"errors"`
	HitRatio *float64 `json:"hitRatio,omitempty"` // of hits and misses
}

// status asks the parts. q, when it is not empty, is a part of the ids to be shown, in any case.
func (o *Options) status(q string, now time.Time) Status {
	passes, flights, figures := o.Passes(), o.Flights(), o.Figures()
	s := Status{
		Now: stamp(now), StartedAt: stamp(o.Started), UptimeSeconds: int64(now.Sub(o.Started).Seconds()),
		Version: o.Version, Commit: o.Commit, DryRun: o.DryRun, Health: o.Health(),
		Schedule: Schedule{Next: stamp(passes.Next), Running: passes.Running},
		Looks: Looks{
			Clean: figures.LooksClean, Changed: figures.LooksChanged, Failed: figures.LooksFailed,
			CleanRatio: ratio(figures.LooksClean, figures.LooksClean+figures.LooksChanged),
		},
		SingleFlight: SingleFlight{
			InFlight: flights.Keys, Waiters: flights.Waiters, WaitersPerKeyMax: flights.WaitersPerKey,
			Requests: figures.FlightRequests, Loaders: figures.FlightStarted, Shared: figures.FlightShared,
			Failed: figures.FlightFailed, Rejected: figures.FlightRejected,
			RequestsPerLoader: ratio(figures.FlightRequests, figures.FlightStarted),
			SuppressionRatio:  ratio(max(figures.FlightRequests, figures.FlightStarted)-figures.FlightStarted, figures.FlightRequests),
		},
		Cache: Cache{
			Hits: figures.CacheHits, Misses: figures.CacheMisses, Errors: figures.CacheErrors,
			HitRatio: ratio(figures.CacheHits, figures.CacheHits+figures.CacheMisses),
		},
	}
	if pass := passes.Pass; !pass.Began.IsZero() {
		pass.Began = stamp(pass.Began)
		s.Schedule.LastPass = &pass
	}
	s.Problems = o.problems(passes, s.Health)
	s.OK = len(s.Problems) == 0
	s.choose(passes, strings.ToLower(q))
	return s
}

// problems lists what is not well, the gravest first.
func (o *Options) problems(passes invalidate.Status, h Health) []Problem {
	problems := []Problem{}
	add := func(is bool, kind string, args ...any) {
		if is {
			problems = append(problems, Problem{Kind: kind, Text: fmt.Sprintf(english.Problems[kind], args...), args: args})
		}
	}
	if err := o.Healthy(); err != nil {
		add(true, KindStuck, err.Error())
	}
	add(h.Stopping, KindStopping)
	add(h.Redis != "ok", KindRedisAway)
	add(h.SureM == "refused", KindSureMRefused)
	add(h.SureM == "away", KindSureMAway)
	add(h.SureM == "limited", KindSureMLimited)
	add(passes.Failing > 0, KindHospitalsFailing, passes.Failing, len(passes.Hospitals))
	add(h.HospitalsFile != "ok", KindHospitalsFile)
	add(passes.Pass.MassChange, KindMassChange)
	return problems
}

// choose takes what q names, and puts the hospitals in the order in which they are shown.
func (s *Status) choose(passes invalidate.Status, q string) {
	names := func(id string) bool { return strings.Contains(strings.ToLower(id), q) }
	s.Hospitals = Hospitals{Total: len(passes.Hospitals), Failing: passes.Failing, List: []invalidate.HospitalStatus{}}
	s.Changes, s.Recovered = []Change{}, []invalidate.Recovery{}
	for _, h := range passes.Hospitals {
		if names(h.HospitalID) {
			s.Hospitals.List = append(s.Hospitals.List, h)
		}
	}
	s.Hospitals.Matching = len(s.Hospitals.List)
	slices.SortStableFunc(s.Hospitals.List, func(a, b invalidate.HospitalStatus) int {
		switch {
		case a.Failing() && b.Failing():
			return a.FailingSince.Compare(b.FailingSince)
		case a.Failing():
			return -1
		case b.Failing():
			return 1
		}
		return 0
	})
	s.Hospitals.List = s.Hospitals.List[:min(len(s.Hospitals.List), maxHospitals)]
	for i := range s.Hospitals.List {
		h := &s.Hospitals.List[i]
		h.LastAttempt, h.LastSuccess, h.FailingSince = stamp(h.LastAttempt), stamp(h.LastSuccess), stamp(h.FailingSince)
	}
	for _, c := range passes.Changes {
		if names(c.HospitalID) || strings.Contains(strings.ToLower(c.Code), q) {
			c.At = stamp(c.At)
			s.Changes = append(s.Changes, Change{PastChange: c, WithinSeconds: c.Within.Round(time.Millisecond).Seconds()})
		}
	}
	for _, r := range passes.Recovered {
		if names(r.HospitalID) {
			r.Since, r.Until = stamp(r.Since), stamp(r.Until)
			s.Recovered = append(s.Recovered, r)
		}
	}
}

// stamp is a time as it is shown; the zero time stays zero.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// ratio returns part/whole, nil where there is no whole.
func ratio(part, whole uint64) *float64 {
	if whole == 0 {
		return nil
	}
	r := float64(part) / float64(whole)
	return &r
}
