// Package test holds what deploy/ gives an operator against the real things: the built binary
// and its settings, Kubernetes' own types, promtool, systemd-analyze, buildah and Node. It is
// a module of its own, so that none of these is the program's dependency.
package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/sureM/simulator"
)

const deploy = ".." // from here

// binary is the program as `make build` makes it.
var binary string

func TestMain(m *testing.M) { os.Exit(mainTest(m)) }

func mainTest(m *testing.M) int {
	dir, err := os.MkdirTemp("", "syncer-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "syncer")
	build := exec.Command("go", "build", "-C", "../..", "-trimpath", "-ldflags", "-s -w -X main.version=v9.8.7", "-o", binary, "./cmd/syncer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the program: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// run runs a command to its end and returns what it printed, stdout and stderr in one.
func run(t testing.TB, cmd *exec.Cmd) (string, error) {
	t.Helper()
	if cmd.Err != nil {
		t.Fatalf("%v (make deps installs what these tests need)", cmd.Err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	return out.String(), err
}

// ok runs a command that must end with 0.
func ok(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := run(t, exec.CommandContext(t.Context(), name, args...))
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(deploy, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// sender is the sender key of a hospital.
func sender(hospital string) string { return "sender-" + hospital }

// startSureM starts a simulated SureM with one account that owns these hospitals' senders.
func startSureM(t testing.TB, hospitals ...string) (sim *simulator.Simulator, url string) {
	t.Helper()
	sim = simulator.New()
	sim.AddAccount("clinic", "secret")
	for _, h := range hospitals {
		sim.AddSender("clinic", sender(h))
	}
	url, stop, err := sim.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return sim, url
}

// startSyncer starts the daemon and waits until it answers.
func startSyncer(t testing.TB, suremURL string, redis *redistest.Server, hospitals []string, env ...string) (url string) {
	t.Helper()
	addr := redistest.FreeAddr(t)
	list := make([]string, len(hospitals))
	for i, h := range hospitals {
		list[i] = h + "=" + sender(h)
	}
	var log bytes.Buffer
	cmd := exec.Command(binary, "run")
	cmd.Env = append([]string{
		"HTTP_ADDR=" + addr, "SUREM_BASE_URL=" + suremURL, "SUREM_USER_CODE=clinic", "SUREM_SECRET_KEY=secret",
		"SUREM_RATE_LIMIT=1000", "SUREM_RATE_BURST=1000", "REDIS_URL=redis://" + redis.Addr + "/0",
		"HOSPITALS=" + strings.Join(list, ","), "SYNC_SCHEDULE=0 0 1 1 *", "SYNC_ON_START=false",
	}, env...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("the daemon ended: %v\n%s", err, log.String())
		}
	})
	waitFor(t, addr)
	return "http://" + addr
}

// waitFor waits until somebody listens at addr.
func waitFor(t testing.TB, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("nobody listens at %s: %v", addr, err)
		}
	}
}

// get returns the body of a 200 answer.
func get(t testing.TB, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	if err != nil {
		t.Fatalf("GET %s: %v\n%s", url, err, body)
	}
	return string(body)
}
