package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Figures are the counts that the status page shows, since the process began.
type Figures struct {
	FlightRequests, FlightStarted, FlightShared, FlightFailed, FlightRejected uint64
	CacheHits, CacheMisses, CacheErrors                                       uint64
	LooksClean, LooksChanged, LooksFailed                                     uint64
}

// Figures reads the counts.
func (m *Metrics) Figures() Figures {
	f := Figures{
		FlightRequests: value(m.flightRequests), FlightStarted: value(m.flightStarted),
		FlightShared: value(m.flightShared), FlightFailed: value(m.flightFailed),
		CacheHits:   value(m.CacheReads.WithLabelValues("hit")),
		CacheMisses: value(m.CacheReads.WithLabelValues("miss")),
		CacheErrors: value(m.CacheReads.WithLabelValues("error")),
		LooksClean:  value(m.Looks.WithLabelValues("clean")), LooksChanged: value(m.Looks.WithLabelValues("changed")),
		LooksFailed: value(m.Looks.WithLabelValues("failed")),
	}
	for _, reason := range Rejections {
		f.FlightRejected += value(m.flightRejected.WithLabelValues(reason))
	}
	return f
}

// value returns what a counter shows; it cannot fail for one of client_golang's own.
func value(c prometheus.Counter) uint64 {
	var shown dto.Metric
	if err := c.Write(&shown); err != nil {
		return 0
	}
	return uint64(shown.GetCounter().GetValue())
}
