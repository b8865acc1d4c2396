package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"alimtalk-syncer/internal/redistest"
)

// away is what a read may take when Redis does not answer: its two seconds, and the machine's.
const away = 2*time.Second + 1500*time.Millisecond

// clinic is three hospitals of five templates each, all cached but the last of each.
func clinic(t *testing.T) (w *world, kept []standing) {
	t.Helper()
	w = newWorldOn(t, newRedis(t, redistest.Durable...), "H001", "H002", "H003")
	var keys []string
	for _, h := range []string{"H001", "H002", "H003"} {
		for i := range 5 {
			one := template{code: fmt.Sprintf("T%d", i+1), status: "APPROVED", version: h}
			w.offer(h, one)
			if i < 4 {
				w.cache(h, one)
			}
			if i < 3 {
				keys = append(keys, key(h, one.code))
			}
		}
	}
	return w, w.redis.standings(keys...)
}

// traffic reads the clinic's cached templates until it is stopped.
type traffic struct {
	t    *testing.T
	end  chan struct{}
	wg   sync.WaitGroup
	mu   sync.Mutex
	bad  []answer
	n    int
	slow time.Duration
}

func (d *daemon) traffic(t *testing.T, codes ...string) *traffic {
	f := &traffic{t: t, end: make(chan struct{})}
	for _, h := range []string{"H001", "H002", "H003"} {
		f.wg.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-f.end:
					return
				case <-tick.C:
				}
				f.judge(d.read(h, codes[i%len(codes)]))
			}
		})
	}
	t.Cleanup(func() { f.stop() })
	return f
}

func (f *traffic) judge(a answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	f.slow = max(f.slow, a.took)
	if a.err != nil || a.status != http.StatusOK {
		f.bad = append(f.bad, a)
	}
}

// more waits until n more reads have been answered.
func (f *traffic) more(n int) {
	f.t.Helper()
	count := func() int { f.mu.Lock(); defer f.mu.Unlock(); return f.n }
	before := count()
	eventually(f.t, 2*soon, "more reads", func() bool { return count() >= before+n })
}

func (f *traffic) stop() {
	select {
	case <-f.end:
	default:
		close(f.end)
	}
	f.wg.Wait()
}

// wantAll fails the test unless every read so far was answered with 200 in time.
func (f *traffic) wantAll(within time.Duration) {
	f.t.Helper()
	f.stop()
	for i, a := range f.bad {
		if i < 3 {
			f.t.Errorf("a read failed: %d %v %s", a.status, a.err, a.body)
		}
	}
	if len(f.bad) > 0 {
		f.t.Errorf("%d of %d reads failed", len(f.bad), f.n)
	}
	if f.slow > within {
		f.t.Errorf("a read took %v, more than %v", f.slow, within)
	}
}

// ready returns the status of /readyz and whether it has this line.
func (d *daemon) ready(line string) (status int, found bool) {
	a := d.get("/readyz")
	for l := range strings.Lines(a.body) {
		found = found || strings.TrimSpace(l) == line
	}
	return a.status, found
}

func (d *daemon) awaitReady(status int, line string, there bool) {
	d.w.t.Helper()
	eventually(d.w.t, soon, fmt.Sprintf("/readyz is %d, %q there: %t", status, line, there), func() bool {
		s, found := d.ready(line)
		return s == status && found == there
	})
}

func TestRedisKilledAndRestartedAmongPassesAndReads(t *testing.T) {
	t.Parallel()
	w, kept := clinic(t)
	d := w.start()
	w.surem.awaitReadings(senderKey("H001"), 1)
	reads := d.traffic(t, "T1", "T2", "T3")
	pass := w.surem.hold(summaries, senderKey("H001"), 1) // a pass is on its way
	pass.await(1)
	w.redis.Kill()
	pass.release()
	w.surem.setStatus(senderKey("H002"), "T4", "REJECTED")
	w.surem.setStatus(senderKey("H003"), "T4", "REQUESTED")

	d.awaitReady(http.StatusOK, "redis: away", true)
	d.read("H001", "T5").want(t, http.StatusOK).via(t, "fwd=bypass")
	eventually(t, soon, "the hospitals are counted as failing", func() bool { return d.metric("syncer_hospitals_failing") == 3 })
	d.get("/healthz").want(t, http.StatusOK)
	if !strings.Contains(d.stderr.String(), w.redis.Addr) && !strings.Contains(strings.ToLower(d.stderr.String()), "redis") {
		t.Error("the log does not tell that Redis is away")
	}
	reads.more(50)
	w.redis.Restart()
	w.redis.stillStand(kept)
	d.awaitReady(http.StatusOK, "redis: away", false)
	eventually(t, soon, "what changed meanwhile is gone", func() bool { return !w.cached("H003", "T4") })
	eventually(t, soon, "no hospital fails", func() bool { return d.metric("syncer_hospitals_failing") == 0 })
	d.read("H001", "T1").want(t, http.StatusOK).via(t, "hit")
	eventually(t, soon, "fills are stored again", func() bool { d.read("H001", "T5").want(t, http.StatusOK); return w.cached("H001", "T5") })
	w.redis.stillStand(kept)
	if !w.cached("H002", "T4") {
		t.Error("an entry whose summary is in a skipped state is gone")
	}
	reads.wantAll(away)
}

func TestRedisThatHangsDelaysAReadByTwoSecondsAtMost(t *testing.T) {
	t.Parallel()
	w, kept := clinic(t)
	d := w.start()
	w.surem.awaitReadings(senderKey("H001"), 1)
	reads := d.traffic(t, "T1", "T2", "T3")
	w.redis.freeze()
	d.awaitReady(http.StatusOK, "redis: away", true)
	reads.more(9)
	d.read("H001", "T5").want(t, http.StatusOK).via(t, "fwd=bypass")
	d.get("/healthz").want(t, http.StatusOK)
	w.redis.thaw()
	d.awaitReady(http.StatusOK, "redis: away", false)
	eventually(t, soon, "no hospital fails", func() bool { return d.metric("syncer_hospitals_failing") == 0 })
	eventually(t, soon, "reads are hits again", func() bool {
		return d.read("H001", "T1").header.Get("Cache-Status") == "alimtalk-syncer; hit"
	})
	w.redis.stillStand(kept)
	reads.wantAll(away)
}

func TestABurstOfReadsPastAHangingRedisIsAnsweredInTime(t *testing.T) {
	t.Parallel()
	w, _ := clinic(t)
	w.quiet()
	d := w.start()
	d.read("H001", "T1").want(t, http.StatusOK).via(t, "hit")
	w.redis.freeze()
	for i, a := range together(150, func(i int) answer { return d.read("H001", fmt.Sprintf("T%d", i%5+1)) }) {
		if a.want(t, http.StatusOK); a.took > away+time.Second {
			t.Errorf("read %d took %v", i, a.took)
		}
	}
	w.redis.thaw()
	eventually(t, soon, "reads are hits again", func() bool {
		return d.read("H001", "T1").header.Get("Cache-Status") == "alimtalk-syncer; hit"
	})
}

func TestSureMKilledAndRestartedAmongPassesAndReads(t *testing.T) {
	t.Parallel()
	w, kept := clinic(t)
	d := w.start("SUREM_MAX_RETRIES=1")
	w.surem.awaitReadings(senderKey("H001"), 1)
	reads := d.traffic(t, "T1", "T2", "T3")
	pass := w.surem.hold(summaries, senderKey("H001"), 1)
	pass.await(1)
	w.surem.kill()
	pass.release()

	d.awaitReady(http.StatusOK, "surem: away", true)
	p := d.read("H001", "T5").problem(t, http.StatusBadGateway)
	if strings.Contains(p.Detail, w.surem.addr) {
		t.Errorf("the problem names SureM's address: %s", p.Detail)
	}
	d.read("H001", "T4").want(t, http.StatusOK).via(t, "hit")
	eventually(t, soon, "the hospitals are counted as failing", func() bool { return d.metric("syncer_hospitals_failing") == 3 })
	d.get("/healthz").want(t, http.StatusOK)
	reads.more(50)
	w.redis.stillStand(kept)
	w.surem.setStatus(senderKey("H003"), "T4", "REQUESTED")
	w.surem.start()
	d.awaitReady(http.StatusOK, "surem: away", false)
	eventually(t, soon, "what changed meanwhile is gone", func() bool { return !w.cached("H003", "T4") })
	eventually(t, soon, "misses are answered again", func() bool { return d.read("H001", "T5").status == http.StatusOK })
	eventually(t, soon, "no hospital fails", func() bool { return d.metric("syncer_hospitals_failing") == 0 })
	w.redis.stillStand(kept)
	reads.wantAll(away)
}

func TestBothAwayIsNotReadyAndHeals(t *testing.T) {
	t.Parallel()
	w, kept := clinic(t)
	d := w.start("SUREM_MAX_RETRIES=0")
	w.surem.awaitReadings(senderKey("H001"), 1)
	w.surem.kill()
	w.redis.Kill()
	d.awaitReady(http.StatusServiceUnavailable, "redis: away", true)
	d.awaitReady(http.StatusServiceUnavailable, "surem: away", true)
	d.get("/healthz").want(t, http.StatusOK)
	if a := d.read("H001", "T1"); a.err != nil || a.status != http.StatusBadGateway && a.status != http.StatusServiceUnavailable || a.took > away {
		t.Errorf("%d after %v: %s %v", a.status, a.took, a.body, a.err)
	}
	w.redis.Restart()
	d.awaitReady(http.StatusOK, "surem: away", true)
	d.read("H001", "T1").want(t, http.StatusOK).via(t, "hit")
	w.surem.start()
	d.awaitReady(http.StatusOK, "surem: away", false)
	w.redis.stillStand(kept)
}

func TestTheDaemonStartsWithoutRedisAndHeals(t *testing.T) {
	t.Parallel()
	w, kept := clinic(t)
	w.redis.Kill()
	d := w.start()
	d.awaitReady(http.StatusOK, "redis: away", true)
	d.read("H001", "T1").want(t, http.StatusOK).via(t, "fwd=bypass")
	w.redis.Restart()
	d.awaitReady(http.StatusOK, "redis: away", false)
	d.read("H001", "T1").want(t, http.StatusOK).via(t, "hit")
	eventually(t, soon, "passes succeed", func() bool {
		return d.metric("syncer_hospitals_failing") == 0 && d.metric("syncer_sync_last_success_timestamp_seconds") > 0
	})
	w.redis.stillStand(kept)
}

func TestTheDaemonStartsWithoutSureMAndHeals(t *testing.T) {
	t.Parallel()
	w, kept := clinic(t)
	w.surem.kill()
	d := w.start("SUREM_MAX_RETRIES=0")
	d.awaitReady(http.StatusOK, "surem: away", true)
	d.read("H001", "T1").want(t, http.StatusOK).via(t, "hit")
	w.surem.start()
	d.awaitReady(http.StatusOK, "surem: away", false)
	eventually(t, soon, "passes succeed", func() bool {
		return d.metric("syncer_hospitals_failing") == 0 && d.metric("syncer_sync_last_success_timestamp_seconds") > 0
	})
	w.redis.stillStand(kept)
}

func TestARefusedLoginIsToldAndHeals(t *testing.T) {
	t.Parallel()
	w, kept := clinic(t)
	d := w.start("SUREM_SECRET_KEY=surem-secret-wrong", "SUREM_MAX_RETRIES=0")
	d.awaitReady(http.StatusOK, "surem: refused", true)
	d.read("H001", "T1").want(t, http.StatusOK).via(t, "hit")
	d.read("H001", "T5").problem(t, http.StatusBadGateway)
	before := w.surem.logins()
	w.surem.account("clinic", "surem-secret-wrong")
	d.awaitReady(http.StatusOK, "surem: refused", false)
	eventually(t, soon, "misses are answered", func() bool { return d.read("H001", "T5").status == http.StatusOK })
	if before > 10 {
		t.Errorf("%d refused logins in a few ticks: they are not held back", before)
	}
	w.redis.stillStand(kept)
}
