package openapi

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"alimtalk-syncer/internal/sureM/simulator"
)

const senderKey = "sender-key-H001"

// patience bounds every wait.
const patience = 30 * time.Second

// world is what daemons live in: a Redis, a SureM, and the binary.
type world struct {
	t      *testing.T
	binary string
	redis  *miniredis.Miniredis
	surem  *simulator.Simulator
	url    string // SureM's
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, binary: filepath.Join(t.TempDir(), "syncer"), redis: miniredis.RunT(t), surem: simulator.New()}
	build := exec.Command("go", "build", "-o", w.binary, "./cmd/syncer")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	w.surem.AddAccount("clinic", "secret")
	w.surem.AddSender("clinic", senderKey)
	for _, code := range []string{"T1", "T2", "T3", "T4", "예약"} {
		w.setStatus(code, "REQUESTED")
	}
	url, stop, err := w.surem.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	w.url = url
	return w
}

func key(code string) string { return "infotalk:template:{H001}:" + code }

func (w *world) setStatus(code, status string) {
	w.t.Helper()
	if err := w.surem.Put(senderKey, simulator.Template{Code: code, Name: "Name of " + code, InspectionStatus: status}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) fault(faults ...simulator.Fault) {
	w.t.Helper()
	if err := w.surem.SetFaults(faults...); err != nil {
		w.t.Fatal(err)
	}
}

// until observes cond until it holds.
func (w *world) until(cond func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Fatal("what was waited for has not come")
		}
	}
}

// daemon is a running syncer whose answers are held against the document.
type daemon struct {
	w    *world
	spec *spec
	addr string
	cmd  *exec.Cmd
	end  sync.Once    // a second signal would cut it
	log  bytes.Buffer // read when it has ended
}

func (w *world) start(s *spec, env ...string) *daemon {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	d := &daemon{w: w, spec: s, addr: l.Addr().String(), cmd: exec.Command(w.binary)}
	_ = l.Close()
	d.cmd.Env = append([]string{
		"SUREM_BASE_URL=" + w.url, "SUREM_USER_CODE=clinic", "SUREM_SECRET_KEY=secret", "SUREM_MAX_RETRIES=0",
		"REDIS_URL=redis://" + w.redis.Addr(), "HOSPITALS=H001=" + senderKey, "HTTP_ADDR=" + d.addr,
		"SYNC_SCHEDULE=0 0 1 1 *", "SYNC_ON_START=false", "FLIGHT_LOADER_TIMEOUT=2s", "FLIGHT_MAX_WAITERS=1", "FLIGHT_FAILURE_COOLDOWN=0s",
	}, env...)
	d.cmd.Stderr = &d.log
	if err := d.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		d.terminate()
		timer := time.AfterFunc(patience, func() { _ = d.cmd.Process.Kill() })
		defer timer.Stop()
		if err := d.cmd.Wait(); err != nil {
			w.t.Errorf("the daemon ended with %v", err)
		}
		if w.t.Failed() {
			w.t.Logf("the daemon's log:\n%s", d.log.String())
		}
	})
	w.until(func() bool { return d.status("/healthz") == http.StatusOK })
	return d
}

func (d *daemon) terminate() { d.end.Do(func() { _ = d.cmd.Process.Signal(syscall.SIGTERM) }) }

// status is the status of a GET, 0 without an answer; it is held against nothing.
func (d *daemon) status(path string) int {
	response, err := http.Get("http://" + d.addr + path)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// ask sends a request; header is names and values in turn.
func (d *daemon) ask(method, path string, status int, header ...string) {
	d.w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+d.addr+path, nil)
	if err != nil {
		d.w.t.Error(err)
		return
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		d.w.t.Errorf("%s %s: %v", method, path, err)
		return
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status {
		d.w.t.Errorf("%s %s %v: %d, want %d (%v): %s", method, path, header, response.StatusCode, status, err, body)
	}
	response.Body = io.NopCloser(strings.NewReader(string(body)))
	r.Host = "" // the validator looks for it among the document's servers
	d.spec.check(r, response)
}

// inBackground asks, and returns what waits for the answer.
func (d *daemon) inBackground(method, path string, status int) (wait func()) {
	var asked sync.WaitGroup
	asked.Go(func() { d.ask(method, path, status) })
	return asked.Wait
}
