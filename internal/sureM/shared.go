package surem

import "time"

// Shared is a limit that is kept together with other processes.
type Shared interface {
	// Take takes a slot of an account's for a call of a pass, or of somebody who waits for it.
	// It returns 0, or how long there is none at least. It answers within a fraction of a
	// second, whatever happens: when the others cannot be asked, 0. It is called for one call
	// of an account at a time.
	Take(account string, pass bool) (wait time.Duration)
}

// sharedSlots is a limiter's side of a Shared: every slot that the limiter has by itself must
// be had there, too. limiter.mu guards it.
type sharedSlots struct {
	take   func(pass bool) time.Duration
	asking bool         // take runs
	none   [2]time.Time // before that there is no slot for the class
}

// The classes of sharedSlots.none.
const (
	forUrgent = iota
	forPatient
)

// share makes l keep its limit together with others, if there is s.
func (l *limiter) share(s Shared, account string) {
	if s != nil {
		l.shared = &sharedSlots{take: func(pass bool) time.Duration { return s.Take(account, pass) }}
	}
}

// ask asks for a slot that l has by itself: for the call whose turn it is, or while there is
// none for patient ones, for an urgent one. One question at a time keeps the calls in order.
func (l *limiter) ask(now time.Time) {
	s := l.shared
	if s.asking {
		return // its end comes back here
	}
	class := forUrgent
	if l.isPatientsTurn() && !(len(l.urgent) > 0 && s.none[forPatient].After(now)) {
		class = forPatient
	}
	if s.none[class].After(now) {
		l.wakeAt(s.none[class].Sub(now))
		return
	}
	s.asking = true
	go func() { // ends within a fraction of a second, as take does
		wait := s.take(class == forPatient)
		l.mu.Lock()
		defer l.mu.Unlock()
		s.asking = false
		now := time.Now()
		switch {
		case wait > 0:
			s.none[class] = now.Add(wait)
			l.urgent = l.keepable(l.urgent, now)
		case l.slotTime(1, now, l.held).After(now): // a hold has come meanwhile; the slot is lost
		case class == forPatient && len(l.patient) > 0:
			l.give(now, true)
		case len(l.urgent) > 0: // a patient call that was lifted meanwhile is among them
			l.give(now, false)
		}
		l.serve()
	}()
}
