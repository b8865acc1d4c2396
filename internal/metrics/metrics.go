// Package metrics holds every figure that /metrics shows. Series with closed label sets
// exist from the start, at 0, and no label holds a hospital id or a template code.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// The closed label sets.
var (
	CacheReads  = []string{"hit", "miss", "error"}
	CacheWrites = []string{"stored", "refused", "error"}
	Triggers    = []string{"schedule", "list", "manual"}
	Ticks       = []string{"run", "skipped"}
	Operations  = []string{"login", "summaries", "detail"}
	Looks       = []string{"clean", "changed", "failed"}
	Outcomes    = []string{"ok", "not_found", "refused", "rate_limited", "client_error", "server_error", "network", "timeout", "bad_answer", "cancelled"}
	Rejections  = []string{"keys", "waiters"}
	Claimed     = []string{"tick", "load"}
	Claims      = []string{"won", "lost", "error"}
	Slots       = []string{"shared", "alone"}
)

// seconds are the buckets of every duration: 1 ms to 30 s, close enough for p95 and p99.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 20, 30}

// detection are the buckets of how long an entry may have been wrong: 1 s to 24 h, the
// longest that an entry lives.
var detection = []float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400}

// Metrics is one process's figures, on a registry of its own.
type Metrics struct {
	Registry *prometheus.Registry

	CacheReads    *prometheus.CounterVec // result: one per detail request, by its first look
	CacheWrites   *prometheus.CounterVec // result
	Invalidations *prometheus.CounterVec // trigger
	Ticks         *prometheus.CounterVec // result
	Looks         *prometheus.CounterVec // result: one per look at a hospital
	Detection     prometheus.Histogram   // seconds since the previous successful look, per invalidation
	LastAttempt   prometheus.Gauge       // Unix seconds
	LastSuccess   prometheus.Gauge       // Unix seconds
	Hospitals     prometheus.Gauge
	Failing       prometheus.Gauge
	MassChange    prometheus.Gauge

	FleetClaims *prometheus.CounterVec // of, result
	FleetSlots  *prometheus.CounterVec // result

	SureMRequests *prometheus.CounterVec   // operation, outcome
	SureMDuration *prometheus.HistogramVec // operation; one HTTP call, its wait for a slot left out

	flightRequests, flightStarted, flightShared, flightSucceeded, flightFailed prometheus.Counter
	flightRejected                                                             *prometheus.CounterVec
	waiterDuration, loaderDuration                                             prometheus.Histogram
}

// New returns all figures at 0. version, commit and goVersion label syncer_build_info.
func New(version, commit, goVersion string) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry()}
	m.CacheReads = m.counters("syncer_cache_reads_total", "Detail requests by what their first look into Redis found.", "result", CacheReads)
	m.CacheWrites = m.counters("syncer_cache_writes_total", "Fills of the cache by how Redis took them.", "result", CacheWrites)
	m.Invalidations = m.counters("syncer_invalidations_total", "Entries deleted because they had changed at SureM.", "trigger", Triggers)
	m.Ticks = m.counters("syncer_sync_ticks_total", "Ticks of the schedule; skipped ones fell into a running pass while another waited for its end.", "result", Ticks)
	m.Looks = m.counters("syncer_looks_total", "Looks at a hospital: clean ones found nothing wrong, failed ones are not known to have seen everything.", "result", Looks)
	m.Detection = m.histogram("syncer_change_detection_seconds", "Per invalidation, the time since the previous successful look at that hospital: the entry was wrong for no longer.", detection)
	m.LastAttempt = m.gauge("syncer_sync_last_attempt_timestamp_seconds", "When the last pass began.")
	m.LastSuccess = m.gauge("syncer_sync_last_success_timestamp_seconds", "When the last pass ended that came round to every hospital it had planned and in which not all failed.")
	m.Hospitals = m.gauge("syncer_hospitals", "Hospitals configured.")
	m.Failing = m.gauge("syncer_hospitals_failing", "Hospitals whose last reading failed.")
	m.MassChange = m.gauge("syncer_mass_change", "1 after a pass in which more than half of 20 or more compared entries had changed.")

	m.SureMRequests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "syncer_surem_requests_total", Help: "HTTP calls to SureM."}, []string{"operation", "outcome"})
	m.SureMDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "syncer_surem_request_duration_seconds", Help: "Duration of HTTP calls to SureM.", Buckets: seconds}, []string{"operation"})
	m.Registry.MustRegister(m.SureMRequests, m.SureMDuration)
	for _, op := range Operations {
		m.SureMDuration.WithLabelValues(op)
		for _, outcome := range Outcomes {
			m.SureMRequests.WithLabelValues(op, outcome)
		}
	}

	m.FleetClaims = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "syncer_fleet_claims_total",
		Help: "With FLEET, claims of a sender key in a tick, or of a template's load: won ones are this replica's work, lost ones another's; error says that Redis did not confirm."}, []string{"of", "result"})
	m.Registry.MustRegister(m.FleetClaims)
	for _, of := range Claimed {
		for _, result := range Claims {
			m.FleetClaims.WithLabelValues(of, result)
		}
	}
	m.FleetSlots = m.counters("syncer_fleet_slots_total", "With FLEET, slots of the rate limit: shared ones were given by the fleet's limiter, alone ones by this replica's while Redis did not answer.", "result", Slots)

	m.flightRequests = m.counter("single_flight_requests_total", "Detail reads that came to single-flight.")
	m.flightStarted = m.counter("single_flight_loaders_started_total", "Loads started.")
	m.flightShared = m.counter("single_flight_waiters_shared_total", "Detail reads that shared a load another one had started.")
	m.flightSucceeded = m.counter("single_flight_loaders_succeeded_total", "Loads that ended well.")
	m.flightFailed = m.counter("single_flight_loaders_failed_total", "Loads that ended in an error, a panic or at their deadline.")
	m.flightRejected = m.counters("single_flight_rejected_total", "Detail reads turned away by a cap.", "reason", Rejections)
	m.waiterDuration = m.histogram("single_flight_waiter_duration_seconds", "How long a detail read waited for its load, starters included.", seconds)
	m.loaderDuration = m.histogram("single_flight_loader_duration_seconds", "How long a load took.", seconds)

	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "syncer_build_info", Help: "Always 1.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "goversion": goVersion}})
	info.Set(1)
	m.Registry.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// GaugeFunc adds a figure that is read when /metrics is.
func (m *Metrics) GaugeFunc(name, help string, f func() float64) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
}

// CounterFunc adds a count that is read when /metrics is.
func (m *Metrics) CounterFunc(name, help string, f func() float64) {
	m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, f))
}

// Requested implements flight.Observer.
func (m *Metrics) Requested() { m.flightRequests.Inc() }

// Rejected implements flight.Observer.
func (m *Metrics) Rejected(reason string) { m.flightRejected.WithLabelValues(reason).Inc() }

// Started implements flight.Observer.
func (m *Metrics) Started() { m.flightStarted.Inc() }

// Loaded implements flight.Observer.
func (m *Metrics) Loaded(took time.Duration, err error) {
	m.loaderDuration.Observe(took.Seconds())
	if err != nil {
		m.flightFailed.Inc()
	} else {
		m.flightSucceeded.Inc()
	}
}

// Waited implements flight.Observer.
func (m *Metrics) Waited(took time.Duration, shared bool) {
	m.waiterDuration.Observe(took.Seconds())
	if shared {
		m.flightShared.Inc()
	}
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.Registry.MustRegister(c)
	return c
}

func (m *Metrics) counters(name, help, label string, values []string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	m.Registry.MustRegister(c)
	for _, v := range values {
		c.WithLabelValues(v)
	}
	return c
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.Registry.MustRegister(g)
	return g
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.Registry.MustRegister(h)
	return h
}
