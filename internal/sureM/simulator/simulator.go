// Package simulator is a SureM to run against: the login, the summaries in pages and the
// details that surem.md describes, with accounts, tokens and sender keys whose templates
// can be changed while a client looks on. It also misbehaves on demand: Kinds lists how,
// Fault says where and how often, and /_sim/ takes both over HTTP.
//
// It knows nothing of the reader it is used to test, and promises nothing about the real
// SureM beyond what is known of it.
package simulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// The operations of SureM's API.
const (
	Login     = "login"
	Summaries = "summaries"
	Detail    = "detail"
)

// The paths it serves, the daemon's defaults.
const (
	LoginPath     = "/api/v1/auth/token"
	TemplatesPath = "/api/v1/alimtalk/templates"
)

// Simulator is an http.Handler, and everything about it may be changed while it serves.
type Simulator struct {
	mux *http.ServeMux

	mu        sync.Mutex
	accounts  map[string]string  // user code → secret key
	senders   map[string]*sender // by sender key
	tokens    map[string]*token  // by access token
	tokenLife time.Duration
	latency   time.Duration
	faults    []*laid
	holds     map[ref][]chan struct{}
	waiting   map[ref]int // answers that are held back
	counts    map[ref]*count
	trapped   int
	watch     func(Change)
}

// ref names what a call was about; parts that the operation has not are empty.
type ref struct{ operation, senderKey, code string }

// New returns a SureM without accounts. Its tokens live one hour.
func New() *Simulator {
	s := &Simulator{
		mux:       http.NewServeMux(),
		accounts:  make(map[string]string),
		senders:   make(map[string]*sender),
		tokens:    make(map[string]*token),
		tokenLife: time.Hour,
		holds:     make(map[ref][]chan struct{}),
		waiting:   make(map[ref]int),
		counts:    make(map[ref]*count),
	}
	s.mux.HandleFunc("POST "+LoginPath, s.login)
	s.mux.HandleFunc("GET "+TemplatesPath, s.summaries)
	s.mux.HandleFunc("GET "+TemplatesPath+"/{code}", s.detail)
	s.control()
	return s
}

// ServeHTTP implements http.Handler.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Start serves on a free port of 127.0.0.1 until stop is called. stop cuts the calls that
// still run and returns when no more are taken.
func (s *Simulator) Start() (baseURL string, stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		cancel()
		return "", nil, fmt.Errorf("listen for the simulated SureM: %w", err)
	}
	server := &http.Server{
		Handler:           s,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
	}
	served := make(chan struct{})
	go func() {
		_ = server.Serve(listener) // ends when stop closes the server
		close(served)
	}()
	stop = func() {
		cancel()
		_ = server.Close()
		<-served
	}
	return "http://" + listener.Addr().String(), stop, nil
}

// AddAccount adds an account that may log in, or gives it another secret.
func (s *Simulator) AddAccount(userCode, secretKey string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts[userCode] = secretKey
}

// AddSender gives an account a sender key, which owns templates of its own.
func (s *Simulator) AddSender(userCode, senderKey string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.senders[senderKey] = &sender{userCode: userCode, templates: make(map[string]*Template)}
}

// SetLatency makes every call of the API take at least this long.
func (s *Simulator) SetLatency(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latency = d
}

// HoldDetail keeps back the answers to detail calls of a template until release is called.
// A held answer has been read before: it shows the template as it stood when the call came.
func (s *Simulator) HoldDetail(senderKey, code string) (release func()) {
	gate := make(chan struct{})
	at := ref{Detail, senderKey, code}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds[at] = append(s.holds[at], gate)
	return sync.OnceFunc(func() {
		close(gate)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.holds[at] = slices.DeleteFunc(s.holds[at], func(other chan struct{}) bool { return other == gate })
	})
}

// Waiting returns how many answers HoldDetail keeps back now for a template.
func (s *Simulator) Waiting(senderKey, code string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[ref{Detail, senderKey, code}]
}

// held waits until every gate on at is open or the caller has left.
func (s *Simulator) held(ctx context.Context, at ref) {
	s.mu.Lock()
	gates := slices.Clone(s.holds[at])
	s.waiting[at] += min(1, len(gates))
	s.mu.Unlock()
	for _, gate := range gates {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[at] -= min(1, len(gates))
}

// pause waits for d, or until the caller has left.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// errUnknown means that there is no such sender key or template here.
var errUnknown = errors.New("no such sender key or template")
