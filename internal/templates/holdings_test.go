package templates_test

import (
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/order"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/templates"
)

// trips counts a client's round trips.
type trips struct{ n atomic.Int32 }

func (c *trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}

// holder is a Cache whose round trips are counted.
type holder struct {
	*templates.Cache
	redis *redistest.Server
	trips trips
}

func newHolder(t *testing.T) *holder {
	t.Helper()
	s := &holder{redis: redistest.Start(t)}
	keys, err := templates.ParseKeyFormat(defaultKeys)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redisconn.NewSingle(&redis.Options{Addr: s.redis.Addr})
	rdb.AddHook(&s.trips)
	t.Cleanup(func() { _ = rdb.Close() })
	s.Cache = templates.NewCache(rdb, templates.CacheOptions{
		Keys: keys, TTL: time.Hour, FenceTTL: time.Minute, Current: func(hospitals.Hospital) bool { return true },
	})
	return s
}

func (s *holder) fill(t *testing.T, id, code, status string) {
	t.Helper()
	h := hospitals.Hospital{ID: id}
	look, err := s.Look(t.Context(), h, code)
	if err != nil {
		t.Fatal(err)
	}
	before := s.trips.n.Load()
	if stored, err := s.Store(t.Context(), h, code, look.Token, document(code, status)); err != nil || !stored {
		t.Fatalf("stored %v, %v", stored, err)
	}
	if n := s.trips.n.Load() - before; n != 1 {
		t.Errorf("a fill takes %d round trips", n)
	}
}

func (s *holder) known(t *testing.T) map[string]order.Holding {
	t.Helper()
	before := s.trips.n.Load()
	known, err := s.Holdings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := s.trips.n.Load() - before; n != 1 {
		t.Errorf("reading the holdings takes %d round trips", n)
	}
	return known
}

func TestAFillNotesItsHospitalInItsOwnRoundTrip(t *testing.T) {
	s := newHolder(t)
	s.fill(t, "H001", "T0", "APPROVED") // once, so that Redis knows the scripts
	for status, hot := range map[string]bool{
		"REGISTERED": true, "requested": true, "KREQ": true, "SOMETHING_NEW": true,
		"APPROVED": false, "APR": false, "REJECTED": false, "DELETED": false,
	} {
		id := "H-" + status
		earliest := time.Now().Add(time.Hour + time.Minute - 2*time.Second).UnixMilli() // its life and its fence's
		s.fill(t, id, "T1", status)
		k := s.known(t)[id]
		if (k.Hot > earliest) != hot || (k.Cold > earliest) == hot || k.Hot+k.Cold > time.Now().Add(time.Hour+time.Minute+2*time.Second).UnixMilli() {
			t.Errorf("%s: known is %+v", status, k)
		}
	}
	s.fill(t, "H-APPROVED", "T2", "REQUESTED")
	if k := s.known(t)["H-APPROVED"]; k.Hot == 0 || k.Cold == 0 {
		t.Errorf("both kinds: %+v", k)
	}
	keys := s.redis.Client.Keys(t.Context(), "alimtalk-syncer:[hc]o*").Val()
	if len(keys) != 2 {
		t.Errorf("the sets are %q", keys)
	}
	for _, key := range keys {
		if ttl := s.redis.Client.PTTL(t.Context(), key).Val(); ttl <= time.Hour || ttl > time.Hour+time.Minute {
			t.Errorf("%s lives %v", key, ttl)
		}
		if strings.Contains(key, "infotalk") || len(key) > 60 {
			t.Errorf("%s is not named by a hash of the format", key)
		}
	}
}

func TestARefusedFillIsAtMostALookTooMany(t *testing.T) {
	s := newHolder(t)
	stored, err := s.Store(t.Context(), hospitals.Hospital{ID: "H001"}, "T1", "no such token", document("T1", "REQUESTED"))
	if stored || err != nil {
		t.Errorf("stored %v, %v", stored, err)
	}
}

func TestAFillThatCannotBeNotedIsStoredAndSaysSo(t *testing.T) {
	s := newHolder(t)
	s.fill(t, "H001", "T1", "REQUESTED")
	key := s.redis.Client.Keys(t.Context(), "alimtalk-syncer:hot:*").Val()[0]
	s.redis.Client.Set(t.Context(), key, "no sorted set", time.Minute)
	h := hospitals.Hospital{ID: "H001"}
	look, err := s.Look(t.Context(), h, "T2")
	if err != nil {
		t.Fatal(err)
	}
	stored, err := s.Store(t.Context(), h, "T2", look.Token, document("T2", "REQUESTED"))
	if !stored || err == nil || !strings.Contains(err.Error(), "noting") {
		t.Errorf("stored %v, %v", stored, err)
	}
	if _, err := s.Holdings(t.Context()); err == nil {
		t.Error("the holdings can be read")
	}
}

func TestCorrectionsTakeOneRoundTripAndSpareWhatIsNewer(t *testing.T) {
	s := newHolder(t)
	for _, id := range []string{"H001", "H002", "H003"} {
		s.fill(t, id, "T1", "REQUESTED")
	}
	read := s.known(t)
	for time.Now().UnixMilli() <= read["H002"].Hot-(time.Hour+time.Minute).Milliseconds() { // so that the next note is another
		time.Sleep(time.Millisecond)
	}
	s.fill(t, "H002", "T2", "REQUESTED") // since it was read
	before := s.trips.n.Load()
	err := s.Correct(t.Context(), []templates.Correction{
		{HospitalID: "H001", Was: read["H001"], Is: order.Holding{Cold: read["H001"].Hot}}, // approved
		{HospitalID: "H002", Was: read["H002"]},                                            // nothing was left
		{HospitalID: "H003", Was: read["H003"]},
		{HospitalID: "H004", Is: order.Holding{Hot: time.Now().Add(time.Hour).UnixMilli()}}, // another program's
	})
	if n := s.trips.n.Load() - before; err != nil || n != 1 {
		t.Errorf("%d round trips, %v", n, err)
	}
	known := s.known(t)
	if ids := slices.Sorted(maps.Keys(known)); !slices.Equal(ids, []string{"H001", "H002", "H004"}) {
		t.Errorf("known are %v", known)
	}
	if k := known["H001"]; k.Hot != 0 || k.Cold == 0 {
		t.Errorf("approved: %+v", k)
	}
	if known["H002"].Hot <= read["H002"].Hot || known["H004"].Hot == 0 {
		t.Errorf("known are %v, were %v", known, read)
	}
	before = s.trips.n.Load()
	if err := s.Correct(t.Context(), nil); err != nil || s.trips.n.Load() != before {
		t.Error("nothing to correct, and yet Redis is asked")
	}
}

func TestWhatHasRunOutGoesFromTheHoldings(t *testing.T) {
	s := newHolder(t)
	s.fill(t, "H001", "T1", "REQUESTED")
	key := s.redis.Client.Keys(t.Context(), "alimtalk-syncer:hot:*").Val()[0]
	s.redis.Client.ZAdd(t.Context(), key, redis.Z{Score: float64(time.Now().Add(-time.Second).UnixMilli()), Member: "H999"})
	s.fill(t, "H002", "T1", "REQUESTED")
	if ids := slices.Sorted(maps.Keys(s.known(t))); !slices.Equal(ids, []string{"H001", "H002"}) {
		t.Errorf("known are %v", ids)
	}
}

func TestAHitInReviewIsVerifiedFirst(t *testing.T) {
	var verify func(hospitals.Hospital) bool
	asked := 0
	s := newSetup(t, func(_ *templates.CacheOptions, ro *templates.ReaderOptions) {
		ro.Verify = func(_ context.Context, h hospitals.Hospital) bool {
			asked++
			return verify(h)
		}
	})
	put := func(status string) { s.redis.Client.Set(t.Context(), entryKey, document("T1", status).Raw, time.Hour) }
	s.surem.set(func() { s.surem.status = "APPROVED" })

	put("REQUESTED")
	verify = func(hospitals.Hospital) bool { return false }
	s.read(t, templates.Hit, "REQUESTED") // no look could be had: it is served as it is

	verify = func(h hospitals.Hospital) bool {
		if h != s.h {
			t.Errorf("another hospital is looked at: %v", h)
		}
		return true
	}
	s.read(t, templates.Hit, "REQUESTED") // the look has found that it agrees

	verify = func(hospitals.Hospital) bool {
		s.redis.Client.Del(t.Context(), entryKey)
		return true
	}
	s.read(t, templates.Stored, "APPROVED") // the look has deleted it
	if asked != 3 {
		t.Errorf("asked %d times, want 3", asked)
	}
	s.read(t, templates.Hit, "APPROVED")
	put("REJECTED")
	s.read(t, templates.Hit, "REJECTED")
	if asked != 3 {
		t.Error("a settled state is verified")
	}

	put("REQUESTED")
	verify = func(hospitals.Hospital) bool {
		s.redis.Kill()
		return true
	}
	s.read(t, templates.Bypass, "APPROVED") // Redis does not say what stands there now
}
