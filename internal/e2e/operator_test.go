package e2e

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"alimtalk-syncer/internal/redistest"
)

// monitor is what a heartbeat goes to. Its path is a secret.
type monitor struct {
	*httptest.Server
	beats  atomic.Int32
	status atomic.Int32 // that it answers
	odd    atomic.Pointer[string]
}

const monitorPath = "/ping/hush-4410"

func newMonitor(t *testing.T) *monitor {
	m := &monitor{}
	m.status.Store(http.StatusOK)
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.beats.Add(1)
		if r.Method != http.MethodGet || r.URL.Path != monitorPath {
			odd := r.Method + " " + r.URL.Path
			m.odd.Store(&odd)
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(int(m.status.Load()))
	}))
	t.Cleanup(func() {
		m.Close()
		if odd := m.odd.Load(); odd != nil {
			t.Errorf("the monitor was asked for %s", *odd)
		}
	})
	return m
}

func TestAHeartbeatFollowsEachSuccessfulPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001", "H002")
	m := newMonitor(t)
	d := w.start("SYNC_HEARTBEAT_URL="+m.URL+monitorPath, "SUREM_MAX_RETRIES=0")
	eventually(t, soon, "three beats", func() bool { return m.beats.Load() >= 3 })
	w.surem.each(func(call) *reply { return failure })
	eventually(t, soon, "all hospitals fail", func() bool { return d.metric("syncer_hospitals_failing") == 2 })
	run := `syncer_sync_ticks_total{result="run"}`
	passes := d.metric(run)
	eventually(t, soon, "a pass has failed from its start", func() bool { return d.metric(run) >= passes+2 })
	before := m.beats.Load()
	eventually(t, soon, "two more passes have failed", func() bool { return d.metric(run) >= passes+4 })
	if after := m.beats.Load(); after != before {
		t.Errorf("%d beats after passes that failed", after-before)
	}
	w.surem.each(nil)
	eventually(t, soon, "beats again", func() bool { return m.beats.Load() > before })
}

func TestAHeartbeatThatFailsIsToldOnceAndWithoutItsURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	m := newMonitor(t)
	m.status.Store(http.StatusFound) // is not followed
	d := w.start("SYNC_HEARTBEAT_URL=" + m.URL + monitorPath)
	eventually(t, soon, "it is told", func() bool { return strings.Contains(d.stderr.String(), `"heartbeat failing"`) })
	beats := m.beats.Load()
	eventually(t, soon, "it is tried again", func() bool { return m.beats.Load() >= beats+3 })
	m.status.Store(http.StatusNoContent)
	eventually(t, soon, "it is back", func() bool { return strings.Contains(d.stderr.String(), `"heartbeat back"`) })
	m.CloseClientConnections()
	m.Close()
	eventually(t, soon, "nobody is there", func() bool { return strings.Count(d.stderr.String(), `"heartbeat failing"`) == 2 })
	log := d.stderr.String()
	for _, s := range []string{"hush-4410", m.Listener.Addr().String(), "127.0.0.1:" + port(m.Listener.Addr())} {
		if strings.Contains(log, s) {
			t.Errorf("the log shows %q", s)
		}
	}
	if !strings.Contains(log, "HTTP 302") || !strings.Contains(log, "connection refused") {
		t.Error("the log does not say why")
	}
}

func port(a net.Addr) string {
	_, p, _ := net.SplitHostPort(a.String())
	return p
}

func TestAHeartbeatIsTriedTwiceAtMost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001", "H002").quiet()
	m := newMonitor(t)
	m.status.Store(http.StatusInternalServerError)
	heartbeat := "SYNC_HEARTBEAT_URL=" + m.URL + monitorPath
	for _, c := range []struct {
		args  []string
		beats int32
	}{
		{[]string{"sync"}, 2},
		{[]string{"sync", "--dry-run"}, 0},
		{[]string{"sync", "--hospital", "H001"}, 0},
		{[]string{"get", "H001", "T1"}, 0},
	} {
		before := m.beats.Load()
		r := w.command(c.args, heartbeat)
		if beats := m.beats.Load() - before; beats != c.beats {
			t.Errorf("syncer %v: %d beats, want %d", c.args, beats, c.beats)
		}
		if strings.Contains(r.stdout+r.stderr, "hush-4410") {
			t.Errorf("syncer %v shows the URL: %s", c.args, r)
		}
	}
}

func TestPprofIsOnItsOwnAddressOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	addr := redistest.FreeAddr(t)
	d := w.start("DEBUG_ADDR=" + addr)
	d.get("/debug/pprof/").problem(t, http.StatusNotFound)
	main := d.addr
	d.addr = addr
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/cmdline", "/debug/pprof/heap"} {
		d.get(path).want(t, http.StatusOK)
	}
	d.get("/debug/pprof/", "Host: evil.example").want(t, http.StatusMisdirectedRequest)
	d.get("/metrics").want(t, http.StatusNotFound)
	d.addr = main
	other := w.command([]string{"run"}, "DEBUG_ADDR="+addr, "HTTP_ADDR="+redistest.FreeAddr(t)).want(t, 1)
	if !strings.Contains(other.stderr, "DEBUG_ADDR") {
		t.Errorf("%s", other)
	}
}

func TestHealthAsksTheDaemon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	_, p, _ := strings.Cut(redistest.FreeAddr(t), ":")
	addr := "HTTP_ADDR=127.0.0.1:" + p
	health := func(code int, env ...string) {
		t.Helper()
		if r := run(t, env, "health"); r.code != code {
			t.Errorf("%v: %d, want %d: %s%s", env, r.code, code, r.stdout, r.stderr)
		}
	}
	health(1, addr)
	health(2, "HTTP_ADDR=8080")
	d := w.launch("HTTP_ADDR=:"+p, "API_TOKENS=crm-token-1111")
	d.addr = "127.0.0.1:" + p
	eventually(t, soon, "the daemon answers", func() bool { return d.get("/healthz").err == nil })
	w.redis.Kill()
	w.surem.kill()
	// With nothing but HTTP_ADDR: it needs no secret, and no proxy.
	for _, a := range []string{":" + p, "0.0.0.0:" + p, "127.0.0.1:" + p, "localhost:" + p} {
		health(0, "HTTP_ADDR="+a, "HTTP_PROXY=http://127.0.0.1:1")
	}
	stuck := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer stuck.Close()
	health(1, "HTTP_ADDR="+stuck.Listener.Addr().String())
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	health(1, "HTTP_ADDR="+silent.Listener.Addr().String())
	d.do(context.Background(), http.MethodGet, "/healthz").want(t, http.StatusOK)
}
