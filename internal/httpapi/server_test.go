package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/templates"
)

func TestAPanicStaysInItsRequest(t *testing.T) {
	w := newWorld(t).serve()
	w.read = func(context.Context, hospitals.Hospital, string) (templates.Answer, error) { panic("a slip") }
	w.wantProblem(w.do("GET", "/v1/hospitals/H001/templates/T1"), 500)
	for _, part := range []string{`"panic":"a slip"`, "handler panicked", "server_test.go"} {
		if !strings.Contains(w.log.String(), part) {
			t.Errorf("the log lacks %s: %s", part, w.log.String())
		}
	}
	if a := w.do("GET", "/healthz"); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}

func TestAPanicInTheMiddleOfAnAnswerCutsIt(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half an answer")
			_ = http.NewResponseController(w).Flush()
			panic("a slip")
		})
	}).serve()
	c := w.raw("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != "half an answer" {
		t.Errorf("%q, %v", body, err)
	}
}

func TestAnAbortedHandlerIsNoPanic(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Page = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	}).serve()
	c := w.raw("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if answer, err := io.ReadAll(c); len(answer) != 0 {
		t.Errorf("%q, %v", answer, err)
	}
	if got := w.log.String(); got != "" {
		t.Errorf("log %s", got)
	}
}

func TestEveryServerTimesOut(t *testing.T) {
	longest := 30 * time.Second
	s := NewServer(context.Background(), http.NotFoundHandler(), longest, zerolog.Nop())
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 || s.WriteTimeout <= 2*longest {
		t.Errorf("%+v", s)
	}
}

func TestALoadMayOutlastTheReadTimeOut(t *testing.T) {
	w := newWorld(t)
	w.read = func(ctx context.Context, _ hospitals.Hospital, _ string) (templates.Answer, error) {
		select {
		case <-ctx.Done():
			return templates.Answer{}, context.Cause(ctx)
		case <-time.After(300 * time.Millisecond):
			return templates.Answer{Document: document}, nil
		}
	}
	w.readTimeout = 50 * time.Millisecond
	w.serve()
	if a := w.do("GET", "/v1/hospitals/H001/templates/T1"); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestTheServersOwnComplaintsCannotFillTheLog(t *testing.T) {
	var log strings.Builder
	s := NewServer(context.Background(), http.NotFoundHandler(), time.Second, zerolog.New(&log))
	s.ErrorLog.Print("http: superfluous response.WriteHeader call from 10.0.0.9:1234")
	if log.Len() > 0 {
		t.Errorf("log %s", log.String())
	}
	s.ErrorLog.Print("http: Accept error: accept4: too many open files; retrying in 5ms")
	if !strings.Contains(log.String(), "connection not accepted") || !strings.Contains(log.String(), "too many open files") {
		t.Errorf("log %s", log.String())
	}
}

func TestRequestsInPiecesAndInARowAreServed(t *testing.T) {
	w := newWorld(t).serve()
	c := w.raw("GET /v1/hospitals/H001/temp")
	for _, piece := range []string{"lates/T1 HT", "TP/1.1\r\nHo", "st: localhost\r", "\n\r", "\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"} {
		if _, err := c.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	answers := bufio.NewReader(c)
	for range 2 {
		response, err := http.ReadResponse(answers, nil)
		if err != nil || response.StatusCode != 200 {
			t.Fatalf("%v %v", response, err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
	}
}

func TestHealth(t *testing.T) {
	w := newWorld(t)
	var health error
	var degraded []string
	ready := true
	w.options.Healthy = func() error { return health }
	w.options.Ready = func() ([]string, bool) { return degraded, ready }
	w.serve()
	want := func(target string, status int, body string) {
		t.Helper()
		a := w.do("GET", target)
		if a.status != status || a.body != body || a.header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: %+v, want %d %q", target, a, status, body)
		}
	}
	want("/healthz", 200, "ok\n")
	want("/readyz", 200, "ok\n")
	health = errors.New("the tick is overdue")
	want("/healthz", 503, "the tick is overdue\n")
	degraded = []string{"redis: away", "hospitals file: bad"}
	want("/readyz", 200, "redis: away\nhospitals file: bad\n")
	ready = false
	want("/readyz", 503, "redis: away\nhospitals file: bad\n")
	degraded = nil
	want("/readyz", 503, "service unavailable\n")
}

func TestMetricsAreTheRegistrys(t *testing.T) {
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	moved := prometheus.NewCounter(prometheus.CounterOpts{Name: "moved_total"})
	registry.MustRegister(moved)
	w.options.Metrics = registry
	w.serve()
	moved.Inc()
	if a := w.do("GET", "/metrics"); a.status != 200 || !strings.Contains(a.body, "\nmoved_total 1\n") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
