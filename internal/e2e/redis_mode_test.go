package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"alimtalk-syncer/internal/redistest"
)

// modeWorld is a clinic of three hospitals of five templates each, the first four of them
// cached, on a Redis that is not one server alone.
type modeWorld struct {
	*world
	rdb redis.UniversalClient // the test's own
}

func newModeWorld(t *testing.T, mode, url string, rdb redis.UniversalClient, node *redistest.Server) *modeWorld {
	t.Helper()
	w := &modeWorld{world: newWorldOn(t, &redisServer{node, t}, "H001", "H002", "H003"), rdb: rdb}
	w.env["REDIS_MODE"], w.env["REDIS_URL"] = mode, url
	for _, h := range []string{"H001", "H002", "H003"} {
		for i := range 5 {
			one := template{code: fmt.Sprintf("T%d", i+1), status: "APPROVED", version: h}
			w.offer(h, one)
			if i < 4 {
				w.put(h, one)
			}
		}
	}
	return w
}

func onSentinel(t *testing.T) (*modeWorld, *redistest.SentinelSet) {
	t.Helper()
	set := redistest.StartSentinel(t, 3)
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: []string{set.Sentinels[0].Addr}, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return newModeWorld(t, "sentinel", set.URL(), rdb, set.Nodes[0]), set
}

func onCluster(t *testing.T, replicas int) (*modeWorld, *redistest.ClusterSet) {
	t.Helper()
	set := redistest.StartCluster(t, replicas)
	return newModeWorld(t, "cluster", set.URL(), set.Client, set.Nodes[0]), set
}

func (w *modeWorld) put(h string, one template) {
	w.t.Helper()
	if err := w.rdb.Set(context.Background(), key(h, one.code), one.document(), aLongTime).Err(); err != nil {
		w.t.Fatal("redis set:", err)
	}
}

// raw is what an entry holds, "" where there is none.
func (w *modeWorld) raw(h, code string) string {
	w.t.Helper()
	v, err := w.rdb.Get(context.Background(), key(h, code)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		w.t.Fatal("redis get:", err)
	}
	return v
}

// failOver has a daemon's Redis fail over in the middle of passes and loads. failover kills the
// primary of H001's keys and returns when another node has taken over. In a fleet there is a
// second replica.
func failOver(t *testing.T, w *modeWorld, fleet bool, failover func()) {
	d := w.start(fmt.Sprint("FLEET=", fleet))
	if fleet {
		w.start("FLEET=true")
	}
	w.surem.awaitReadings(senderKey("H001"), 1)
	reads := d.traffic(t, "T1", "T2", "T3", "T4", "T5")
	d.read("H001", "T5").want(t, http.StatusOK)

	// A load that has taken its token, and a pass that has begun, when the primary dies.
	w.offer("H001", template{code: "T6", status: "REQUESTED", version: "old"})
	load := w.surem.hold(detail, senderKey("H001"), 1, "T6")
	before := inBackground(func() answer { return d.read("H001", "T6") })
	load.await(1)
	pass := w.surem.hold(summaries, senderKey("H001"), 1)
	pass.await(1)
	failover()
	pass.release()
	d.awaitReady(http.StatusOK, "redis: away", false)

	// What the reviewers decided meanwhile is known after the next pass, and the load's document
	// is no longer one to be stored.
	approved := template{code: "T6", status: "APPROVED", version: "new"}
	w.offer("H001", approved)
	w.surem.setStatus(senderKey("H001"), "T1", "REQUESTED")
	w.surem.setStatus(senderKey("H002"), "T1", "REQUESTED")
	w.surem.setStatus(senderKey("H003"), "T1", "REQUESTED")
	success := d.metric("syncer_sync_last_success_timestamp_seconds")
	eventually(t, soon, "no hospital fails", func() bool {
		return d.metric("syncer_hospitals_failing") == 0 && d.metric("syncer_sync_last_success_timestamp_seconds") > success
	})
	w.surem.awaitReadings(senderKey("H001"), 1)
	load.release()
	receive(t, soon, "the read of before", before).want(t, http.StatusOK)
	if raw := w.raw("H001", "T6"); raw != "" && raw != approved.document() {
		t.Errorf("a stale document is stored: %s", raw)
	}
	d.read("H001", "T6").document(t, approved)
	for _, h := range []string{"H001", "H002", "H003"} {
		now := template{code: "T1", status: "REQUESTED", version: h}
		eventually(t, soon, "what changed is gone from Redis", func() bool { return !strings.Contains(w.raw(h, "T1"), "APPROVED") })
		d.read(h, "T1").document(t, now)
		eventually(t, soon, "reads are hits again", func() bool {
			return d.read(h, "T2").header.Get("Cache-Status") == "alimtalk-syncer; hit"
		})
	}
	reads.wantAll(away)
	d.get("/healthz").want(t, http.StatusOK)
	if n := strings.Count(d.stderr.String(), `"redis away"`); n < 1 || n > 30 { // a machine that stands still adds some
		t.Errorf("the log says %d times that Redis is away", n)
	}
}

func TestASentinelsFailoverAmongPassesAndLoads(t *testing.T) {
	t.Parallel()
	w, set := onSentinel(t)
	failOver(t, w, false, set.Failover)
}

func TestASentinelsFailoverAmongAFleet(t *testing.T) {
	t.Parallel()
	w, set := onSentinel(t)
	failOver(t, w, true, set.Failover)
}

func TestAClustersFailoverAmongPassesAndLoads(t *testing.T) {
	t.Parallel()
	w, set := onCluster(t, 1)
	failOver(t, w, false, func() { set.Failover(set.Slot(key("H001", ""))) })
}

func TestAClustersFailoverAmongAFleet(t *testing.T) {
	t.Parallel()
	w, set := onCluster(t, 1)
	failOver(t, w, true, func() { set.Failover(set.Slot(key("H001", ""))) })
}

func TestASentinelsPrimaryThatHangsIsReplaced(t *testing.T) {
	t.Parallel()
	w, set := onSentinel(t)
	hang(t, w, set.Primary)
}

func TestAClustersPrimaryThatHangsIsReplaced(t *testing.T) {
	t.Parallel()
	w, set := onCluster(t, 1)
	slot := set.Slot(key("H001", ""))
	hang(t, w, func() *redistest.Server { return set.Owner(slot) })
}

// hang freezes the primary of H001's keys until another has taken over.
func hang(t *testing.T, w *modeWorld, primary func() *redistest.Server) {
	d := w.start()
	w.surem.awaitReadings(senderKey("H001"), 1)
	reads := d.traffic(t, "T1", "T2", "T3")
	frozen := &redisServer{primary(), t}
	frozen.freeze()
	eventually(t, 2*soon, "another primary takes over", func() bool { return primary() != frozen.Server })
	d.awaitReady(http.StatusOK, "redis: away", false)
	eventually(t, soon, "reads are hits again", func() bool {
		return d.read("H001", "T1").header.Get("Cache-Status") == "alimtalk-syncer; hit"
	})
	// It comes back and still takes itself for the primary, until it is told.
	frozen.thaw()
	w.surem.setStatus(senderKey("H001"), "T1", "REQUESTED")
	w.surem.awaitReadings(senderKey("H001"), 2)
	d.read("H001", "T1").document(t, template{code: "T1", status: "REQUESTED", version: "H001"})
	reads.wantAll(away)
}

// A slot moves, slowly, while passes and reads of its hospital go on.
func TestASlotThatMovesAmongPassesAndReads(t *testing.T) {
	t.Parallel()
	w, set := onCluster(t, 0)
	d := w.start()
	w.surem.awaitReadings(senderKey("H001"), 1)
	reads := d.traffic(t, "T1", "T2", "T3", "T4", "T5")
	slot := set.Slot(key("H001", ""))
	var failed atomic.Bool
	set.Move(slot, set.Others(slot)[0], func() {
		w.surem.awaitReadings(senderKey("H001"), 2)
		failed.Store(d.metric("syncer_hospitals_failing") != 0)
		for _, code := range []string{"T2", "T3", "T4"} {
			d.read("H001", code).want(t, http.StatusOK).via(t, "hit")
		}
		// What changes now is noticed now, and goes now or with the pass after the move.
		w.surem.setStatus(senderKey("H001"), "T1", "REQUESTED")
		w.surem.setStatus(senderKey("H001"), "T4", "REQUESTED")
		w.surem.awaitReadings(senderKey("H001"), 1)
	})
	if failed.Load() {
		t.Error("passes fail while a slot moves, though they have nothing to delete")
	}
	w.surem.awaitReadings(senderKey("H001"), 1)
	for _, code := range []string{"T1", "T4"} {
		d.read("H001", code).document(t, template{code: code, status: "REQUESTED", version: "H001"})
		eventually(t, soon, "fills are stored on the new node", func() bool { d.read("H001", code); return w.raw("H001", code) != "" })
	}
	eventually(t, soon, "no hospital fails", func() bool { return d.metric("syncer_hospitals_failing") == 0 })
	reads.wantAll(away)
}

func TestTLSWithCertificatesThatAreRenewed(t *testing.T) {
	t.Parallel()
	ca := redistest.NewCA(t)
	node := redistest.StartTLS(t, ca)
	w := newModeWorld(t, "single", "rediss://"+node.Addr, node.Client, node)
	cert, key := ca.Issue("syncer")
	w.env["REDIS_CA_FILE"], w.env["REDIS_CERT_FILE"], w.env["REDIS_KEY_FILE"] = ca.File, cert, key
	d := w.start()
	d.read("H001", "T1").want(t, http.StatusOK).via(t, "hit")
	eventually(t, soon, "fills are stored", func() bool { d.read("H001", "T5").want(t, http.StatusOK); return w.raw("H001", "T5") != "" })
	w.surem.setStatus(senderKey("H001"), "T1", "REQUESTED")
	eventually(t, soon, "what changed is gone", func() bool { return w.raw("H001", "T1") == "" })
	// The certificates are renewed, and all connections are new.
	ca.Issue("syncer")
	if err := node.Client.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "reads are hits again", func() bool {
		return d.read("H001", "T2").header.Get("Cache-Status") == "alimtalk-syncer; hit"
	})
	if shown := w.command([]string{"config"}).want(t, 0).stdout; !strings.Contains(shown, "REDIS_URL=rediss://"+node.Addr+"/0\n") || !strings.Contains(shown, "REDIS_KEY_FILE="+key+"\n") {
		t.Errorf("the settings show\n%s", shown)
	}
}

func TestFaultsOfTheRedisSettingsEndWithTwo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	r := w.command([]string{"run"}, "REDIS_MODE=cluster", "REDIS_URL=redis://:surem-redis-pw@h:7000/1", "CACHE_KEY_FORMAT=t:<hospitalId>:<templateCode>", "REDIS_CA_FILE=/nowhere/ca.pem").want(t, 2)
	for _, want := range []string{"REDIS_URL=[hidden]: must be ", "CACHE_KEY_FORMAT=", "REDIS_CA_FILE=\"/nowhere/ca.pem\": cannot be read"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("no line %s in\n%s", want, r.stderr)
		}
	}
	if strings.Contains(r.String(), "surem-redis-pw") {
		t.Errorf("the password is shown:\n%s", r)
	}
}
