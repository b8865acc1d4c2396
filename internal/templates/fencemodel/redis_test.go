package fencemodel

// op is a command as one atomic step at Redis: a script, or one command of a pipeline.
type op uint8

const (
	opNone op = iota
	opGet
	opLook
	opStore
	opFence
	opRead
	opDeleteIf
	opForget
	opSet // the application's
	opRenew
	opRelease
)

var opNames = [...]string{"", "get", "look", "store", "fence", "read", "delete_if", "forget", "set", "renew", "release"}

// commands are the Redis commands of each step, as the code sends them (commands_test.go
// compares). A script's read and write are one step here because they are one in Redis.
var commands = map[string][]string{
	"get":       {"GET entry"},
	"look":      {"GET claim", "GET entry", "GET fence", "PEXPIRE fence", "SET claim PX", "SET fence PX"},
	"store":     {"GET fence", "SET entry NX PX"},
	"fence":     {"DEL fence"},
	"read":      {"GET entry"},
	"delete_if": {"GET entry", "DEL entry"},
	"forget":    {"DEL fence", "TYPE entry", "DEL entry"},
	"renew":     {"GET claim", "PEXPIRE claim"},
	"release":   {"GET claim", "DEL claim"},
	// What follows is no part of the protocol.
	"ping":     {"PING"}, // /readyz
	"note":     {"PEXPIRE set", "PTTL set", "ZADD set GT", "ZREMRANGEBYSCORE set"},
	"unnote":   {"ZREM set", "ZSCORE set"},
	"holdings": {"ZRANGEWITHSCORES", "ZRANGEWITHSCORES"},
}

// command is one on its way to Redis.
type command struct {
	op       op
	by       uint8 // actor, of what a pass or DELETE sends
	template uint8
	foreign  bool
	token    token
	load     token // of look, renew and release in a fleet
	fine     actors
	docs     [templates]doc // store, set: [0] what to write; delete_if: what was seen
}

// reply is Redis' answer.
type reply struct {
	lost  bool // the caller sees an error
	yes   bool // store: written; delete_if: deleted something; look: claimed; renew: still ours
	wait  bool // look: another load holds the claim
	entry entry
	token token
}

// perform is Redis.
func (m *model) perform(s *state, c command) (r reply) {
	e := &s.entries[c.template]
	switch c.op {
	case opGet:
		r.entry = *e
	case opRead:
		if shown := s.actors[c.by].shows[c.template]; shown != 0 && e.doc == shown {
			e.fine |= one(int(c.by)) // there at the comparison, and agrees
		}
		r.entry = *e
	case opLook:
		if e.doc != 0 {
			return reply{entry: *e}
		}
		if c.load != 0 {
			claim := &s.claims[c.template]
			if *claim != 0 && *claim != c.load && !m.rules.nobodyWaits {
				return reply{wait: true}
			}
			*claim, r.yes = c.load, true
		}
		switch {
		case m.rules.counter: // absent counts as 0
		case s.fence == 0:
			s.fence = c.token
		}
		r.token = s.fence
	case opStore:
		passes := s.fence != 0 && s.fence == c.token
		if m.rules.absentPasses {
			passes = passes || s.fence == 0
		}
		if m.rules.counter {
			passes = s.fence == c.token
		}
		if m.rules.claimGuards {
			passes = c.load != 0 && s.claims[c.template] == c.load
		}
		if passes && e.doc == 0 {
			*e = entry{doc: c.docs[0], foreign: c.foreign, fine: c.fine}
			r.yes = true
		}
	case opFence:
		switch {
		case m.rules.counter:
			s.fence++
		case m.rules.overwriting:
			s.fence = c.token
		default:
			s.fence = 0
		}
	case opDeleteIf:
		for t, seen := range c.docs {
			e := &s.entries[t]
			if seen == 0 || e.doc == 0 || e.doc != seen && !m.rules.plainDel {
				continue
			}
			if e.doc == s.actors[c.by].shows[t] {
				m.broken |= agreeingStay
			}
			*e = entry{}
			r.yes = true
		}
	case opForget:
		s.fence = 0
		*e = entry{}
	case opSet:
		*e = entry{doc: c.docs[0], foreign: true, fine: c.fine}
	case opRenew:
		if m.rules.renewTakes {
			s.claims[c.template] = c.load
		}
		r.yes = s.claims[c.template] == c.load
	case opRelease:
		if s.claims[c.template] == c.load || m.rules.releaseAny {
			s.claims[c.template] = 0
		}
	}
	return r
}

// send emits what can become of a command: it is answered; it runs and the reply is lost; it
// is given up on and arrives later or never; it is answered and arrives once more. then is
// what the caller makes of the reply.
func (m *model) send(s state, st step, c command, then func(s *state, r reply)) {
	st.name = opNames[c.op]
	ok := s
	then(&ok, m.perform(&ok, c))
	m.emit(ok, st)
	if s.faults == 0 {
		return
	}
	s.faults--

	st.note = ", its reply lost"
	lost := s
	m.perform(&lost, c)
	then(&lost, reply{lost: true})
	m.emit(lost, st)
	if c.op == opGet || c.op == opRead || m.rules.retried {
		return // those change nothing at Redis
	}

	st.note = ", given up on while it is under way"
	late := s
	late.post(c)
	then(&late, reply{lost: true})
	m.emit(late, st)

	// One token value goes into one command once: no look is repeated.
	if c.op == opLook || c.op == opSet {
		return
	}
	st.note = ", and a duplicate of it is under way"
	again := s
	again.post(c)
	then(&again, m.perform(&again, c))
	m.emit(again, st)
}

// post puts a command among those that may arrive at any time or never; a third one never
// does.
func (s *state) post(c command) {
	for i := range s.underway {
		if s.underway[i].op == opNone {
			s.underway[i] = c
			return
		}
	}
}

const arrivalOf = "arrival of what was under way: "

// arrivals emits the arrival of each command that is under way.
func (m *model) arrivals(s state) {
	for i, c := range s.underway {
		if c.op == opNone {
			continue
		}
		next := s
		next.underway[i] = command{}
		m.perform(&next, c)
		name := arrivalOf + opNames[c.op]
		if c.op == opRelease { // nobody ever waits for one
			name = opNames[c.op]
		}
		m.emit(next, inRedis(name, int(c.template)))
	}
}

// losses emits what Redis loses by itself: eviction and expiry are the same there.
func (m *model) losses(s state) {
	if s.faults == 0 {
		return
	}
	s.faults--
	all := s
	all.fence, all.entries = 0, [templates]entry{}
	for t := range uint8(templates) {
		all.unclaim(t)
	}
	if all != s {
		m.emit(all, inRedis("FLUSHALL", nobody))
	}
	if s.fence != 0 {
		next := s
		next.fence = 0
		m.emit(next, inRedis("eviction or expiry of the fence", nobody))
	}
	for t := range m.templates {
		if s.entries[t].doc != 0 {
			next := s
			next.entries[t] = entry{}
			m.emit(next, inRedis("eviction or expiry of the entry", t))
		}
	}
}

func inRedis(name string, template int) step {
	return step{name: name, who: nobody, process: nobody, template: int8(template)}
}
