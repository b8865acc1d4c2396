package fencemodel

import "testing"

// In a fleet the loads of a template are one at a time, in whichever process, as long as the
// claim of none runs out. The other promises hold whatever becomes of the claims.

// running reports whether a run's load has its claim and has not ended.
func (r *run) running() bool { return r.holds && r.at >= markDetail && r.at < finish }

// claimed is what a load makes of a look that found nothing: its own the claim, or, when the
// reply was lost or the claim refused, nobody's. What is given back is on its way from then on.
func (m *model) claimed(s *state, p, t uint8, got reply) {
	run := &s.runs[p][t]
	switch {
	case got.yes:
		for other := range s.runs {
			if uint8(other) != p && s.runs[other][t].alone {
				m.broken |= oneInFleet
			}
		}
		run.holds, run.alone = true, true
	case got.lost:
		m.letGo(s, p, t)
	default:
		run.load = 0
	}
}

// unclaimable emits a look to which Redis gives a fence and no claim.
func (m *model) unclaimable(s state, p, t uint8, st step) {
	if !m.fleet || s.faults == 0 || s.claims[t] != 0 {
		return
	}
	s.faults--
	st.name, st.note = opNames[opLook], ", its claim refused"
	c := m.runCommand(&s, p, t)
	c.load = 0
	m.looked(&s, p, t, m.perform(&s, c))
	m.emit(s, st)
}

// letGo sends the release of a load, for which nobody waits.
func (m *model) letGo(s *state, p, t uint8) {
	run := &s.runs[p][t]
	if run.load != 0 {
		s.post(command{op: opRelease, template: t, load: run.load})
	}
	run.load, run.holds, run.alone = 0, false, false
}

// renewal emits that a load renews its claim and finds it gone. One that finds it, or is lost,
// changes nothing here.
func (m *model) renewal(s state, p, t uint8, st step) {
	run := &s.runs[p][t]
	if !run.running() || s.claims[t] == run.load {
		return
	}
	st.name = opNames[opRenew]
	if got := m.perform(&s, command{op: opRenew, template: t, load: run.load}); !got.yes {
		run.load, run.holds = 0, false
	}
	m.emit(s, st)
}

// unclaim takes a claim from whoever has it.
func (s *state) unclaim(t uint8) {
	for p := range s.runs {
		if r := &s.runs[p][t]; r.load == s.claims[t] {
			r.alone = false
		}
	}
	s.claims[t] = 0
}

// expiries emits that claims run out: that of a load that has ended in time, that of one that
// still runs when its process is frozen or cut off.
func (m *model) expiries(s state) {
	for t, claim := range s.claims {
		if claim == 0 {
			continue
		}
		next, name := s, "a claim runs out"
		for p := range s.runs {
			if r := &s.runs[p][t]; r.running() && r.load == claim {
				name = "freeze: the claim of a load that runs runs out"
				next.faults--
			}
		}
		if next.faults <= s.faults { // no fault was needed, or there was one left
			next.unclaim(uint8(t))
			m.emit(next, inRedis(name, t))
		}
	}
}

// tidyClaims renumbers the loads.
func (m *model) tidyClaims(s *state) {
	if !m.fleet {
		return
	}
	var names [16]token
	last := token(0)
	rename := func(t *token) {
		if *t != 0 && names[*t] == 0 {
			last++
			names[*t] = last
		}
		*t = names[*t]
	}
	for t := range s.claims {
		rename(&s.claims[t])
		for p := range s.runs {
			rename(&s.runs[p][t].load)
		}
	}
	for i := range s.underway {
		rename(&s.underway[i].load)
	}
}

// freshLoad returns a load's token that stands nowhere.
func freshLoad(s *state) token {
	last := token(0)
	for t := range s.claims {
		last = max(last, s.claims[t])
		for p := range s.runs {
			last = max(last, s.runs[p][t].load)
		}
	}
	for i := range s.underway {
		last = max(last, s.underway[i].load)
	}
	return last + 1
}

// meet reports whether readers of one template come to both processes: a fleet is about those.
func meet(cast []role) bool {
	var in [templates][processes]bool
	for _, r := range cast {
		if r.kind == reader {
			in[r.template][r.process] = true
		}
	}
	return in[0] == [processes]bool{true, true} || in[1] == [processes]bool{true, true}
}

func TestEveryVariantOfTheClaimsFails(t *testing.T) {
	reads, readsElsewhere, passes := role{reader, 0, 0}, role{reader, 1, 0}, role{pass, 1, 0}
	for _, c := range []struct {
		variant string
		rules   rules
		roles   []role
		faults  int
		breaks  promise
	}{
		{"nobody waits", rules{nobodyWaits: true}, []role{reads, readsElsewhere}, 0, oneInFleet},
		{"a release that asks for no token", rules{releaseAny: true}, []role{reads, readsElsewhere, readsElsewhere}, 1, oneInFleet},
		{"a renewal that asks for no token", rules{renewTakes: true}, []role{reads, reads, readsElsewhere}, 1, oneInFleet},
		{"the claim in the fence's place", rules{claimGuards: true}, []role{reads, passes}, 0, noStaleEntry},
	} {
		t.Run(c.variant, func(t *testing.T) {
			w := world{roles: c.roles, templates: 1, changes: 1, faults: c.faults, fleet: true}
			if f := explore(w, everyPromise); f.broken != 0 {
				t.Errorf("without the variant: %v", f)
			}
			w.rules = c.rules
			f := explore(w, c.breaks)
			if f.broken != c.breaks {
				t.Fatalf("%d states, and it keeps the promise: the model does not see the fault", f.states)
			}
			t.Log(w, "\n", f)
		})
	}
}
