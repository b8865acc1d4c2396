package httpapi

import (
	"log"
	"net/http"
	"net/http/pprof" // it also registers with the default mux, which nobody serves
	"time"

	"github.com/rs/zerolog"
)

// NewDebugServer returns a server of pprof for DEBUG_ADDR, which must be loopback. It has no
// tokens; like the rest it answers only who names this machine.
func NewDebugServer(addr string, l zerolog.Logger) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	gate := newGate(nil, addr)
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if gate.admits(w, r) {
				mux.ServeHTTP(w, r)
			}
		}),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      5 * time.Minute, // the longest profile that can be asked for
		IdleTimeout:       time.Minute,
		ErrorLog:          log.New(listenerFaults{l}, "", 0),
	}
}
