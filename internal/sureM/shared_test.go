package surem

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// together is a Shared that takes some time, and has no slots before some times.
type together struct {
	takes time.Duration

	mu    sync.Mutex
	none  map[bool]time.Time // by pass
	asked []string           // "u" or "p", in order
	now   int                // questions
	most  int                // at a time
}

func (s *together) Take(_ string, pass bool) time.Duration {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.asked = append(s.asked, map[bool]string{false: "u", true: "p"}[pass])
	wait := time.Until(s.none[pass])
	s.mu.Unlock()
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	return max(0, wait)
}

func (s *together) noneFor(passes, others time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.none = map[bool]time.Time{true: time.Now().Add(passes), false: time.Now().Add(others)}
}

func (s *together) questions() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.asked, "")
}

func sharing(s *together) *limiter {
	l := newLimiter(1000, 1000)
	l.share(s, "clinic")
	return l
}

func TestASlotIsHadFromTheOthersTooOneAtATimeAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &together{takes: 10 * time.Millisecond}
		s.noneFor(time.Second, time.Second)
		l := sharing(s)
		var g grants
		began := time.Now()
		for _, who := range []string{"a", "b", "c"} {
			g.call(t.Context(), l, who, nil)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := g.order(); got != "abc" || s.most != 1 {
			t.Errorf("slots went to %s, %d questions at a time", got, s.most)
		}
		if waited := g.at[0].Sub(began); waited < time.Second || waited > 1020*time.Millisecond {
			t.Errorf("the first slot after %v; there is one after 1s", waited)
		}
		if got := s.questions(); got != "uuuu" {
			t.Errorf("asked %s: once in vain, and once for each", got)
		}
	})
}

func TestAReaderIsAskedForAtOnceWhilePassesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &together{}
		s.noneFor(time.Hour, 0)
		l := sharing(s)
		var g grants
		lifted := patient()
		g.call(t.Context(), l, "p", patient())
		g.call(t.Context(), l, "l", lifted)
		came := time.Now()
		for range 2 * share { // though it were a patient call's turn
			if err := l.wait(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		if l.streak > share { // which predictions stand on
			t.Errorf("%d slots in a row went to readers while a patient call could wait for no more than %d", l.streak, share)
		}
		if err := lifted.Lift(time.Second); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := g.order(); got != "l" || time.Since(came) != 0 {
			t.Errorf("slots went to %q after %v, want the lifted call at once", got, time.Since(came))
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if got := g.order(); got != "lp" {
			t.Errorf("slots went to %q", got)
		}
	})
}

func TestASlotThatTheOthersHaveTooLateIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &together{takes: 10 * time.Millisecond}
		s.noneFor(0, 5*time.Second)
		l := sharing(s)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		came := time.Now()
		err := l.wait(ctx, nil)
		var limit *LimitError
		if !errors.As(err, &limit) || limit.RetryAfter < 4*time.Second || time.Since(came) > 20*time.Millisecond {
			t.Errorf("got %v after %v, want to be refused as soon as that is known", err, time.Since(came))
		}
		if err := l.late(ctx); !errors.As(err, &limit) {
			t.Errorf("nor is a login begun: %v", err)
		}
		if err := l.wait(t.Context(), patient()); err != nil { // without a deadline
			t.Error(err)
		}
	})
}

func TestAHoldThatComesDuringTheQuestionIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &together{takes: time.Second}
		l := sharing(s)
		var g grants
		came := time.Now()
		g.call(t.Context(), l, "a", nil)
		l.hold(10 * time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(g.at) != 1 || g.at[0].Sub(came) < 10*time.Second {
			t.Errorf("slots at %v, held for 10s from %v on", g.at, came)
		}
	})
}

func TestWhoLeavesDuringTheQuestionLeavesItsSlotToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &together{takes: time.Second}
		l := sharing(s)
		ctx, leave := context.WithCancel(t.Context())
		var g grants
		g.call(ctx, l, "a", nil)
		g.call(t.Context(), l, "b", nil)
		leave()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := g.order(); got != "b" || s.questions() != "u" {
			t.Errorf("slots went to %s, asked %s", got, s.questions())
		}
	})
}
