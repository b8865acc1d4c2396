package e2e

import (
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// line is one replica's way to Redis, which can be cut while the others' stands.
type line struct {
	t      testing.TB
	server string
	listen net.Listener
	alive  sync.WaitGroup

	mu    sync.Mutex // guards what follows
	state lineState
	conns map[net.Conn]bool
}

type lineState int

const (
	healthy lineState = iota
	broken            // connections are reset
	silent            // nothing comes through
	gone
)

func newLine(t testing.TB, server string) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &line{t: t, server: server, listen: l, conns: map[net.Conn]bool{}}
	n.alive.Go(n.accept)
	t.Cleanup(func() {
		_ = l.Close()
		n.set(gone)
		n.alive.Wait()
	})
	return n
}

func (n *line) url() string { return "redis://" + n.listen.Addr().String() + "/0" }

// set cuts the line, or heals it. What was said into silence is lost.
func (n *line) set(state lineState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state = state
	if state != silent {
		for c := range n.conns {
			_ = c.Close()
		}
	}
}

func (n *line) is(state lineState) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state == state
}

// own notes a connection, which ends with a change of the line's state.
func (n *line) own(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == broken || n.state == gone {
		_ = c.Close()
		return false
	}
	n.conns[c] = true
	return true
}

func (n *line) disown(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
	_ = c.Close()
}

func (n *line) accept() {
	for {
		client, err := n.listen.Accept()
		if err != nil {
			return
		}
		n.alive.Go(func() { n.serve(client) })
	}
}

func (n *line) serve(client net.Conn) {
	if !n.own(client) {
		return
	}
	defer n.disown(client)
	server, err := net.Dial("tcp", n.server)
	if err != nil || !n.own(server) {
		return
	}
	defer n.disown(server)
	n.alive.Go(func() {
		defer n.disown(client)
		n.pass(client, server)
	})
	n.pass(server, client)
}

// pass copies until either end is closed, and drops what comes while the line is silent.
func (n *line) pass(to io.Writer, from io.Reader) {
	buffer := make([]byte, 1<<16)
	for {
		k, err := from.Read(buffer)
		if err != nil {
			return
		}
		if n.is(silent) {
			continue
		}
		if _, err := to.Write(buffer[:k]); err != nil {
			return
		}
	}
}

func TestAReplicaCutOffFromRedisHurtsNeitherItsReadersNorTheOthers(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]lineState{"connections are reset": broken, "nothing answers": silent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 12, time.Second)
			way := newLine(t, f.redis.Addr)
			lonely := f.run(1, "REDIS_URL="+way.url(), "FLIGHT_FAILURE_COOLDOWN=0s")
			f.run(2)
			f.run(3)
			f.awaitTicks(2)
			f.offer("H001", v1)
			lonely.read("H001", "T1").want(t, http.StatusOK)

			way.set(state)
			cut := time.Now()
			eventually(t, soon, "the replica knows", func() bool {
				a := lonely.read("H001", "T1").want(t, http.StatusOK)
				return a.header.Get("Cache-Status") == "alimtalk-syncer; fwd=bypass"
			})
			f.offer("H001", v2)
			quickest := soon
			for range 3 { // more than once only for the sake of a busy machine
				a := lonely.read("H001", "T1")
				a.document(t, v2).via(t, "fwd=bypass")
				quickest = min(quickest, a.took)
			}
			if quickest > 2*time.Second {
				t.Errorf("a read takes %v at best, Redis away adds less than two seconds", quickest)
			}
			if lonely.metric(`syncer_fleet_slots_total{result="alone"}`) == 0 {
				t.Error("it does not say that it keeps the limit alone")
			}
			lonely.get("/healthz").want(t, http.StatusOK)
			lonely.get("/readyz").want(t, http.StatusOK)
			f.awaitTicks(1)
			success := lonely.metric("syncer_sync_last_success_timestamp_seconds")
			f.awaitTicks(2)
			if lonely.metric("syncer_sync_last_success_timestamp_seconds") != success {
				t.Error("a pass without Redis counts as a success")
			}
			for _, c := range f.surem.calls(func(c call) bool { return c.op == summaries && c.replica == lonely.name }) {
				if c.at.After(cut.Add(f.every)) { // what it had claimed before may still be read
					t.Errorf("cut off from Redis it has read %s at %s, %v after the cut", c.sender, clock(c.at), c.at.Sub(cut))
				}
			}
			f.wantNoV1()

			way.set(healthy)
			healed := time.Now()
			eventually(t, 2*soon, "it takes its share again", func() bool {
				return len(f.surem.calls(func(c call) bool {
					return c.op == summaries && c.replica == lonely.name && c.at.After(healed)
				})) > 0
			})
			f.awaitTicks(2)
			f.stop()
			k := f.ledger(lonely)
			k.whole(t)
			k.cut[tickOf(cut, f.every)] = []*life{lonely} // what it had claimed is the others' by the next tick
			t.Logf("%d readings were lost to the cut", k.judge(t))
		})
	}
}
