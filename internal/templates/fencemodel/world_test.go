// Package fencemodel is the fence protocol of package templates as a model that is explored
// whole: every interleaving of its atomic steps within the bounds of each world, one world
// after the other. It is made of tests only.
//
// The steps carry the names of the code's: what templates.Cache sends (get, look, store,
// fence, read, delete_if, forget, renew, release) is one atomic step at Redis each, what
// Reader.load and flight do between them (marks, joining, waiting, finishing) is a local one,
// and SureM changes, lists (summaries) and answers (detail) when it likes. A test compares the
// Redis commands of the code with those of the model (commands_test.go).
package fencemodel

import (
	"fmt"
	"math/bits"
)

const (
	maxActors = 4
	templates = 2
	processes = 2
)

// kind is what an actor does.
type kind uint8

const (
	reader      kind = iota // reads one template through the cache
	pass                    // one pass of the hospital
	forget                  // a caller's DELETE of one template
	application             // the hospital's own: fills one template without a fence
)

// role is an actor's part in a world.
type role struct {
	kind              kind
	process, template uint8 // where they matter
}

// world bounds what can happen.
type world struct {
	roles     []role
	templates int  // 1 or 2
	changes   int  // of a template's version at SureM
	faults    int  // evictions, expiries, FLUSHALLs, kills, lost, late and repeated commands, details that fail
	skipped   doc  // summaries of this version are not compared (REJECTED); 0 = of none
	fleet     bool // loads claim their templates
	rules     rules
}

// actors is a set of actors.
type actors uint8

func (a actors) has(i int) bool { return a>>i&1 == 1 }

func one(i int) actors { return 1 << i }

func (a actors) each(do func(i int)) {
	for ; a != 0; a &= a - 1 {
		do(bits.TrailingZeros8(uint8(a)))
	}
}

// doc is a document: the version in which SureM gave it, from 1. 0 is none.
type doc uint8

// state is all there is at one moment. Equal states have equal futures.
type state struct {
	version  [templates]doc // at SureM
	changes  uint8          // that are left
	faults   uint8          // that are left
	fence    token
	entries  [templates]entry
	claims   [templates]token          // the loads that hold one, in a fleet
	runs     [processes][templates]run // the slots of single-flight
	actors   [maxActors]actor
	underway [2]command // sent by somebody who has given up on it, or repeated; may arrive or not
}

// token is a fence's: 0 is none. Only whether two are equal matters, so they are renumbered.
type token uint8

// entry is what stands in Redis under a template's key, and what the promises ask of it.
type entry struct {
	doc     doc
	foreign bool   // written by the application
	fine    actors // the passes and DELETEs that have nothing against it: see run.fine, read, set
}

// run is one run of single-flight.
type run struct {
	at     phase
	in     actors // readers that wait for it
	good   actors // those before the mark that its result may go to
	marked actors // those before the store's mark
	known  actors // those who had come when its result was last known to be good
	token  token
	doc    doc
	// fine are the passes whose summaries had arrived, and the DELETEs that had ended, when
	// its detail call was sent.
	fine    actors
	foreign bool // a hit on what the application wrote

	load  token // its own, in a fleet
	holds bool  // its claim, as far as it knows: it renews and releases it
	alone bool  // it won its claim, which has not run out since: nobody else may load
}

// phase is the next step of a run.
type phase uint8

const (
	idle phase = iota
	markLook
	look
	wait // for another's load
	markDetail
	detail
	lateToken // of a variant
	markStore
	store
	finish
)

// actor is one of a world's actors.
type actor struct {
	at    uint8          // its next step; a pass': index into the program
	floor doc            // reader: the newest that a pass or DELETE that had ended had seen when it came
	runs  uint8          // reader: how many it took part in
	token token          // pass: of a variant
	shows [templates]doc // pass: its summaries, 0 = not yet, or skipped; DELETE: SureM's, then; application: its detail
	seen  [templates]doc // pass: the entries it has read
}

// Values of actor.at.
const (
	away     = 0 // has not come
	missed   = 1 // reader: is about to join
	waits    = 2 // reader
	answered = 3 // reader
	done     = 1 // DELETE
	asked    = 1 // application: has its detail
	written  = 2 // application
	failed   = 0xff
)

// begin returns the states that a world may begin with: nothing in Redis, or entries that
// were loaded before.
func (w *world) begin() (starts []state) {
	for filled := range uint(1) << w.templates {
		s := state{changes: uint8(w.changes), faults: uint8(w.faults)}
		for t := range w.templates {
			s.version[t] = 1
			if filled>>t&1 == 1 {
				s.entries[t].doc = 1
			}
		}
		starts = append(starts, s)
	}
	return starts
}

// String shows what the steps of a trace lead to.
func (s *state) String() string {
	text := ""
	for t, v := range s.version {
		if v == 0 {
			break
		}
		text += fmt.Sprintf("v%d", v)
		switch e := s.entries[t]; {
		case e.doc == 0:
			text += " [  ]  "
		case e.foreign:
			text += fmt.Sprintf(" [v%d]* ", e.doc)
		default:
			text += fmt.Sprintf(" [v%d]  ", e.doc)
		}
	}
	if s.fence != 0 {
		return text + fmt.Sprintf("T%d", s.fence)
	}
	return text + "--"
}
