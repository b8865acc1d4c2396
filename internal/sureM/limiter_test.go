package surem

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// grants queues calls and writes down, in the order of their slots, who they were and when
// they got them.
type grants struct {
	mu    sync.Mutex
	who   []string
	at    []time.Time
	fault []error
}

func (g *grants) call(ctx context.Context, l *limiter, who string, turn *Turn) {
	go func() {
		err := l.wait(ctx, turn)
		g.mu.Lock()
		defer g.mu.Unlock()
		if err != nil {
			g.fault = append(g.fault, err)
			return
		}
		g.who, g.at = append(g.who, who), append(g.at, time.Now())
	}()
	synctest.Wait() // it has queued
}

func (g *grants) order() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.who, "")
}

func patient() *Turn { return NewTurn(false, nil, nil) }

// drained returns a limiter whose burst has just been used up.
func drained(t *testing.T, rate float64, burst int) *limiter {
	t.Helper()
	l := newLimiter(rate, burst)
	for range burst {
		if err := l.wait(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestALoneReadWaitsForTwoSlotsAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := drained(t, 5, 1)
		var g grants
		for range 1000 {
			g.call(ctx, l, "p", patient())
		}
		for range 50 {
			came := time.Now()
			if err := l.wait(ctx, nil); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(came); waited > 2*l.interval {
				t.Fatalf("a lone read waited %s, two slots are %s", waited, 2*l.interval)
			}
			time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		}
		cancel()
		synctest.Wait()
	})
}

func TestUnderAFloodOfReadsEveryFifthSlotIsThePasss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := drained(t, 5, 1)
		var g grants
		for range 4 {
			g.call(t.Context(), l, "p", patient())
		}
		for range 16 {
			g.call(t.Context(), l, "u", nil)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, want := g.order(), strings.Repeat("uuuup", 4); got != want {
			t.Fatalf("slots went to %s, want %s", got, want)
		}
		for i := 1; i < len(g.at); i++ {
			if gap := g.at[i].Sub(g.at[i-1]); gap != 200*time.Millisecond {
				t.Fatalf("slots %d and %d are %s apart", i-1, i, gap)
			}
		}
	})
}

func TestACallBeyondItsDeadlineIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := drained(t, 5, 5)
		var g grants
		for range 3 {
			g.call(t.Context(), l, "p", patient())
		}
		for range 9 {
			g.call(t.Context(), l, "u", nil)
		}
		// uuuupuuuupup: the next read's slot is the twelfth, 2.4 s from now.
		ctx, cancel := context.WithTimeout(t.Context(), 2399*time.Millisecond)
		defer cancel()
		came := time.Now()
		err := l.wait(ctx, nil)
		var limit *LimitError
		if !errors.As(err, &limit) || limit.RetryAfter != 2400*time.Millisecond || time.Since(came) != 0 {
			t.Fatalf("got %v after %s, want a refusal at once that says 2.4s", err, time.Since(came))
		}
		ctx, cancel = context.WithTimeout(t.Context(), 2401*time.Millisecond)
		defer cancel()
		if err := l.wait(ctx, nil); err != nil || time.Since(came) != 2400*time.Millisecond {
			t.Fatalf("got %v after %s, want a slot after 2.4s", err, time.Since(came))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := g.order(); got != "uuuupuuuupup" {
			t.Fatalf("slots went to %s", got)
		}
	})
}

func TestPredictionsComeTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		for range 200 {
			l := drained(t, 5, 1+random.IntN(3))
			var g grants
			for range random.IntN(8) { // some history, so that the streak has any value
				g.call(t.Context(), l, "p", patient())
			}
			for range random.IntN(12) {
				g.call(t.Context(), l, "u", nil)
			}
			time.Sleep(time.Duration(random.IntN(6))*200*time.Millisecond + 50*time.Millisecond) // between two slots
			turn := patient()
			if random.IntN(2) == 0 {
				turn = nil
			}
			l.mu.Lock()
			place := len(l.patient)
			if turn == nil {
				place = len(l.urgent)
			}
			slot := l.slotTime(l.slotsUntil(place, turn == nil), time.Now(), l.held)
			l.mu.Unlock()
			if err := l.wait(t.Context(), turn); err != nil || !time.Now().Equal(slot) {
				t.Fatalf("got %v at %s, predicted was %s", err, time.Now(), slot)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
	})
}

func TestAHoldHoldsEveryoneAndRefusesWhoCannotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := drained(t, 5, 1)
		var g grants
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		g.call(t.Context(), l, "p", patient())
		g.call(short, l, "u", nil)
		g.call(t.Context(), l, "U", nil)
		if !l.hold(10 * time.Second) {
			t.Fatal("the first hold says that there was one before")
		}
		synctest.Wait()
		var held *heldError
		if len(g.fault) != 1 || !errors.As(g.fault[0], &held) || held.retryAfter != 10*time.Second {
			t.Fatalf("refused: %v, want the call with 5s left, at once", g.fault)
		}
		if err := l.wait(short, nil); !errors.As(err, &held) {
			t.Fatalf("a new call with 5s left: %v, want the hold as the reason", err)
		}
		if l.hold(time.Second) {
			t.Fatal("a second, shorter hold says that there was none")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if g.order() != "Up" || g.at[0].Sub(began) != 10*time.Second {
			t.Fatalf("after the hold slots went to %s, first after %s", g.order(), g.at[0].Sub(began))
		}
		l.hold(24 * time.Hour)
		began = time.Now()
		if err := l.wait(t.Context(), patient()); err != nil || time.Since(began) != maxHold {
			t.Fatalf("a hold of a day: %v after %s, want a slot after %s", err, time.Since(began), maxHold)
		}
	})
}

func TestLiftTakesAQueuedCallAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := drained(t, 5, 1)
		var g grants
		lifted := patient()
		for range 20 {
			g.call(t.Context(), l, "p", patient())
		}
		g.call(t.Context(), l, "L", lifted)
		g.call(t.Context(), l, "u", nil)
		var limit *LimitError
		if err := lifted.Lift(300 * time.Millisecond); !errors.As(err, &limit) || limit.RetryAfter != 400*time.Millisecond {
			t.Fatalf("lifted, its slot 0.4s away: %v", err)
		}
		if err := lifted.Lift(time.Second); err != nil {
			t.Fatal(err)
		}
		g.call(t.Context(), l, "M", lifted) // a later call of the same turn
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := g.order(); !strings.HasPrefix(got, "uLMppp") {
			t.Fatalf("slots went to %s", got)
		}
		g.call(t.Context(), l, "p", lifted) // uses the slot that is free
		g.call(t.Context(), l, "p", lifted)
		l.hold(10 * time.Second)
		var e *Error
		if err := lifted.Lift(time.Second); !errors.As(err, &e) || e.RetryAfter != 10*time.Second {
			t.Fatalf("lifted while a 429 holds: %v", err)
		}
		time.Sleep(time.Minute)
	})
}

func TestACancelledCallLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := drained(t, 1, 1)
		began := time.Now()
		var g grants
		cause := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		for range 5 {
			g.call(ctx, l, "x", nil)
			g.call(ctx, l, "x", patient())
		}
		g.call(t.Context(), l, "u", nil)
		g.call(t.Context(), l, "p", patient())
		cancel(cause)
		time.Sleep(time.Minute)
		synctest.Wait()
		if g.order() != "up" || g.at[1].Sub(began) != 2*time.Second || len(g.fault) != 10 || !errors.Is(g.fault[0], cause) {
			t.Fatalf("slots went to %s at %v, refused %v", g.order(), g.at, g.fault)
		}
		if err := l.wait(ctx, nil); !errors.Is(err, cause) {
			t.Fatalf("a call that is dead on entry: %v", err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.urgent)+len(l.patient) != 0 {
			t.Fatal("tickets are left")
		}
	})
}

// A slot and the end of its call's context can come in the same moment.
func TestASlotIsNotLostToACancelledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := drained(t, 1, 1)
		began := time.Now()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		leaver := &ticket{urgent: true, done: make(chan struct{})}
		l.mu.Lock()
		l.enqueue(leaver)
		l.serve()
		l.mu.Unlock()
		var g grants
		g.call(t.Context(), l, "u", nil)
		g.call(t.Context(), l, "p", patient())
		<-leaver.done // it has its slot, but sees the end of its context first
		if err := l.leave(leaver, gone); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if g.order() != "up" || g.at[0].Sub(began) != time.Second || g.at[1].Sub(began) != 2*time.Second {
			t.Fatalf("slots went to %s at %v", g.order(), g.at)
		}
	})
}

// Nor does a pass lose its share when the call that had it leaves.
func TestAShareIsNotLostToACancelledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := drained(t, 1, 1)
		leaver := &ticket{done: make(chan struct{})}
		l.mu.Lock()
		l.enqueue(leaver)
		l.serve()
		l.mu.Unlock()
		var g grants
		for range 6 {
			g.call(t.Context(), l, "u", nil)
		}
		g.call(t.Context(), l, "p", patient())
		<-leaver.done
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_ = l.leave(leaver, gone)
		time.Sleep(time.Minute)
		synctest.Wait()
		if g.order() != "uuuupuu" {
			t.Fatalf("slots went to %s", g.order())
		}
	})
}

func TestTheBurstComesBackAfterARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, rate := range []float64{50, 5, 0.5, 0.01} {
			l := drained(t, rate, 3)
			time.Sleep(3 * l.interval)
			came := time.Now()
			for i := range 5 {
				if err := l.wait(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				if want := time.Duration(max(0, i-2)) * l.interval; time.Since(came) != want {
					t.Fatalf("rate %v: slot %d came after %s, want %s", rate, i, time.Since(came), want)
				}
			}
		}
	})
}

// In every window of time there are at most rate × its length + burst slots, whatever calls
// come, leave, are lifted and are held; and when enough calls wait no slot goes unused.
func TestSlotsNeverExceedTheRate(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			rate, burst := []float64{.5, 3, 5, 40}[random.IntN(4)], 1+random.IntN(6)
			l := newLimiter(rate, burst)
			var g grants
			var turns []*Turn
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(10_000))*time.Millisecond)
				defer cancel()
				switch random.IntN(10) {
				case 0, 1, 2:
					g.call(ctx, l, "u", nil)
				case 3, 4, 5, 6:
					turns = append(turns, patient())
					g.call(ctx, l, "p", turns[len(turns)-1])
				case 7:
					if len(turns) > 0 {
						_ = turns[random.IntN(len(turns))].Lift(time.Hour)
					}
				case 8:
					if random.IntN(10) == 0 {
						l.hold(time.Duration(random.IntN(3000)) * time.Millisecond)
					}
				case 9:
					time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			for i := range g.at {
				for j := i; j < len(g.at); j++ {
					window := g.at[j].Sub(g.at[i])
					if most := window.Seconds()*rate + float64(burst) + 1e-6; float64(j-i+1) > most {
						t.Fatalf("seed %d: %d slots within %s at %v/s with a burst of %d", seed, j-i+1, window, rate, burst)
					}
				}
			}
			if len(g.at) < 10 {
				t.Fatalf("seed %d: only %d slots were given, %d refused", seed, len(g.at), len(g.fault))
			}
		})
	}
}
