package invalidate

import (
	"time"

	"alimtalk-syncer/internal/fleet"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/order"
	"alimtalk-syncer/internal/templates"
)

// plan groups hospitals by sender key and returns the groups that a pass is to look at before
// the next tick, which is tick away, in their order (order.Plan). A rate of 0 means all.
func (s *Syncer) plan(hs []hospitals.Hospital, tick time.Duration, rate float64) [][]hospitals.Hospital {
	at := make(map[hospitals.Sender]int, len(hs))
	var groups [][]hospitals.Hospital
	var units []order.Unit
	s.mu.Lock()
	for n, h := range hs {
		last, heat := s.past.standings[h.ID].LastAttempt, s.heat(h)
		i, ok := at[h.Sender()]
		if !ok {
			i = len(units)
			at[h.Sender()] = i
			units = append(units, order.Unit{Account: h.UserCode, Last: last, Heat: heat})
			groups = append(groups, hs[n:n+1:n+1])
		} else {
			groups[i] = append(groups[i], h)
		}
		if last.Before(units[i].Last) {
			units[i].Last = last
		}
		units[i].Heat = max(units[i].Heat, heat)
	}
	looked := s.looked
	s.mu.Unlock()
	if looked != nil {
		for i, group := range groups { // by what all replicas know, so that they order alike
			if at, ok := looked[fleet.Unit(group[0].Sender())]; ok {
				units[i].Last = at
			}
		}
	}
	chosen := order.Plan(units, tick, rate)
	planned := make([][]hospitals.Hospital, len(chosen))
	for i, unit := range chosen {
		planned[i] = groups[unit]
	}
	return planned
}

// heat says how much a hospital needs a look. One whose sender key or account has changed
// needs it most: all that it holds may be wrong. One with nothing known to be cached needs
// none, if nobody else writes entries (CACHE_SHARED=false) and a look of ours has been able to
// see that it is so. The caller holds mu.
func (s *Syncer) heat(h hospitals.Hospital) order.Heat {
	if s.Hospitals.Moved(h) {
		return order.Hot
	}
	heat := s.known[h.ID].Heat()
	if heat == order.None && (s.Shared || !s.past.standings[h.ID].sure) {
		return order.Cold
	}
	return heat
}

// learn reads what the hospitals are known to hold. With Redis away, what was known stays. A
// hospital that is no longer known to hold anything, though nobody here has seen that it does
// not, is looked at once more: Redis may have lost what was written there.
func (s *Syncer) learn() {
	known, err := s.Cache.Holdings(s.life)
	s.sayHoldings(err)
	if err != nil {
		return
	}
	if s.Claims != nil {
		s.learnLooked()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.known {
		if _, still := known[id]; still {
			continue
		}
		if st, ok := s.past.standings[id]; ok {
			st.sure = false
			s.past.standings[id] = st
		}
	}
	s.known = known
}

// correct writes down, at a pass's end and all at once, what the looks since the last time
// have found to be otherwise than it was known. What cannot be written is tried again then.
func (s *Syncer) correct() {
	s.mu.Lock()
	found, now := s.found, time.Now()
	s.found = make(map[string]order.Found)
	var corrections []templates.Correction
	for id, f := range found {
		was := s.known[id]
		is := was.After(f, now, s.Cache.TTL)
		if is == was {
			continue
		}
		corrections = append(corrections, templates.Correction{HospitalID: id, Was: was, Is: is})
		if is == (order.Holding{}) {
			delete(s.known, id)
		} else {
			s.known[id] = is
		}
	}
	s.mu.Unlock()
	err := s.Cache.Correct(s.life, corrections)
	s.sayHoldings(err)
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, f := range found {
		if _, newer := s.found[id]; !newer {
			s.found[id] = f
		}
	}
}

// sayHoldings logs that the holdings cannot be read or written when it is news.
func (s *Syncer) sayHoldings(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.mu.Lock()
	news := text != "" && text != s.holdingsFault
	s.holdingsFault = text
	s.mu.Unlock()
	if news {
		s.Log.Warn().Str("error", text).Msg(EventHoldings)
	}
}

// found is what a plan has left in the cache. Entries that were to be deleted and were not
// have been written anew meanwhile; they are taken for what they were, until the next look.
func found(plan Plan, entries map[string]templates.Entry, deleted map[string]bool) order.Found {
	f := order.Found{More: plan.Skipped > 0}
	for code, entry := range entries {
		switch {
		case deleted[code] || entry.Kind == templates.Missing || entry.Kind == templates.WrongType:
		case entry.Kind == templates.Readable && entry.Doc.Status.State().Pending():
			f.Hot = true
		default:
			f.Cold = true
		}
	}
	return f
}
