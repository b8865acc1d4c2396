package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// awaitClosed waits until the daemon accepts no more connections.
func (d *daemon) awaitClosed() {
	d.w.t.Helper()
	eventually(d.w.t, soon, "the daemon accepts no more", func() bool {
		c, err := net.Dial("tcp", d.addr)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
}

func TestTerminationAnswersTheReadInFlight(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "H001")
			one := template{code: "T1", status: "APPROVED"}
			w.offer("H001", one)
			d := w.start()
			gate := w.surem.hold(detail, senderKey("H001"), 0)
			read := inBackground(func() answer { return d.read("H001", "T1") })
			gate.await(1)
			d.signal(sig)
			d.awaitClosed()
			gate.release()
			receive(t, soon, "the read in flight", read).document(t, one)
			if code := d.wait(soon); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
		})
	}
}

func TestTerminationFinishesThePassInHand(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		t.Run(map[bool]string{false: "scheduled", true: "asked for"}[asked], func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "H001").quiet()
			w.listed("H001", 1, "APPROVED", "REQUESTED")
			gate := w.surem.hold(summaries, senderKey("H001"), 1)
			d := w.start(fmt.Sprintf("SYNC_ON_START=%t", !asked))
			var post <-chan answer
			if asked {
				post = inBackground(func() answer { return d.sync("H001") })
			}
			gate.await(1)
			d.signal(syscall.SIGTERM)
			d.awaitClosed()
			gate.release()
			if asked {
				receive(t, soon, "the POST in flight", post).report(t)
			}
			if code := d.wait(soon); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			if w.countCached("H001") != 0 {
				t.Error("what was in hand has not been finished")
			}
		})
	}
}

func TestAStuckLoadIsCutAtTheEndOfTheGraceTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	w.offer("H001", template{code: "T1", status: "APPROVED"})
	d := w.start("SHUTDOWN_GRACE=2s", "FLIGHT_LOADER_TIMEOUT=1m", "SUREM_TIMEOUT=1m")
	gate := w.surem.hold(detail, senderKey("H001"), 0)
	read := inBackground(func() answer { return d.read("H001", "T1") })
	gate.await(1)
	d.signal(syscall.SIGTERM)
	start := time.Now()
	code := d.wait(soon)
	if took := time.Since(start); code != 0 || took > 5*time.Second || took < time.Second {
		t.Errorf("exit code %d after %v, want 0 after the grace time of 2s", code, took)
	}
	if a := receive(t, soon, "the cut read", read); a.err == nil && a.status != http.StatusServiceUnavailable {
		t.Errorf("the cut read got %d: %s", a.status, a.body)
	}
}

func TestAStuckPassIsCutAtTheEndOfTheGraceTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	d := w.start("SHUTDOWN_GRACE=2s", "SYNC_TIMEOUT=1m", "SUREM_TIMEOUT=1m")
	gate := w.surem.hold(summaries, senderKey("H001"), 0)
	gate.await(1)
	d.signal(syscall.SIGTERM)
	start := time.Now()
	code := d.wait(soon)
	if took := time.Since(start); code != 0 || took > 5*time.Second {
		t.Errorf("exit code %d after %v, want 0 within the grace time of 2s", code, took)
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	w.offer("H001", template{code: "T1", status: "APPROVED"})
	d := w.start("FLIGHT_LOADER_TIMEOUT=1m", "SUREM_TIMEOUT=1m")
	gate := w.surem.hold(detail, senderKey("H001"), 0)
	read := inBackground(func() answer { return d.read("H001", "T1") })
	gate.await(1)
	d.signal(syscall.SIGTERM)
	d.awaitClosed()
	d.signal(syscall.SIGTERM)
	start := time.Now()
	if code := d.wait(soon); code != 1 || time.Since(start) > 3*time.Second {
		t.Errorf("exit code %d after %v, want 1 at once", code, time.Since(start))
	}
	receive(t, soon, "the cut read", read)
}

func TestShutdownDelayGoesOnServingWhileNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	w.offer("H001", template{code: "T1", status: "APPROVED"})
	d := w.start("SHUTDOWN_DELAY=3s")
	d.signal(syscall.SIGTERM)
	start := time.Now()
	eventually(t, 2*time.Second, "/readyz is 503", func() bool { return d.get("/readyz").status == http.StatusServiceUnavailable })
	d.read("H001", "T1").want(t, http.StatusOK)
	d.get("/healthz").want(t, http.StatusOK)
	code := d.wait(soon)
	if took := time.Since(start); code != 0 || took < 2900*time.Millisecond || took > 7*time.Second {
		t.Errorf("exit code %d after %v, want 0 after the delay of 3s", code, took)
	}
}

func TestIdleConnectionsDoNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	d := w.start()
	for i := range 100 {
		c, err := net.Dial("tcp", d.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if i%2 == 0 {
			_, _ = c.Write([]byte("GET /v1/hos"))
		}
	}
	start := time.Now()
	if code := d.stop(); code != 0 || time.Since(start) > 10*time.Second {
		t.Errorf("exit code %d after %v", code, time.Since(start))
	}
}

func TestAnAddressInUseIsAFailureToRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	r := w.command([]string{"run"}, "HTTP_ADDR="+l.Addr().String()).want(t, 1)
	if !strings.Contains(r.stderr, l.Addr().String()) {
		t.Errorf("the message does not name the address: %s", r.stderr)
	}
	w.command(nil, "HTTP_ADDR="+l.Addr().String()).want(t, 1)
}
