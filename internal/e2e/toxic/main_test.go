// Package toxic drives the built binary with toxiproxy between it and Redis, and between it
// and SureM. It is a module of its own, so that toxiproxy is no dependency of the program.
package toxic

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/sureM/simulator"
)

var (
	binary  string
	proxies *toxiproxy.ApiServer
)

func TestMain(m *testing.M) { os.Exit(mainTest(m)) }

func mainTest(m *testing.M) int {
	flag.Parse()
	_ = flag.Set("test.parallel", "7") // these tests wait more than they work
	dir, err := os.MkdirTemp("", "syncer-toxic-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "toxic:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "syncer")
	build := exec.Command("go", "build", "-race", "-o", binary, "./cmd/syncer")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "toxic: building the program: %v\n%s", err, out)
		return 1
	}
	proxies = toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	return m.Run()
}

// The daemon's own bounds.
const (
	syncTimeout   = 3 * time.Second
	loaderTimeout = 3 * time.Second
	suremTimeout  = 2 * time.Second
	redisBound    = 2 * time.Second // what Redis away adds to a read
	tick          = time.Second
)

const soon = 20 * time.Second

var (
	ids   = []string{"H001", "H002", "H003"}
	codes = []string{"T1", "T2", "T3", "T4", "T5"} // all but T5 are cached
)

// world is three hospitals between a Redis and a SureM that are reached through proxies.
type world struct {
	*simulator.Simulator
	t            *testing.T
	redis        *redistest.Server
	redisPath    *toxiproxy.Proxy
	suremPath    *toxiproxy.Proxy
	addr         string
	client       *http.Client
	log          output
	documents    map[string]string // by key, of what is to stay
	daemon       *exec.Cmd
	daemonWaited chan struct{}
}

func senderKey(id string) string { return "sk-" + id + "-9f2c" }
func key(id, code string) string { return "infotalk:template:{" + id + "}:" + code }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Simulator: simulator.New(), t: t, redis: redistest.Start(t), documents: map[string]string{}, client: &http.Client{Timeout: time.Minute}}
	suremURL, stop, err := w.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	w.AddAccount("clinic", "surem-secret-51c9")
	var list []string
	for _, id := range ids {
		list = append(list, id+"="+senderKey(id))
		w.AddSender("clinic", senderKey(id))
		for _, code := range codes {
			if err := w.Put(senderKey(id), simulator.Template{Code: code, Name: code, InspectionStatus: "APPROVED", Status: "A", Content: "본문-7c4e"}); err != nil {
				t.Fatal(err)
			}
			if code != "T5" {
				w.documents[key(id, code)] = w.Document(senderKey(id), code)
			}
		}
	}
	for k, document := range w.documents {
		if err := w.redis.Client.Set(context.Background(), k, document, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	w.redisPath = path(t, w.redis.Addr)
	w.suremPath = path(t, strings.TrimPrefix(suremURL, "http://"))
	w.addr = redistest.FreeAddr(t)
	w.start(
		"SUREM_BASE_URL=http://"+w.suremPath.Listen, "SUREM_USER_CODE=clinic", "SUREM_SECRET_KEY=surem-secret-51c9",
		"SUREM_RATE_LIMIT=1000", "SUREM_RATE_BURST=1000", "SUREM_TIMEOUT="+suremTimeout.String(), "SUREM_MAX_RETRIES=1",
		"REDIS_URL=redis://"+w.redisPath.Listen+"/0", "HOSPITALS="+strings.Join(list, ","), "HTTP_ADDR="+w.addr,
		"SYNC_SCHEDULE=@every "+tick.String(), "SYNC_TIMEOUT="+syncTimeout.String(),
		"FLIGHT_LOADER_TIMEOUT="+loaderTimeout.String(), "FLIGHT_FAILURE_COOLDOWN=100ms",
	)
	return w
}

// path puts a proxy before an address.
func path(t *testing.T, upstream string) *toxiproxy.Proxy {
	t.Helper()
	p := toxiproxy.NewProxy(proxies, t.Name()+upstream, "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func (w *world) start(env ...string) {
	w.t.Helper()
	w.daemon = exec.Command(binary)
	w.daemon.Env, w.daemon.Stdout, w.daemon.Stderr = env, &w.log, &w.log
	if err := w.daemon.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.daemonWaited = make(chan struct{})
	go func() {
		_ = w.daemon.Wait()
		close(w.daemonWaited)
	}()
	w.t.Cleanup(w.finish)
	eventually(w.t, soon, "a pass was good", func() bool { return w.metric("syncer_sync_last_success_timestamp_seconds") > 0 })
}

// finish ends the daemon and looks through its log.
func (w *world) finish() {
	w.client.CloseIdleConnections()
	_ = w.daemon.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(40*time.Second, func() { _ = w.daemon.Process.Kill() })
	defer timer.Stop()
	<-w.daemonWaited
	log := w.log.String()
	if code := w.daemon.ProcessState.ExitCode(); code != 0 {
		w.t.Errorf("the daemon ended with %d", code)
	}
	for _, hidden := range []string{"surem-secret-51c9", "-9f2c", "본문-7c4e", "DATA RACE", "panic"} {
		if strings.Contains(log, hidden) {
			w.t.Errorf("the log shows %q", hidden)
		}
	}
	for line := range strings.Lines(log) {
		if !json.Valid([]byte(line)) {
			w.t.Errorf("a line of the log is no JSON: %s", line)
			break
		}
	}
	if w.t.Failed() {
		w.t.Logf("the end of the log:\n%s", log[max(0, len(log)-6000):])
	}
}

// answer is what a request came to.
type answer struct {
	status int
	body   string
	took   time.Duration
	err    error
}

func (w *world) do(method, path string) answer {
	began := time.Now()
	r, err := http.NewRequestWithContext(context.Background(), method, "http://"+w.addr+path, nil)
	if err != nil {
		return answer{err: err}
	}
	resp, err := w.client.Do(r)
	if err != nil {
		return answer{err: err, took: time.Since(began)}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(body), time.Since(began), err}
}

func (w *world) read(id, code string) answer {
	return w.do(http.MethodGet, "/v1/hospitals/"+id+"/templates/"+code)
}

// metric returns one series of /metrics; 0 while nobody answers.
func (w *world) metric(name string) (v float64) {
	for line := range strings.Lines(w.do(http.MethodGet, "/metrics").body) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			_, _ = fmt.Sscan(rest, &v)
		}
	}
	return v
}

func (w *world) cached(k string) (string, bool) {
	w.t.Helper()
	v, err := w.redis.Client.Get(context.Background(), k).Result()
	if err != nil && !errors.Is(err, redisNil) {
		w.t.Fatal(err)
	}
	return v, err == nil
}

func eventually(t *testing.T, within time.Duration, what string, is func() bool) {
	t.Helper()
	end := time.Now().Add(within)
	for !is() {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// output is what a process wrote, readable while it runs.
type output struct {
	mu sync.Mutex
	b  strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
