package invalidate

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"alimtalk-syncer/internal/fleet"
	"alimtalk-syncer/internal/hospitals"
)

// A mass change is more than half of this many compared entries or more: it smells of list
// and detail using different words.
const massChangeFloor = 20

// Pass reads the hospitals once and returns their reports in the order in which they were
// begun: oldest last attempt first, so that slow and failing ones starve nobody. Hospitals
// that share a sender key share one reading. It begins no hospital once ctx has ended, and
// returns when those that run are done; then the reports are fewer than the hospitals.
func (s *Syncer) Pass(ctx context.Context, trigger string, hs []hospitals.Hospital) []Report {
	return s.pass(ctx, trigger, s.plan(hs, 0, 0), nil)
}

// pass is Pass for hospitals that are grouped by sender key and in their order. Of a tick that
// is shared with other replicas it reads those that it can claim.
func (s *Syncer) pass(ctx context.Context, trigger string, units [][]hospitals.Hospital, tick *fleet.Tick) []Report {
	began := time.Now()
	s.Metrics.LastAttempt.Set(float64(began.Unix()))
	s.progress.add(1, 0)
	defer s.progress.add(-1, 0)

	planned := 0
	for _, unit := range units {
		planned += len(unit)
	}
	reports := make([]Report, planned) // written where they belong: of 70,000 hospitals' there are no copies to spare
	type work struct {
		unit    []hospitals.Hospital
		reports []Report
	}
	turn := make(chan work)
	var others left
	var workers sync.WaitGroup
	for range min(s.Concurrency, len(units)) {
		workers.Go(func() {
			for w := range turn {
				if tick == nil {
					s.readUnit(trigger, w.unit, w.reports)
				} else {
					s.readClaimed(ctx, tick, w.unit, w.reports, &others)
				}
			}
		})
	}
	rest := reports
	for _, unit := range units {
		if ctx.Err() != nil {
			break
		}
		w := work{unit, rest[:len(unit)]}
		rest = rest[len(unit):]
		select {
		case turn <- w:
		case <-ctx.Done():
		}
	}
	close(turn)
	workers.Wait()
	reports = slices.DeleteFunc(reports, func(r Report) bool { return r.HospitalID == "" }) // not reached
	s.account(trigger, tick, planned, &others, reports, began)
	return reports
}

// left is what a pass has left to other replicas.
type left struct {
	hospitals atomic.Int64
	failing   atomic.Int64 // of them, as the looks that ended last say
}

// readUnit reads the hospitals of one sender key, and writes their reports, which stay empty
// when shutting down.
func (s *Syncer) readUnit(trigger string, unit []hospitals.Hospital, reports []Report) {
	s.progress.add(0, 1)
	defer s.progress.add(0, -1)
	r, run, err := s.ask(trigger, true, unit...)
	if err != nil {
		return
	}
	if run != nil {
		run() // here: a goroutine more would cost a tenth of the pass
	}
	<-r.done // a reading ends by its own bounds, or by Close
	for i, h := range unit {
		reports[i] = r.results[h.ID].Report
	}
}

// account sums a pass up: one log line, the figures, and what the status page shows.
func (s *Syncer) account(trigger string, tick *fleet.Tick, planned int, others *left, reports []Report, began time.Time) {
	type step struct{ from, to string }
	var ok, listed, compared, skipped, bad, wrongType, changed int
	steps := make(map[step]int)
	for _, r := range reports {
		if r.OK {
			ok++
		}
		listed, compared, skipped = listed+r.Listed, compared+r.Compared, skipped+r.Skipped
		bad, wrongType, changed = bad+r.BadRows, wrongType+r.WrongType, changed+len(r.Invalidated)
		for _, c := range r.Invalidated {
			steps[step{string(c.From), string(c.To)}]++
		}
	}
	elsewhere, failing := int(others.hospitals.Load()), int(others.failing.Load())
	missed := planned - elsewhere - len(reports)
	took := time.Since(began)
	massChange := compared >= massChangeFloor && 2*changed > compared
	s.mu.Lock()
	s.past.pass = PassStatus{
		Began: began, DurationMS: took.Milliseconds(), Hospitals: planned, OK: ok, Failed: len(reports) - ok,
		Elsewhere: elsewhere, NotReached: missed, Compared: compared, Invalidated: changed, MassChange: massChange,
	}
	s.mu.Unlock()
	line := s.Log.Info().Str("trigger", trigger)
	if tick != nil {
		line.Time("tick", tick.End)
	}
	line.Int("hospitals", planned).Int("ok", ok).Int("failed", len(reports)-ok).Int("elsewhere", elsewhere).Int("not_reached", missed).
		Int("listed", listed).Int("compared", compared).Int("skipped", skipped).Int("invalidated", changed).
		Int("bad_rows", bad).Int("wrong_type", wrongType).Bool("dry_run", s.DryRun).Int64("took_ms", took.Milliseconds()).Msg(EventPass)
	if missed == 0 && (ok > 0 || planned == 0 || len(reports) == 0 && failing < elsewhere) {
		s.Metrics.LastSuccess.SetToCurrentTime()
		if s.Succeeded != nil {
			s.Succeeded()
		}
	}

	if !massChange {
		s.Metrics.MassChange.Set(0)
		return
	}
	s.Metrics.MassChange.Set(1)
	var commonest step
	for st, n := range steps {
		if n > steps[commonest] || n == steps[commonest] && cmp.Or(cmp.Compare(st.from, commonest.from), cmp.Compare(st.to, commonest.to)) < 0 {
			commonest = st
		}
	}
	s.Log.Warn().Int("compared", compared).Int("changed", changed).Str("from", commonest.from).Str("to", commonest.to).
		Int("times", steps[commonest]).Msg(EventMassChange)
}
