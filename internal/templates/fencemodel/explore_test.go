package fencemodel

import (
	"fmt"
	"slices"
	"strings"
)

// model is a world being explored. It is used by one goroutine.
type model struct {
	world
	steps   []passStep // of every pass
	arrives int        // the index among them of the summaries' arrival
	broken  promise    // by the step that is being made
	out     []successor
}

// step names what has happened, for a trace.
type step struct {
	name, note             string
	who, process, template int8
}

// by begins the name of an actor's step.
func by(actor int, template uint8) step {
	return step{who: int8(actor), process: nobody, template: int8(template)}
}

// nobody stands for an actor or template that a step does not have.
const nobody = -1

// successor is a state that one step leads to, and the promise the step has broken, if any.
type successor struct {
	state  state
	step   step
	broken promise
}

func (st step) String() string {
	who := ""
	switch {
	case st.who != nobody:
		who = fmt.Sprintf("actor %d, ", st.who)
	case st.process != nobody:
		who = fmt.Sprintf("process %d, ", st.process)
	}
	if st.template != nobody {
		who += fmt.Sprintf("template %d: ", st.template)
	}
	return who + st.name + st.note
}

func newModel(w world) *model {
	m := &model{world: w, steps: w.program()}
	m.arrives = slices.IndexFunc(m.steps, func(p passStep) bool { return p.do == arrive })
	return m
}

// emit adds a successor.
func (m *model) emit(s state, st step) {
	m.check(&s)
	m.tidy(&s)
	m.tidyClaims(&s)
	m.out = append(m.out, successor{s, st, m.broken})
	m.broken = 0
}

// tidy makes states equal whose futures are: what nobody will ask for is forgotten and
// tokens are renumbered in the order in which they stand.
func (m *model) tidy(s *state) {
	var count actors // the passes and DELETEs that still may ask
	for i, r := range m.roles {
		if (r.kind == pass || r.kind == forget) && s.actors[i].at != failed {
			count |= one(i)
		}
	}
	if m.rules.counter {
		return
	}
	var names [16]token
	last := token(0)
	rename := func(t *token) {
		if *t == 0 {
			return
		}
		if names[*t] == 0 {
			last++
			names[*t] = last
		}
		*t = names[*t]
	}
	rename(&s.fence)
	for t := range m.templates {
		s.entries[t].fine &= count
		for p := range processes {
			rename(&s.runs[p][t].token)
			s.runs[p][t].fine &= count
		}
	}
	for i := range m.roles {
		rename(&s.actors[i].token)
	}
	for i := range s.underway {
		rename(&s.underway[i].token)
		s.underway[i].fine &= count
	}
}

// fresh returns a token that stands nowhere.
func (m *model) fresh(s *state) token {
	last := s.fence
	for p := range s.runs {
		for t := range s.runs[p] {
			last = max(last, s.runs[p][t].token)
		}
	}
	for i := range s.actors {
		last = max(last, s.actors[i].token)
	}
	for i := range s.underway {
		last = max(last, s.underway[i].token)
	}
	return last + 1
}

// found is what an exploration has come to.
type found struct {
	states int
	taken  map[string]int // how many new states each step has led to
	broken promise        // 0 when all hold
	trace  []string       // the shortest that breaks it
}

// origin is how a state was come by: the nth successor of another, or of nothing.
type origin struct{ from, nth int32 }

// explore visits every state of a world, nearest first, until one of the watched promises is
// broken.
func explore(w world, watched promise) found {
	m := newModel(w)
	f := found{taken: make(map[string]int)}
	seen := make(map[state]struct{})
	var origins []origin
	var front, next []state // the states of one distance, and of the one beyond
	visit := func(s state, o origin) bool {
		if _, known := seen[s]; known {
			return false
		}
		seen[s] = struct{}{}
		origins, next = append(origins, o), append(next, s)
		return true
	}
	for i, s := range m.begin() {
		visit(s, origin{-1, int32(i)})
	}
	for first := 0; len(next) > 0; first += len(front) {
		front, next = next, front[:0]
		for i, s := range front {
			m.out = m.out[:0]
			m.next(s)
			for nth, to := range m.out {
				o := origin{int32(first + i), int32(nth)}
				if to.broken&watched != 0 {
					f.states, f.broken, f.trace = len(origins), to.broken&watched, m.replay(origins, o)
					return f
				}
				if visit(to.state, o) {
					f.taken[to.step.name]++
				}
			}
		}
	}
	f.states = len(origins)
	return f
}

// replay takes the steps to a state again and names them.
func (m *model) replay(origins []origin, last origin) (trace []string) {
	path := []int32{last.nth}
	for last.from >= 0 {
		last = origins[last.from]
		path = append(path, last.nth)
	}
	slices.Reverse(path)
	s := m.begin()[path[0]]
	trace = append(trace, fmt.Sprintf("%-24s at first", s.String()))
	for _, nth := range path[1:] {
		m.out = m.out[:0]
		m.next(s)
		s = m.out[nth].state
		trace = append(trace, fmt.Sprintf("%-24s %v", s.String(), m.out[nth].step))
	}
	return trace
}

func (f found) String() string {
	text := ""
	for p := promise(1); p != 0; p <<= 1 {
		if f.broken&p != 0 {
			text += promises[p] + "\n"
		}
	}
	return text + "is broken in the last of these steps (SureM's version, [the entry], the fence's token; * written without the fence):\n    " + strings.Join(f.trace, "\n    ")
}
