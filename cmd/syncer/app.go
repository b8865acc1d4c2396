package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/config"
	"alimtalk-syncer/internal/fleet"
	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/sureM"
	"alimtalk-syncer/internal/templates"
)

// app is the parts of the program, wired. Every command but config and version has one.
type app struct {
	cfg       *config.Config
	log       zerolog.Logger
	metrics   *metrics.Metrics
	rdb       redis.UniversalClient
	poolStats func() *redis.PoolStats
	cache     *templates.Cache
	surem     *surem.Client
	reader    *templates.Reader
	syncer    *invalidate.Syncer
	heartbeat *heartbeat
}

// newApp wires the parts. It talks to nobody yet, so that the daemon starts without Redis.
func newApp(cfg *config.Config, log zerolog.Logger) *app {
	a := &app{cfg: cfg, log: log}
	v := buildVersion()
	a.metrics = metrics.New(v.version, v.commit, v.goVersion)
	redis.SetLogger(silent{}) // what it says of connections, Watch says once
	a.rdb = cfg.Redis.Connect()
	templates.WatchOver(a.rdb, log)
	a.poolStats = redisconn.PoolStats(a.rdb)
	a.cache = templates.NewCache(a.rdb, templates.CacheOptions{
		Keys: cfg.CacheKeyFormat, Keyv: cfg.CacheValueFormat == "keyv", TTL: cfg.CacheTTL,
		FenceTTL: 2*cfg.FlightLoaderTimeout + time.Minute, Current: cfg.Hospitals.Current, Fleet: cfg.Fleet,
	})
	var claims *fleet.Claims // none without FLEET
	var limit surem.Shared
	if cfg.Fleet {
		claims = fleet.NewClaims(a.rdb, cfg.CacheKeyFormat)
		limit = fleet.NewLimit(a.rdb, fleet.LimitOptions{
			Keys: cfg.CacheKeyFormat, Rate: cfg.SureMRateLimit, Burst: cfg.SureMRateBurst, Metrics: a.metrics, Log: log,
		})
	}
	a.surem = surem.New(surem.Options{
		BaseURL: cfg.SureMBaseURL, TokenPath: cfg.SureMTokenPath, SummaryPath: cfg.SureMSummaryPath, DetailPath: cfg.SureMDetailPath,
		PageSize: cfg.SureMPageSize, FirstPage: cfg.SureMFirstPage, Timeout: cfg.SureMTimeout,
		RateLimit: cfg.SureMRateLimit, RateBurst: cfg.SureMRateBurst, MaxRetries: cfg.SureMMaxRetries,
		ReloginCodes: cfg.SureMReloginCodes, NotFoundCodes: cfg.SureMNotFoundCodes,
		Shared: limit, Secret: cfg.Hospitals.Secret, Mask: cfg.Hospitals.Mask, Metrics: a.metrics, Log: log,
	})
	a.reader = templates.NewReader(templates.ReaderOptions{
		Cache: a.cache, Source: a.surem,
		Flight: flight.Options{
			MaxKeys: cfg.FlightMaxKeys, MaxWaiters: cfg.FlightMaxWaiters, LoaderTimeout: cfg.FlightLoaderTimeout,
			Observer: observer{a.metrics, log},
		},
		CoolDown: cfg.FlightFailureCooldown, CoolingMax: cfg.FlightMaxKeys, Metrics: a.metrics, Log: log,
		Verify: func(ctx context.Context, h hospitals.Hospital) bool { return a.syncer.Verify(ctx, h) },
	})
	skip := make(map[templates.State]bool)
	for _, state := range cfg.SyncSkipStatuses {
		skip[state] = true
	}
	a.heartbeat = newHeartbeat(cfg.SyncHeartbeatURL, log)
	a.syncer = invalidate.New(invalidate.Options{
		Hospitals: cfg.Hospitals, Source: a.surem, Cache: a.cache,
		Skip: skip, Fields: cfg.SyncCompareAlso, DryRun: cfg.SyncDryRun,
		Timeout: cfg.SyncTimeout, Concurrency: cfg.SyncConcurrency, Metrics: a.metrics, Log: log,
		Rate: cfg.SureMRateLimit, Burst: cfg.SureMRateBurst, Shared: cfg.CacheShared, Claims: claims,
		VerifyAfter: cfg.CacheVerifyAfter, VerifyWithin: cfg.FlightLoaderTimeout,
		Serving:   func() bool { return a.surem.State() == surem.StateOK },
		Away:      func() bool { return a.surem.State() == surem.StateAway },
		Succeeded: a.heartbeat.beat,
	})
	a.measure()
	return a
}

// measure adds the figures that are read when /metrics is.
func (a *app) measure() {
	a.metrics.Hospitals.Set(float64(len(a.cfg.Hospitals.All())))
	a.metrics.GaugeFunc("syncer_redis_up", "1 when Redis answers a PING, else 0.", func() float64 {
		if a.cache.Ping(context.Background()) != nil {
			return 0
		}
		return 1
	})
	for name, figure := range map[string]struct {
		help string
		read func(flight.Stats) int
	}{
		"single_flight_in_flight":           {"Loads that run.", func(s flight.Stats) int { return s.Keys }},
		"single_flight_waiters":             {"Detail reads that wait for a load.", func(s flight.Stats) int { return s.Waiters }},
		"single_flight_waiters_per_key_max": {"Detail reads that wait for the template most waited for.", func(s flight.Stats) int { return s.WaitersPerKey }},
	} {
		a.metrics.GaugeFunc(name, figure.help, func() float64 { return float64(figure.read(a.reader.Stats())) })
	}
	a.metrics.GaugeFunc("syncer_surem_breaker_open", "1 while the breaker of an account at SureM is open.", func() float64 {
		if a.surem.BreakerOpen() {
			return 1
		}
		return 0
	})
	for name, figure := range map[string]struct {
		help string
		read func(*redis.PoolStats) uint32
	}{
		"syncer_redis_pool_connections":      {"Connections to Redis.", func(s *redis.PoolStats) uint32 { return s.TotalConns }},
		"syncer_redis_pool_idle_connections": {"Connections to Redis that are idle.", func(s *redis.PoolStats) uint32 { return s.IdleConns }},
	} {
		a.metrics.GaugeFunc(name, figure.help, func() float64 { return float64(figure.read(a.poolStats())) })
	}
	for name, figure := range map[string]struct {
		help string
		read func(*redis.PoolStats) uint32
	}{
		"syncer_redis_pool_hits_total":     {"Commands that found an idle connection.", func(s *redis.PoolStats) uint32 { return s.Hits }},
		"syncer_redis_pool_misses_total":   {"Commands that had to open a connection.", func(s *redis.PoolStats) uint32 { return s.Misses }},
		"syncer_redis_pool_timeouts_total": {"Commands that waited for a connection in vain.", func(s *redis.PoolStats) uint32 { return s.Timeouts }},
	} {
		a.metrics.CounterFunc(name, figure.help, func() float64 { return float64(figure.read(a.poolStats())) })
	}
}

// close ends the parts, those that still run when ctx ends too.
func (a *app) close(ctx context.Context) {
	a.syncer.Close(ctx)
	a.heartbeat.close(ctx)
	if err := a.reader.Close(ctx); err != nil {
		a.log.Warn().Str("error", err.Error()).Msg("cut")
	}
	if err := a.surem.Close(ctx); err != nil {
		a.log.Warn().Str("error", err.Error()).Msg("cut")
	}
	_ = a.rdb.Close()
}

// observer counts what single-flight does, and logs what nobody else may see: a loader that
// panicked with nobody waiting.
type observer struct {
	*metrics.Metrics
	log zerolog.Logger
}

// Loaded implements flight.Observer.
func (o observer) Loaded(took time.Duration, err error) {
	if errors.Is(err, surem.ErrNotFound) {
		o.Metrics.Loaded(took, nil) // an answer, and no failed load
		return
	}
	o.Metrics.Loaded(took, err)
	var panicked *flight.PanicError
	var left *flight.GoexitError
	switch {
	case errors.As(err, &panicked):
		o.log.Error().Str("error", panicked.Error()).Bytes("stack", panicked.Stack).Msg(invalidate.EventPanic)
	case errors.As(err, &left):
		o.log.Error().Str("error", left.Error()).Bytes("stack", left.Stack).Msg(invalidate.EventPanic)
	}
}

// silent is a go-redis logger that says nothing.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// newLog returns the program's log.
func newLog(cfg *config.Config, w io.Writer) zerolog.Logger {
	if cfg.LogFormat == "console" {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000"}
	}
	return zerolog.New(w).Level(cfg.LogLevel).With().Timestamp().Logger()
}
