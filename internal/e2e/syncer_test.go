package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"alimtalk-syncer/internal/redistest"
)

// never is a schedule whose next tick no test sees.
const never = "0 0 1 1 *"

// world is one Redis, one SureM and the settings of a syncer between them.
type world struct {
	t     testing.TB
	redis *redisServer
	surem *sureM
	env   map[string]string
	other string // the daemon's binary, where it is not the one under test itself
}

// secretKey and the sender keys must never be seen again outside of calls to SureM.
const secretKey = "surem-secret-51c9"

func senderKey(hospital string) string { return "sk-" + hospital + "-9f2c" }

// newWorld configures the hospitals in one account, each with a sender key of its own, and a
// tick every second.
func newWorld(t testing.TB, hospitals ...string) *world {
	t.Helper()
	return newWorldOn(t, newRedis(t), hospitals...)
}

func newWorldOn(t testing.TB, redis *redisServer, hospitals ...string) *world {
	t.Helper()
	w := &world{t: t, redis: redis, surem: newSureM(t)}
	w.surem.account("clinic", secretKey)
	var list []string
	for _, h := range hospitals {
		list = append(list, h+"="+senderKey(h))
	}
	w.env = map[string]string{
		"SUREM_BASE_URL":   w.surem.url(),
		"SUREM_USER_CODE":  "clinic",
		"SUREM_SECRET_KEY": secretKey,
		"SUREM_RATE_LIMIT": "1000",
		"SUREM_RATE_BURST": "1000",
		"REDIS_URL":        w.redis.url(),
		"HOSPITALS":        strings.Join(list, ","),
		"SYNC_SCHEDULE":    "@every 1s",
	}
	return w
}

// quiet leaves passes to those who ask for them.
func (w *world) quiet() *world {
	w.env["SYNC_SCHEDULE"], w.env["SYNC_ON_START"] = never, "false"
	return w
}

// key is the Redis key of an entry under the default CACHE_KEY_FORMAT.
func key(hospital, code string) string { return "infotalk:template:{" + hospital + "}:" + code }

// offer puts templates to a hospital's sender key at SureM.
func (w *world) offer(hospital string, templates ...template) {
	w.surem.put(senderKey(hospital), templates...)
}

// cache puts the document of t into Redis, as an earlier read would have.
func (w *world) cache(hospital string, t template) {
	w.t.Helper()
	w.redis.set(key(hospital, t.code), t.document(), aLongTime)
}

func (w *world) cached(hospital, code string) bool {
	w.t.Helper()
	return w.redis.has(key(hospital, code))
}

// environ returns the settings with "NAME=value" changes on top; an empty value unsets.
func (w *world) environ(changes []string) []string {
	all := map[string]string{}
	for k, v := range w.env {
		all[k] = v
	}
	for _, c := range changes {
		k, v, _ := strings.Cut(c, "=")
		all[k] = v
	}
	var env []string
	for k, v := range all {
		env = append(env, k+"="+v)
	}
	return env
}

// hidden returns what no log, metric or answer may hold.
func (w *world) hidden() []string {
	w.surem.mu.Lock()
	defer w.surem.mu.Unlock()
	list := append([]string{secretKey, "-9f2c", textMark}, w.surem.issued...)
	for _, s := range w.surem.secrets {
		list = append(list, s)
	}
	return list
}

// output is what a process wrote, readable while it runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
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

// daemon is a running syncer.
type daemon struct {
	w      *world
	addr   string
	client *http.Client
	cmd    *exec.Cmd
	stdout output
	stderr output
	ended  chan struct{} // closed when the process has ended
	code   int           // its exit code, then
	done   bool          // the test has judged the end itself
}

// start starts the daemon and waits until it answers HTTP.
func (w *world) start(changes ...string) *daemon {
	w.t.Helper()
	d := w.launch(changes...)
	eventually(w.t, soon, "the daemon answers on "+d.addr, func() bool {
		select {
		case <-d.ended:
			w.t.Fatalf("the daemon ended with %d:\n%s", d.code, d.stderr.String())
		default:
		}
		return d.get("/healthz").err == nil
	})
	return d
}

// launch starts the daemon and waits for nothing.
func (w *world) launch(changes ...string) *daemon {
	w.t.Helper()
	d := &daemon{w: w, addr: redistest.FreeAddr(w.t), ended: make(chan struct{})}
	d.client = &http.Client{
		Timeout: time.Minute,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 1000,
			DisableCompression:  true,
			Proxy:               nil,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	d.cmd = exec.Command(cmp.Or(w.other, binary), "run")
	d.cmd.Env = w.environ(append([]string{"HTTP_ADDR=" + d.addr}, changes...))
	d.cmd.Stdout, d.cmd.Stderr, d.cmd.SysProcAttr = &d.stdout, &d.stderr, ownProcess()
	if err := d.cmd.Start(); err != nil {
		w.t.Fatal("syncer:", err)
	}
	go func() {
		_ = d.cmd.Wait()
		d.code = d.cmd.ProcessState.ExitCode()
		close(d.ended)
	}()
	w.t.Cleanup(d.finish)
	return d
}

// finish ends the daemon as a supervisor would and holds it to what every end must show:
// exit code 0, nothing but JSON on stderr, no data race, no secret in what it wrote.
func (d *daemon) finish() {
	t := d.w.t
	t.Helper()
	d.client.CloseIdleConnections()
	if !d.done {
		d.signal(syscall.SIGCONT) // when the test has failed while it was frozen
		if code := d.stop(); code != 0 {
			t.Errorf("the daemon ended with %d", code)
		}
	}
	log := d.stdout.String() + d.stderr.String()
	for _, s := range d.w.hidden() {
		if strings.Contains(log, s) {
			t.Errorf("the log shows %q", s)
		}
	}
	for _, s := range []string{"DATA RACE", "goroutine ", "panic"} {
		if strings.Contains(log, s) {
			t.Errorf("the log shows %q", s)
		}
	}
	for line := range strings.Lines(d.stderr.String()) {
		if !json.Valid([]byte(line)) && !strings.HasPrefix(line, "syncer: ") { // its last words
			t.Errorf("a line of the log is no JSON: %s", line)
			break
		}
	}
	if out := d.stdout.String(); out != "" {
		t.Errorf("the daemon wrote to stdout: %s", out)
	}
	if t.Failed() {
		t.Logf("the end of the daemon's log:\n%s", log[max(0, len(log)-8000):])
	}
}

// signal sends sig to the daemon.
func (d *daemon) signal(sig os.Signal) {
	d.w.t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.w.t.Fatal("syncer:", err)
	}
}

// stop sends SIGTERM and returns the exit code.
func (d *daemon) stop() int {
	d.w.t.Helper()
	d.signal(syscall.SIGTERM)
	return d.wait(40 * time.Second)
}

// kill ends the daemon as kill -9 does.
func (d *daemon) kill() {
	d.w.t.Helper()
	d.signal(syscall.SIGKILL)
	d.wait(soon)
}

// wait returns the exit code; a daemon that does not end within the bound is killed.
func (d *daemon) wait(within time.Duration) int {
	d.w.t.Helper()
	d.done = true
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-d.ended:
	case <-timer.C:
		d.w.t.Errorf("the daemon did not end within %v", within)
		_ = d.cmd.Process.Kill()
		<-d.ended
	}
	return d.code
}

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
}

// command runs the program to its end with the world's settings.
func (w *world) command(args []string, changes ...string) result {
	w.t.Helper()
	r := run(w.t, w.environ(changes), args...)
	for _, s := range append(w.hidden()[:2:2], "DATA RACE", "goroutine ") {
		if strings.Contains(r.stdout+r.stderr, s) {
			w.t.Errorf("syncer %s shows %q:\n%s%s", strings.Join(args, " "), s, r.stdout, r.stderr)
		}
	}
	return r
}

// run runs the program to its end in exactly this environment.
func run(t testing.TB, env []string, args ...string) result {
	t.Helper()
	cmd := exec.Command(binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = append([]string{}, env...), &stdout, &stderr, ownProcess()
	if err := cmd.Start(); err != nil {
		t.Fatal("syncer:", err)
	}
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait()
	r := result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	if r.code == -1 {
		t.Fatalf("syncer %s was killed after a minute:\n%s", strings.Join(args, " "), r.stderr)
	}
	return r
}

// want fails the test unless the command ended with this code.
func (r result) want(t testing.TB, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", r.code, code, r.stdout, r.stderr)
	}
	return r
}

func (r result) String() string { return fmt.Sprintf("%d\n%s\n%s", r.code, r.stdout, r.stderr) }
