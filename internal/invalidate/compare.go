package invalidate

import (
	"bytes"
	"time"

	"alimtalk-syncer/internal/hospitals"
)

// compare holds a hospital's entries against the list that r has, and completes r.
func (s *Syncer) compare(h hospitals.Hospital, trigger string, began time.Time, r *Reading) {
	r.began = began
	r.Report = Report{HospitalID: h.ID, DryRun: s.DryRun}
	var plan Plan
	if !r.Unread {
		plan, r.CacheErr = s.apply(h, trigger, r)
	}
	r.sum(plan)
	r.Report.DurationMS = time.Since(began).Milliseconds()
}

// apply is the pass of one hospital from the fence on: fence and entries in one round trip,
// the plan, and a second round trip to delete what is still what we saw. Its commands have
// bounds of their own, so that a reading whose time ran out on a later page still fences.
func (s *Syncer) apply(h hospitals.Hospital, trigger string, r *Reading) (Plan, error) {
	policy := Policy{Skip: s.Skip, Fields: s.Fields, Moved: s.Hospitals.Moved(h)}
	read := s.Cache.FenceAndRead
	if s.DryRun {
		read = s.Cache.ReadAll
	}
	buffer := s.buffers.Get().(*bytes.Buffer) // nothing else is put there
	defer s.buffers.Put(buffer)
	list := ByCode(r.List.Summaries)
	entries, err := read(s.life, h, list.Codes(policy), buffer)
	if err != nil {
		return Plan{}, err
	}
	plan := NewPlan(list, entries, policy)
	var deleted map[string]bool
	defer func() { r.found = found(plan, entries, deleted) }()
	if s.DryRun {
		r.Report.Invalidated = plan.Delete
		s.logChanges(EventWouldInvalidate, h, plan.Delete)
		return plan, nil
	}
	if len(plan.Delete) > 0 {
		codes := make([]string, len(plan.Delete))
		for i, change := range plan.Delete {
			codes[i] = change.Code
		}
		deleted, err = s.Cache.DeleteIf(s.life, h, codes, entries)
		for _, change := range plan.Delete {
			if deleted[change.Code] {
				r.Report.Invalidated = append(r.Report.Invalidated, change)
			}
		}
		s.Metrics.Invalidations.WithLabelValues(trigger).Add(float64(len(r.Report.Invalidated)))
		s.logChanges(EventInvalidated, h, r.Report.Invalidated)
		if err != nil {
			return plan, err
		}
	}
	if r.ListErr == nil && !plan.AllUnreadable {
		s.Hospitals.Settle(h)
	}
	return plan, nil
}

func (s *Syncer) logChanges(event string, h hospitals.Hospital, changes []Change) {
	for _, c := range changes {
		s.Log.Info().Str("hospital", h.ID).Str("code", c.Code).Str("from", string(c.From)).Str("to", string(c.To)).
			Str("reason", string(c.Reason)).Msg(event)
	}
}
