package invalidate

import (
	"context"
	"sync/atomic"
	"time"

	"alimtalk-syncer/internal/fleet"
	"alimtalk-syncer/internal/hospitals"
)

// claimPause is between attempts at a claim that Redis did not confirm.
const claimPause = time.Second

// sharedPass is a scheduled pass over a tick that ends at next and that all replicas share.
func (s *Syncer) sharedPass(ctx context.Context, next time.Time) {
	began := time.Now()
	units := s.plan(s.Hospitals.All(), next.Sub(began), s.Rate*fleet.PassShare)
	if len(units) > 0 && s.Serving != nil && !s.Serving() {
		s.standBack(ctx, units[0], began.Add(next.Sub(began)/2))
	}
	s.pass(ctx, TriggerSchedule, units, s.Claims.Tick(next))
}

// standBack lets other replicas claim first, until a time, when SureM does not answer this
// one: cut off alone, it would win every claim and read nothing. One reading without a claim
// finds out whether it does.
func (s *Syncer) standBack(ctx context.Context, unit []hospitals.Hospital, until time.Time) {
	s.progress.add(1, 0)
	defer s.progress.add(-1, 0)
	reports := make([]Report, len(unit))
	s.readUnit(TriggerSchedule, unit, reports)
	if reports[0].Complete {
		return
	}
	pause(ctx, time.Until(until))
}

// claim takes a sender key for this replica, and reports whether it is to be read here: not
// when it is another's, which is noted, nor when the pass has ended before Redis would say.
// Without Redis there is nothing to compare, and the calls would count against all replicas'
// limit; but where it only has no room for the claim, there is.
func (s *Syncer) claim(ctx context.Context, tick *fleet.Tick, unit []hospitals.Hospital, elsewhere *atomic.Int64) bool {
	for ctx.Err() == nil {
		// Its own bound alone: what is claimed must be read, so its answer is waited for.
		won, ago, err := tick.Claim(context.WithoutCancel(ctx), unit[0].Sender())
		s.sayClaims(err)
		switch {
		case err == nil && won:
			s.Metrics.FleetClaims.WithLabelValues("tick", "won").Inc()
			return true
		case err == nil:
			s.Metrics.FleetClaims.WithLabelValues("tick", "lost").Inc()
			s.noteElsewhere(unit, time.Now().Add(-ago))
			elsewhere.Add(int64(len(unit)))
			return false
		}
		s.Metrics.FleetClaims.WithLabelValues("tick", "error").Inc()
		if fleet.Full(err) {
			return true
		}
		pause(ctx, claimPause)
	}
	return false
}

// noteElsewhere notes when another replica began with hospitals.
func (s *Syncer) noteElsewhere(unit []hospitals.Hospital, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range unit {
		st := s.past.standings[h.ID]
		st.others = at
		s.past.standings[h.ID] = st
	}
}

// learnLooked reads when the fleet has looked at whom. With Redis away, what was known stays.
func (s *Syncer) learnLooked() {
	looked, err := s.Claims.Looked(s.life)
	s.sayClaims(err)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = looked
}

// sayClaims logs that claims cannot be made or read when it is news.
func (s *Syncer) sayClaims(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.mu.Lock()
	news := text != "" && s.claimsFault == ""
	s.claimsFault = text
	s.mu.Unlock()
	if news {
		s.Log.Warn().Str("error", text).Msg(EventClaims)
	}
}

// pause waits, until ctx ends at most.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
