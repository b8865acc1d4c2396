package templates_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/templates"
)

// sureM is a Source whose answers can be held back after they were made.
type sureM struct {
	calls  atomic.Int32
	mu     sync.Mutex
	status string
	fail   error
	asked  chan struct{} // gets a value when a call has its answer; nil = nobody looks
	hold   chan struct{} // an answer leaves when this is closed; nil = at once
}

func (s *sureM) Detail(ctx context.Context, _ hospitals.Hospital, code string) (templates.Document, error) {
	s.calls.Add(1)
	s.mu.Lock()
	status, fail, asked, hold := s.status, s.fail, s.asked, s.hold
	s.mu.Unlock()
	if asked != nil {
		asked <- struct{}{}
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return templates.Document{}, ctx.Err()
		}
	}
	if fail != nil {
		return templates.Document{}, fail
	}
	return document(code, status), nil
}

func (s *sureM) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func document(code, status string) templates.Document {
	return templates.Document{Raw: `{"templateCode":"` + code + `","templateContent":"[하나치과]\r\n예약이 확정되었습니다. ` + "\u00a0" + `","inspectionStatus":"` + status + `"}`, Status: templates.Status(status)}
}

type setup struct {
	redis  *redistest.Server
	surem  *sureM
	cache  *templates.Cache
	reader *templates.Reader
	dir    *hospitals.Directory
	h      hospitals.Hospital
}

func newSetup(t *testing.T, change func(*templates.CacheOptions, *templates.ReaderOptions)) *setup {
	t.Helper()
	s := &setup{redis: redistest.Start(t), surem: &sureM{status: "REQUESTED"}}
	var err error
	if s.dir, err = hospitals.New([]hospitals.Entry{{ID: "H001", SenderKey: "key-1"}}, "user", "secret"); err != nil {
		t.Fatal(err)
	}
	s.h, _ = s.dir.Get("H001")
	keys, err := templates.ParseKeyFormat("infotalk:template:{<hospitalId>}:<templateCode>")
	if err != nil {
		t.Fatal(err)
	}
	co := templates.CacheOptions{Keys: keys, TTL: time.Hour, FenceTTL: time.Minute, Current: s.dir.Current}
	ro := templates.ReaderOptions{Source: s.surem, Metrics: metrics.New("", "", ""), Log: zerolog.Nop(), CoolingMax: 10,
		Flight: flight.Options{LoaderTimeout: 10 * time.Second}}
	if change != nil {
		change(&co, &ro)
	}
	rdb := redisconn.NewSingle(&redis.Options{Addr: s.redis.Addr})
	s.cache = templates.NewCache(rdb, co)
	ro.Cache = s.cache
	s.reader = templates.NewReader(ro)
	t.Cleanup(func() {
		_ = s.reader.Close(context.Background())
		_ = rdb.Close()
	})
	return s
}

const entryKey, fenceKey = "infotalk:template:{H001}:T1", "alimtalk-syncer:fence:infotalk:template:{H001}:"

func (s *setup) read(t *testing.T, want templates.Via, status string) {
	t.Helper()
	got, err := s.reader.Read(t.Context(), s.h, "T1")
	if err != nil || got.Via != want || got.Document != document("T1", status).Raw {
		t.Fatalf("read: %q via %d, %v; want %s via %d", got.Document, got.Via, err, status, want)
	}
}

func (s *setup) raw(t *testing.T) string {
	t.Helper()
	v, err := s.redis.Client.Get(t.Context(), entryKey).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return v
}

func TestMissIsStoredByteForByteAndThenHit(t *testing.T) {
	s := newSetup(t, nil)
	s.read(t, templates.Stored, "REQUESTED")
	if s.raw(t) != document("T1", "REQUESTED").Raw {
		t.Errorf("stored %q", s.raw(t))
	}
	if ttl := s.redis.Client.PTTL(t.Context(), entryKey).Val(); ttl <= 59*time.Minute || ttl > time.Hour {
		t.Errorf("it lives %v, want CACHE_TTL", ttl)
	}
	if ttl := s.redis.Client.PTTL(t.Context(), fenceKey).Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("the fence lives %v", ttl)
	}
	s.read(t, templates.Hit, "REQUESTED")
	if n := s.surem.calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

func TestKeyvEnvelopeIsWrittenAndBothShapesAreRead(t *testing.T) {
	s := newSetup(t, func(co *templates.CacheOptions, _ *templates.ReaderOptions) { co.Keyv = true })
	s.read(t, templates.Stored, "REQUESTED")
	if raw := s.raw(t); !strings.HasPrefix(raw, `{"value":`+document("T1", "REQUESTED").Raw+`,"expires":`) {
		t.Errorf("stored %q", raw)
	}
	s.read(t, templates.Hit, "REQUESTED")
	s.redis.Client.Set(t.Context(), entryKey, document("T1", "APPROVED").Raw, 0)
	s.read(t, templates.Hit, "APPROVED")
}

// A load that was under way when a pass fenced must not store, and whoever came after the
// pass must not get what it loaded.
func TestReaderAfterAPassNeverGetsAnOlderLoad(t *testing.T) {
	s := newSetup(t, nil)
	hold, asked := make(chan struct{}), make(chan struct{}, 10)
	s.surem.set(func() { s.surem.hold, s.surem.asked = hold, asked })

	type result struct {
		templates.Answer
		err error
	}
	read := func() chan result {
		c := make(chan result, 1)
		go func() {
			a, err := s.reader.Read(t.Context(), s.h, "T1")
			c <- result{a, err}
		}()
		return c
	}
	before := read()
	<-asked // it has the old document in hand
	s.surem.set(func() { s.surem.status, s.surem.hold = "APPROVED", nil })
	if _, err := s.cache.FenceAndRead(t.Context(), s.h, []string{"T1"}, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	after := read()
	for s.reader.Stats().Waiters < 2 { // it waits for the same key
		time.Sleep(time.Millisecond)
	}
	close(hold)
	if r := <-before; r.err != nil || r.Document != document("T1", "REQUESTED").Raw || r.Via != templates.Missed {
		t.Errorf("who came before the pass: %+v", r)
	}
	if r := <-after; r.err != nil || r.Document != document("T1", "APPROVED").Raw || r.Via != templates.Collapsed {
		t.Errorf("who came after the pass: %+v", r)
	}
	if s.raw(t) != document("T1", "APPROVED").Raw {
		t.Errorf("Redis holds %q", s.raw(t))
	}
}

func TestStoreIsRefusedWithoutTheFence(t *testing.T) {
	for name, lose := range map[string]func(*setup){
		"fenced by a pass": func(s *setup) { _, _ = s.cache.FenceAndRead(context.Background(), s.h, nil, new(bytes.Buffer)) },
		"flushed":          func(s *setup) { s.redis.Client.FlushAll(context.Background()) },
		"made anew":        func(s *setup) { s.redis.Client.Set(context.Background(), fenceKey, "another", time.Minute) },
		"forgotten":        func(s *setup) { _ = s.reader.Forget(context.Background(), s.h, "T1") },
		"filled meanwhile": func(s *setup) { s.redis.Client.Set(context.Background(), entryKey, "theirs", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, nil)
			look, err := s.cache.Look(t.Context(), s.h, "T1")
			if err != nil || look.Token == "" {
				t.Fatalf("look: %+v, %v", look, err)
			}
			lose(s)
			if stored, err := s.cache.Store(t.Context(), s.h, "T1", look.Token, document("T1", "APPROVED")); stored || err != nil {
				t.Errorf("stored %v, %v", stored, err)
			}
		})
	}
}

func TestUnreadableAndOtherTypesAreBypassedAndLeftAlone(t *testing.T) {
	s := newSetup(t, nil)
	s.redis.Client.Set(t.Context(), entryKey, "not a document", 0)
	s.read(t, templates.Bypass, "REQUESTED")
	if s.raw(t) != "not a document" {
		t.Errorf("Redis holds %q", s.raw(t))
	}
	s.redis.Client.Del(t.Context(), entryKey)
	s.redis.Client.HSet(t.Context(), entryKey, "a", "b")
	s.read(t, templates.Bypass, "REQUESTED")
	if err := s.reader.Forget(t.Context(), s.h, "T1"); !errors.Is(err, templates.ErrWrongType) {
		t.Errorf("forget: %v", err)
	}
	if s.redis.Client.HGet(t.Context(), entryKey, "a").Val() != "b" {
		t.Error("the hash is gone")
	}
}

func TestDeleteIfSparesWhatWasWrittenSince(t *testing.T) {
	s := newSetup(t, nil)
	old := document("T1", "REQUESTED").Raw
	s.redis.Client.Set(t.Context(), entryKey, old, 0)
	seen, err := s.cache.FenceAndRead(t.Context(), s.h, []string{"T1"}, new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	s.redis.Client.Set(t.Context(), entryKey, document("T1", "APPROVED").Raw, 0)
	deleted, err := s.cache.DeleteIf(t.Context(), s.h, []string{"T1"}, seen)
	if err != nil || deleted["T1"] || s.raw(t) == "" {
		t.Errorf("deleted %v, %v, left %q", deleted, err, s.raw(t))
	}
	s.redis.Client.Set(t.Context(), entryKey, old, 0)
	if deleted, err = s.cache.DeleteIf(t.Context(), s.h, []string{"T1"}, seen); err != nil || !deleted["T1"] || s.raw(t) != "" {
		t.Errorf("deleted %v, %v, left %q", deleted, err, s.raw(t))
	}
}

func TestFailureCoolsDown(t *testing.T) {
	s := newSetup(t, func(_ *templates.CacheOptions, ro *templates.ReaderOptions) { ro.CoolDown = time.Hour })
	broken := errors.New("SureM is in trouble")
	s.surem.set(func() { s.surem.fail = broken })
	for range 3 {
		_, err := s.reader.Read(t.Context(), s.h, "T1")
		var cooling *templates.CoolingError
		if !errors.Is(err, broken) || !errors.As(err, &cooling) || cooling.RetryAfter <= 0 {
			t.Fatalf("got %v", err)
		}
	}
	if n := s.surem.calls.Load(); n != 1 {
		t.Errorf("%d calls while cooling down", n)
	}
	s.surem.set(func() { s.surem.fail = nil })
	if err := s.reader.Forget(t.Context(), s.h, "T1"); err != nil {
		t.Fatal(err)
	}
	s.read(t, templates.Stored, "REQUESTED") // DELETE ends the cool-down
}

func TestRedisAwayIsBypassedAndHeals(t *testing.T) {
	s := newSetup(t, nil)
	s.redis.Kill()
	s.read(t, templates.Bypass, "REQUESTED")
	if err := s.reader.Forget(t.Context(), s.h, "T1"); err == nil || errors.Is(err, templates.ErrWrongType) {
		t.Errorf("forget: %v", err)
	}
	s.redis.Restart()
	s.read(t, templates.Stored, "REQUESTED")
}
