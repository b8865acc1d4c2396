// Package counts holds the program's costs to what they are, in counts, which a busy machine
// does not change: round trips to Redis, calls to SureM, allocations. `make bench` has the
// times. A test that fails here says that something has become dearer; when that is wanted,
// the bound is raised in the same commit.
package counts

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/httpapi"
	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/sureM"
	"alimtalk-syncer/internal/templates"
)

const (
	hospitalCount = 20
	perHospital   = 15
	keyFormat     = "infotalk:template:{<hospitalId>}:<templateCode>"
)

func hospitalID(n int) string { return fmt.Sprintf("H%03d", n) }
func code(i int) string       { return fmt.Sprintf("T%02d", i) }
func key(n, i int) string     { return "infotalk:template:{" + hospitalID(n) + "}:" + code(i) }

// world is the program's parts on a real redis-server and a SureM over HTTP, all counted.
type world struct {
	hospitals []hospitals.Hospital
	reader    *templates.Reader
	syncer    *invalidate.Syncer
	handler   http.Handler

	test                   *redis.Client // the test's own, not counted
	trips                  atomic.Int64
	logins, lists, details atomic.Int64
	changed                map[string]bool // hospital ids whose first template SureM says was approved
}

// newWorld's last two hospitals share a sender key.
func newWorld(t *testing.T) *world {
	w := &world{changed: map[string]bool{}}
	server := redistest.Start(t)
	w.test = server.Client
	rdb := redisconn.NewSingle(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(&templates.Watch{})
	rdb.AddHook(counter{&w.trips})
	vendor := httptest.NewServer(w.vendor())
	t.Cleanup(vendor.Close)

	list := make([]hospitals.Entry, hospitalCount)
	for n := range list {
		list[n] = hospitals.Entry{ID: hospitalID(n), SenderKey: hospitals.Secret("sender-" + hospitalID(min(n, hospitalCount-2)))}
	}
	directory, err := hospitals.New(list, "clinic", "secret")
	if err != nil {
		t.Fatal(err)
	}
	w.hospitals = directory.All()
	keys, err := templates.ParseKeyFormat(keyFormat)
	if err != nil {
		t.Fatal(err)
	}
	base, err := url.Parse(vendor.URL)
	if err != nil {
		t.Fatal(err)
	}
	path := func(template string, variables ...string) surem.Path {
		p, err := surem.ParsePath(template, variables, variables)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	m := metrics.New("", "", "")
	client := surem.New(surem.Options{
		BaseURL: base, TokenPath: "/token", SummaryPath: path("/list{?senderKey}", "senderKey"),
		DetailPath: path("/list/{templateCode}{?senderKey}", "templateCode", "senderKey"), PageSize: 100, FirstPage: 1, Timeout: 10 * time.Second,
		RateLimit: 10_000, RateBurst: 10_000, Secret: directory.Secret, Mask: directory.Mask, Metrics: m, Log: zerolog.Nop(),
	})
	cache := templates.NewCache(rdb, templates.CacheOptions{Keys: keys, TTL: time.Hour, FenceTTL: time.Minute, Current: directory.Current})
	w.reader = templates.NewReader(templates.ReaderOptions{
		Cache: cache, Source: client, Flight: flight.Options{LoaderTimeout: 15 * time.Second, Observer: m},
		CoolDown: time.Second, CoolingMax: 10, Metrics: m, Log: zerolog.Nop(),
	})
	w.syncer = invalidate.New(invalidate.Options{
		Hospitals: directory, Source: client, Cache: cache, Timeout: 30 * time.Second, Concurrency: 8, Metrics: m, Log: zerolog.Nop(),
	})
	w.handler = httpapi.New(httpapi.Options{
		Directory: directory, Reader: w.reader, Looker: w.syncer, Addr: "127.0.0.1:8080",
		Healthy: w.syncer.Healthy, Ready: func() ([]string, bool) { return nil, true }, Metrics: m.Registry, Log: zerolog.Nop(),
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		w.syncer.Close(ctx)
		_ = w.reader.Close(ctx)
		_ = client.Close(ctx)
	})
	return w
}

// vendor is SureM: 15 templates for whoever asks, all REQUESTED but what has changed.
func (w *world) vendor() http.Handler {
	answer := func(out http.ResponseWriter, data any) {
		_ = json.NewEncoder(out).Encode(map[string]any{"code": "A0000", "message": "ok", "data": data})
	}
	row := func(sender, code string) map[string]any {
		status := "REQUESTED"
		if code == "T00" && w.changed[sender] {
			status = "APPROVED"
		}
		return map[string]any{"templateCode": code, "name": "name", "inspectionStatus": status, "dormant": false}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(out http.ResponseWriter, _ *http.Request) {
		w.logins.Add(1)
		answer(out, map[string]any{"accessToken": "token", "expiresIn": 3600})
	})
	mux.HandleFunc("GET /list", func(out http.ResponseWriter, r *http.Request) {
		w.lists.Add(1)
		var rows []map[string]any
		for i := range perHospital {
			rows = append(rows, row(r.URL.Query().Get("senderKey"), code(i)))
		}
		answer(out, map[string]any{"total": len(rows), "list": rows})
	})
	mux.HandleFunc("GET /list/{code}", func(out http.ResponseWriter, r *http.Request) {
		w.details.Add(1)
		answer(out, row(r.URL.Query().Get("senderKey"), r.PathValue("code")))
	})
	return mux
}

// fill caches all templates of all hospitals as they were requested.
func (w *world) fill(t *testing.T) {
	pipe := w.test.Pipeline()
	for n := range hospitalCount {
		for i := range perHospital {
			pipe.Set(t.Context(), key(n, i), `{"templateCode":"`+code(i)+`","inspectionStatus":"REQUESTED"}`, time.Hour)
		}
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// pass runs one over all hospitals.
func (w *world) pass(t *testing.T) {
	for _, r := range w.syncer.Pass(t.Context(), invalidate.TriggerManual, w.hospitals) {
		if !r.OK || r.Compared != perHospital {
			t.Fatalf("the pass of %s: %+v", r.HospitalID, r)
		}
	}
}

// read reads a template, which comes by this way.
func (w *world) read(t *testing.T, n, i int, via templates.Via) {
	a, err := w.reader.Read(t.Context(), w.hospitals[n], code(i))
	if err != nil || a.Via != via {
		t.Fatalf("a read: via %d, %v; want %d", a.Via, err, via)
	}
}

// costs checks what something costs: round trips to Redis, logins, lists and details of SureM.
func (w *world) costs(t *testing.T, what string, want [4]int64, do func()) {
	t.Helper()
	now := func() [4]int64 { return [4]int64{w.trips.Load(), w.logins.Load(), w.lists.Load(), w.details.Load()} }
	before := now()
	do()
	got := now()
	for i := range got {
		got[i] -= before[i]
	}
	if got != want {
		t.Errorf("%s costs %v, want %v: round trips, logins, lists, details", what, got, want)
	}
}

func TestRoundTripsAndCalls(t *testing.T) {
	w := newWorld(t)
	w.fill(t)
	const senders = hospitalCount - 1
	w.costs(t, "the first pass", [4]int64{hospitalCount, 1, senders, 0}, func() { w.pass(t) })
	w.costs(t, "a pass, nothing changed", [4]int64{hospitalCount, 0, senders, 0}, func() { w.pass(t) })

	w.changed["sender-H003"] = true
	w.pass(t) // and Redis learns the script
	w.fill(t)
	w.costs(t, "a pass, one hospital changed", [4]int64{hospitalCount + 1, 0, senders, 0}, func() { w.pass(t) })

	w.costs(t, "a hit", [4]int64{1, 0, 0, 0}, func() { w.read(t, 5, 0, templates.Hit) })
	miss := func(i int) func() {
		w.test.Del(t.Context(), key(5, i))
		return func() { w.read(t, 5, i, templates.Stored) }
	}
	miss(0)() // and Redis learns the scripts
	w.costs(t, "a miss", [4]int64{3, 0, 0, 1}, miss(1))
}

func TestAllocations(t *testing.T) {
	w := newWorld(t)
	w.fill(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080/v1/hospitals/"+hospitalID(1)+"/templates/"+code(1), http.NoBody)
	out := &sink{header: http.Header{}}
	allocates(t, "a hit in the handlers", 30, func() {
		clear(out.header)
		out.status = 0
		w.handler.ServeHTTP(out, r)
	})
	if out.status != http.StatusOK || out.header.Get("Cache-Status") != "alimtalk-syncer; hit" {
		t.Fatalf("that was no hit: %d, %v", out.status, out.header)
	}

	group := flight.New[string, int](flight.Options{LoaderTimeout: 15 * time.Second, MaxKeys: 10, MaxWaiters: 10})
	load := func(context.Context, *flight.Run) (int, error) { return 1, nil }
	allocates(t, "a call of single-flight", 3, func() {
		if _, _, err := group.Do(t.Context(), "key", load); err != nil {
			t.Fatal(err)
		}
	})
}

// allocates checks a bound.
func allocates(t *testing.T, what string, most float64, do func()) {
	t.Helper()
	do()
	if n := testing.AllocsPerRun(500, do); n > most {
		t.Errorf("%s allocates %.0f times, want %.0f at most", what, n, most)
	}
}

// counter is a hook that counts round trips to Redis, those in which a connection says hello aside.
type counter struct{ n *atomic.Int64 }

func (c counter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "hello" {
			c.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (c counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}

// sink is a ResponseWriter that keeps nothing of a body.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { return s.WriteString(string(b)) }
func (s *sink) WriteString(b string) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	return len(b), nil
}
