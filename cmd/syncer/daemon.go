package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/config"
	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/httpapi"
	"alimtalk-syncer/internal/statuspage"
	"alimtalk-syncer/internal/sureM"
)

// lastWords is how long a request that was cut at the end of the grace time has to say so.
const lastWords = 250 * time.Millisecond

// daemon serves and syncs until ctx ends, then shuts down within SHUTDOWN_DELAY plus
// SHUTDOWN_GRACE. ready is called with the address it listens on. An error means that it
// could not run.
func daemon(ctx context.Context, cfg *config.Config, log zerolog.Logger, ready func(addr string)) error {
	listener, err := net.Listen("tcp", cfg.HTTPAddr)
	if err != nil {
		return fmt.Errorf("listening on HTTP_ADDR: %w", err)
	}
	stopDebug, err := serveDebug(cfg.DebugAddr, log)
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer stopDebug()
	a := newApp(cfg, log)
	var stopping atomic.Bool
	base, cut := context.WithCancelCause(context.Background())
	defer cut(nil)
	page := a.statusPage(stopping.Load)
	server := httpapi.NewServer(base, httpapi.New(httpapi.Options{
		Directory: cfg.Hospitals, Reader: a.reader, Looker: a.syncer,
		Tokens: cfg.APITokens, Addr: cfg.HTTPAddr,
		Healthy: a.syncer.Healthy, Ready: func() ([]string, bool) { return a.ready(stopping.Load()) },
		Metrics: a.metrics.Registry, Page: statuspage.Page(page), Status: statuspage.JSON(page), Log: log,
	}), max(cfg.SyncTimeout, cfg.FlightLoaderTimeout), log)

	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }() // ends with Shutdown or Close
	synced := make(chan struct{})
	go func() { // ends with ctx and the pass that runs then
		a.syncer.Schedule(ctx, cfg.Schedule, cfg.SyncOnStart)
		close(synced)
	}()
	v := buildVersion()
	log.Info().Str("version", v.version).Str("commit", v.commit).Str("addr", listener.Addr().String()).
		Int("hospitals", len(cfg.Hospitals.All())).Bool("dry_run", cfg.SyncDryRun).Msg("started")
	ready(listener.Addr().String())

	select {
	case err := <-served:
		return fmt.Errorf("serving HTTP: %w", err)
	case <-ctx.Done():
	}
	stopping.Store(true)
	log.Info().Msg("stopping")
	time.Sleep(cfg.ShutdownDelay)

	grace, cancel := context.WithTimeout(context.Background(), cfg.ShutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		log.Warn().Str("error", "SHUTDOWN_GRACE is over while requests still run").Msg("cut")
		cut(flight.ErrClosed)
		words, cancel := context.WithTimeout(context.Background(), lastWords)
		defer cancel()
		if err := server.Shutdown(words); err != nil {
			_ = server.Close()
		}
	}
	select {
	case <-synced:
	case <-grace.Done():
	}
	a.close(grace)
	log.Info().Msg("stopped")
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving HTTP: %w", err)
	}
	return nil
}

// serveDebug serves pprof at addr until stop is called; nothing when addr is empty.
func serveDebug(addr string, log zerolog.Logger) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening on DEBUG_ADDR: %w", err)
	}
	server := httpapi.NewDebugServer(addr, log)
	go func() { _ = server.Serve(listener) }() // ends with Close
	log.Info().Str("addr", listener.Addr().String()).Msg("debugging")
	return func() { _ = server.Close() }, nil
}

// statusPage is what the status page asks.
func (a *app) statusPage(stopping func() bool) statuspage.Options {
	v := buildVersion()
	return statuspage.Options{
		Passes: a.syncer.Status, Flights: a.reader.Stats, Figures: a.metrics.Figures, Healthy: a.syncer.Healthy,
		Health: func() statuspage.Health { return a.health(stopping()) },
		DryRun: a.cfg.SyncDryRun, Zone: a.cfg.Timezone, Version: v.version, Commit: v.commit, Started: time.Now(),
	}
}

// health says how the parts fare that the daemon stands on.
func (a *app) health(stopping bool) statuspage.Health {
	h := statuspage.Health{Redis: "ok", SureM: string(a.surem.State()), HospitalsFile: "ok", Stopping: stopping}
	if a.cache.Ping(context.Background()) != nil {
		h.Redis = "away"
	}
	if a.cfg.Hospitals.Bad() {
		h.HospitalsFile = "bad"
	}
	return h
}

// ready says which parts are degraded, and whether requests should be sent here: not while
// shutting down, nor when no read can be answered. A blink of Redis alone must not empty the
// load balancer while reads go on.
func (a *app) ready(stopping bool) (degraded []string, ok bool) {
	if stopping {
		return []string{"shutting down"}, false
	}
	h := a.health(stopping)
	for _, part := range []struct{ name, state string }{{"redis", h.Redis}, {"surem", h.SureM}, {"hospitals file", h.HospitalsFile}} {
		if part.state != "ok" {
			degraded = append(degraded, part.name+": "+part.state)
		}
	}
	return degraded, !(h.Redis == "away" && h.SureM == string(surem.StateAway))
}
