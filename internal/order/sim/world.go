package main

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// The model, its free choices in one place. Times count from a Monday 00:00 in KST.
const (
	templatesEach  = 15               // per hospital
	tick           = time.Minute      // SYNC_SCHEDULE
	ttl            = 24 * time.Hour   // CACHE_TTL
	verifyAfter    = time.Minute      // CACHE_VERIFY_AFTER
	verifyWithin   = 15 * time.Second // FLIGHT_LOADER_TIMEOUT
	officeBegins   = 9 * time.Hour
	officeDay      = 9 * time.Hour
	reviewMedian   = officeDay // of office time
	reviewSigma    = 0.8       // of its logarithm
	inReview       = 0.03      // of the templates
	batchMost      = 5         // templates that a clinic submits at a time, from 1
	rejected       = 0.15      // of the reviews
	atConsole      = 0.20      // of what is submitted; the rest goes through the CRM, which calls DELETE
	blocked        = 0.001     // of the approved templates a day change at SureM's side, and back
	sessionsMost   = 8.0       // per hospital and working day, if the limit can carry them
	onDemandMost   = 0.20      // of the limit that sessions may take in office hours
	callsOfSession = 2.5       // about
	afterHours     = 0.10      // of the sessions
	listFirst      = 0.35      // of the sessions open the list
	readsMean      = 4.0       // details read in a session
	awaits         = 0.30      // of the reads go to a template in review, or just reviewed, where there is one
	zipf           = 1.0       // popularity of hospitals, and of a hospital's templates
)

type state uint8

const (
	absent state = iota // of an entry
	requested
	approved
	refused // REJECTED: summaries in this state are not compared
	closed  // another settled state
)

// kind says what a change was, and so what a window counts for.
type kind uint8

const (
	outOfReview kind = iota
	other
	skipped // into REJECTED: no look sees it
	kinds
)

type template struct {
	state  state
	cached state // absent when nothing is
	kind   kind  // of the window that is open
	turn   int   // grows with each change, so that what was planned before is void
	until  time.Duration
	stale  time.Duration // since when the entry is wrong; 0 = it is right

	decided time.Duration // when a reviewer last did; 0 = never
}

type event struct {
	at   time.Duration
	what uint8
	h, t int
	turn int
}

const (
	decide   uint8 = iota // a reviewer does
	resubmit              // a clinic, after a rejection
	reopen                // a closed template
	list                  // a clinic opens its list
	read                  // a clinic reads a detail
)

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

// world is what happens whatever the syncer does: the same seed, the same happenings.
type world struct {
	rng       *rand.Rand
	templates []template // of hospital h: h*templatesEach…
	agenda    events
	hospitals zipfian
	ofClinic  zipfian

	nextBatch, nextBlock, nextSession time.Duration
	batchRate, blockRate, sessionRate float64 // per second of office time
}

func newWorld(h int, rate float64, seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0)), templates: make([]template, h*templatesEach)}
	for i := range w.templates {
		w.templates[i].state = approved
	}
	w.hospitals, w.ofClinic = newZipfian(h, w.rng), newZipfian(templatesEach, nil)
	mean := reviewMedian.Seconds() * math.Exp(reviewSigma*reviewSigma/2) * (1 + rejected)
	submits := float64(len(w.templates)) * inReview / mean
	w.batchRate = submits / ((1 + batchMost) / 2.0)
	w.blockRate = float64(len(w.templates)) * blocked / officeDay.Seconds()
	w.sessionRate = float64(h) * perDay(h, rate) / officeDay.Seconds()
	w.nextBatch, w.nextBlock, w.nextSession = w.after(0, w.batchRate), w.after(0, w.blockRate), w.after(0, w.sessionRate)
	// In the steady state from the begin on: some are in review.
	for i := range w.templates {
		if w.rng.Float64() < inReview {
			w.submit(i/templatesEach, i%templatesEach, 0)
		}
	}
	return w
}

// perDay is how many sessions a hospital has in a working day.
func perDay(h int, rate float64) float64 {
	return min(sessionsMost, onDemandMost*rate*officeDay.Seconds()/callsOfSession/float64(h))
}

// after draws the next event of a Poisson process that goes on in office hours.
func (w *world) after(from time.Duration, rate float64) time.Duration {
	return addOffice(from, time.Duration(w.rng.ExpFloat64()/rate*float64(time.Second)))
}

// addOffice returns when d of office time has passed since t: Monday to Friday, 9 to 18.
func addOffice(t, d time.Duration) time.Duration {
	const day, week = 24 * time.Hour, 7 * 24 * time.Hour
	for {
		begins := t - t%day + officeBegins
		ends := begins + officeDay
		if t%week >= 5*day || t >= ends {
			t += day - t%day
			continue
		}
		t = max(t, begins)
		if t+d <= ends {
			return t + d
		}
		d -= ends - t
		t = ends
	}
}

func (w *world) submit(h, t int, at time.Duration) {
	tm := w.at(h, t)
	tm.state = requested
	tm.turn++
	takes := time.Duration(float64(reviewMedian) * math.Exp(reviewSigma*w.rng.NormFloat64()))
	heap.Push(&w.agenda, event{at: addOffice(at, takes), what: decide, h: h, t: t, turn: tm.turn})
}

func (w *world) at(h, t int) *template { return &w.templates[h*templatesEach+t] }

// session puts a clinic's visit on the agenda.
func (w *world) session(at time.Duration) {
	if w.rng.Float64() < afterHours {
		at += officeDay + time.Duration(w.rng.Float64()*float64(6*time.Hour)) // in the evening, mostly
	}
	h := w.hospitals.draw(w.rng)
	if w.rng.Float64() < listFirst {
		heap.Push(&w.agenda, event{at: at, what: list, h: h})
	}
	for at += seconds(5); ; at += seconds(w.rng.ExpFloat64() * 40) {
		heap.Push(&w.agenda, event{at: at, what: read, h: h, t: w.ofClinic.draw(w.rng), turn: w.rng.IntN(1000)})
		if w.rng.Float64() < 1/readsMean {
			return
		}
	}
}

// reads says which template a read event is for. A clinic that awaits a decision looks for it
// until a day after it has been made.
func (w *world) reads(e event, now time.Duration) int {
	if float64(e.turn) < 1000*awaits {
		for i := range templatesEach {
			t := (e.t + i) % templatesEach
			if tm := w.at(e.h, t); tm.state == requested || tm.decided != 0 && now-tm.decided < 24*time.Hour {
				return t
			}
		}
	}
	return e.t
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// zipfian draws ranks by their popularity.
type zipfian struct {
	sums  []float64
	ranks []int // who has a rank; nil: the rank itself
}

func newZipfian(n int, shuffle *rand.Rand) zipfian {
	z := zipfian{sums: make([]float64, n)}
	sum := 0.0
	for i := range n {
		sum += math.Pow(float64(i+1), -zipf)
		z.sums[i] = sum
	}
	if shuffle != nil {
		z.ranks = shuffle.Perm(n)
	}
	return z
}

func (z zipfian) draw(rng *rand.Rand) int {
	i := sort.SearchFloat64s(z.sums, rng.Float64()*z.sums[len(z.sums)-1])
	if z.ranks == nil {
		return i
	}
	return z.ranks[i]
}
