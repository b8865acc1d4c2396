package fencemodel

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

var deep = flag.Bool("deep", false, "explore the larger worlds too: 78 million states, eight minutes on a busy machine, 2.5 GB")

// bounds are those of a family of worlds, one for each cast.
type bounds struct {
	actors, templates, changes, faults int
	skipped                            doc
	fleet                              bool // of casts in which readers of both processes meet
	deep                               bool
}

// What is explored with the tests are 116 worlds with 5,540,536 states.
var explored = []bounds{
	{actors: 3, templates: 1, changes: 2, faults: 2},
	{actors: 3, templates: 1, changes: 2, faults: 1, skipped: 2},
	{actors: 3, templates: 2, changes: 1, faults: 1},
	{actors: 3, templates: 1, changes: 2, faults: 1, fleet: true},
	{actors: 3, templates: 2, changes: 2, faults: 1, deep: true},
	{actors: 4, templates: 1, changes: 1, faults: 1, deep: true},
	{actors: 4, templates: 1, changes: 2, faults: 1, deep: true},
	{actors: 3, templates: 1, changes: 2, faults: 3, deep: true},
	{actors: 3, templates: 2, changes: 1, faults: 2, deep: true},
	{actors: 3, templates: 1, changes: 2, faults: 2, fleet: true, deep: true},
	{actors: 3, templates: 2, changes: 1, faults: 1, fleet: true, deep: true},
	{actors: 4, templates: 1, changes: 1, faults: 1, fleet: true, deep: true},
}

func TestThePromisesHoldInEveryInterleaving(t *testing.T) {
	todo := make(chan world)
	go func() {
		defer close(todo)
		for _, b := range explored {
			if b.deep && !*deep {
				continue
			}
			for _, cast := range casts(b.actors, b.templates) {
				if !b.fleet || meet(cast) {
					todo <- world{roles: cast, templates: b.templates, changes: b.changes, faults: b.faults, skipped: b.skipped, fleet: b.fleet}
				}
			}
		}
	}()
	var explorers sync.WaitGroup
	var mu sync.Mutex // guards what follows
	taken := make(map[string]int)
	worlds, states := 0, 0
	for range min(runtime.GOMAXPROCS(0), 4) { // each may take a gigabyte
		explorers.Go(func() {
			for w := range todo {
				f := explore(w, everyPromise)
				if f.broken != 0 {
					t.Errorf("%v\n%v", w, f)
				}
				mu.Lock()
				worlds, states = worlds+1, states+f.states
				for name, n := range f.taken {
					taken[name] += n
				}
				mu.Unlock()
			}
		})
	}
	explorers.Wait()
	t.Logf("%d worlds, %d states", worlds, states)

	// A model that never gets anywhere keeps every promise.
	want := []string{
		"start a run", "join", "mark before look", "mark before detail, detail sent", "detail answered", "detail fails", "mark before store", "finish",
		"summaries", "summaries have arrived", "SureM changes", "kill", "FLUSHALL", "eviction or expiry of the fence", "eviction or expiry of the entry",
		"poll, mark before look", "a claim runs out", "freeze: the claim of a load that runs runs out",
	}
	want = append(want, opNames[1:]...)
	for _, o := range []op{opLook, opStore, opFence, opDeleteIf, opForget} {
		want = append(want, arrivalOf+opNames[o])
	}
	for _, name := range want {
		if taken[name] == 0 {
			t.Errorf("no world takes the step %q", name)
		}
	}
}

func TestEveryVariantOfTheProtocolFails(t *testing.T) {
	reads, joins, passes := role{reader, 0, 0}, role{reader, 0, 0}, role{pass, 1, 0}
	readsElsewhere, passesElsewhere := role{reader, 1, 0}, role{pass, 0, 0}
	for _, c := range []struct {
		variant string
		rules   rules
		roles   []role
		faults  int
		breaks  promise
	}{
		{"fence before the summaries", rules{fence: beforeSummaries}, []role{reads, passes}, 0, noStaleEntry},
		{"fence after comparing", rules{fence: afterComparing}, []role{reads, passes}, 0, noStaleEntry},
		{"fence only when something changed", rules{fence: ifChanged}, []role{reads, passes}, 0, noStaleEntry},
		{"token taken after the detail read", rules{tokenAfterDetail: true}, []role{reads, passes}, 0, noStaleEntry},
		{"absent = allowed", rules{absentPasses: true}, []role{reads, passes}, 0, noStaleEntry},
		{"a counter that may expire", rules{counter: true}, []role{reads, passes}, 1, noStaleEntry},
		{"same-argument retry of create-if-absent", rules{retried: true}, []role{reads, readsElsewhere, passes}, 1, noStaleEntry},
		{"same-argument retry of overwrite", rules{retried: true, overwriting: true}, []role{reads, passesElsewhere, passes}, 1, noStaleEntry},
		{"plain DEL of the entry", rules{plainDel: true}, []role{reads, passes}, 1, agreeingStay},
		{"joining while the result is being stored, or after", rules{storedToAll: true}, []role{reads, passes, joins}, 0, readersCurrent},
		{"a re-check hit given to everyone", rules{hitToAll: true}, []role{reads, passes, joins}, 1, readersCurrent},
		{"a pass that changes something cuts local loads off, instead of marks", rules{cuts: true}, []role{reads, passes, joins}, 0, readersCurrent},
		{"the slot freed at the store", rules{freeAtStore: true}, []role{reads, passes, joins}, 0, oneLoad},
		// Not in the table, but as easily written.
		{"a refused store answers whom an accepted one does", rules{refusedToMarked: true}, []role{reads, passes, joins}, 0, readersCurrent},
		{"a pass that goes on when its fence was not confirmed", rules{unconfirmed: true}, []role{reads, passes}, 1, noStaleEntry},
	} {
		t.Run(c.variant, func(t *testing.T) {
			w := world{roles: c.roles, templates: 1, changes: 1, faults: c.faults}
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

func (w world) String() string {
	roles := make([]string, len(w.roles))
	for i, r := range w.roles {
		switch r.kind {
		case reader:
			roles[i] = fmt.Sprintf("%d reads T%d in process %d", i, r.template, r.process)
		case pass:
			roles[i] = fmt.Sprintf("%d passes in process %d", i, r.process)
		case forget:
			roles[i] = fmt.Sprintf("%d forgets T%d", i, r.template)
		case application:
			roles[i] = fmt.Sprintf("%d writes T%d unfenced", i, r.template)
		}
	}
	roles = append(roles, fmt.Sprintf("%d templates, %d changes, %d faults", w.templates, w.changes, w.faults))
	if w.fleet {
		roles = append(roles, "in a fleet")
	}
	if w.skipped != 0 {
		roles = append(roles, fmt.Sprintf("v%d skipped", w.skipped))
	}
	return strings.Join(roles, ", ")
}
