package fencemodel

// next emits every state that one step leads to.
func (m *model) next(s state) {
	for i, r := range m.roles {
		switch r.kind {
		case reader:
			m.readerStep(s, i, r)
		case pass:
			m.passStep(s, i)
		case forget:
			m.forgetStep(s, i, r)
		case application:
			m.applicationStep(s, i, r)
		}
	}
	for p := range uint8(processes) {
		for t := range uint8(m.templates) {
			m.runStep(s, p, t)
			m.renewal(s, p, t, step{who: nobody, process: int8(p), template: int8(t)})
		}
	}
	m.arrivals(s)
	m.losses(s)
	m.expiries(s)
	m.kills(s)
	if s.changes > 0 {
		for t := range m.templates {
			next := s
			next.changes--
			next.version[t]++
			m.emit(next, step{name: "SureM changes", who: nobody, process: nobody, template: int8(t)})
		}
	}
}

// readerStep is Reader.Read and flight's join; finish answers.
func (m *model) readerStep(s state, i int, r role) {
	st := by(i, r.template)
	a := &s.actors[i]
	switch a.at {
	case away:
		a.floor = m.floor(&s, r.template)
		m.send(s, st, command{op: opGet, template: r.template}, func(s *state, got reply) {
			if got.lost || got.entry.doc == 0 {
				s.actors[i].at = missed
				return
			}
			m.answer(s, i, got.entry.doc, got.entry.foreign)
		})
	case missed:
		a.at, a.runs = waits, 1
		run := &s.runs[r.process][r.template]
		st.name = "join"
		switch {
		case run.at == idle:
			st.name = "start a run"
			run.at, run.in = markLook, one(i)
		case m.rules.freeAtStore && run.at >= store:
			m.broken |= oneLoad
		default:
			run.in |= one(i)
		}
		m.emit(s, st)
	}
}

// answer ends a reader.
func (m *model) answer(s *state, i int, d doc, foreign bool) {
	if !foreign && d < s.actors[i].floor {
		m.broken |= readersCurrent
	}
	s.actors[i] = actor{at: answered}
}

// runStep is Reader.load in flight's slot of a process and template.
func (m *model) runStep(s state, p, t uint8) {
	st := step{who: nobody, process: int8(p), template: int8(t)}
	run := &s.runs[p][t]
	switch run.at {
	case markLook:
		st.name = "mark before look"
		run.at = look
		m.mark(run)
		m.emit(s, st)
	case look:
		if run.token == 0 {
			run.token = m.fresh(&s)
		}
		if m.fleet && run.load == 0 {
			run.load = freshLoad(&s)
		}
		m.send(s, st, m.runCommand(&s, p, t), func(s *state, got reply) { m.looked(s, p, t, got) })
		m.unclaimable(s, p, t, st)
	case wait:
		st.name = "poll, mark before look"
		run.at = look
		m.mark(run)
		m.emit(s, st)
	case markDetail:
		st.name = "mark before detail, detail sent"
		run.at = detail
		m.mark(run)
		run.fine, run.known = m.arrived(&s), m.come(&s, p, t)
		m.emit(s, st)
	case detail:
		m.detail(s, p, t, st)
	case lateToken:
		m.send(s, st, command{op: opLook, template: t, token: m.fresh(&s)}, func(s *state, got reply) {
			s.runs[p][t].token, s.runs[p][t].at = got.token, markStore
		})
	case markStore:
		st.name = "mark before store"
		run.marked, run.at = run.in, store
		m.emit(s, st)
	case store:
		m.send(s, st, m.runCommand(&s, p, t), func(s *state, got reply) {
			run := &s.runs[p][t]
			if got.yes {
				run.known = m.come(s, p, t)
				switch {
				case m.rules.storedToAll:
					run.good = everybody
				case !m.rules.cuts:
					run.good = run.marked
				}
			} else if m.rules.refusedToMarked {
				run.good = run.marked
			}
			run.at, run.marked, run.token = finish, 0, 0
			m.letGo(s, p, t)
		})
	case finish:
		m.finish(s, p, t, st)
	}
}

func (m *model) mark(r *run) {
	switch {
	case !m.rules.cuts:
		r.good = r.in
	case r.good == 0:
		r.good = everybody
	}
}

// looked is what a load makes of its look.
func (m *model) looked(s *state, p, t uint8, got reply) {
	run := &s.runs[p][t]
	switch {
	case got.lost && m.rules.retried: // the client sends it again, arguments and all
	case got.wait:
		run.at, run.token = wait, 0
	case got.entry.doc != 0:
		run.at, run.token, run.load = finish, 0, 0
		run.doc, run.foreign = got.entry.doc, got.entry.foreign
		run.known = m.come(s, p, t)
		if m.rules.hitToAll {
			run.good = everybody
		}
	default:
		run.at, run.token = markDetail, got.token
		m.claimed(s, p, t, got)
	}
}

// detail is SureM's answer, given in the version of this moment; it may be held back as
// long as it likes before the next step.
func (m *model) detail(s state, p, t uint8, st step) {
	next := s
	run := &next.runs[p][t]
	run.doc = next.version[t]
	switch {
	case m.rules.tokenAfterDetail:
		run.token, run.at = 0, lateToken
	case run.token == 0 && !m.rules.counter:
		run.at = finish // no fence could be made: nothing to store with
		m.letGo(&next, p, t)
	default:
		run.at = markStore
	}
	st.name = "detail answered"
	m.emit(next, st)
	if s.faults == 0 {
		return
	}
	s.faults--
	s.runs[p][t].in.each(func(i int) { s.actors[i] = actor{at: answered} })
	m.letGo(&s, p, t)
	s.runs[p][t] = run0
	st.name = "detail fails"
	m.emit(s, st)
}

// finish is flight's: in one step it answers those before the mark and carries the others
// into a further run, or forgets the key.
func (m *model) finish(s state, p, t uint8, st step) {
	st.name = "finish"
	run := s.runs[p][t]
	served := run.in & run.good
	if served&^run.known != 0 {
		m.broken |= knownGood
	}
	served.each(func(i int) { m.answer(&s, i, run.doc, run.foreign) })
	s.runs[p][t] = run0
	if late := run.in &^ served; late != 0 {
		st.note = ", the others are carried into a further run"
		s.runs[p][t].at, s.runs[p][t].in = markLook, late
		late.each(func(i int) {
			if s.actors[i].runs++; s.actors[i].runs > 2 {
				m.broken |= twoRuns
			}
		})
	}
	m.emit(s, st)
}

var run0 run

// runCommand is the command that a load is about to send.
func (m *model) runCommand(s *state, p, t uint8) command {
	switch run := s.runs[p][t]; run.at {
	case look:
		return command{op: opLook, template: t, token: run.token, load: run.load}
	case store:
		c := command{op: opStore, template: t, token: run.token, fine: run.fine, docs: [templates]doc{run.doc}}
		if m.rules.claimGuards {
			c.load = run.load
		}
		return c
	}
	return command{}
}
