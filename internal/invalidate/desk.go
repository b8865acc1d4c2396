package invalidate

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/sureM"
)

// reading is one reading of a sender key's summaries, and the comparison for the hospitals
// that have asked for it. At most one runs per sender key; it begins when its first summary
// call gets its slot of the rate limit. Who asks before that joins it; who asks later shares
// the next one, whose summaries are then newer than the question.
type reading struct {
	sender  hospitals.Sender
	trigger string // of who asked first
	patient bool   // that was a pass: its waits for slots are not counted
	done    chan struct{}
	results map[string]Reading // by hospital id; written before done is closed

	// Guarded by Syncer.mu.
	want    map[string]hospitals.Hospital
	turn    *surem.Turn
	urgent  bool // a reader, list or POST waits for it
	ofPass  bool // a pass waits for it
	waiting bool // for a slot
	begun   bool
	next    *reading
}

// Look reads one hospital's summaries now and compares its entries with them, sharing the
// reading that others wait for. trigger is "list" or "manual". Its errors: the cause of ctx;
// *surem.LimitError when SYNC_TIMEOUT passes, or would, before the rate limit has a slot, and
// *surem.Error when that is a 429's doing; context.DeadlineExceeded after twice SYNC_TIMEOUT;
// flight.ErrClosed when shutting down.
func (s *Syncer) Look(ctx context.Context, h hospitals.Hospital, trigger string) (Reading, error) {
	r, _, err := s.ask(trigger, false, h)
	if err != nil {
		return Reading{}, err
	}
	slotBy, answerBy := time.NewTimer(s.Timeout), time.NewTimer(2*s.Timeout)
	defer slotBy.Stop()
	defer answerBy.Stop()
	for {
		select {
		case <-r.done:
			return r.results[h.ID], nil
		case <-ctx.Done():
			return Reading{}, context.Cause(ctx)
		case <-slotBy.C:
			if err := s.late(r); err != nil {
				return Reading{}, err
			}
		case <-answerBy.C:
			if err := s.late(r); err != nil {
				return Reading{}, err
			}
			return Reading{}, fmt.Errorf("reading a hospital: no answer within %v: %w", 2*s.Timeout, context.DeadlineExceeded)
		}
	}
}

// late says what keeps r from its first slot, or nil when it does not wait for that.
func (s *Syncer) late(r *reading) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.waiting || r.begun {
		return nil
	}
	if err := r.turn.Lift(0); err != nil {
		return err
	}
	return &surem.LimitError{RetryAfter: s.Timeout}
}

// ask puts hospitals of one sender key on the list of the reading that has not begun, which
// is made if there is none; a pass that has it made is given it to run. A list or POST lifts
// what it waits for into the reads' class.
func (s *Syncer) ask(trigger string, patient bool, hs ...hospitals.Hospital) (r *reading, run func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, flight.ErrClosed
	}
	sender := hs[0].Sender()
	r = s.desk[sender]
	if r == nil {
		r = newReading(sender, trigger, patient)
		s.desk[sender] = r
		if run = s.start(r); !patient {
			go run() // ends with the reading
			run = nil
		}
	} else if !patient {
		if err := r.turn.Lift(s.Timeout); err != nil {
			return nil, nil, err // nor does the reading after it begin in time
		}
		r.urgent = true
	}
	if r.begun {
		if r.next == nil {
			r.next = newReading(sender, trigger, patient)
		}
		r = r.next
		r.urgent = r.urgent || !patient
	}
	r.ofPass = r.ofPass || patient
	for _, h := range hs {
		r.want[h.ID] = h
	}
	return r, run, nil
}

func newReading(sender hospitals.Sender, trigger string, patient bool) *reading {
	return &reading{
		sender: sender, trigger: trigger, patient: patient, urgent: !patient,
		done: make(chan struct{}), want: make(map[string]hospitals.Hospital),
	}
}

// start begins a reading, which is done when the function that it returns has run. The caller
// holds mu and must not call that while it does.
func (s *Syncer) start(r *reading) (run func()) {
	var ctx context.Context
	var cancel context.CancelFunc
	if r.patient {
		watched, watch, stop := withStopwatch(s.life, s.Timeout)
		pause := s.progress.pauser()
		r.turn = surem.NewTurn(r.urgent,
			func() { watch.stop(); pause(true); s.setWaiting(r, true) },
			func() { watch.start(); pause(false); s.setWaiting(r, false) })
		r.turn.Left, r.turn.Probe = watch.remaining, true
		ctx, cancel = watched, func() { stop(); pause(false) }
	} else {
		ctx, cancel = context.WithTimeout(s.life, s.Timeout)
		r.turn = surem.NewTurn(r.urgent, func() { s.setWaiting(r, true) }, func() { s.setWaiting(r, false) })
	}
	s.running.Add(1)
	return func() {
		defer s.running.Done()
		defer cancel()
		s.run(ctx, r)
	}
}

// setWaiting notes that a reading waits for a slot, or that it has got one and has begun.
func (s *Syncer) setWaiting(r *reading, waiting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.waiting = waiting
	r.begun = r.begun || !waiting
}

// run reads and compares, and hands on to the next reading.
func (s *Syncer) run(ctx context.Context, r *reading) {
	results := make(map[string]Reading)
	defer func() {
		var broken error
		if value := recover(); value != nil {
			broken = fmt.Errorf("a bug broke the reading off: %v", value)
			s.Log.Error().Str("error", broken.Error()).Bytes("stack", debug.Stack()).Msg(EventPanic)
		}
		s.finish(r, results, broken)
	}()
	began := time.Now()
	list, err := s.Source.Summaries(ctx, s.lead(r), r.turn)
	for _, h := range s.begin(r) {
		reading := Reading{List: list, ListErr: err, Unread: err != nil && list.Pages == 0}
		s.compare(h, r.trigger, began, &reading)
		results[h.ID] = reading
		if r.ofPass { // no longer written: who asks now waits for the next reading
			s.progress.finished()
		}
	}
}

// lead returns one of the hospitals that ask: they have the sender key in common.
func (s *Syncer) lead(r *reading) hospitals.Hospital {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range r.want {
		return h
	}
	return hospitals.Hospital{}
}

// begin closes the list of those who ask and returns it.
func (s *Syncer) begin(r *reading) []hospitals.Hospital {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.begun, r.waiting = true, false
	hs := make([]hospitals.Hospital, 0, len(r.want))
	for _, h := range r.want {
		hs = append(hs, h)
	}
	return hs
}

// finish publishes the results, starts the next reading if somebody asked for it, and wakes
// those who wait.
func (s *Syncer) finish(r *reading, results map[string]Reading, broken error) {
	for _, h := range s.begin(r) {
		if _, ok := results[h.ID]; !ok {
			reading := Reading{ListErr: broken, Unread: true, Report: Report{HospitalID: h.ID, DryRun: s.DryRun}}
			reading.sum(Plan{})
			results[h.ID] = reading
		}
	}
	r.results = results
	s.remember(results)
	s.mu.Lock()
	next := r.next
	if next != nil && !s.closed {
		s.desk[r.sender] = next
		go s.start(next)() // ends with the reading
	} else {
		delete(s.desk, r.sender)
	}
	closed := s.closed
	s.mu.Unlock()
	close(r.done)
	if next != nil && closed {
		s.finish(next, make(map[string]Reading), flight.ErrClosed)
	}
}
