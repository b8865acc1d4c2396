package templates_test

import (
	"context"
	"errors"
	"strings"
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
	rdb := templates.Connect(&redis.Options{Addr: r.proxy.Addr, Username: user, Password: user})
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
func (r *replica) claims(result string) int {
	var shown dto.Metric
	if err := r.figures.FleetClaims.WithLabelValues("load", result).Write(&shown); err != nil {
		r.t.Error(err)
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
	if _, err := replicas[1].cache.FenceAndRead(t.Context(), replicas[1].h, []string{"T1"}); err != nil {
		t.Fatal(err)
	}
	let()
	(<-first).is(t, "who came before the pass and loads", templates.Missed, "REQUESTED")
	(<-second).is(t, "who waits", templates.Stored, "APPROVED")
	released(t, server)
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
	if _, err := taker.cache.FenceAndRead(t.Context(), taker.h, []string{"T1"}); err != nil {
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
