// Package e2e drives the built binary as an operator and the CRM would: over HTTP, signals,
// environment and exit codes, against a real redis-server and an HTTP SureM that is written
// here from the contract alone and shares no code with the program.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// binary is the program under test, built once with the race detector.
var binary string

func TestMain(m *testing.M) { os.Exit(mainTest(m)) }

func mainTest(m *testing.M) int {
	flag.Parse()
	if !isSet("test.parallel") {
		_ = flag.Set("test.parallel", "6") // these tests wait more than they work
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: redis-server is needed (Debian: apt-get install redis-server):", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "syncer-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "syncer")
	build := exec.Command("go", "build", "-race", "-o", binary, "alimtalk-syncer/cmd/syncer")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: building the program: %v\n%s", err, out)
		return 1
	}
	redis.SetLogger(silence{}) // the tests' own client sees servers die on purpose
	return m.Run()
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// soon bounds what should happen within a tick or two, on a busy machine.
const soon = 15 * time.Second

// eventually observes cond until it holds, and fails the test when it does not within the bound.
func eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// receive takes one value from c, or fails the test.
func receive[T any](t testing.TB, within time.Duration, what string, c <-chan T) T {
	t.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fatalf("not within %v: %s", within, what)
		panic("unreachable")
	}
}
