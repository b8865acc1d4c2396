package fencemodel

// promise is one that the explorer watches, or a set of them.
type promise uint8

// The promises; §8 is the contract's list of them, and "ours" is what the daemon wrote.
const (
	noStaleEntry promise = 1 << iota
	noEarlierLoad
	readersCurrent
	agreeingStay
	oneLoad
	knownGood
	twoRuns
	oneInFleet

	everyPromise promise = 1<<iota - 1
)

var promises = map[promise]string{
	noStaleEntry:   "§8.1: no entry in an older state than a pass or DELETE saw is there after that has ended (one written without the fence: unless it was written after the pass had begun)",
	noEarlierLoad:  "§8.1: after a pass, an entry of ours was there at its comparison and agreed, or comes from a detail call sent after its summaries had arrived; after a DELETE, from one sent after it",
	readersCurrent: "§8.1: a reader who comes after a pass or DELETE never gets an answer of ours in an older state than that saw",
	agreeingStay:   "§8.1: a pass never deletes an entry that agrees with its own summaries",
	oneLoad:        "§8.2: at most one load of a key runs at a time in a process",
	knownGood:      "§8.2: a load answers those who came before its result was last known to be good",
	twoRuns:        "§8.2: a reader takes part in at most two runs",
	oneInFleet:     "FLEET: at most one load of a template runs at a time in all processes, while no claim runs out under one that runs",
}

// rules are the protocol. The zero value is the code's; every other is a variant that fails.
type rules struct {
	fence            when
	tokenAfterDetail bool // the token is taken after the detail read
	absentPasses     bool // store: an absent fence lets pass
	counter          bool // the fence is a counter that may expire
	retried          bool // a lost reply has the client send the same command again
	overwriting      bool // a pass sets the fence to a new token instead of deleting it
	plainDel         bool // the entry is deleted whatever it holds by now
	storedToAll      bool // joining is open until a stored result has been handed out
	hitToAll         bool // a hit of the look is given to all who wait
	cuts             bool // a pass that deletes cuts the loads of its process off, instead of marks
	freeAtStore      bool // the slot is free from the store on
	refusedToMarked  bool // a refused store answers whom an accepted one does
	unconfirmed      bool // a pass goes on when its fence was not confirmed

	nobodyWaits bool // a look takes the claim from whoever has it
	releaseAny  bool // a release deletes the claim, whose ever it is
	renewTakes  bool // a renewal sets the claim, whose ever it is
	claimGuards bool // store: asks for the claim, not for the fence
}

// when a pass fences.
type when uint8

const (
	afterSummaries when = iota
	beforeSummaries
	afterComparing
	ifChanged
)

const everybody actors = 0xff

// arrived returns the passes whose summaries have arrived and the DELETEs that have ended.
func (m *model) arrived(s *state) (set actors) { return m.beyond(s, m.arrives) }

// begun returns the passes that have begun and the DELETEs that have ended.
func (m *model) begun(s *state) actors { return m.beyond(s, 0) }

func (m *model) beyond(s *state, passAt int) (set actors) {
	for i, r := range m.roles {
		at := s.actors[i].at
		if at != failed && (r.kind == pass && int(at) > passAt || r.kind == forget && at == done) {
			set |= one(i)
		}
	}
	return set
}

// ended reports whether an actor is a pass or DELETE that has ended and was confirmed.
func (m *model) ended(s *state, i int) bool {
	at := s.actors[i].at
	return m.roles[i].kind == pass && int(at) == len(m.steps) || m.roles[i].kind == forget && at == done
}

// come returns the readers of a key in a process that have come and are not answered.
func (m *model) come(s *state, p, t uint8) (set actors) {
	for i, r := range m.roles {
		if r.kind == reader && r.process == p && r.template == t && (s.actors[i].at == missed || s.actors[i].at == waits) {
			set |= one(i)
		}
	}
	return set
}

// floor returns the newest version of a template that a pass or DELETE that has ended saw.
func (m *model) floor(s *state, t uint8) (newest doc) {
	for i := range m.roles {
		if m.ended(s, i) {
			newest = max(newest, s.actors[i].shows[t])
		}
	}
	return newest
}

// check holds what stands in Redis against every pass and DELETE that has ended.
func (m *model) check(s *state) {
	for i := range m.roles {
		if !m.ended(s, i) {
			continue
		}
		for t := range m.templates {
			switch e, shown := s.entries[t], s.actors[i].shows[t]; {
			case shown == 0 || e.doc == 0 || e.fine.has(i):
			case e.doc < shown:
				m.broken |= noStaleEntry
			default:
				m.broken |= noEarlierLoad
			}
		}
	}
}
