package invalidate

import (
	"context"
	"slices"
	"time"

	"alimtalk-syncer/internal/fleet"
	"alimtalk-syncer/internal/hospitals"
)

// claimPause is between attempts at a claim that Redis did not confirm.
const claimPause = time.Second

// sharedPass is a scheduled pass over a tick that ends at next and that all replicas share.
func (s *Syncer) sharedPass(ctx context.Context, next time.Time) {
	tick := s.Claims.Tick(next)
	units := s.plan(s.Hospitals.All(), time.Until(next), s.Rate*fleet.PassShare)
	if len(units) > 0 && s.Away != nil && s.Away() {
		ctx = s.standBack(ctx, tick, units[0], next)
	}
	s.pass(ctx, TriggerSchedule, units, tick)
}

// standBack lets other replicas claim first, when SureM does not answer this one: cut off
// alone, it would win every claim and read nothing. One reading without a claim finds out
// whether it does. If not, and others are at work after half the tick (a minute at most), the
// tick is theirs: the context that is returned has ended.
func (s *Syncer) standBack(ctx context.Context, tick *fleet.Tick, unit []hospitals.Hospital, next time.Time) context.Context {
	s.progress.add(1, 0)
	defer s.progress.add(-1, 0)
	until := time.Now().Add(min(time.Until(next)/2, time.Minute))
	reports := make([]Report, len(unit))
	s.readUnit(TriggerSchedule, unit, reports)
	if reports[0].Complete {
		return ctx
	}
	pause(ctx, time.Until(until))
	if claim, err := tick.Claim(ctx, unit[0].Sender()); err != nil || claim.Won {
		return ctx
	}
	ended, end := context.WithCancel(ctx)
	end()
	return ended
}

// readClaimed reads the hospitals of a sender key if they can be claimed for this replica, and
// writes their reports; these stay empty when the pass has ended before Redis would say whose
// they are. Those that are another's are noted, and counted.
func (s *Syncer) readClaimed(ctx context.Context, tick *fleet.Tick, unit []hospitals.Hospital, reports []Report, others *left) {
	claim, err := s.claim(ctx, tick, unit[0].Sender())
	switch {
	case err != nil:
		return
	case !claim.Won && !slices.ContainsFunc(unit, s.Hospitals.Moved): // which each replica finds out for itself
		s.noteElsewhere(unit, time.Now().Add(-claim.Ago), claim.Failing)
		others.hospitals.Add(int64(len(unit)))
		if claim.Failing {
			others.failing.Add(int64(len(unit)))
		}
		return
	}
	s.readUnit(TriggerSchedule, unit, reports)
	failed := slices.ContainsFunc(reports, func(r Report) bool { return !r.OK })
	if failed != claim.Failing && reports[0].HospitalID != "" {
		s.sayClaims(s.Claims.Ended(s.life, unit[0].Sender(), failed))
	}
}

// claim takes a sender key for this replica. While Redis does not say whose it is, it asks
// again, until the pass ends: without Redis there is nothing to compare, and the calls would
// count against all replicas' limit. But where Redis only has no room for the claim, there is.
func (s *Syncer) claim(ctx context.Context, tick *fleet.Tick, sender hospitals.Sender) (fleet.Claim, error) {
	for ctx.Err() == nil {
		// Its own bound alone: what is claimed must be read, so its answer is waited for.
		claim, err := tick.Claim(context.WithoutCancel(ctx), sender)
		s.sayClaims(err)
		result := "lost"
		switch {
		case err != nil:
			result = "error"
		case claim.Won:
			result = "won"
		}
		s.Metrics.FleetClaims.WithLabelValues("tick", result).Inc()
		switch {
		case err == nil:
			return claim, nil
		case fleet.Full(err):
			return fleet.Claim{Won: true}, nil
		}
		pause(ctx, claimPause)
	}
	return fleet.Claim{}, context.Cause(ctx)
}

// noteElsewhere notes when another replica began with hospitals, and that those which failed
// here do so no longer: else they would until they are this replica's again.
func (s *Syncer) noteElsewhere(unit []hospitals.Hospital, at time.Time, failing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range unit {
		st := s.past.standings[h.ID]
		st.others = at
		if st.Failing() && !failing {
			s.past.recover(&st, time.Now())
			if st.told {
				s.Log.Info().Str("hospital", h.ID).Msg(EventRecovered)
			}
			st.OK, st.told, st.Error, st.FailingSince = true, false, "", time.Time{}
		}
		s.past.standings[h.ID] = st
	}
	s.Metrics.Failing.Set(float64(s.past.failing))
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
