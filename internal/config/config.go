// Package config turns the environment into one validated Config, or into the list of
// everything that is wrong with it. It knows every variable, and prints the table of them.
//
// The rules of a value sit with what the value rules: this package asks hospitals, templates
// and surem whether they can use it, and adds what the variables must be to each other.
package config

import (
	"net/url"
	"time"
	_ "time/tzdata" // SYNC_TIMEZONE must load where there is no zone file

	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/redisconn"
	surem "alimtalk-syncer/internal/sureM"
	"alimtalk-syncer/internal/templates"
)

// Config holds the settings, ready to use. Load makes it; nobody changes it.
//
// Each field's tags are the one place where its variable is described: env is go-envconfig's
// (name and default), min and max are bounds that are checked, secret:"true" keeps the value
// out of every message, file:"true" gives it a *_FILE variant, help is the README's text.
type Config struct {
	SureMBaseURL       *url.URL         `env:"SUREM_BASE_URL,default=https://rest.surem.com" help:"where SureM is; an absolute http(s) URL without user-info, query or fragment; plain http to another machine is warned about"`
	SureMUserCode      string           `env:"SUREM_USER_CODE" help:"the SureM account for all hospitals; required unless every hospital brings its own"` // may be empty
	SureMSecretKey     hospitals.Secret `env:"SUREM_SECRET_KEY" secret:"true" file:"true" help:"the secret of SUREM_USER_CODE; required with it"`         // may be empty
	SureMTokenPath     string           `env:"SUREM_TOKEN_PATH,default=/api/v1/auth/token" help:"the path of the login"`
	SureMSummaryPath   surem.Path       `env:"SUREM_SUMMARY_PATH,default=/api/v1/alimtalk/templates{?senderKey,page,size}" help:"the path of the summaries, an RFC 6570 template of senderKey, page and size; it must hold senderKey, and without page the list is one answer"`
	SureMDetailPath    surem.Path       `env:"SUREM_DETAIL_PATH,default=/api/v1/alimtalk/templates/{templateCode}{?senderKey}" help:"the path of one template, likewise; it must hold templateCode and senderKey"`
	SureMPageSize      int              `env:"SUREM_PAGE_SIZE,default=100" min:"1" max:"1000" help:"rows asked for per page; not above SureM's own cap"`
	SureMFirstPage     int              `env:"SUREM_FIRST_PAGE,default=1" min:"0" max:"1" help:"the number of the first page"`
	SureMTimeout       time.Duration    `env:"SUREM_TIMEOUT,default=10s" min:"1ms" max:"10m" help:"one HTTP call to SureM"`
	SureMRateLimit     float64          `env:"SUREM_RATE_LIMIT,default=5" help:"calls per second per account by this process, with FLEET by all replicas together; above 0, at most 10000"`
	SureMRateBurst     int              `env:"SUREM_RATE_BURST,default=5" min:"1" max:"10000" help:"calls that may go at once after a pause"`
	SureMMaxRetries    int              `env:"SUREM_MAX_RETRIES,default=3" min:"0" max:"10" help:"repeats of one call on network faults, 429 and 5xx"`
	SureMReloginCodes  []string         `env:"SUREM_RELOGIN_CODES,default=A1001,A1006" help:"SureM's codes that mean: log in again; comma separated"`
	SureMNotFoundCodes []string         `env:"SUREM_NOT_FOUND_CODES" help:"SureM's codes that mean: no such template, beside HTTP 404; comma separated"` // may be empty

	Redis         *redisconn.Server `env:"REDIS_URL,default=redis://127.0.0.1:6379/0" secret:"true" file:"true" help:"redis:// or rediss://, with user, password and database as needed; further Sentinels or Cluster nodes as addr=host:port, and a Sentinel's primary as master_name="` // with REDIS_MODE and the files
	RedisMode     redisconn.Mode    `env:"REDIS_MODE,default=single" help:"single, sentinel or cluster: what REDIS_URL leads to"`
	RedisCAFile   string            `env:"REDIS_CA_FILE" help:"PEM certificates of the authorities to trust instead of the system's; with rediss:// only"`       // may be empty
	RedisCertFile string            `env:"REDIS_CERT_FILE" help:"the PEM certificate to show to Redis, with rediss:// only; read again at every new connection"` // may be empty
	RedisKeyFile  string            `env:"REDIS_KEY_FILE" help:"the PEM key of REDIS_CERT_FILE; required with it"`                                               // may be empty

	CacheKeyFormat   templates.KeyFormat `env:"CACHE_KEY_FORMAT,default=infotalk:template:{<hospitalId>}:<templateCode>" help:"the key of an entry: <hospitalId> and <templateCode> once each, the code last, the character after <hospitalId> one that no id may hold; not under alimtalk-syncer:. Braces are the Redis hash tag, which in a Cluster must hold <hospitalId>"`
	CacheValueFormat string              `env:"CACHE_VALUE_FORMAT,default=document" help:"document, or keyv = {\"value\":document,\"expires\":unix-ms} as NestJS' cache-manager stores it"` // "document" or "keyv"
	CacheTTL         time.Duration       `env:"CACHE_TTL,default=24h" min:"1s" max:"24h" help:"how long an entry lives"`
	CacheShared      bool                `env:"CACHE_SHARED,default=true" help:"other programs write entries too. false = only syncers do: where a round of all hospitals does not fit into a tick, one with nothing cached is then not looked at"`
	CacheVerifyAfter time.Duration       `env:"CACHE_VERIFY_AFTER,default=60s" min:"0s" max:"24h" help:"a read that hits an entry in review (REGISTERED, REQUESTED, or a word nobody knows), whose hospital was last looked at longer ago than this, waits for one look first; 0s = off"`

	Hospitals     *hospitals.Directory `env:"HOSPITALS" secret:"true" help:"the hospitals, as H001=senderKey,H002=senderKey; an id is [A-Za-z0-9_-]{1,64}, each once. Exactly one of HOSPITALS and HOSPITALS_FILE is given"`                               // of either variable
	HospitalsFile string               `env:"HOSPITALS_FILE" help:"a JSON list of {id, senderKey, userCode?, secretKey?}, at most 64 MiB, read again before a pass when its content has changed; a bad or empty new file changes nothing and is reported"` // "" with HOSPITALS

	Schedule         cron.Schedule     `env:"SYNC_SCHEDULE,default=@every 1m" help:"when a pass begins: 5 or 6 cron fields, @every (whole seconds, at least 1s) or a descriptor such as @hourly; without TZ="` // in SYNC_TIMEZONE
	Timezone         *time.Location    `env:"SYNC_TIMEZONE,default=Asia/Seoul" help:"the time zone of the schedule, an IANA name; the zones are built in"`
	SyncOnStart      bool              `env:"SYNC_ON_START,default=true" help:"a pass right after start"`
	SyncConcurrency  int               `env:"SYNC_CONCURRENCY,default=8" min:"1" max:"256" help:"hospitals at once"`
	SyncTimeout      time.Duration     `env:"SYNC_TIMEOUT,default=30s" min:"1ms" max:"1h" help:"one hospital; waiting for a slot of the rate limit is not counted in a scheduled pass, but is in a list or POST"`
	SyncSkipStatuses []templates.State `env:"SYNC_SKIP_STATUSES,default=REJECTED" help:"summaries in these states are not compared; comma separated, none = compare all"`                              // may be empty
	SyncCompareAlso  []string          `env:"SYNC_COMPARE_ALSO" help:"further fields of a summary row, such as modifiedAt, that are compared too where row and entry both have them; comma separated"` // may be empty
	SyncDryRun       bool              `env:"SYNC_DRY_RUN,default=false" help:"comparing deletes nothing, whoever asked for it; DELETE still forgets"`
	SyncHeartbeatURL hospitals.Secret  `env:"SYNC_HEARTBEAT_URL" secret:"true" file:"true" help:"an http(s) URL that gets a GET after each successful pass, for a monitor that rings when those stop coming; the URL is a secret"` // may be empty

	Fleet bool `env:"FLEET,default=false" help:"several replicas with the same settings share the work through Redis: each hospital is read once per tick, the rate limit holds for all of them, and misses of one template on several replicas are one call. Every replica sets it, or none"`

	FlightLoaderTimeout   time.Duration `env:"FLIGHT_LOADER_TIMEOUT,default=15s" min:"1ms" max:"1h" help:"one shared load, whoever waits"`
	FlightMaxKeys         int           `env:"FLIGHT_MAX_KEYS,default=10000" min:"1" max:"1000000" help:"running loads, and as many cooling keys besides; past them 429"`
	FlightMaxWaiters      int           `env:"FLIGHT_MAX_WAITERS,default=1000" min:"1" max:"1000000" help:"waiters per key, the starter included; past them 429"`
	FlightFailureCooldown time.Duration `env:"FLIGHT_FAILURE_COOLDOWN,default=1s" min:"0s" max:"10m" help:"after a failed load the same key answers with that failure for this long; 0s = off"`

	HTTPAddr      string             `env:"HTTP_ADDR,default=127.0.0.1:8080" help:"host:port to listen on; one that is not loopback (127.0.0.0/8, ::1, localhost) is refused without API_TOKENS"`
	APITokens     []hospitals.Secret `env:"API_TOKENS" secret:"true" file:"true" help:"bearer tokens for the HTTP API, comma separated"`                 // may be empty
	DebugAddr     string             `env:"DEBUG_ADDR" help:"host:port for pprof, which is off without it; loopback (127.0.0.0/8, ::1, localhost) only"` // may be empty
	ShutdownDelay time.Duration      `env:"SHUTDOWN_DELAY,default=0s" min:"0s" max:"10m" help:"after SIGTERM go on accepting this long with /readyz 503 (Kubernetes: 5s)"`
	ShutdownGrace time.Duration      `env:"SHUTDOWN_GRACE,default=20s" min:"0s" max:"1h" help:"how long what still runs may go on after that, then it is cut"`
	LogLevel      zerolog.Level      `env:"LOG_LEVEL,default=info" help:"trace, debug, info, warn or error"`
	LogFormat     string             `env:"LOG_FORMAT,default=json" help:"json, or console for people"` // "json" or "console"

	shown map[string]string // what Print shows, by variable
}
