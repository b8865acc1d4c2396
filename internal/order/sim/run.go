package main

import (
	"container/heap"
	"math"
	"time"

	"alimtalk-syncer/internal/order"
)

// strategy is a way to look at hospitals.
type strategy struct {
	name   string
	lists  bool // a list that is opened is compared
	passes bool // there are any
	order  bool // by package order, and hits in review are verified; else one after the other
	shared bool // CACHE_SHARED
}

var strategies = []strategy{
	{name: "no syncer"},
	{name: "lists only", lists: true},
	{name: "round robin", lists: true, passes: true},
	{name: "this", lists: true, passes: true, order: true},
	{name: "this, shared", lists: true, passes: true, order: true, shared: true},
}

// span is the virtual time of a run: it warms up, is measured, and runs on until what was
// open then is over.
type span struct{ from, to, end time.Duration }

func spanOf(hospitals int) span {
	from, to := 48*time.Hour, 96*time.Hour
	if hospitals > 50_000 { // a day, so that it ends within minutes
		from, to = 24*time.Hour, 48*time.Hour
	}
	return span{from: from, to: to, end: to + ttl}
}

// outcome is what one run has come to.
type outcome struct {
	windows [kinds][]time.Duration
	reads   int
	stale   [kinds]int
	calls   int
	took    time.Duration // of virtual time, that is measured
}

// add puts another world's outcome to this one.
func (o *outcome) add(other outcome) {
	for k := range o.windows {
		o.windows[k] = append(o.windows[k], other.windows[k]...)
		o.stale[k] += other.stale[k]
	}
	o.reads += other.reads
	o.calls += other.calls
	o.took += other.took
}

// run is one strategy in one world.
type run struct {
	*world
	strategy
	span
	rate float64
	now  time.Duration
	out  outcome

	slot  time.Duration // the next one
	owed  int           // slots that readers have taken in advance
	plan  []int         // what the pass still looks at
	round int           // round robin: who is next

	looked []time.Duration
	known  []order.Holding // what Redis says
	was    []order.Holding // what it said at the last tick
	sure   []bool          // a look has shown what it holds
	found  map[int]order.Found
	units  []order.Unit
	pace   order.Pace
}

var monday = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC) // the clock's zero, whatever the zone

func simulate(h int, rate float64, s strategy, seed uint64) outcome {
	r := &run{
		world: newWorld(h, rate, seed), strategy: s, span: spanOf(h), rate: rate, found: make(map[int]order.Found),
		looked: make([]time.Duration, h), known: make([]order.Holding, h), was: make([]order.Holding, h), sure: make([]bool, h),
		units: make([]order.Unit, h), pace: order.NewPace(rate, int(math.Ceil(rate))),
	}
	for nextTick := time.Duration(0); ; {
		at := min(nextTick, r.nextBatch, r.nextBlock, r.nextSession, r.end)
		if len(r.agenda) > 0 {
			at = min(at, r.agenda[0].at)
		}
		r.slots(at)
		r.now = at
		switch at {
		case r.end:
			r.settle()
			r.out.took = r.to - r.from
			return r.out
		case nextTick:
			r.begin()
			nextTick += tick
		case r.nextBatch:
			r.batch()
			r.nextBatch = r.after(at, r.batchRate)
		case r.nextBlock:
			r.block()
			r.nextBlock = r.after(at, r.blockRate)
		case r.nextSession:
			r.session(at)
			r.nextSession = r.after(at, r.sessionRate)
		default:
			r.happen(heap.Pop(&r.agenda).(event))
		}
	}
}

// slots lets the pass have the slots until a time that readers have not taken.
func (r *run) slots(until time.Duration) {
	interval := seconds(1 / r.rate)
	for r.slot < until {
		switch {
		case r.owed > 0:
			r.owed--
		case len(r.plan) > 0:
			r.now = r.slot
			r.out.calls += r.measured()
			r.look(r.plan[0])
			r.plan = r.plan[1:]
		default:
			r.slot += (until - r.slot + interval - 1) / interval * interval // nobody wants them
			return
		}
		r.slot += interval
	}
}

// begin begins a tick's pass.
func (r *run) begin() {
	switch {
	case !r.passes:
	case r.order:
		r.learn()
		r.plan = order.Plan(r.units, tick, r.rate)
	default:
		// What the last pass has not reached is first.
		for n := min(len(r.units), max(1, int(tick.Seconds()*r.rate))); len(r.plan) < n; r.round++ {
			r.plan = append(r.plan, r.round%len(r.units))
		}
	}
}

// learn takes in what the looks of the last tick have found, and says how hot everybody is.
func (r *run) learn() {
	now := monday.Add(r.now)
	for h, f := range r.found {
		is := r.was[h].After(f, now, ttl)
		r.known[h].Hot = corrected(r.known[h].Hot, r.was[h].Hot, is.Hot)
		r.known[h].Cold = corrected(r.known[h].Cold, r.was[h].Cold, is.Cold)
		r.sure[h] = true
	}
	clear(r.found)
	for h := range r.units {
		k := &r.known[h]
		if k.Hot < now.UnixMilli() {
			k.Hot = 0
		}
		if k.Cold < now.UnixMilli() {
			k.Cold = 0
		}
		heat := k.Heat()
		if heat == order.None && (r.shared || !r.sure[h]) {
			heat = order.Cold
		}
		r.units[h].Heat = heat
	}
	copy(r.was, r.known)
}

// corrected is what Redis says after a correction: what a fill has noted meanwhile stays.
func corrected(now, was, is int64) int64 {
	switch {
	case is > was:
		return max(now, is)
	case is == 0 && now == was:
		return 0
	default:
		return now
	}
}

// look compares a hospital's entries with their summaries.
func (r *run) look(h int) {
	r.looked[h] = r.now
	r.units[h].Last = monday.Add(r.now)
	var found order.Found
	for t := range templatesEach {
		switch tm := r.at(h, t); {
		case tm.state == refused:
			found.More = true
		case !r.holds(tm):
		case tm.cached != tm.state:
			r.forget(tm)
		case tm.cached == requested:
			found.Hot = true
		default:
			found.Cold = true
		}
	}
	if r.order {
		r.found[h] = found
	}
}

// holds reports whether an entry is cached now.
func (r *run) holds(tm *template) bool {
	if tm.cached != absent && tm.until <= r.now {
		r.forget(tm)
	}
	return tm.cached != absent
}

// forget ends an entry, and the window that it stood open.
func (r *run) forget(tm *template) {
	if tm.stale != 0 && tm.stale >= r.from && tm.stale < r.to {
		r.out.windows[tm.kind] = append(r.out.windows[tm.kind], min(r.now, tm.until)-tm.stale)
	}
	tm.cached, tm.stale = absent, 0
}

// change gives a template another state at SureM.
func (r *run) change(tm *template, to state, k kind) {
	from := tm.state
	tm.state = to
	tm.turn++
	if !r.holds(tm) {
		return
	}
	switch {
	case tm.cached == to:
		tm.stale = 0 // what it says has come back
	case tm.cached == from:
		tm.stale, tm.kind = r.now, k
	case tm.kind == skipped && to != refused: // from now on a look sees it
		tm.stale, tm.kind = r.now, k
	}
}

// happen is one event of the agenda.
func (r *run) happen(e event) {
	tm := r.at(e.h, e.t)
	switch e.what {
	case decide:
		if e.turn != tm.turn {
			return
		}
		tm.decided = r.now
		if r.rng.Float64() < rejected {
			r.change(tm, refused, skipped)
			heap.Push(&r.agenda, event{at: addOffice(r.now, time.Duration(r.rng.ExpFloat64()*float64(officeDay))), what: resubmit, h: e.h, t: e.t, turn: tm.turn})
		} else {
			r.change(tm, approved, outOfReview)
		}
	case resubmit:
		if e.turn == tm.turn {
			r.viaCRM(e.h, e.t)
		}
	case reopen:
		if e.turn == tm.turn {
			r.change(tm, approved, other)
		}
	case list:
		r.onDemand()
		if r.lists {
			r.look(e.h)
		}
	case read:
		r.read(e)
	}
}

// viaCRM has a template submitted through the CRM, which has its entry deleted.
func (r *run) viaCRM(h, t int) {
	r.forget(r.at(h, t))
	r.submit(h, t, r.now)
}

// batch is a clinic that submits some of its approved templates.
func (r *run) batch() {
	h := r.rng.IntN(len(r.units))
	console := r.rng.Float64() < atConsole
	for range 1 + r.rng.IntN(batchMost) {
		t := r.rng.IntN(templatesEach)
		switch tm := r.at(h, t); {
		case tm.state != approved:
		case console:
			r.change(tm, requested, other)
			r.submit(h, t, r.now)
		default:
			r.viaCRM(h, t)
		}
	}
}

// block is a template that is closed at SureM's side, for some days.
func (r *run) block() {
	h, t := r.rng.IntN(len(r.units)), r.rng.IntN(templatesEach)
	back := addOffice(r.now, time.Duration(r.rng.ExpFloat64()*float64(3*officeDay)))
	if tm := r.at(h, t); tm.state == approved {
		r.change(tm, closed, other)
		heap.Push(&r.agenda, event{at: back, what: reopen, h: h, t: t, turn: tm.turn})
	}
}

// read is a reader's detail call.
func (r *run) read(e event) {
	h := e.h
	tm := r.at(e.h, r.reads(e, r.now))
	if r.order && r.holds(tm) && tm.cached == requested && r.now-r.looked[h] > verifyAfter {
		if _, ok := r.pace.Take(monday.Add(r.now), verifyWithin); ok {
			r.onDemand()
			r.look(h)
		}
	}
	r.out.reads += r.measured()
	if r.holds(tm) {
		if tm.stale != 0 {
			r.out.stale[tm.kind] += r.measured()
		}
		return
	}
	r.onDemand()
	tm.cached, tm.until, tm.stale = tm.state, r.now+ttl, 0
	until := monday.Add(tm.until).UnixMilli()
	if tm.state == requested {
		r.known[h].Hot = until
	} else {
		r.known[h].Cold = until
	}
}

// onDemand is a call that a reader waits for: it takes the next slot.
func (r *run) onDemand() {
	r.owed++
	r.out.calls += r.measured()
}

// measured is 1 in the time that is measured.
func (r *run) measured() int {
	if r.now >= r.from && r.now < r.to {
		return 1
	}
	return 0
}

// settle ends what is still open.
func (r *run) settle() {
	for i := range r.templates {
		r.forget(&r.templates[i])
	}
}
