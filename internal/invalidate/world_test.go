package invalidate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/sureM"
	"alimtalk-syncer/internal/templates"
)

// world is a Syncer on a real redis-server and a SureM in memory: each hospital has one
// template, T1, under a sender key of its own, "key-" and its id, unless a test says otherwise.
type world struct {
	*Syncer
	t     *testing.T
	redis *redistest.Server
	rdb   *redis.Client
	trips atomic.Int32 // to Redis
	path  string       // the hospitals file

	at     sync.Mutex // guards what follows
	status map[string]string
	pages  int
	fail   map[string]bool
	calls  []string // hospitals, in the order of their calls
	hold   chan struct{}

	commands []string              // of each trip
	sending  func(commands string) // nil: nobody is told of a trip
}

func newWorld(t *testing.T, n int, change func(*Options)) *world {
	t.Helper()
	return newWorldOn(t, redistest.Start(t), n, change)
}

func newWorldOn(t *testing.T, server *redistest.Server, n int, change func(*Options)) *world {
	t.Helper()
	w := &world{t: t, redis: server, status: make(map[string]string), fail: make(map[string]bool), pages: 1}
	w.path = filepath.Join(t.TempDir(), "hospitals.json")
	keys := map[string]string{}
	for i := range n {
		id := fmt.Sprintf("H%d", i+1)
		keys[id] = "key-" + id
		w.status[id] = "REQUESTED"
	}
	w.list(keys)
	directory, err := hospitals.Open(w.path, "clinic", "secret")
	if err != nil {
		t.Fatal(err)
	}
	format, err := templates.ParseKeyFormat("t:{<hospitalId>}:<templateCode>")
	if err != nil {
		t.Fatal(err)
	}
	rdb := redisconn.NewSingle(&redis.Options{Addr: w.redis.Addr})
	w.rdb = rdb
	rdb.AddHook(w)
	o := Options{
		Hospitals: directory, Source: w, Concurrency: 1, Timeout: 10 * time.Second, Shared: true,
		Skip:    map[templates.State]bool{templates.Rejected: true},
		Cache:   templates.NewCache(rdb, templates.CacheOptions{Keys: format, TTL: time.Hour, FenceTTL: time.Minute, Current: directory.Current}),
		Metrics: metrics.New("v", "c", "go"), Log: zerolog.Nop(),
	}
	if change != nil {
		change(&o)
	}
	w.Syncer = New(o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		w.Close(ctx)
		_ = rdb.Close()
	})
	return w
}

// list writes the hospitals file.
func (w *world) list(keys map[string]string) {
	w.t.Helper()
	var entries []string
	for id, key := range keys {
		entries = append(entries, fmt.Sprintf(`{"id":%q,"senderKey":%q}`, id, key))
	}
	slices.Sort(entries)
	if err := os.WriteFile(w.path, []byte("["+strings.Join(entries, ",")+"]"), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// Summaries implements Source.
func (w *world) Summaries(ctx context.Context, h hospitals.Hospital, turn *surem.Turn) (templates.List, error) {
	w.at.Lock()
	w.calls = append(w.calls, h.ID)
	status, fail, hold, pages := w.status[h.ID], w.fail[h.ID], w.hold, w.pages
	w.at.Unlock()
	w.setWaiting(w.desk1(h), false) // as the client does: it has its slot
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return templates.List{}, context.Cause(ctx)
		}
	}
	if fail {
		return templates.List{}, errors.New("SureM is in trouble")
	}
	if status == "" {
		return templates.List{Pages: pages, Complete: true}, nil
	}
	return templates.List{Pages: pages, Listed: 1, Complete: true, Summaries: []templates.Summary{{
		Code: "T1", Status: templates.Status(status), Raw: "{}"}}}, nil
}

func (w *world) desk1(h hospitals.Hospital) *reading {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.desk[h.Sender()]
}

func (w *world) set(change func()) {
	w.at.Lock()
	defer w.at.Unlock()
	change()
}

// called returns the hospitals that were called since the last time, in order.
func (w *world) called() string {
	w.at.Lock()
	defer w.at.Unlock()
	calls := strings.Join(w.calls, " ")
	w.calls = nil
	return calls
}

func (w *world) h(id string) hospitals.Hospital {
	h, ok := w.Hospitals.Get(id)
	if !ok {
		w.t.Fatal("no hospital", id)
	}
	return h
}

// cache has another program write entries in a status, one for each hospital.
func (w *world) cache(status string, ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		if err := w.redis.Client.Set(w.t.Context(), "t:{"+id+"}:T1", `{"inspectionStatus":"`+status+`"}`, time.Hour).Err(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// fill has a read of ours store an entry.
func (w *world) fill(id, status string) {
	w.t.Helper()
	look, err := w.Cache.Look(w.t.Context(), w.h(id), "T1")
	if err != nil {
		w.t.Fatal(err)
	}
	doc := templates.Document{Raw: `{"inspectionStatus":"` + status + `"}`, Status: templates.Status(status)}
	if stored, err := w.Cache.Store(w.t.Context(), w.h(id), "T1", look.Token, doc); err != nil || !stored {
		w.t.Fatal(stored, err)
	}
}

// round runs a tick with calls for n looks.
func (w *world) round(n int) string {
	w.t.Helper()
	w.called()
	w.Rate = (float64(n) + .5) / time.Hour.Seconds()
	w.expect(every(time.Hour))
	w.tick(w.t.Context(), every(time.Hour))
	return w.called()
}

// every is a schedule.
type every time.Duration

func (e every) Next(t time.Time) time.Time { return t.Add(time.Duration(e)) }

// DialHook implements redis.Hook.
func (w *world) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (w *world) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.sent(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (w *world) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		w.sent(cmds...)
		return next(ctx, cmds)
	}
}

// sent notes a round trip.
func (w *world) sent(cmds ...redis.Cmder) {
	w.trips.Add(1)
	var names []string
	for _, cmd := range cmds {
		names = append(names, cmd.Name())
	}
	w.at.Lock()
	defer w.at.Unlock()
	what := strings.Join(names, " ")
	if what != "hello" {
		w.commands = append(w.commands, what)
	}
	if w.sending != nil {
		w.sending(what)
	}
}

// figure returns the value of a counter or gauge.
func figure(t *testing.T, metric prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	if err := metric.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

// await polls until cond holds.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); {
		if time.Now().After(deadline) {
			t.Fatal("not within ten seconds:", what)
		}
		time.Sleep(time.Millisecond)
	}
}
