package contract

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/fleet"
	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/templates"
)

var sender = hospitals.Sender{UserCode: "clinic", Key: "sender-key"}

func aTickIsClaimedOnce(t *testing.T, w *way) {
	mine, theirs := fleet.NewClaims(w.connect(t), keys), fleet.NewClaims(w.connect(t), keys)
	end := time.Now().Add(time.Minute)
	first, second := mine.Tick(end), theirs.Tick(end)
	claim := func(tick *fleet.Tick) fleet.Claim {
		t.Helper()
		c, err := tick.Claim(t.Context(), sender)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if !claim(first).Won || claim(second).Won || !claim(first).Won {
		t.Error("a tick's claim is not the first one's, now and when it asks again")
	}
	if err := theirs.Ended(t.Context(), sender, true); err != nil {
		t.Error(err)
	}
	if c := claim(second); !c.Failing || c.Ago < 0 || c.Ago > 10*time.Second {
		t.Errorf("%+v, want a sender key that fails, claimed just now", c)
	}
	if err := theirs.Ended(t.Context(), sender, false); err != nil {
		t.Error(err)
	}
	if c := claim(theirs.Tick(end.Add(time.Minute))); !c.Won || c.Failing {
		t.Errorf("the next tick: %+v", c)
	}
	looked, err := mine.Looked(t.Context())
	if at := looked[fleet.Unit(sender)]; err != nil || len(looked) != 1 || time.Since(at).Abs() > 10*time.Second {
		t.Errorf("looked at: %v, %v", looked, err)
	}
}

func theLimitIsShared(t *testing.T, w *way) {
	figures := metrics.New("", "", "")
	limit := func() *fleet.Limit {
		return fleet.NewLimit(w.connect(t), fleet.LimitOptions{Keys: keys, Rate: 0.1, Burst: 5, Metrics: figures, Log: zerolog.Nop()})
	}
	mine, theirs := limit(), limit()
	waits := func(account string) (waits []time.Duration) {
		for range 4 {
			waits = append(waits, mine.Take(account, false), theirs.Take(account, false))
		}
		return waits
	}
	alone := func() float64 {
		var figure dto.Metric
		if err := figures.FleetSlots.WithLabelValues("alone").Write(&figure); err != nil {
			t.Fatal(err)
		}
		return figure.GetCounter().GetValue()
	}
	for try := range 10 {
		before := alone()
		got := waits(fmt.Sprint("clinic", try))
		if alone() > before {
			continue // the machine stood still for so long that a replica kept the limit alone
		}
		for i, wait := range got {
			if (wait > 0) != (i >= 5) || wait > 10*time.Second {
				t.Errorf("slot %d is to be had after %v", i+1, wait)
			}
		}
		return
	}
	t.Error("Redis never answered for the limit")
}

func aLoadsClaimIsRenewedReleasedAndRunsOut(t *testing.T, w *way) {
	mine, theirs := w.cache(t), w.cache(t)
	h := hospital("H1")
	claimed := func(cache *templates.Cache, load string) bool {
		t.Helper()
		look, err := cache.LookAndClaim(t.Context(), h, "T1", load)
		if err != nil || look.Held == look.Claimed || look.Claimed != (look.Token != "") {
			t.Fatalf("%+v, %v", look, err)
		}
		return look.Claimed
	}
	if !claimed(mine, "mine") || claimed(theirs, "theirs") || !claimed(mine, "mine") {
		t.Error("a claim is not the first one's, now and when it asks again")
	}
	if ours, err := theirs.Renew(t.Context(), h, "T1", "theirs"); ours || err != nil {
		t.Errorf("another's claim is renewed: %t, %v", ours, err)
	}
	if err := theirs.Release(t.Context(), h, "T1", "theirs"); err != nil || claimed(theirs, "theirs") {
		t.Errorf("another's claim is released: %v", err)
	}
	if ours, err := mine.Renew(t.Context(), h, "T1", "mine"); !ours || err != nil {
		t.Errorf("a claim is not renewed: %t, %v", ours, err)
	}
	if err := mine.Release(t.Context(), h, "T1", "mine"); err != nil || !claimed(theirs, "theirs") {
		t.Errorf("a claim is not released: %v", err)
	}
	for begun := time.Now(); !claimed(mine, "mine"); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > 3*time.Second {
			t.Fatal("a claim that nobody renews does not run out")
		}
	}
}

// loads is a Source that counts, and answers when it is told to.
type loads struct {
	calls atomic.Int32
	hold  chan struct{}
}

func (s *loads) Detail(ctx context.Context, _ hospitals.Hospital, code string) (templates.Document, error) {
	s.calls.Add(1)
	select {
	case <-s.hold:
		return document(code, "REQUESTED"), nil
	case <-ctx.Done():
		return templates.Document{}, ctx.Err()
	}
}

func (w *way) reader(t *testing.T, source templates.Source) *templates.Reader {
	t.Helper()
	cache := w.cache(t)
	cache.Fleet = true
	r := templates.NewReader(templates.ReaderOptions{Cache: cache, Source: source, Metrics: metrics.New("", "", ""), Log: zerolog.Nop(), CoolingMax: 1,
		Flight: flight.Options{LoaderTimeout: 20 * time.Second}})
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	return r
}

func missesOnTwoReplicasAreOneLoad(t *testing.T, w *way) {
	source := &loads{hold: make(chan struct{})}
	var readers sync.WaitGroup
	for range 2 {
		r := w.reader(t, source)
		for range 20 {
			readers.Go(func() {
				if got, err := r.Read(t.Context(), hospital("H1"), "T1"); err != nil || got.Document != document("T1", "REQUESTED").Raw {
					t.Errorf("read: %+v, %v", got, err)
				}
			})
		}
	}
	// Longer than a claim lives, so that it must be renewed.
	time.AfterFunc(2*time.Second, func() { close(source.hold) })
	readers.Wait()
	if n := source.calls.Load(); n != 1 {
		t.Errorf("%d loads", n)
	}
}

// fleets sends what a replica sends.
func fleets(t *testing.T, w *way) {
	t.Helper()
	aTickIsClaimedOnce(t, w)
	theLimitIsShared(t, w)
	aLoadsClaimIsRenewedReleasedAndRunsOut(t, w)
}
