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

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/templates"
)

func TestABurstOverThreeReplicasIsOneCall(t *testing.T) {
	t.Parallel()
	server, replicas := newFleet(t, 3)
	asked, let := replicas[0].hold()
	defer let()
	reads := []<-chan readResult{replicas[0].read()}
	await(t, asked)
	const burst = 50
	for range burst {
		for _, r := range replicas {
			reads = append(reads, r.read())
		}
	}
	for i, r := range replicas {
		eventually(t, "its readers wait", func() bool { return r.reader.Stats().Waiters == burst+(2-i)/2 })
	}
	replicas[1].waits()
	replicas[2].waits()
	let()
	via := make(map[templates.Via]int)
	for _, read := range reads {
		got := <-read
		got.is(t, "one of the burst", got.Via, "REQUESTED")
		via[got.Via]++
	}
	if via[templates.Stored] != 1 || via[templates.Collapsed] != 3*burst {
		t.Errorf("the answers came via %v: one was stored, the others have joined that load", via)
	}
	for i, r := range replicas {
		calls, won, lost, runs := r.surem.calls.Load(), r.claims("won"), r.claims("lost"), r.figures.Figures().FlightStarted
		if first := min(1, i); int(calls) != 1-first || won != 1-first || lost != first || runs != 1 {
			t.Errorf("replica %d: %d calls, %d claims won, %d lost, %d runs", i, calls, won, lost, runs)
		}
	}
	released(t, server)
}

// A load that lasts longer than a claim lives keeps it.
func TestAClaimIsRenewedAsLongAsItsLoadRuns(t *testing.T) {
	t.Parallel()
	server, replicas := newFleet(t, 2)
	asked, let := replicas[0].hold()
	defer let()
	first := replicas[0].read()
	await(t, asked)
	second := replicas[1].read()
	replicas[1].waits()
	for until := time.Now().Add(2 * claimLife); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if len(loadClaims(t, server)) == 0 || replicas[1].surem.calls.Load() > 0 {
			t.Fatal("the claim ran out while its load was running")
		}
	}
	let()
	(<-first).is(t, "who loads", templates.Stored, "REQUESTED")
	(<-second).is(t, "who waits", templates.Collapsed, "REQUESTED")
	released(t, server)
}

// Who waits for a replica that is no more is served within two seconds.
func TestAClaimRunsOutUnderAReplicaThatWasKilled(t *testing.T) {
	_, replicas := newFleet(t, 3)
	asked, let := replicas[0].hold()
	defer let()
	replicas[0].read()
	await(t, asked)
	waiting := []<-chan readResult{replicas[1].read(), replicas[2].read()}
	replicas[1].waits()
	replicas[2].waits()
	killed := time.Now()
	replicas[0].proxy.Close() // as kill -9 does: nothing of it comes to Redis any more
	for _, w := range waiting {
		got := <-w
		got.is(t, "who waited", got.Via, "REQUESTED")
	}
	if took := time.Since(killed); took > 2*time.Second {
		t.Errorf("who waited was served after %v", took)
	}
	if calls := replicas[1].surem.calls.Load() + replicas[2].surem.calls.Load(); calls != 1 {
		t.Errorf("the two that waited made %d calls", calls)
	}
}

// A load that fails leaves the template to those who wait, at once, one after the other.
func TestAfterAFailedLoadTheOthersLoadThemselves(t *testing.T) {
	t.Parallel()
	server, replicas := newFleet(t, 3)
	asked, let := replicas[0].hold()
	broken := errors.New("SureM is in trouble")
	replicas[0].surem.set(func() { replicas[0].surem.fail = broken })
	first := replicas[0].read()
	await(t, asked)
	waiting := []<-chan readResult{replicas[1].read(), replicas[2].read()}
	replicas[1].waits()
	replicas[2].waits()
	failed := time.Now()
	let()
	if got := <-first; !errors.Is(got.err, broken) {
		t.Errorf("who loads: %v", got.err)
	}
	via := make(map[templates.Via]int)
	for _, w := range waiting {
		got := <-w
		got.is(t, "who waited", got.Via, "REQUESTED")
		via[got.Via]++
	}
	if via[templates.Stored] != 1 || via[templates.Collapsed] != 1 {
		t.Errorf("who waited was served via %v", via)
	}
	if took := time.Since(failed); took > claimLife*2/3 {
		t.Errorf("the claim of a failed load was not released: who waited was served after %v", took)
	}
	released(t, server)
}

// A pass may fence while a load runs: what that one has in hand is for nobody who waits elsewhere.
func TestARefusedStoreIsLoadedAnewByThoseWhoWait(t *testing.T) {
	t.Parallel()
	server, replicas := newFleet(t, 2)
	asked, let := replicas[0].hold()
	first := replicas[0].read()
	await(t, asked)
	second := replicas[1].read()
	replicas[1].waits()
	replicas[1].surem.set(func() { replicas[1].surem.status = "APPROVED" })
	if _, err := replicas[1].cache.FenceAndRead(t.Context(), replicas[1].h, []string{"T1"}, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	let()
	(<-first).is(t, "who came before the pass and loads", templates.Missed, "REQUESTED")
	(<-second).is(t, "who waits", templates.Stored, "APPROVED")
	released(t, server)
}

// heldEntry holds back, once, the reply of a look that has found an entry.
type heldEntry struct {
	trips // for the other hooks
	once  sync.Once
	found chan struct{} // closed when there is one
	let   chan struct{} // it is held until this is closed
}

func (e *heldEntry) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if look, ok := cmd.(*redis.Cmd); ok {
			if answer, ok := look.Val().([]any); ok && answer[0] == "entry" {
				e.once.Do(func() {
					close(e.found)
					<-e.let
				})
			}
		}
		return err
	}
}

// What another replica has stored may be deleted by a pass while it is on its way to those who
// waited. Who comes after that pass must not get it.
func TestAnEntryThatWasWaitedForIsForThoseWhoCameBeforeTheLook(t *testing.T) {
	t.Parallel()
	_, replicas := newFleet(t, 2)
	loads, waits := replicas[0], replicas[1]
	held := &heldEntry{found: make(chan struct{}), let: make(chan struct{})}
	waits.rdb.AddHook(held)
	asked, let := loads.hold()
	first := loads.read()
	await(t, asked)
	before := waits.read()
	waits.waits()
	let()
	(<-first).is(t, "who loads", templates.Stored, "REQUESTED")
	await(t, held.found)

	waits.surem.set(func() { waits.surem.status = "APPROVED" })
	seen, err := loads.cache.FenceAndRead(t.Context(), loads.h, []string{"T1"}, new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	if deleted, err := loads.cache.DeleteIf(t.Context(), loads.h, []string{"T1"}, seen); err != nil || !deleted["T1"] {
		t.Fatal(deleted, err)
	}
	after := waits.read()
	eventually(t, "it joins", func() bool { return waits.reader.Stats().Waiters == 2 })
	close(held.let)
	(<-before).is(t, "who came before the pass", templates.Collapsed, "REQUESTED")
	(<-after).is(t, "who came after the pass", templates.Collapsed, "APPROVED")
}

// A replica that was frozen, here cut off from Redis, for longer than its claim lived must
// neither renew nor release what is another's by then, nor store what a pass has fenced off.
func TestALoadThatWasFrozenTouchesNoOtherClaim(t *testing.T) {
	t.Parallel()
	server, replicas := newFleet(t, 3)
	frozen, taker, waiter := replicas[0], replicas[1], replicas[2]
	asked, let := frozen.hold()
	defer let()
	late := frozen.read()
	await(t, asked)
	cut := func(string) redistest.Fault { return redistest.Cut }
	frozen.fault.Store(&cut)
	eventually(t, "the claim runs out", func() bool { return len(loadClaims(t, server)) == 0 })
	if _, err := taker.cache.FenceAndRead(t.Context(), taker.h, []string{"T1"}, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	taker.surem.set(func() { taker.surem.status = "APPROVED" })
	askedAgain, letTaker := taker.hold()
	defer letTaker()
	taken := taker.read()
	await(t, askedAgain)
	held := loadClaims(t, server)
	waited := waiter.read()
	waiter.waits()

	frozen.fault.Store(nil)
	let()
	(<-late).is(t, "who was frozen", templates.Missed, "REQUESTED")
	if err := frozen.reader.Close(t.Context()); err != nil { // it has renewed and released what it will
		t.Fatal(err)
	}
	now := loadClaims(t, server)
	for key, holder := range held {
		if now[key] != holder {
			t.Error("the claim of the one who took over is gone")
		}
	}
	letTaker()
	(<-taken).is(t, "who took over", templates.Stored, "APPROVED")
	(<-waited).is(t, "who waited", templates.Collapsed, "APPROVED")
	if n := waiter.surem.calls.Load(); n != 0 {
		t.Errorf("who waited made %d calls", n)
	}
}

// One that was only slow finds its claim gone, and gives up on it.
func TestAClaimThatRanOutIsNotRenewed(t *testing.T) {
	t.Parallel()
	server, replicas := newFleet(t, 1)
	asked, let := replicas[0].hold()
	defer let()
	first := replicas[0].read()
	await(t, asked)
	for key := range loadClaims(t, server) {
		server.Client.Set(t.Context(), key, "another", 3*claimLife)
	}
	var renewals atomic.Int32
	count := func(request string) redistest.Fault {
		if strings.Contains(request, ":load:") {
			renewals.Add(1)
		}
		return redistest.None
	}
	replicas[0].fault.Store(&count)
	eventually(t, "it is renewed", func() bool { return renewals.Load() > 0 })
	for until := time.Now().Add(claimLife); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		for _, holder := range loadClaims(t, server) {
			if holder != "another" {
				t.Fatal("it took back what is another's")
			}
		}
	}
	if n := renewals.Load(); n > 2 { // EVALSHA, and EVAL where Redis does not know the script
		t.Errorf("it was renewed in vain with %d commands", n)
	}
	let()
	(<-first).is(t, "who loads", templates.Stored, "REQUESTED")
	if len(loadClaims(t, server)) != 1 {
		t.Error("it released what is another's")
	}
}

// A look that is repeated with the same token may put back a fence that a pass has removed.
func TestEveryLookOfOneWhoWaitsHasAFreshToken(t *testing.T) {
	t.Parallel()
	_, replicas := newFleet(t, 2)
	asked, let := replicas[0].hold()
	defer let()
	first := replicas[0].read()
	await(t, asked)
	var mu sync.Mutex
	fence, load := make(map[string]bool), make(map[string]bool)
	looks := 0
	record := func(request string) redistest.Fault {
		// *10, then a length and a value for each: EVALSHA, hash, 3, entry, fence, claim, token, life, load, life
		if part := strings.Split(request, "\r\n"); strings.HasPrefix(request, "*10\r\n") {
			mu.Lock()
			defer mu.Unlock()
			looks++
			fence[part[14]], load[part[18]] = true, true
		}
		return redistest.None
	}
	replicas[1].fault.Store(&record)
	second := replicas[1].read()
	eventually(t, "it looks again and again", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return looks >= 5
	})
	let()
	<-first
	<-second
	if len(fence) != looks || len(load) != 1 {
		t.Errorf("%d looks had %d tokens for the fence and %d for the load", looks, len(fence), len(load))
	}
}

// The end of a run is the end of its waiting: it asks nobody any more.
func TestWhoWaitsEndsWithItsRun(t *testing.T) {
	t.Parallel()
	_, replicas := newFleet(t, 2)
	asked, let := replicas[0].hold()
	defer let()
	first := replicas[0].read()
	await(t, asked)
	second := replicas[1].read()
	replicas[1].waits()
	if err := replicas[1].reader.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := <-second; !errors.Is(got.err, flight.ErrClosed) {
		t.Errorf("who waited: %v", got.err)
	}
	if n := replicas[1].surem.calls.Load(); n != 0 {
		t.Errorf("it made %d calls", n)
	}
	let()
	(<-first).is(t, "who loads", templates.Stored, "REQUESTED")
}

func TestRedisGoesAwayUnderThoseWhoWait(t *testing.T) {
	t.Parallel()
	server, replicas := newFleet(t, 2)
	asked, let := replicas[0].hold()
	defer let()
	first := replicas[0].read()
	await(t, asked)
	second := replicas[1].read()
	replicas[1].waits()
	went := time.Now()
	server.Kill()
	(<-second).is(t, "who waits", templates.Bypass, "REQUESTED")
	if took := time.Since(went); took > 2*time.Second {
		t.Errorf("who waited was served after %v", took)
	}
	let()
	(<-first).is(t, "who loads", templates.Missed, "REQUESTED")
	server.Restart()
}
