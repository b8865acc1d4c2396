package templates_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/redistest"
	surem "alimtalk-syncer/internal/sureM"
	"alimtalk-syncer/internal/templates"
)

type atomicInt = atomic.Int64

// clock orders what happens: of two moments, the later one has the larger number.
type clock struct{ ticks atomicInt }

func (c *clock) now() int64 { return c.ticks.Add(1) }

// never is the moment of what has not happened yet.
const never = math.MaxInt64

// history is one run of everybody, and what they saw.
type history struct {
	t         *testing.T
	seed      uint64
	streams   uint64 // random ones that were handed out
	server    *redistest.Server
	keys      templates.KeyFormat
	directory *hospitals.Directory
	hospital  hospitals.Hospital
	surem     changingSureM
	clock     clock
	calm      atomic.Bool // no faults any more
	lookHash  string
	fleet     bool // loads claim their templates

	mu        sync.Mutex             // guards what follows
	documents map[string]*documentOf // by what is written, which tells them all apart
	passes    []*pass
	answers   []answer
	sightings []sighting
	looks     []lookOf
	faults    []string     // seen on the spot
	loads     map[any]bool // those that have looked, in a fleet
	waits     int          // of loads for another's
}

// documentOf is where a document comes from.
type documentOf struct {
	code    string
	version int
	sent    int64     // when the detail call was sent; 0 for the application's
	written atomicInt // when the application had written it
	stood   atomicInt // when it was last known to stand in Redis, or a store of it was accepted
}

// pass is a pass, or a DELETE, which is one in what it promises.
type pass struct {
	name                  string
	process               int
	began, arrived, ended int64             // ended is 0 for one that was not ok
	shows                 map[string]int    // versions by code, skipped ones left out
	saw                   map[string]string // the entries it read; nil for a DELETE
}

type answer struct {
	process                int
	code                   string
	came, joined, answered int64
	raw                    string
	via                    templates.Via
}

// sighting is an entry that stood in Redis after at.
type sighting struct {
	code, raw string
	at        int64
}

// lookOf is the beginning of a run.
type lookOf struct {
	process int
	code    string
	at      int64
}

func newHistory(t *testing.T, server *redistest.Server, seed uint64) *history {
	t.Helper()
	directory, err := hospitals.New([]hospitals.Entry{{ID: "H001", SenderKey: "key-1"}}, "user", "secret")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := templates.ParseKeyFormat(defaultKeys)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("lua/look.lua")
	if err != nil {
		t.Fatal(err)
	}
	h := &history{t: t, seed: seed, server: server, keys: keys, directory: directory, documents: make(map[string]*documentOf),
		surem: changingSureM{versions: make(map[string]int)}, lookHash: redis.NewScript(string(source)).Hash(),
		fleet: seed%2 == 1, loads: make(map[any]bool)}
	h.hospital, _ = directory.Get("H001")
	return h
}

// random returns a random stream of its own for one goroutine.
func (h *history) random() *rand.Rand {
	h.streams++
	return rand.New(rand.NewPCG(h.seed, h.streams))
}

func (h *history) note(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

func (h *history) fault(text string) { h.note(func() { h.faults = append(h.faults, text) }) }

// document makes a document that no other equals. sent is when its detail call was sent, 0
// for the application's.
func (h *history) document(code string, version int, sent int64) (*documentOf, string) {
	doc := &documentOf{code: code, version: version, sent: sent}
	doc.written.Store(never)
	h.mu.Lock()
	defer h.mu.Unlock()
	raw := fmt.Sprintf(`{"templateCode":%q,"number":%d,"inspectionStatus":%q}`, code, len(h.documents), statusOf(version))
	h.documents[raw] = doc
	return doc, raw
}

// statusOf is a version's state: each its own, but every fifth is one that is not compared.
func statusOf(version int) templates.Status {
	if version%5 == 4 {
		return templates.Status(templates.Rejected)
	}
	return templates.Status("V" + strconv.Itoa(version))
}

// process is one process' worth of clients on a connection of its own to Redis and SureM.
type process struct {
	history *history
	number  int
	proxy   *redistest.Proxy
	rdb     *redis.Client
	reader  *templates.Reader
	figures *metrics.Metrics
	syncer  *invalidate.Syncer
	passing atomic.Pointer[pass] // the reading that runs, or was the last to

	mu      sync.Mutex // guards what follows
	random  *rand.Rand // of the network and of SureM
	loading map[string]bool
}

func newProcess(h *history, number int) *process {
	p := &process{history: h, number: number, random: h.random(), loading: make(map[string]bool), figures: metrics.New("", "", "")}
	p.proxy = redistest.NewProxy(h.t, h.server.Addr, p.spoil)
	p.rdb = redisconn.NewSingle(&redis.Options{Addr: p.proxy.Addr})
	p.rdb.AddHook(p)
	cache := templates.NewCache(p.rdb, templates.CacheOptions{
		Keys: h.keys, TTL: time.Minute, FenceTTL: time.Minute, Current: h.directory.Current, Fleet: h.fleet})
	p.reader = templates.NewReader(templates.ReaderOptions{Cache: cache, Source: p, Metrics: p.figures, Log: zerolog.Nop(),
		CoolDown: time.Millisecond, CoolingMax: 10, Flight: flight.Options{LoaderTimeout: 10 * time.Second}})
	p.syncer = invalidate.New(invalidate.Options{Hospitals: h.directory, Source: p, Cache: cache, Metrics: p.figures, Log: zerolog.Nop(),
		Skip: map[templates.State]bool{templates.Rejected: true}, Timeout: 10 * time.Second, Concurrency: 1})
	return p
}

func (p *process) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p.syncer.Close(ctx)
	if err := p.reader.Close(ctx); err != nil {
		p.history.fault(err.Error())
	}
	p.history.waits += loadClaimsOf(p.history.t, p.figures, "lost")
	_ = p.rdb.Close()
	p.proxy.Close()
}

// chance is true once in n times.
func (p *process) chance(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.random.IntN(n) == 0
}

// wait is SureM's or the network's slowness.
func (p *process) wait(ctx context.Context, most time.Duration) {
	p.mu.Lock()
	wait := time.Duration(p.random.Int64N(int64(most)))
	p.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// dawdle waits, sometimes.
func (p *process) dawdle(ctx context.Context) {
	if p.chance(6) {
		p.wait(ctx, 10*time.Millisecond)
	}
}

// spoil decides what becomes of a request. A look is never sent twice: one token value goes
// into one command once.
func (p *process) spoil(request []byte) (redistest.Fault, time.Duration) {
	text := string(request)
	switch {
	case p.history.calm.Load() || !strings.Contains(text, "infotalk:"):
	case p.chance(50):
		return redistest.LoseReply, 0
	case p.chance(100):
		return redistest.Late, 4 * time.Millisecond
	case p.chance(50) && !strings.Contains(text, p.history.lookHash) && !strings.Contains(text, "-- look:"):
		return redistest.Repeat, 4 * time.Millisecond
	}
	return redistest.None, 0
}

var errSureM = errors.New("SureM is away")

// Detail implements templates.Source. Answers are held back, some for long.
func (p *process) Detail(ctx context.Context, _ hospitals.Hospital, code string) (templates.Document, error) {
	h := p.history
	p.mu.Lock()
	if p.loading[code] {
		h.fault("two loads of " + code + " run at a time in a process")
	}
	p.loading[code] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.loading[code] = false
	}()
	sent := h.clock.now()
	p.wait(ctx, time.Millisecond)
	doc, raw := h.document(code, h.surem.version(code), sent)
	if p.chance(5) {
		p.wait(ctx, 25*time.Millisecond)
	} else {
		p.wait(ctx, 3*time.Millisecond)
	}
	if ctx.Err() != nil || p.chance(50) {
		return templates.Document{}, errSureM
	}
	return templates.Document{Raw: raw, Status: statusOf(doc.version)}, nil
}

// Summaries implements invalidate.Source: a page per template.
func (p *process) Summaries(ctx context.Context, _ hospitals.Hospital, _ *surem.Turn) (templates.List, error) {
	h := p.history
	reading := &pass{name: "pass", process: p.number, began: h.clock.now(), shows: make(map[string]int), saw: make(map[string]string)}
	p.passing.Store(reading)
	number := 0
	h.note(func() {
		number = len(h.passes)
		h.passes = append(h.passes, reading)
	})
	list := templates.List{Complete: true}
	for _, code := range historyCodes {
		version := h.surem.version(code)
		p.wait(ctx, time.Millisecond)
		if !h.calm.Load() && p.chance(50) {
			list.Complete = false
			return list, errSureM
		}
		status := statusOf(version)
		list.Pages++
		list.Summaries = append(list.Summaries, templates.Summary{Code: code, Name: strconv.Itoa(number), Status: status, Raw: `{}`})
		if status.State() != templates.Rejected {
			reading.shows[code] = version
		}
	}
	list.Listed = len(list.Summaries)
	reading.arrived = h.clock.now()
	return list, nil
}
