package fencemodel

// passStep is one step of every pass; a pass' program is a list of them.
type passStep struct {
	do       passAct
	template uint8
}

type passAct uint8

const (
	summaries     passAct = iota // of one template: a page
	arrive                       // the list's end
	fence                        // fence, read: one pipeline, two steps at Redis
	fenceIfChange                // of a variant
	read
	deleteIf
)

// program returns the steps of a pass in their order.
func (w *world) program() []passStep {
	var lists, reads []passStep
	for t := range uint8(w.templates) {
		lists, reads = append(lists, passStep{summaries, t}), append(reads, passStep{read, t})
	}
	lists = append(lists, passStep{do: arrive})
	var steps []passStep
	add := func(more ...passStep) { steps = append(steps, more...) }
	switch w.rules.fence {
	case afterSummaries:
		add(lists...)
		add(passStep{do: fence})
		add(reads...)
		add(passStep{do: deleteIf})
	case beforeSummaries:
		add(passStep{do: fence})
		add(lists...)
		add(reads...)
		add(passStep{do: deleteIf})
	case afterComparing:
		add(lists...)
		add(reads...)
		add(passStep{do: deleteIf}, passStep{do: fence})
	case ifChanged:
		add(lists...)
		add(reads...)
		add(passStep{do: fenceIfChange}, passStep{do: deleteIf})
	}
	return steps
}

// passStep is invalidate's compare: summaries, fence, read, plan, delete_if.
func (m *model) passStep(s state, i int) {
	a := &s.actors[i]
	if a.at == failed || int(a.at) == len(m.steps) {
		return
	}
	now := m.steps[a.at]
	st := by(i, now.template)
	switch now.do {
	case summaries:
		st.name = "summaries"
		if v := s.version[now.template]; v != m.skipped {
			a.shows[now.template] = v
		}
		m.advance(a)
		m.emit(s, st)
	case arrive:
		st.name, st.template = "summaries have arrived", nobody
		m.advance(a)
		m.emit(s, st)
	default:
		if now.do != read {
			st.template = nobody
		}
		if m.rules.overwriting && a.token == 0 {
			a.token = m.fresh(&s)
		}
		m.send(s, st, m.passCommand(&s, i), func(s *state, got reply) {
			a := &s.actors[i]
			switch {
			case got.lost && m.rules.retried && now.do == fence: // the client sends it again
				return
			case got.lost && m.rules.unconfirmed && now.do == fence:
			case got.lost: // unconfirmed: the pass has failed and promises nothing
				*a = actor{at: failed}
				return
			}
			switch now.do {
			case fence:
				a.token = 0
			case read:
				a.seen[now.template] = got.entry.doc
			case deleteIf:
				if m.rules.cuts && got.yes {
					m.cut(s, m.roles[i].process)
				}
			}
			m.advance(a)
		})
	}
}

// advance goes on to the next step that has something to do, or ends the pass.
func (m *model) advance(a *actor) {
	for a.at++; int(a.at) < len(m.steps); a.at++ {
		switch next := m.steps[a.at]; next.do {
		case read:
			if a.shows[next.template] != 0 {
				return
			}
		case deleteIf, fenceIfChange:
			if a.plan() != ([templates]doc{}) {
				return
			}
		default:
			return
		}
	}
	a.seen, a.token = [templates]doc{}, 0
}

// plan returns what was seen of the entries that do not agree.
func (a *actor) plan() (differ [templates]doc) {
	for t := range differ {
		if a.shows[t] != 0 && a.seen[t] != a.shows[t] {
			differ[t] = a.seen[t]
		}
	}
	return differ
}

// passCommand is the command that a pass is about to send.
func (m *model) passCommand(s *state, i int) command {
	a := &s.actors[i]
	if a.at == failed || int(a.at) == len(m.steps) {
		return command{}
	}
	switch now := m.steps[a.at]; now.do {
	case fence, fenceIfChange:
		return command{op: opFence, by: uint8(i), token: a.token}
	case read:
		return command{op: opRead, by: uint8(i), template: now.template}
	case deleteIf:
		return command{op: opDeleteIf, by: uint8(i), docs: a.plan()}
	}
	return command{}
}

// forgetStep is Reader.Forget. What it saw of SureM is what its caller had written before.
func (m *model) forgetStep(s state, i int, r role) {
	if s.actors[i].at != away {
		return
	}
	shows := s.version[r.template]
	m.send(s, by(i, r.template), command{op: opForget, by: uint8(i), template: r.template}, func(s *state, got reply) {
		a := &s.actors[i]
		if a.at = done; got.lost {
			a.at = failed
			return
		}
		a.shows[r.template] = shows
	})
}

// applicationStep is the hospital's own program: it asks SureM, and writes over whatever is
// there.
func (m *model) applicationStep(s state, i int, r role) {
	a := &s.actors[i]
	st := by(i, r.template)
	switch a.at {
	case away:
		st.name = "detail answered"
		a.at, a.shows[r.template] = asked, s.version[r.template]
		m.emit(s, st)
	case asked:
		c := command{op: opSet, template: r.template, foreign: true, fine: m.begun(&s), docs: [templates]doc{a.shows[r.template]}}
		*a = actor{at: written}
		m.perform(&s, c)
		st.name = "set"
		m.emit(s, st)
	}
}

// kills emits the end of each process: its loads, readers and passes are gone, and what one
// of them had just sent may arrive all the same. Whoever comes later finds it started again.
func (m *model) kills(s state) {
	if s.faults == 0 {
		return
	}
	s.faults--
	for p := range uint8(processes) {
		next := s
		var sent []command
		hit := false
		for t := range uint8(m.templates) {
			if s.runs[p][t].at != idle {
				hit = true
				sent = append(sent, m.runCommand(&s, p, t))
				next.runs[p][t] = run0
			}
		}
		for i, r := range m.roles {
			if r.process != p {
				continue
			}
			switch a := &next.actors[i]; {
			case r.kind == reader && (a.at == missed || a.at == waits):
				hit = true
				*a = actor{at: answered}
			case r.kind == pass && a.at != away && a.at != failed && int(a.at) != len(m.steps):
				hit = true
				sent = append(sent, m.passCommand(&s, i))
				*a = actor{at: failed}
			}
		}
		if !hit {
			continue
		}
		st := step{name: "kill", who: nobody, template: nobody, process: int8(p)}
		m.emit(next, st)
		for _, c := range sent {
			if c.op != opNone && c.op != opRead {
				late := next
				late.post(c)
				st.note = ", its " + opNames[c.op] + " is under way"
				m.emit(late, st)
			}
		}
	}
}

// cut is a variant's: those who join a load of the process from now on are carried.
func (m *model) cut(s *state, p uint8) {
	for t := range s.runs[p] {
		if r := &s.runs[p][t]; r.at != idle && r.good == everybody {
			r.good = r.in
		}
	}
}
