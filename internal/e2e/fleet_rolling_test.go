package e2e

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// balancer sends requests to the replicas that say they are ready, as a load balancer in
// front of them does. It asks them every few milliseconds.
type balancer struct {
	mu    sync.Mutex // guards what follows
	ready []*life
	next  int
}

// follow asks a replica for its readiness until that process has ended.
func (b *balancer) follow(l *life) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		b.set(l, l.get("/readyz").status == http.StatusOK)
		select {
		case <-tick.C:
		case <-l.ended:
			b.set(l, false)
			return
		}
	}
}

func (b *balancer) set(l *life, ready bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, there := range b.ready {
		if there == l {
			if !ready {
				b.ready = append(b.ready[:i:i], b.ready[i+1:]...)
			}
			return
		}
	}
	if ready {
		b.ready = append(b.ready, l)
	}
}

// pick returns the replica whose turn it is, or nil when none is ready.
func (b *balancer) pick() *life {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return nil
	}
	b.next++
	return b.ready[b.next%len(b.ready)]
}

func TestARollingRestartUnderLoadFailsNoRequestAndSkipsNoHospital(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 30, time.Second)
	f.env["SHUTDOWN_DELAY"] = "5s" // what deploy/kubernetes has
	var b balancer
	var following sync.WaitGroup
	t.Cleanup(following.Wait)
	start := func(i int) *life {
		l := f.run(i)
		following.Go(func() { b.follow(l) })
		eventually(t, soon, "a replica is ready", func() bool { return l.get("/readyz").status == http.StatusOK })
		return l
	}
	replicas := []*life{start(1), start(2), start(3)}
	f.awaitTicks(1)

	var requests, failed atomic.Int64
	var load sync.WaitGroup
	ended := make(chan struct{})
	for worker := range 6 {
		load.Go(func() {
			pause := time.NewTicker(5 * time.Millisecond)
			defer pause.Stop()
			for i := worker; ; i++ {
				select {
				case <-ended:
					return
				case <-pause.C:
				}
				id := f.ids[i%len(f.ids)]
				if i%50 == 0 {
					f.redis.do("DEL " + key(id, "T1")) // so that some are loads
				}
				l := b.pick()
				if l == nil {
					failed.Add(1)
					t.Error("no replica is ready")
					return
				}
				requests.Add(1)
				if a := l.read(id, "T1"); a.err != nil || a.status != http.StatusOK {
					failed.Add(1)
					t.Errorf("a read at replica %s: %d %s %v", l.name, a.status, a.body, a.err)
				}
			}
		})
	}
	for i, l := range replicas {
		if code := l.stop(); code != 0 {
			t.Errorf("replica %s ended with %d", l.name, code)
		}
		start(i + 1)
	}
	f.awaitTicks(2)
	close(ended)
	load.Wait()
	f.stop()
	k := f.ledger()
	k.whole(t)
	missed := k.judge(t)
	if requests.Load() < 100 {
		t.Errorf("%d requests are no load", requests.Load())
	}
	t.Logf("%d requests during a rolling restart of three replicas, %d failed; %d ticks of %d hospitals, %d skipped", requests.Load(), failed.Load(), len(k.ticks), len(k.ids), missed)
}
