package e2e

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"
)

// fleet is replicas of one syncer: the same settings, one Redis, one SureM.
type fleet struct {
	*world
	every time.Duration // of SYNC_SCHEDULE
	ids   []string      // of the hospitals
	lives []*life
	ended time.Time // when stop was called
}

// life is one process of a replica, which has another one after each restart. SureM knows
// its calls by name.
type life struct {
	*daemon
	replica int
	number  int // 1, 2, … of the replica's lives
	name    string
	ahead   time.Duration // of this machine's clock
	started time.Time
	killed  time.Time // zero: it was not
}

// newFleet configures n hospitals, each with a sender key and the template T1 of its own,
// and a tick every so often, and starts no replica.
func newFleet(t testing.TB, n int, every time.Duration, redisArgs ...string) *fleet {
	t.Helper()
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("H%03d", i+1))
	}
	f := &fleet{world: newWorldOn(t, newRedis(t, redisArgs...), ids...), every: every, ids: ids}
	for _, id := range ids {
		f.offer(id, template{code: "T1", status: "APPROVED"})
	}
	f.env["FLEET"] = "true"
	f.env["SYNC_SCHEDULE"] = "@every " + every.String()
	return f
}

// run starts replica number i (1, 2, …), again if it has ended, and waits until it answers.
func (f *fleet) run(i int, changes ...string) *life {
	f.t.Helper()
	l := &life{replica: i, number: 1, started: time.Now()}
	for _, former := range f.lives {
		if former.replica == i {
			l.number++
		}
	}
	l.name = fmt.Sprintf("%d.%d", i, l.number)
	l.daemon = f.start(append([]string{"SUREM_BASE_URL=" + f.surem.urlOf(l.name)}, changes...)...)
	f.lives = append(f.lives, l)
	return l
}

// runs starts replicas 1 to n.
func (f *fleet) runs(n int, changes ...string) []*life {
	f.t.Helper()
	for i := range n {
		f.run(i+1, changes...)
	}
	return slices.Clone(f.lives[len(f.lives)-n:])
}

// kill ends a replica as kill -9 does.
func (l *life) kill() {
	l.w.t.Helper()
	l.daemon.kill()
	l.killed = time.Now()
}

// named returns the life that SureM knows by this name.
func (f *fleet) named(name string) *life {
	f.t.Helper()
	i := slices.IndexFunc(f.lives, func(l *life) bool { return l.name == name })
	if i < 0 {
		f.t.Fatalf("SureM was called by %q, which is no replica", name)
	}
	return f.lives[i]
}

// stop ends every replica that runs, as a supervisor would.
func (f *fleet) stop() {
	f.t.Helper()
	f.ended = time.Now()
	for _, l := range f.lives {
		if !l.done {
			l.signal(syscall.SIGTERM)
		}
	}
	for _, l := range f.lives {
		if l.done {
			continue
		}
		if code := l.wait(40 * time.Second); code != 0 {
			f.t.Errorf("replica %s ended with %d", l.name, code)
		}
	}
}

// readingsOf returns the summary calls for a hospital, oldest first.
func (f *fleet) readingsOf(hospital string) []call {
	return f.surem.calls(func(c call) bool { return c.op == summaries && c.sender == senderKey(hospital) })
}
