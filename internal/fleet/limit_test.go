package fleet

import (
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/templates"
)

// newLimit's limit gives Redis time.
func newLimit(t *testing.T, rdb redis.UniversalClient, rate float64, burst int, log zerolog.Logger) *Limit {
	t.Helper()
	keys, err := templates.ParseKeyFormat(format)
	if err != nil {
		t.Fatal(err)
	}
	l := NewLimit(rdb, LimitOptions{Keys: keys, Rate: rate, Burst: burst, Metrics: metrics.New("", "", ""), Log: log})
	l.timeout = 10 * time.Second // on a busy machine, too
	return l
}

func count(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// await takes a slot, as a limiter does.
func await(l *Limit, account string, pass bool) {
	for wait := l.Take(account, pass); wait > 0; wait = l.Take(account, pass) {
		time.Sleep(wait)
	}
}

func TestAnAccountHasItsBurstAndThenItsRate(t *testing.T) {
	server := redistest.Start(t)
	one, other := newLimit(t, server.Client, 0.1, 5, zerolog.Nop()), newLimit(t, server.Client, 0.1, 5, zerolog.Nop())
	for i := range 4 {
		if wait := []*Limit{one, other}[i%2].Take("clinic", true); wait != 0 {
			t.Fatalf("pass call %d has to wait %v; four fifths of five are four", i, wait)
		}
	}
	if wait := one.Take("clinic", true); wait < 11*time.Second || wait > 12500*time.Millisecond {
		t.Errorf("the fifth waits %v, want 12.5s: passes may make four calls in 50s", wait)
	}
	if wait := other.Take("clinic", false); wait != 0 {
		t.Errorf("a read has to wait %v for the slot that passes leave", wait)
	}
	if wait := one.Take("clinic", false); wait < 8*time.Second || wait > 10*time.Second {
		t.Errorf("the next read waits %v, want 10s", wait)
	}
	for range 6 { // one that passes have counted already, and that only has to wait for its slot
		if wait := one.Take("third", false); wait > 10*time.Second {
			t.Errorf("a read waits %v", wait)
		}
	}
	for range 6 {
		if wait := one.Take("third", true); wait == 0 || wait > 10*time.Second {
			t.Errorf("a pass's call is counted again and again: it waits %v", wait)
		}
	}
	if wait := one.Take("another", false); wait != 0 {
		t.Errorf("another account has to wait %v", wait)
	}
	if wait := newLimit(t, server.Client, 0.2, 5, zerolog.Nop()).Take("clinic", false); wait != 0 {
		t.Errorf("another limit has the old one's state: it has to wait %v", wait)
	}
	if n := count(t, one.Metrics.FleetSlots.WithLabelValues("shared")); n != 8 {
		t.Errorf("%v slots counted, it has got 8", n)
	}
	for _, key := range server.Client.Keys(t.Context(), "*").Val() {
		if ttl := server.Client.PTTL(t.Context(), key).Val(); ttl <= 0 || !strings.HasPrefix(key, templates.OwnPrefix+"rate:") || strings.Contains(key, "clinic") {
			t.Errorf("%s lives for %v", key, ttl)
		}
	}
}

// Three replicas' passes never stop asking; somebody reads now and then, at a fourth.
func TestPassesUseFourFifthsTogetherAndALoneReadWaitsFiveSlotsAtMost(t *testing.T) {
	const rate, slot, long = 20, 50 * time.Millisecond, 4 * time.Second
	server := redistest.Start(t)
	replica := func() *Limit { return newLimit(t, server.Client, rate, 1, zerolog.Nop()) }
	began := time.Now()
	var passes sync.WaitGroup
	var calls, stood atomic.Int64 // stood: the longest that this machine stood still, since it was last asked
	for range 3 {
		l := replica()
		passes.Go(func() {
			for time.Since(began) < long {
				await(l, "clinic", true)
				calls.Add(1)
			}
		})
	}
	passes.Go(func() {
		for last := began; time.Since(began) < long; {
			time.Sleep(time.Millisecond)
			stood.Store(max(stood.Load(), int64(time.Since(last))))
			last = time.Now()
		}
	})
	reads, reader := 0, replica()
	for ; time.Since(began) < long; reads++ {
		stood.Store(0)
		came := time.Now()
		await(reader, "clinic", false)
		if waited := time.Since(came); waited > 5*slot && stood.Load() < int64(slot) {
			t.Errorf("a lone read waited %v, five slots are %v", waited, 5*slot)
		}
		time.Sleep(time.Until(came.Add(10*slot + slot/3))) // alone, and at any time of a slot
	}
	passes.Wait()
	took := time.Since(began)
	if most := int64(took.Seconds()*rate*PassShare) + 1; calls.Load() > most || calls.Load() < most/2 {
		t.Errorf("%d calls of passes and %d reads in %v, want some %d", calls.Load(), reads, took, most)
	}
}

func TestWithoutRedisEachReplicaIsAloneAndLosesNextToNoTime(t *testing.T) {
	server := redistest.Start(t)
	var log strings.Builder
	rdb := redisconn.NewSingle(&redis.Options{Addr: server.Addr}) // as the program's
	defer func() { _ = rdb.Close() }()
	l := newLimit(t, rdb, 1, 1, zerolog.New(&log))
	await(l, "clinic", false)
	l.timeout = takeTimeout
	server.Signal(syscall.SIGSTOP) // the slowest way to be away
	take := func() time.Duration {
		began := time.Now()
		if wait := l.Take("clinic", false); wait != 0 {
			t.Errorf("has to wait %v", wait)
		}
		return time.Since(began)
	}
	if d := take(); d < takeTimeout || d > 3*time.Second {
		t.Errorf("the first call took %v, the bound is %v", d, takeTimeout)
	}
	l.timeout = time.Minute // so that a question now is seen
	for range 100 {
		if l.alone.Before(time.Now().Add(alonePause / 2)) {
			break // this machine stands still
		}
		if d := take(); d > alonePause {
			t.Fatalf("Redis is asked again, for %v, within a second", d)
		}
	}
	server.Signal(syscall.SIGCONT)
	for deadline := time.Now().Add(10 * time.Second); count(t, l.Metrics.FleetSlots.WithLabelValues("shared")) < 2; {
		if time.Now().After(deadline) {
			t.Fatal("Redis is not asked again when it is back")
		}
		await(l, "clinic", false)
		time.Sleep(10 * time.Millisecond)
	}
	if n := count(t, l.Metrics.FleetSlots.WithLabelValues("alone")); n < 2 {
		t.Errorf("%v slots alone", n)
	}
	if got := log.String(); strings.Count(got, "limit alone") != 1 || strings.Count(got, "limit shared") != 1 {
		t.Errorf("not said once each:\n%s", got)
	}
}

// TestAClockThatGoesBackStopsNobody: the bucket was filled by a clock 30 s ahead.
func TestAClockThatGoesBackStopsNobody(t *testing.T) {
	server := redistest.Start(t)
	var log strings.Builder
	l := newLimit(t, server.Client, 10, 1, zerolog.New(&log))
	await(l, "clinic", false)
	keys, err := server.Client.Keys(t.Context(), "*:all").Result()
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	filled, err := server.Client.Get(t.Context(), keys[0]).Float64()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Client.Set(t.Context(), keys[0], filled+30, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if wait := l.Take("clinic", false); wait != 0 {
		t.Errorf("has to wait %v, a slot comes every 100ms", wait)
	}
	if text := log.String(); !strings.Contains(text, "limit alone") || !strings.Contains(text, "clock") {
		t.Errorf("the log says %q", text)
	}
	if n := server.Client.Exists(t.Context(), keys[0]).Val(); n != 0 {
		t.Error("the bucket is still there")
	}
}
