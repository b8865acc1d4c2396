package templates_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"alimtalk-syncer/internal/redistest"
)

// The bounds of one history.
const (
	changesEach = 400 // state changes at SureM
	patience    = time.Minute
)

// historyCodes are the templates of the one hospital of all histories.
var historyCodes = []string{"T1", "T2"}

// TestPromisesHoldInRandomHistories has two processes read, pass and forget on a real Redis
// that forgets scripts and data, cuts connections, loses replies, and gets commands late or
// twice, under a SureM that changes all the time and holds its answers back; and checks what
// everybody saw against the promises. With an odd seed the two are a fleet. A red one names its seed:
//
//	HISTORY_SEED=n go test -race -run RandomHistories ./internal/templates
//
// plays that one a hundred times (goroutines still take their own turns, so once may not do).
// HISTORY_CHANGES=100000 goes on until SureM has changed that often, not for eight seconds.
func TestPromisesHoldInRandomHistories(t *testing.T) {
	seed, seeded := number(t, "HISTORY_SEED")
	most, counted := number(t, "HISTORY_CHANGES")
	if !seeded {
		seed = rand.Uint64() >> 1
	}
	server := redistest.Start(t)
	began := time.Now()
	all := make(figures)
	for n := uint64(0); !t.Failed(); n++ {
		switch {
		case seeded && n == 100:
			return
		case seeded:
		case counted && uint64(all["changes"]) >= most, !counted && n >= 3 && time.Since(began) > 8*time.Second:
			t.Logf("%d histories from seed %d in %v: %v", n, seed-n, time.Since(began).Round(time.Second), all)
			for _, what := range mustBe {
				if all[what] < 10 {
					t.Errorf("too tame: %s: %d", what, all[what])
				}
			}
			return
		}
		h := newHistory(t, server, seed)
		h.play()
		for _, fault := range h.check() {
			t.Errorf("seed %d: %s", h.seed, fault)
		}
		h.count(all)
		if !seeded {
			seed++
		}
	}
}

func number(t *testing.T, name string) (uint64, bool) {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is not a number: %v", name, err)
	}
	return n, true
}

// play lets everybody at it until SureM has changed often enough, and then has each process
// pass once more, in peace.
func (h *history) play() {
	if err := h.server.Client.FlushAll(context.Background()).Err(); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var everybody sync.WaitGroup
	do := func(step func(ctx context.Context, r *rand.Rand)) {
		r := h.random()
		everybody.Go(func() {
			for ctx.Err() == nil {
				step(ctx, r)
			}
		})
	}
	processes := []*process{newProcess(h, 0), newProcess(h, 1)}
	for _, p := range processes {
		for range 3 {
			do(p.read)
		}
		do(p.pass)
		do(p.pass)
		do(p.forget)
	}
	do(h.writeUnfenced)
	do(h.lookIntoRedis)
	do(h.havoc)

	r := h.random()
	for range changesEach {
		h.surem.change(historyCodes[r.IntN(len(historyCodes))])
		pause(ctx, r, 2*time.Millisecond)
	}
	cancel()
	everybody.Wait()

	h.calm.Store(true)
	peace, end := context.WithTimeout(context.Background(), patience)
	defer end()
	for _, p := range processes {
		for !p.passOnce(peace) {
			if peace.Err() != nil {
				h.t.Fatalf("seed %d: no pass is ok though nothing disturbs it", h.seed)
			}
		}
		h.lookIntoRedis(peace, r)
		p.close()
	}
}

// havoc is what happens to Redis.
func (h *history) havoc(ctx context.Context, r *rand.Rand) {
	rdb := h.server.Client
	code := historyCodes[r.IntN(len(historyCodes))]
	key := h.keys.Key(h.hospital.ID, code)
	switch r.IntN(4) {
	case 0, 1:
		key = h.keys.FenceKey(h.hospital.ID)
	case 2:
		if h.fleet {
			key = h.keys.LoadKey(h.hospital, code)
		}
	}
	switch r.IntN(8) {
	case 0:
		rdb.ScriptFlush(ctx)
	case 1:
		rdb.FlushAll(ctx)
	case 2:
		rdb.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes")
	case 3, 4:
		rdb.PExpire(ctx, key, time.Duration(1+r.IntN(3))*time.Millisecond)
	default:
		rdb.Del(ctx, key)
	}
	pause(ctx, r, 25*time.Millisecond)
}

// writeUnfenced is the hospital's own application.
func (h *history) writeUnfenced(ctx context.Context, r *rand.Rand) {
	code := historyCodes[r.IntN(len(historyCodes))]
	doc, raw := h.document(code, h.surem.version(code), 0)
	pause(ctx, r, 5*time.Millisecond)
	h.server.Client.Set(ctx, h.keys.Key(h.hospital.ID, code), raw, time.Minute)
	doc.written.Store(h.clock.now())
	pause(ctx, r, 80*time.Millisecond)
}

// lookIntoRedis notes what stands there.
func (h *history) lookIntoRedis(ctx context.Context, r *rand.Rand) {
	for _, code := range historyCodes {
		at := h.clock.now()
		value, err := h.server.Client.Get(ctx, h.keys.Key(h.hospital.ID, code)).Result()
		if err == nil {
			h.note(func() { h.sightings = append(h.sightings, sighting{code, value, at}) })
		}
	}
	for _, key := range []string{h.keys.FenceKey(h.hospital.ID), h.keys.LoadKey(h.hospital, historyCodes[0])} {
		if ttl, err := h.server.Client.TTL(ctx, key).Result(); err == nil && ttl == -1 {
			h.fault("this has no TTL: " + key)
		}
	}
	pause(ctx, r, 3*time.Millisecond)
}

// read is one reader; some leave early.
func (p *process) read(ctx context.Context, r *rand.Rand) {
	h, code := p.history, historyCodes[r.IntN(len(historyCodes))]
	if r.IntN(10) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Microsecond)
		defer cancel()
	}
	watched := &watchedContext{Context: ctx, clock: &h.clock}
	a := answer{process: p.number, code: code, came: h.clock.now()}
	got, err := p.reader.Read(watched, h.hospital, code)
	if err == nil {
		a.answered, a.joined, a.raw, a.via = h.clock.now(), watched.done.Load(), got.Document, got.Via
		h.note(func() { h.answers = append(h.answers, a) })
	}
	pause(ctx, r, time.Millisecond)
}

// watchedContext notes when its Done was last asked for: a reader that waits for a load does
// that right after it has joined it.
type watchedContext struct {
	context.Context
	clock *clock
	done  atomicInt
}

func (w *watchedContext) Done() <-chan struct{} {
	w.done.Store(w.clock.now())
	return w.Context.Done()
}

// pass is one list or POST; two of them may share a reading.
func (p *process) pass(ctx context.Context, r *rand.Rand) {
	p.passOnce(ctx)
	pause(ctx, r, 40*time.Millisecond)
}

func (p *process) passOnce(ctx context.Context) (ok bool) {
	h := p.history
	got, err := p.syncer.Look(ctx, h.hospital, "list")
	if err != nil || !got.Report.OK {
		return false
	}
	at := h.clock.now()
	number, err := strconv.Atoi(got.List.Summaries[0].Name)
	if err != nil {
		h.fault("a reading has lost its number: " + err.Error())
		return false
	}
	h.note(func() {
		if pass := h.passes[number]; pass.ended == 0 {
			pass.ended = at
		}
		for _, change := range got.Report.Invalidated {
			if change.From == change.To {
				h.faults = append(h.faults, "a pass has deleted an entry that agreed with its summaries: "+string(change.From))
			}
		}
	})
	return true
}

// forget is a caller's DELETE after a write of its own.
func (p *process) forget(ctx context.Context, r *rand.Rand) {
	h, code := p.history, historyCodes[r.IntN(len(historyCodes))]
	now := h.clock.now()
	d := &pass{name: "DELETE", began: now, arrived: now, shows: map[string]int{code: h.surem.version(code)}}
	if p.reader.Forget(ctx, h.hospital, code) == nil {
		d.ended = h.clock.now()
		h.note(func() { h.passes = append(h.passes, d) })
	}
	pause(ctx, r, 60*time.Millisecond)
}

// pause waits for up to most, as networks and people do.
func pause(ctx context.Context, r *rand.Rand, most time.Duration) {
	select {
	case <-time.After(time.Duration(r.Int64N(int64(most)))):
	case <-ctx.Done():
	}
}

// changingSureM is the truth about all templates.
type changingSureM struct {
	mu       sync.Mutex // guards versions
	versions map[string]int
}

func (s *changingSureM) change(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions[code]++
}

func (s *changingSureM) version(code string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[code]
}
