package invalidate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"
	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/sureM"
	"alimtalk-syncer/internal/templates"
)

var errAway = errors.New("SureM is away")

// awaySource fails every reading, so that no Redis is needed, after doing what the test wants.
type awaySource struct {
	mu    sync.Mutex
	asked []string
	do    func(ctx context.Context, id string)
}

func (s *awaySource) Summaries(ctx context.Context, h hospitals.Hospital, _ *surem.Turn) (templates.List, error) {
	s.mu.Lock()
	s.asked = append(s.asked, h.ID)
	s.mu.Unlock()
	if s.do != nil {
		s.do(ctx, h.ID)
	}
	return templates.List{}, errAway
}

func (s *awaySource) order() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func newTestSyncer(t *testing.T, source Source, log *strings.Builder, ids ...string) *Syncer {
	t.Helper()
	var entries []hospitals.Entry
	for _, id := range ids {
		entries = append(entries, hospitals.Entry{ID: id, SenderKey: hospitals.Secret("key of " + id)})
	}
	dir, err := hospitals.New(entries, "user", "secret")
	if err != nil {
		t.Fatal(err)
	}
	logger := zerolog.Nop()
	if log != nil {
		logger = zerolog.New(zerolog.SyncWriter(log))
	}
	rdb := redisconn.NewSingle(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errAway }})
	s := New(Options{
		Hospitals: dir, Source: source, Cache: templates.NewCache(rdb, templates.CacheOptions{}), // Redis is away, too
		Timeout: 30 * time.Second, Concurrency: 1, Metrics: metrics.New("", "", ""), Log: logger,
	})
	t.Cleanup(func() {
		s.Close(context.Background())
		_ = rdb.Close()
	})
	return s
}

func count(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

func TestHospitalsGoOldestLastAttemptFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		source := &awaySource{do: func(_ context.Context, id string) {
			time.Sleep(time.Second)
			if id == "B" {
				stop() // the pass ends before it has come to C and D
			}
		}}
		s := newTestSyncer(t, source, nil, "A", "B", "C", "D")
		if reports := s.Pass(ctx, TriggerSchedule, s.Hospitals.All()); len(reports) != 2 {
			t.Errorf("%d reports of a pass that was stopped after two", len(reports))
		}
		source.order()
		source.do = func(context.Context, string) { time.Sleep(time.Second) }
		s.Pass(t.Context(), TriggerSchedule, s.Hospitals.All())
		if order := source.order(); !slices.Equal(order, []string{"C", "D", "A", "B"}) {
			t.Errorf("the next pass went %v", order)
		}
	})
}

func TestOfTheTicksDuringAPassOneRunsLateAndTheOthersAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &awaySource{do: func(context.Context, string) { time.Sleep(2500 * time.Millisecond) }}
		s := newTestSyncer(t, source, nil, "A")
		ctx, stop := context.WithTimeout(t.Context(), 3900*time.Millisecond)
		defer stop()
		s.Schedule(ctx, cron.Every(time.Second), false) // runs at 1 s, and the tick of 2 s at 3.5 s; skips that of 3 s
		run, skipped := count(t, s.Metrics.Ticks.WithLabelValues("run")), count(t, s.Metrics.Ticks.WithLabelValues("skipped"))
		if run != 2 || skipped != 1 {
			t.Errorf("%v run, %v skipped, want 2 and 1", run, skipped)
		}
	})
}

func TestAPanicIsLoggedAndTheNextTickRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		source := &awaySource{do: func(context.Context, string) { panic("a bug") }}
		s := newTestSyncer(t, source, &log, "A")
		ctx, stop := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer stop()
		s.Schedule(ctx, cron.Every(time.Second), false)
		if asked := source.order(); len(asked) != 2 {
			t.Errorf("%d readings in two ticks", len(asked))
		}
		if n := strings.Count(log.String(), `"message":"panic"`); n != 2 || !strings.Contains(log.String(), "a bug") {
			t.Errorf("%d panics in the log:\n%s", n, log.String())
		}
	})
}

func TestAHospitalThatHangsIsCutAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &awaySource{do: func(ctx context.Context, id string) {
			if id == "A" {
				<-ctx.Done()
			}
		}}
		s := newTestSyncer(t, source, nil, "A", "B")
		began := time.Now()
		reports := s.Pass(t.Context(), TriggerSchedule, s.Hospitals.All())
		if took := time.Since(began); len(reports) != 2 || took != s.Timeout {
			t.Errorf("%d reports after %v, want 2 after SYNC_TIMEOUT", len(reports), took)
		}
	})
}

func TestUnhealthyWhileAPassFinishesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		source := &awaySource{do: func(context.Context, string) { <-release }} // deaf to its time-out
		s := newTestSyncer(t, source, nil, "A")
		done := make(chan struct{})
		go func() {
			s.Pass(t.Context(), TriggerSchedule, s.Hospitals.All())
			close(done)
		}()
		time.Sleep(3*s.Timeout + time.Minute)
		if err := s.Healthy(); err != nil {
			t.Errorf("too early: %v", err)
		}
		time.Sleep(time.Second)
		if s.Healthy() == nil {
			t.Error("healthy, with a stuck pass")
		}
		close(release)
		<-done
		if err := s.Healthy(); err != nil {
			t.Errorf("after the pass: %v", err)
		}
	})
}

// A Redis that hangs costs each of the hospitals that share a reading some seconds, one after
// the other: slow, but progress, and nothing that a restart would cure.
func TestHealthyWhileHospitalsOfOneSenderWaitForARedisThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redisconn.NewSingle(&redis.Options{
			PoolSize: 1000, // after as many failures in a row it would fail at once
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				time.Sleep(time.Second)
				return nil, errors.New("nobody answers")
			},
		})
		defer rdb.Close()
		var entries []hospitals.Entry
		for i := range 300 {
			entries = append(entries, hospitals.Entry{ID: fmt.Sprintf("H%03d", i), SenderKey: "the same"})
		}
		dir, err := hospitals.New(entries, "user", "secret")
		if err != nil {
			t.Fatal(err)
		}
		s := New(Options{
			Hospitals: dir, Source: emptySource{}, Cache: templates.NewCache(rdb, templates.CacheOptions{}),
			Timeout: 30 * time.Second, Concurrency: 8, Metrics: metrics.New("", "", ""), Log: zerolog.Nop(),
		})
		defer s.Close(context.Background())
		began, done := time.Now(), make(chan struct{})
		go func() {
			s.Pass(t.Context(), TriggerSchedule, dir.All())
			close(done)
		}()
		for {
			select {
			case <-done:
				if took := time.Since(began); took <= 3*s.Timeout+time.Minute {
					t.Errorf("the pass took no longer than %v: this test shows nothing", took)
				}
				return
			case <-time.After(time.Second):
			}
			if err := s.Healthy(); err != nil {
				t.Fatalf("after %v: %v", time.Since(began), err)
			}
		}
	})
}

// emptySource answers every reading with a list that is read to its end and shows nothing.
type emptySource struct{}

func (emptySource) Summaries(context.Context, hospitals.Hospital, *surem.Turn) (templates.List, error) {
	return templates.List{Pages: 1, Complete: true}, nil
}

func TestWaitingForSlotsIsNotBeingStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestSyncer(t, &awaySource{}, nil, "A")
		s.progress.add(1, 0)
		s.progress.add(0, 1)
		pause := s.progress.pauser()
		pause(true)
		time.Sleep(time.Hour)
		if err := s.Healthy(); err != nil {
			t.Errorf("while waiting for a slot: %v", err)
		}
		pause(false)
		time.Sleep(3*s.Timeout + time.Minute + time.Second)
		if s.Healthy() == nil {
			t.Error("healthy, having got a slot and finished nothing since")
		}
	})
}

func TestUnhealthyWhenATickIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestSyncer(t, &awaySource{}, nil, "A")
		s.expect(cron.Every(time.Minute)) // and no tick comes
		time.Sleep(time.Minute + overdue)
		if err := s.Healthy(); err != nil {
			t.Errorf("too early: %v", err)
		}
		time.Sleep(time.Second)
		if s.Healthy() == nil {
			t.Error("healthy, with a tick overdue")
		}
		s.progress.add(1, 0) // a pass that runs is its excuse
		if err := s.Healthy(); err != nil {
			t.Errorf("with a pass running: %v", err)
		}
	})
}

func TestStopwatchLeavesPausesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, watch, cancel := withStopwatch(t.Context(), 10*time.Second)
		defer cancel()
		time.Sleep(4 * time.Second)
		watch.stop()
		time.Sleep(time.Hour)
		if ctx.Err() != nil || watch.remaining() != 6*time.Second {
			t.Fatalf("paused: %v, %v left", ctx.Err(), watch.remaining())
		}
		watch.start()
		time.Sleep(6*time.Second - 1)
		if ctx.Err() != nil {
			t.Fatal("too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Fatalf("cause %v", context.Cause(ctx))
		}
	})
}
