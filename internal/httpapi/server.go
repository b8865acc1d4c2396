// Package httpapi is the daemon's HTTP side: detail reads, live lists, passes on demand,
// health and metrics. It decides nothing about templates: it checks who asks and for what,
// hands on, and says what came of it. Errors are RFC 9457 problems in the operator's words;
// no answer holds vendor text, an address or a secret.
package httpapi

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/templates"
)

// Directory knows the hospitals.
type Directory interface {
	Get(id string) (hospitals.Hospital, bool)
}

// Reader serves detail reads through the cache.
type Reader interface {
	Read(ctx context.Context, h hospitals.Hospital, code string) (templates.Answer, error)
	Forget(ctx context.Context, h hospitals.Hospital, code string) error
}

// Looker reads a hospital's summaries and compares the cache with them. The trigger is
// "list" or "manual". Reload takes a changed HOSPITALS_FILE in, as before every pass.
type Looker interface {
	Reload()
	Look(ctx context.Context, h hospitals.Hospital, trigger string) (invalidate.Reading, error)
}

// Options are what the handlers stand on. All but Tokens, Page
// and Status are needed.
type Options struct {
	Directory Directory
	Reader    Reader
	Looker    Looker

	Tokens []hospitals.Secret // API_TOKENS, none of them empty; none at all = everyone on this machine
	Addr   string             // HTTP_ADDR, whose host a request may name when there are no tokens

	Healthy func() error                        // nil while the process makes progress
	Ready   func() (degraded []string, ok bool) // one line per degraded part; false = send nobody here
	Metrics prometheus.Gatherer
	Page    http.Handler // of "/"; nil = 404
	Status  http.Handler // of "/v1/status"; nil = 404

	Log zerolog.Logger
}

type server struct {
	Options
	gate *gate
}

// failuresLogged is how many failed requests the log hears of in a second: a load that fails
// fails everyone who waits for it, and whoever asks while it cools.
const failuresLogged = 20

// New returns the handler of everything that contract §6 names.
func New(o Options) http.Handler {
	o.Log = o.Log.Sample(zerolog.LevelSampler{WarnSampler: &zerolog.BurstSampler{Burst: failuresLogged, Period: time.Second}})
	s := &server{Options: o, gate: newGate(o.Tokens, o.Addr)}
	to := s.routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &tracked{ResponseWriter: w}
		defer s.recover(t)
		setDefaults(t.Header())
		s.route(t, r, to)
	})
}

// NewServer returns a server for New's handler. longest is the longer of SYNC_TIMEOUT and
// FLIGHT_LOADER_TIMEOUT: a request may wait for one run or reading and be carried into a
// second one, so the write time-out exceeds twice it. Requests' contexts descend from base:
// ending it with a cause cuts what still runs, which is then answered with 503.
func NewServer(base context.Context, h http.Handler, longest time.Duration, l zerolog.Logger) *http.Server {
	return &http.Server{
		Handler:                      h,
		DisableGeneralOptionsHandler: true, // "OPTIONS *" is one more unknown path
		ReadHeaderTimeout:            5 * time.Second,
		ReadTimeout:                  10 * time.Second, // no request here needs its body
		WriteTimeout:                 2*longest + 10*time.Second,
		IdleTimeout:                  time.Minute,
		MaxHeaderBytes:               32 << 10,
		BaseContext:                  func(net.Listener) context.Context { return base },
		ErrorLog:                     log.New(listenerFaults{l}, "", 0),
	}
}

// listenerFaults keeps what net/http says about accepting connections. All else that it
// says is caused by single clients, who could fill the log with it.
type listenerFaults struct{ log zerolog.Logger }

func (l listenerFaults) Write(line []byte) (int, error) {
	if _, fault, found := strings.Cut(string(line), "Accept error: "); found {
		l.log.Warn().Str("error", strings.TrimSpace(fault)).Msg("connection not accepted")
	}
	return len(line), nil
}

// recover keeps a panic in its request: 500, or a cut connection when the answer had begun.
func (s *server) recover(w *tracked) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { //nolint:errorlint // a panic's value, which net/http too compares like this
		panic(v)
	}
	s.Log.Error().Str("panic", fmt.Sprint(v)).Bytes("stack", debug.Stack()).Msg("handler panicked")
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	clear(w.Header())
	setDefaults(w.Header())
	ownFault.write(w)
}

// The values of headers that every answer carries, made once. net/http only reads them.
var (
	noStore = []string{"no-store"}
	noSniff = []string{"nosniff"}
)

// setDefaults sets what every answer carries: it is of this moment, and of the type it says.
func setDefaults(h http.Header) {
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
}

// tracked knows whether an answer has begun.
type tracked struct {
	http.ResponseWriter
	begun bool
}

func (t *tracked) WriteHeader(status int) {
	t.begun = true
	t.ResponseWriter.WriteHeader(status)
}

func (t *tracked) Write(b []byte) (int, error) {
	t.begun = true
	return t.ResponseWriter.Write(b)
}

// WriteString implements io.StringWriter: a document is not copied on its way out.
func (t *tracked) WriteString(s string) (int, error) {
	t.begun = true
	return io.WriteString(t.ResponseWriter, s)
}

// Unwrap serves http.ResponseController.
func (t *tracked) Unwrap() http.ResponseWriter { return t.ResponseWriter }
