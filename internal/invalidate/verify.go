package invalidate

import (
	"context"
	"time"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/order"
)

// Verify has a hospital looked at, for a reader whose hit may be wrong by now, and waits for
// the end of that look. It does so when the last successful look began more than VerifyAfter
// ago; the start of the process counts as one. A look that runs is joined, all who need the
// hospital share one, its calls are in the reads' class, and no more than every second call of
// an account's limit is for such looks. True: there was one, and it was ok. False: none was
// needed, or none could be had within VerifyWithin, or it failed; what was hit is then as good
// as it gets. In a dry run it is always false.
func (s *Syncer) Verify(ctx context.Context, h hospitals.Hospital) bool {
	if s.VerifyAfter <= 0 || s.DryRun || s.fresh(h) || s.Serving != nil && !s.Serving() {
		return false
	}
	ok, _, err := s.verifying.Do(ctx, h, func(ctx context.Context, _ *flight.Run) (bool, error) {
		return s.verify(ctx, h), nil
	})
	return err == nil && ok
}

// fresh reports whether a hospital was looked at lately, here or by another replica. A look
// that has just failed is not tried again by every reader.
func (s *Syncer) fresh(h hospitals.Hospital) bool {
	s.mu.Lock()
	st := s.past.standings[h.ID]
	s.mu.Unlock()
	looked := st.looked
	for _, at := range []time.Time{s.began, st.others} {
		if looked.Before(at) {
			looked = at
		}
	}
	if st.Failing() && looked.Before(st.LastAttempt) {
		looked = st.LastAttempt
	}
	return time.Since(looked) <= s.VerifyAfter
}

func (s *Syncer) verify(ctx context.Context, h hospitals.Hospital) bool {
	r := s.joinable(h)
	if r == nil {
		if !s.awaitPace(ctx, h) {
			return false
		}
		if s.fresh(h) {
			return true // somebody else's look was quicker
		}
		var err error
		if r, _, err = s.ask(TriggerList, false, h); err != nil {
			return false
		}
		defer func() { s.spend(h, r) }()
	}
	select {
	case <-r.done:
		return r.results[h.ID].Report.OK
	case <-ctx.Done():
		return false
	}
}

// joinable returns the hospital's reading that has begun, or has a reader's place in the
// queue. One that waits with a pass is not among them: to lift it takes a call from the reads.
func (s *Syncer) joinable(h hospitals.Hospital) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.desk[h.Sender()]
	if r == nil || r.want[h.ID] != h || !r.begun && !r.urgent {
		return nil
	}
	return r
}

// awaitPace waits for a call that a look may take, and reports whether there is one in time.
func (s *Syncer) awaitPace(ctx context.Context, h hospitals.Hospital) bool {
	within := s.VerifyWithin
	if deadline, ok := ctx.Deadline(); ok {
		within = time.Until(deadline)
	}
	s.mu.Lock()
	pace, ok := s.paces[h.UserCode]
	if !ok {
		pace = order.NewPace(s.Rate, s.Burst)
	}
	wait, ok := pace.Take(time.Now(), within)
	s.paces[h.UserCode] = pace
	s.mu.Unlock()
	if !ok {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// spend counts the further pages of a look that has ended.
func (s *Syncer) spend(h hospitals.Hospital, r *reading) {
	select {
	case <-r.done:
	default:
		return
	}
	if pages := r.results[h.ID].List.Pages; pages > 1 {
		s.mu.Lock()
		defer s.mu.Unlock()
		pace := s.paces[h.UserCode]
		pace.Spend(pages - 1)
		s.paces[h.UserCode] = pace
	}
}
