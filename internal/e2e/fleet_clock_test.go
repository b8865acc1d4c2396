package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// anyClock builds the program with a time.Now that is TEST_CLOCK_AHEAD seconds ahead (behind,
// where negative) of this machine's. Nothing outside of a process can do that to a Go program,
// which reads the clock without a system call. It is no race build: those tests have one
// already, and the whole standard library has to be compiled again.
func anyClock(t testing.TB) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	const now, imports = "func Now() Time {\n", "import (\n"
	text := string(source)
	if strings.Count(text, now) != 1 || strings.Count(text, imports) != 1 {
		t.Fatal("time.Now does not look as it did")
	}
	text = strings.Replace(text, imports, "import (\n\t\"syscall\"\n", 1)
	text = strings.Replace(text, now, `func Now() Time {
	t := trueNow()
	t.addSec(ahead)
	return t
}

var ahead = func() (seconds int64) {
	text, _ := syscall.Getenv("TEST_CLOCK_AHEAD")
	sign := int64(1)
	for _, c := range []byte(text) {
		if c == '-' {
			sign = -1
		} else {
			seconds = seconds*10 + int64(c-'0')
		}
	}
	return sign * seconds
}()

func trueNow() Time {
`, 1)
	dir := t.TempDir()
	changed, overlay, built := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "syncer")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{changed: text, overlay: string(replace)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-overlay", overlay, "-o", built, "alimtalk-syncer/cmd/syncer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program with another clock: %v\n%s", err, out)
	}
	return built
}

// Every replica counts its ticks by its own clock, so that the one ahead comes first to each of
// them and does the work. When it is gone the other goes on where that has stopped, as soon as
// its own clock is there: no tick is read twice, and none is left out.
func TestClocksThatDifferByHalfAMinuteReadNoTickTwiceAndLeaveNoneOut(t *testing.T) {
	t.Parallel()
	const difference = 30 * time.Second
	f := newFleet(t, 10, 2*time.Second)
	f.other = anyClock(t)
	start := func(i int, ahead time.Duration) *life {
		l := f.run(i, fmt.Sprintf("TEST_CLOCK_AHEAD=%d", int(ahead.Seconds())))
		l.ahead = ahead
		return l
	}
	fast, slow := start(1, difference/2), start(2, -difference/2)
	f.awaitPassesOf(fast, 1)
	f.awaitTick(slow, fast.passes()[0].Tick.Add(2*f.every))

	f.cache("H001", template{code: "T1", status: "REQUESTED"})
	eventually(t, soon, "what has changed is gone", func() bool { return !f.cached("H001", "T1") })
	gate := f.surem.hold(detail, senderKey("H002"), 0)
	all := make(chan []answer, 1)
	go func() { all <- together(20, func(i int) answer { return f.lives[i%2].read("H002", "T1") }) }()
	gate.await(1)
	fast.awaitWaiters(10)
	slow.awaitWaiters(10)
	if n := f.surem.anyDetails(); n != 1 {
		t.Errorf("%d detail calls for 20 readers, want one", n)
	}
	gate.release()
	for _, a := range receive(t, soon, "20 readers", all) {
		a.document(t, template{code: "T1", status: "APPROVED"})
	}
	f.awaitTicks(1)

	fast.kill()
	f.awaitTick(slow, tickOf(fast.killed.Add(fast.ahead), f.every).Add(2*f.every))
	f.stop()
	k := f.ledger()
	k.whole(t)
	missed := k.judge(t)
	t.Logf("clocks %v apart: %d ticks of %d hospitals, summary calls by replica %v, %d missed in the tick of the kill", difference, len(k.ticks), len(k.ids), k.share, missed)
}

// awaitTick waits until a replica has ended its pass of a tick, or of a later one.
func (f *fleet) awaitTick(l *life, tick time.Time) {
	f.t.Helper()
	eventually(f.t, time.Until(tick.Add(-l.ahead))+soon, "the tick of "+clock(tick)+" at replica "+l.name, func() bool {
		passes := l.passes()
		return len(passes) > 0 && !passes[len(passes)-1].Tick.Before(tick)
	})
}
