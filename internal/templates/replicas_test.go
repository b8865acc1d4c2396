package templates_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/templates"
)

// claimLife is what a claim lives without being renewed.
const claimLife = 1500 * time.Millisecond

// replica is one process' worth of a Reader, with a connection to Redis and a SureM of its own.
type replica struct {
	t       *testing.T
	h       hospitals.Hospital
	proxy   *redistest.Proxy
	fault   atomic.Pointer[func(request string) redistest.Fault]
	surem   *sureM
	rdb     redis.UniversalClient
	cache   *templates.Cache
	reader  *templates.Reader
	figures *metrics.Metrics
}

func newReplica(t *testing.T, server *redistest.Server, user string) *replica {
	t.Helper()
	r := &replica{t: t, h: hospitals.Hospital{ID: "H001", UserCode: "user", SenderKey: "key-1"},
		surem: &sureM{status: "REQUESTED"}, figures: metrics.New("", "", "")}
	r.proxy = redistest.NewProxy(t, server.Addr, func(request []byte) (redistest.Fault, time.Duration) {
		if fault := r.fault.Load(); fault != nil {
			return (*fault)(string(request)), time.Millisecond
		}
		return redistest.None, 0
	})
	keys, err := templates.ParseKeyFormat(defaultKeys)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redisconn.NewSingle(&redis.Options{Addr: r.proxy.Addr, Username: user, Password: user})
	r.rdb = rdb
	r.cache = templates.NewCache(rdb, templates.CacheOptions{Keys: keys, TTL: time.Minute, FenceTTL: time.Minute,
		Current: func(hospitals.Hospital) bool { return true }, Fleet: true})
	r.reader = templates.NewReader(templates.ReaderOptions{Cache: r.cache, Source: r.surem, Metrics: r.figures, Log: zerolog.Nop(),
		CoolingMax: 10, Flight: flight.Options{LoaderTimeout: 20 * time.Second, Observer: r.figures}})
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = r.reader.Close(ctx)
		_ = rdb.Close()
	})
	return r
}

// newFleet returns n replicas on one Redis.
func newFleet(t *testing.T, n int) (*redistest.Server, []*replica) {
	t.Helper()
	server := redistest.Start(t)
	replicas := make([]*replica, n)
	for i := range replicas {
		replicas[i] = newReplica(t, server, "")
	}
	return server, replicas
}

type readResult struct {
	templates.Answer
	err  error
	took time.Duration
}

// read reads T1, in a goroutine of its own.
func (r *replica) read() <-chan readResult {
	c := make(chan readResult, 1)
	go func() {
		began := time.Now()
		a, err := r.reader.Read(r.t.Context(), r.h, "T1")
		c <- readResult{a, err, time.Since(began)}
	}()
	return c
}

// hold keeps the answers of a replica's SureM until the function it returns is called, and
// gives what is asked.
func (r *replica) hold() (asked <-chan struct{}, let func()) {
	a, h := make(chan struct{}, 100), make(chan struct{})
	r.surem.set(func() { r.surem.asked, r.surem.hold = a, h })
	return a, sync.OnceFunc(func() { close(h) })
}

// await waits until SureM is asked.
func await(t *testing.T, asked <-chan struct{}) {
	t.Helper()
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		t.Fatal("SureM is never asked")
	}
}

// claims is a figure of the loads' claims.
func (r *replica) claims(result string) int { return loadClaimsOf(r.t, r.figures, result) }

func loadClaimsOf(t *testing.T, figures *metrics.Metrics, result string) int {
	var shown dto.Metric
	if err := figures.FleetClaims.WithLabelValues("load", result).Write(&shown); err != nil {
		t.Error(err)
	}
	return int(shown.GetCounter().GetValue())
}

// waits waits until a replica's load waits for another's.
func (r *replica) waits() {
	r.t.Helper()
	eventually(r.t, "its load waits for another's", func() bool { return r.claims("lost") > 0 })
}

// eventually polls until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never:", what)
		}
	}
}

// is checks a read's result.
func (got readResult) is(t *testing.T, who string, via templates.Via, status string) {
	t.Helper()
	if got.err != nil || got.Via != via || got.Document != document("T1", status).Raw {
		t.Errorf("%s: %q via %d, %v; want %s via %d", who, got.Document, got.Via, got.err, status, via)
	}
}

// loadClaims returns who holds claims, by key.
func loadClaims(t *testing.T, server *redistest.Server) map[string]string {
	t.Helper()
	keys, err := server.Client.Keys(t.Context(), "alimtalk-syncer:load:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	held := make(map[string]string)
	for _, key := range keys {
		if holder := server.Client.Get(t.Context(), key).Val(); holder != "" {
			held[key] = holder
		}
	}
	return held
}

func released(t *testing.T, server *redistest.Server) {
	t.Helper()
	began := time.Now()
	eventually(t, "the claim is released", func() bool { return len(loadClaims(t, server)) == 0 })
	if took := time.Since(began); took > claimLife/2 {
		t.Errorf("the claim has run out after %v, it was not released", took)
	}
}
