package invalidate

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/robfig/cron/v3"

	"alimtalk-syncer/internal/hospitals"
)

// overdue is how late a tick may be before the process counts as stuck.
const overdue = time.Minute

// Schedule runs a pass at every tick, and one right away if atOnce says so, until ctx ends;
// it returns when the pass that runs then is done.
//
// A pass begins no hospital once the next tick is due. That tick's pass begins as soon as the
// one that runs has ended: it is late, and counted as run. While one tick waits like that,
// those that follow are skipped, and counted so: every tick is counted once, as run when its
// pass begins, or as skipped when it falls; one that still waits when ctx ends is not.
// One that panics is logged, and the next one runs.
func (s *Syncer) Schedule(ctx context.Context, schedule cron.Schedule, atOnce bool) {
	s.expect(schedule)
	waits := make(chan struct{}, 1)
	ticker := cron.New(cron.WithLogger(cron.DiscardLogger))
	ticker.Schedule(schedule, cron.FuncJob(func() {
		if ctx.Err() != nil {
			return
		}
		s.expect(schedule)
		s.fell()
		select {
		case waits <- struct{}{}:
		default:
			s.Metrics.Ticks.WithLabelValues("skipped").Inc()
			s.Log.Debug().Msg(EventTickSkipped)
		}
	}))
	ticker.Start()
	if atOnce {
		s.tick(ctx, schedule)
	}
	for ctx.Err() == nil {
		select {
		case <-waits:
			s.Metrics.Ticks.WithLabelValues("run").Inc()
			s.tick(ctx, schedule)
		case <-ctx.Done():
		}
	}
	<-ticker.Stop().Done()
}

// tick is one scheduled pass. It survives a panic of its own; readings survive theirs.
func (s *Syncer) tick(ctx context.Context, schedule cron.Schedule) {
	defer func() {
		if value := recover(); value != nil {
			s.Log.Error().Str("error", fmt.Sprint(value)).Bytes("stack", debug.Stack()).Msg(EventPanic)
		}
	}()
	s.Reload()
	s.learn()
	next := s.begins(schedule)
	ctx, cancel := context.WithDeadline(ctx, next)
	defer cancel()
	if s.Claims == nil {
		s.pass(ctx, TriggerSchedule, s.plan(s.Hospitals.All(), time.Until(next), s.Rate), nil)
	} else {
		s.sharedPass(ctx, next)
	}
	s.correct()
}

// Reload reads the hospitals file again if its content has changed. A bad file changes
// nothing, and is said when it is news.
func (s *Syncer) Reload() {
	bad := s.Hospitals.Bad()
	changed, err := s.Hospitals.Reload()
	hs := s.Hospitals.All()
	switch {
	case err != nil && !bad:
		s.Log.Error().Str("error", err.Error()).Msg(EventHospitalsFile)
	case err == nil && (changed || bad):
		s.Log.Info().Int("hospitals", len(hs)).Msg(EventHospitalsFile)
	}
	s.forget(hs)
}

// forget drops what is remembered of hospitals that are no longer there.
func (s *Syncer) forget(hs []hospitals.Hospital) {
	s.Metrics.Hospitals.Set(float64(len(hs)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past.forget(func(id string) bool {
		_, there := s.Hospitals.Get(id)
		return there
	})
	s.Metrics.Failing.Set(float64(s.past.failing))
}

// expect notes when the next tick is due.
func (s *Syncer) expect(schedule cron.Schedule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = schedule.Next(time.Now())
}

// begins notes that a tick's pass begins, and returns when the next tick falls.
func (s *Syncer) begins(schedule cron.Schedule) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = time.Time{}
	if now := time.Now(); !s.next.After(now) {
		return schedule.Next(now) // it is just falling
	}
	return s.next
}

// fell notes that a tick has fallen whose pass has not begun.
func (s *Syncer) fell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due.IsZero() {
		s.due = time.Now()
	}
}

// Healthy says why the process makes no progress, or nil: a tick is a minute overdue with no
// pass running, or a running pass has finished no hospital for 3 × SYNC_TIMEOUT + 60 s, its
// waits for the rate limit aside. It asks neither Redis nor SureM.
func (s *Syncer) Healthy() error {
	runs, quiet := s.progress.stuck()
	s.mu.Lock()
	next := s.next
	if !s.due.IsZero() {
		next = s.due
	}
	s.mu.Unlock()
	late := time.Since(next)
	switch limit := 3*s.Timeout + time.Minute; {
	case runs && quiet > limit:
		return fmt.Errorf("the running pass has finished no hospital for %v", quiet.Round(time.Second))
	case !runs && !next.IsZero() && late > overdue:
		return fmt.Errorf("a tick is overdue for %v", late.Round(time.Second))
	}
	return nil
}
