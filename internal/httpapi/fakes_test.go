package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/templates"
)

// world is everything behind the handlers, and a real server before them.
type world struct {
	t       testing.TB
	options Options
	log     syncBuffer

	// What the fakes answer. Set before the request that needs it.
	read   func(ctx context.Context, h hospitals.Hospital, code string) (templates.Answer, error)
	forget func(ctx context.Context, h hospitals.Hospital, code string) error
	look   func(ctx context.Context, h hospitals.Hospital, trigger string) (invalidate.Reading, error)

	mu    sync.Mutex
	calls []string // "read H001 T1", "forget …", "look H001 list"

	readTimeout time.Duration // of the server; 0 = its own
	addr        string
	cancel      context.CancelCauseFunc // of the server's base context
}

func newWorld(t testing.TB, change ...func(*Options)) *world {
	w := &world{t: t}
	w.read = func(_ context.Context, _ hospitals.Hospital, code string) (templates.Answer, error) {
		return templates.Answer{Document: `{"templateCode":"` + code + `"}`}, nil
	}
	w.forget = func(context.Context, hospitals.Hospital, string) error { return nil }
	w.look = func(context.Context, hospitals.Hospital, string) (invalidate.Reading, error) {
		return invalidate.Reading{List: templates.List{Complete: true}}, nil
	}
	w.options = Options{
		Directory: w, Reader: w, Looker: w,
		Addr:    "127.0.0.1:8080",
		Healthy: func() error { return nil },
		Ready:   func() ([]string, bool) { return nil, true },
		Metrics: prometheus.NewRegistry(),
		Log:     zerolog.New(&w.log),
	}
	for _, c := range change {
		c(&w.options)
	}
	return w
}

// serve starts a real server on loopback.
func (w *world) serve() *world {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	base, cancel := context.WithCancelCause(context.Background())
	server := NewServer(base, New(w.options), time.Second, w.options.Log)
	if w.readTimeout > 0 {
		server.ReadTimeout = w.readTimeout
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	w.t.Cleanup(func() { cancel(nil); _ = server.Close(); <-done })
	w.addr, w.cancel = l.Addr().String(), cancel
	return w
}

func (w *world) Get(id string) (hospitals.Hospital, bool) {
	if !hospitals.ValidID(id) {
		w.t.Errorf("the directory was asked for %q", id)
	}
	return hospitals.Hospital{ID: id, SenderKey: "sender-key-of-" + hospitals.Secret(id)}, id == "H001" || id == "H002"
}

func (w *world) Read(ctx context.Context, h hospitals.Hospital, code string) (templates.Answer, error) {
	w.called("read", h, code)
	return w.read(ctx, h, code)
}

func (w *world) Forget(ctx context.Context, h hospitals.Hospital, code string) error {
	w.called("forget", h, code)
	return w.forget(ctx, h, code)
}

func (w *world) Reload() {}

func (w *world) Look(ctx context.Context, h hospitals.Hospital, trigger string) (invalidate.Reading, error) {
	w.called("look", h, trigger)
	return w.look(ctx, h, trigger)
}

func (w *world) called(what string, h hospitals.Hospital, arg string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, what+" "+h.ID+" "+arg)
	if what != "look" && templates.CheckCode(arg) != nil {
		w.t.Errorf("%s was called with the code %q", what, arg)
	}
}

func (w *world) wantCalls(want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.calls, "; "); got != strings.Join(want, "; ") {
		w.t.Errorf("calls: %s; want %s", got, strings.Join(want, "; "))
	}
	w.calls = nil
}

type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request; headers come as "Name: value", and "Host: x" is the request's host.
func (w *world) do(method, target string, headers ...string) answer {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+w.addr+target, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Add(name, value)
		}
	}
	return w.receive((&http.Transport{DisableKeepAlives: true}).RoundTrip(r))
}

func (w *world) receive(response *http.Response, err error) answer {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// wantProblem checks all that every problem has.
func (w *world) wantProblem(a answer, status int) {
	w.t.Helper()
	if a.status != status {
		w.t.Fatalf("status %d, want %d; body %s", a.status, status, a.body)
	}
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		w.t.Errorf("Content-Type %q", got)
	}
	wantNoStore(w.t, a)
	var p struct {
		Type, Title, Detail string
		Status              int
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		w.t.Fatalf("%v: %s", err, a.body)
	}
	if p.Type != "about:blank" || p.Title != http.StatusText(status) || p.Status != status || p.Detail == "" {
		w.t.Errorf("problem %s", a.body)
	}
	for _, secret := range []string{"sender-key", "vendor text", w.addr, "10.0.0.9"} {
		if secret != "" && strings.Contains(a.body, secret) {
			w.t.Errorf("the problem gives away %q: %s", secret, a.body)
		}
	}
}

func wantNoStore(t testing.TB, a answer) {
	t.Helper()
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("Cache-Control %q, X-Content-Type-Options %q", a.header.Get("Cache-Control"), a.header.Get("X-Content-Type-Options"))
	}
}

// syncBuffer is a log that handlers write and the test reads.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
