package toxic

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/redis/go-redis/v9"
)

const redisNil = redis.Nil

// faults are toxiproxy's, by name: type and attributes.
var faults = map[string][2]string{
	"latency":                {"latency", `{"latency":300}`},
	"jitter":                 {"latency", `{"latency":150,"jitter":150}`},
	"slow close":             {"slow_close", `{"delay":1000}`},
	"reset":                  {"reset_peer", `{"timeout":0}`},
	"reset after a while":    {"reset_peer", `{"timeout":100}`},
	"black hole":             {"timeout", `{"timeout":0}`},
	"bandwidth of 1 KB/s":    {"bandwidth", `{"rate":1}`},
	"closed after 100 bytes": {"limit_data", `{"bytes":100}`},
}

// How long what an operator of the daemon asks for may take, and a second.
const (
	readBound = redisBound + loaderTimeout + time.Second
	lookBound = 2*syncTimeout + time.Second
	// A pass that is at work when the fault ends may have a command to Redis in hand (5 s), or a
	// call to SureM; what it did not see, the next tick's does.
	healBound = 5*time.Second + tick + syncTimeout + time.Second
)

func TestRedisBehindAFault(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.through(w.redisPath, fault, func(a answer, hit bool) {
				if a.status != http.StatusOK { // whatever Redis does, SureM is there
					t.Errorf("a read, cached %v: %d after %v: %s", hit, a.status, a.took, a.body)
				}
			})
		})
	}
}

func TestSureMBehindAFault(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.through(w.suremPath, fault, func(a answer, hit bool) {
				if hit && (a.status != http.StatusOK || a.took > time.Second+redisBound) {
					t.Errorf("a read of what is cached: %d after %v: %s", a.status, a.took, a.body)
				}
				if a.status != http.StatusOK && a.status/100 != 5 {
					t.Errorf("a read: %d: %s", a.status, a.body)
				}
			})
		})
	}
}

// through lays a fault on a path for three seconds, both ways, has everything asked for
// meanwhile, and sees to it that all ends in time, nothing is lost and all heals.
func (w *world) through(path *toxiproxy.Proxy, fault [2]string, judge func(a answer, hit bool)) {
	t := w.t
	for _, stream := range []string{"upstream", "downstream"} {
		toxic := fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"toxicity":1,"attributes":%s}`, stream, fault[0], stream, fault[1])
		if _, err := path.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			t.Fatal(err)
		}
	}
	var asking sync.WaitGroup
	end := time.Now().Add(3 * time.Second)
	var mu sync.Mutex
	slowest, failed, asked := map[string]time.Duration{}, map[string]int{}, map[string]int{}
	ask := func(what string, bound time.Duration, f func(i int) answer) {
		asking.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				a := f(i)
				mu.Lock()
				asked[what]++
				slowest[what] = max(slowest[what], a.took.Round(time.Millisecond))
				if a.status/100 != 2 {
					failed[what]++
				}
				mu.Unlock()
				if a.err != nil || a.took > bound {
					t.Errorf("%s: %d after %v, bound %v: %v", what, a.status, a.took, bound, a.err)
				}
			}
		})
	}
	for _, id := range ids {
		ask("a hit", readBound, func(i int) answer { a := w.read(id, codes[i%3]); judge(a, true); return a })
		ask("a miss", readBound, func(int) answer { a := w.read(id, "T5"); judge(a, false); return a })
	}
	ask("a list", lookBound, func(int) answer { return w.do(http.MethodGet, "/v1/hospitals/H001/templates") })
	ask("a POST", lookBound, func(int) answer { return w.do(http.MethodPost, "/v1/hospitals/H002/sync") })
	ask("a DELETE", lookBound, func(int) answer { return w.do(http.MethodDelete, "/v1/hospitals/H003/templates/T6") })
	ask("/healthz", time.Second, func(int) answer {
		a := w.do(http.MethodGet, "/healthz")
		if a.status != http.StatusOK {
			t.Errorf("/healthz: %d %s", a.status, a.body)
		}
		return a
	})
	ask("/readyz", 2*time.Second, func(int) answer { return w.do(http.MethodGet, "/readyz") })

	// A reviewer's decision meanwhile, which may be seen at once or after the fault.
	for _, id := range ids {
		if err := w.SetStatus(senderKey(id), "T4", "REQUESTED"); err != nil {
			t.Fatal(err)
		}
		delete(w.documents, key(id, "T4"))
	}
	asking.Wait()
	t.Logf("asked %v, failed %v, slowest %v", asked, failed, slowest)
	if (fault[0] == "reset_peer" || fault[0] == "timeout") && len(failed) == 0 {
		t.Error("the fault was not felt")
	}
	w.nothingLost()

	path.Toxics.ResetToxics(context.Background())
	began := time.Now()
	eventually(t, healBound, "what has changed is gone, or new", func() bool {
		for _, id := range ids {
			if document, there := w.cached(key(id, "T4")); there && !strings.Contains(document, `"REQUESTED"`) {
				return false
			}
		}
		return true
	})
	eventually(t, healBound, "no hospital fails", func() bool { return w.metric("syncer_hospitals_failing") == 0 })
	eventually(t, healBound, "/readyz has nothing to say", func() bool { return w.do(http.MethodGet, "/readyz").body == "ok\n" })
	t.Logf("healed after %v", time.Since(began).Round(time.Millisecond))
	for _, id := range ids {
		eventually(t, healBound, "misses are answered, and stored", func() bool {
			a := w.read(id, "T5")
			_, stored := w.cached(key(id, "T5"))
			return a.status == http.StatusOK && stored
		})
	}
	w.nothingLost()
}

// nothingLost holds the entries that agree with SureM against what they were.
func (w *world) nothingLost() {
	w.t.Helper()
	for k, document := range w.documents {
		if now, there := w.cached(k); !there || now != document {
			w.t.Errorf("%s is lost, or another: %q", k, now)
		}
		if ttl := w.redis.Client.PTTL(context.Background(), k).Val(); ttl < 50*time.Minute {
			w.t.Errorf("%s lives for %v", k, ttl)
		}
	}
}
