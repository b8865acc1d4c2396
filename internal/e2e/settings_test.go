package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

func TestSecretsCanComeFromFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	d := w.start("SUREM_SECRET_KEY=", "SUREM_SECRET_KEY_FILE="+file("secret", secretKey+"\r\n"),
		"API_TOKENS_FILE="+file("tokens", "crm-token-1111,crm-token-2222\n\n"),
		"REDIS_URL=", "REDIS_URL_FILE="+file("redis", w.redis.url()+"\n"))
	d.read("H001", "T1").problem(t, http.StatusUnauthorized)
	d.get(detailPath("H001", "T1"), "Authorization: Bearer crm-token-2222").document(t, one).via(t, "fwd=miss; stored")
	for _, bad := range [][]string{
		{"SUREM_SECRET_KEY_FILE=" + file("beside", "x")}, // beside the variable itself
		{"SUREM_SECRET_KEY=", "SUREM_SECRET_KEY_FILE=" + filepath.Join(dir, "missing")},
		{"SUREM_SECRET_KEY=", "SUREM_SECRET_KEY_FILE=" + file("empty", "\n")},
	} {
		if r := w.command([]string{"config"}, bad...).want(t, 2); !strings.Contains(r.stderr, "SUREM_SECRET_KEY_FILE") {
			t.Errorf("%v: %s", bad, r)
		}
	}
}

func TestSlipsOfThePenAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	for _, slip := range []string{"SUREM_TIMEOUTS=1s", "SYNC_NOTHING=1", "FLIGHT_X=1", "HOSPITALS_LIST=x", "SHUTDOWN_NOW=1", "CACHE_TLL=1h", "HTTP_ADR=127.0.0.1:1", "REDIS_URI=x", "LOG_LEVL=info", "API_TOKEN=x"} {
		name, _, _ := strings.Cut(slip, "=")
		if r := w.command([]string{"config"}, slip).want(t, 2); !strings.Contains(r.stderr, name) {
			t.Errorf("%s: %s", slip, r)
		}
	}
	r := w.command([]string{"sync"}, "REDIS_SOMETHING_ELSE=1").want(t, 0)
	told := 0
	for line := range strings.Lines(r.stderr) {
		if strings.Contains(line, "REDIS_SOMETHING_ELSE") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d warning lines, want one: %s", told, r.stderr)
	}
	r = w.command([]string{"sync"}, "REDIS_SERVICE_HOST=10.0.0.1", "REDIS_SERVICE_PORT=6379", "REDIS_SERVICE_PORT_REDIS=6379", "REDIS_PORT=tcp://10.0.0.1:6379",
		"REDIS_PORT_6379_TCP=tcp://10.0.0.1:6379", "REDIS_PORT_6379_TCP_ADDR=10.0.0.1", "SYNC_SERVICE_HOST=10.0.0.2", "SYNC_PORT=udp://10.0.0.2:1", "SYNC_PORT_1_UDP_PROTO=udp", "HTTP_PROXY=").want(t, 0)
	if strings.Contains(r.stderr, "_SERVICE_") || strings.Contains(r.stderr, "_PORT") {
		t.Errorf("what platforms inject is warned about: %s", r.stderr)
	}
}

func TestTheConsoleFormatIsForPeople(t *testing.T) {
	t.Parallel()
	w := twoHospitals(t)
	r := w.command([]string{"sync", "--json"}, "LOG_FORMAT=console").want(t, 0)
	if r.stderr == "" || strings.HasPrefix(r.stderr, "{") || !strings.Contains(r.stderr, "H001") {
		t.Errorf("%s", r.stderr)
	}
}

func TestProxiesOfTheEnvironmentAreHonoured(t *testing.T) {
	t.Parallel()
	var connects atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect && r.Host == "surem.invalid:443" {
			connects.Add(1)
		}
		rw.WriteHeader(http.StatusBadGateway)
	}))
	defer proxy.Close()
	w := newWorld(t, "H001").quiet()
	through := []string{"SUREM_BASE_URL=https://surem.invalid", "HTTPS_PROXY=" + proxy.URL, "SUREM_MAX_RETRIES=0"}
	w.command([]string{"sync"}, through...).want(t, 1)
	if connects.Load() == 0 {
		t.Error("HTTPS_PROXY is not used")
	}
	before := connects.Load()
	w.command([]string{"sync"}, append(through, "NO_PROXY=surem.invalid")...).want(t, 1)
	if connects.Load() != before {
		t.Error("NO_PROXY is not obeyed")
	}
}

func TestNoRedirectIsFollowed(t *testing.T) {
	t.Parallel()
	var visits atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	defer elsewhere.Close()
	w := newWorld(t, "H001").quiet()
	w.surem.each(func(c call) *reply {
		return &reply{status: http.StatusTemporaryRedirect, header: map[string]string{"Location": elsewhere.URL}, body: "{}"}
	})
	w.command([]string{"get", "H001", "T1"}, "SUREM_MAX_RETRIES=0").want(t, 1)
	w.surem.each(func(c call) *reply {
		if c.op == login {
			return nil
		}
		return &reply{status: http.StatusFound, header: map[string]string{"Location": elsewhere.URL}, body: "{}"}
	})
	w.command([]string{"get", "H001", "T1"}, "SUREM_MAX_RETRIES=0").want(t, 1)
	if n := visits.Load(); n != 0 {
		t.Errorf("%d requests went where SureM pointed", n)
	}
}

func TestTheScheduleMayHaveSecondsAndTheLogALevel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	d := w.start("SYNC_SCHEDULE=* * * * * *", "SYNC_ON_START=false", "LOG_LEVEL=error")
	w.surem.awaitReadings(senderKey("H001"), 2)
	if log := d.stderr.String(); log != "" {
		t.Errorf("at level error the log says %s", log)
	}
}
