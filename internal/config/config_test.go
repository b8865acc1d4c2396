package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/templates"
)

// base is the least that can run. Every secret of every test holds the word "hush", and no
// message may.
var base = []string{
	"SUREM_USER_CODE=CLINICS",
	"SUREM_SECRET_KEY=hush-secret",
	"HOSPITALS=H001=hush-1,H002=hush-2",
}

// load reads base with the settings over it; NAME= takes one away.
func load(over ...string) (*Config, []string, error) {
	return Load(append(slices.Clone(over), base...)) // the first of a name counts
}

func mustLoad(t *testing.T, over ...string) *Config {
	t.Helper()
	c, warnings, err := load(over...)
	if err != nil {
		t.Fatalf("%q:\n%v", over, err)
	}
	if len(warnings) > 0 {
		t.Fatalf("%q: warnings %q", over, warnings)
	}
	return c
}

// scene is one file of testdata: environment lines, a line of dashes, and what Load must
// say, line by line. Lines that begin with # are remarks; a value in double quotes is a Go
// string; warnings begin with "warning: ".
type scene struct {
	name string
	env  []string
	want []string
}

func scenes(t testing.TB, folder string) []scene {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenes in %s: %v", folder, err)
	}
	var all []scene
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := scene{name: strings.TrimSuffix(filepath.Base(path), ".txt")}
		said := false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case strings.HasPrefix(line, "#"):
			case line == "----":
				said = true
			case said:
				s.want = append(s.want, line)
			default:
				name, value, _ := strings.Cut(line, "=")
				if unquoted, err := strconv.Unquote(value); err == nil {
					value = unquoted
				}
				s.env = append(s.env, name+"="+value)
			}
		}
		all = append(all, s)
	}
	return all
}

// said is what Load had to say, as scenes write it.
func said(warnings []string, err error) []string {
	var lines []string
	for _, w := range warnings {
		lines = append(lines, "warning: "+w)
	}
	if err != nil {
		lines = append(lines, strings.Split(err.Error(), "\n")...)
	}
	return lines
}

func TestEveryBadSettingIsToldAsWritten(t *testing.T) {
	all := scenes(t, "bad")
	if len(all) < 40 {
		t.Errorf("only %d scenes", len(all))
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			c, warnings, err := load(s.env...)
			var faults Faults
			if c != nil || !errors.As(err, &faults) {
				t.Fatalf("accepted, or not refused by Faults: %v", err)
			}
			if got := said(warnings, err); !slices.Equal(got, s.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(s.want, "\n"))
			}
		})
	}
}

func TestTrickySettingsAreAccepted(t *testing.T) {
	for _, s := range scenes(t, "good") {
		t.Run(s.name, func(t *testing.T) {
			c, warnings, err := load(s.env...)
			if err != nil || c == nil {
				t.Fatalf("refused:\n%v", err)
			}
			if got := said(warnings, err); !slices.Equal(got, s.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(s.want, "\n"))
			}
		})
	}
}

func TestNoSecretIsEverShown(t *testing.T) {
	for _, s := range append(scenes(t, "bad"), scenes(t, "good")...) {
		c, warnings, err := load(s.env...)
		var text bytes.Buffer
		text.WriteString(strings.Join(said(warnings, err), "\n"))
		if c != nil {
			c.Print(&text)
		}
		if strings.Contains(text.String(), "hush") {
			t.Errorf("%s shows a secret:\n%s", s.name, text.String())
		}
	}
}

func TestAllFaultsOfAllVariablesComeAtOnce(t *testing.T) {
	var env, names []string
	for _, s := range settings {
		value := "\x01" // nothing takes a control character
		if s.name == "HOSPITALS" {
			continue // not beside HOSPITALS_FILE
		}
		env, names = append(env, s.name+"="+value), append(names, s.name)
	}
	_, _, err := Load(append(env, "SYNC_TIMEOUTS=1s", "LOG_LEVL=info"))
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatalf("not Faults: %v", err)
	}
	var got []string
	for _, f := range faults {
		got = append(got, f.Name)
	}
	if want := append(names, "LOG_LEVL", "SYNC_TIMEOUTS"); !slices.Equal(got, want) {
		t.Errorf("faults of\n%q, want\n%q\n%v", got, want, err)
	}
}

func TestDefaults(t *testing.T) {
	c := mustLoad(t)
	for name, is := range map[string]bool{
		"SUREM_BASE_URL":          c.SureMBaseURL.String() == "https://rest.surem.com",
		"SUREM_USER_CODE":         c.SureMUserCode == "CLINICS",
		"SUREM_SECRET_KEY":        c.SureMSecretKey.Reveal() == "hush-secret",
		"SUREM_TOKEN_PATH":        c.SureMTokenPath == "/api/v1/auth/token",
		"SUREM_SUMMARY_PATH":      c.SureMSummaryPath.String() == "/api/v1/alimtalk/templates{?senderKey,page,size}",
		"SUREM_DETAIL_PATH":       c.SureMDetailPath.String() == "/api/v1/alimtalk/templates/{templateCode}{?senderKey}",
		"SUREM_PAGE_SIZE":         c.SureMPageSize == 100,
		"SUREM_FIRST_PAGE":        c.SureMFirstPage == 1,
		"SUREM_TIMEOUT":           c.SureMTimeout == 10*time.Second,
		"SUREM_RATE_LIMIT":        c.SureMRateLimit == 5,
		"SUREM_RATE_BURST":        c.SureMRateBurst == 5,
		"SUREM_MAX_RETRIES":       c.SureMMaxRetries == 3,
		"SUREM_RELOGIN_CODES":     slices.Equal(c.SureMReloginCodes, []string{"A1001", "A1006"}),
		"SUREM_NOT_FOUND_CODES":   len(c.SureMNotFoundCodes) == 0,
		"REDIS_URL":               c.Redis.String() == "redis://127.0.0.1:6379/0",
		"REDIS_MODE":              c.RedisMode == redisconn.Single,
		"REDIS_CA_FILE":           c.RedisCAFile == "",
		"REDIS_CERT_FILE":         c.RedisCertFile == "",
		"REDIS_KEY_FILE":          c.RedisKeyFile == "",
		"CACHE_KEY_FORMAT":        c.CacheKeyFormat.Key("H001", "T1") == "infotalk:template:{H001}:T1",
		"CACHE_VALUE_FORMAT":      c.CacheValueFormat == "document",
		"CACHE_TTL":               c.CacheTTL == 24*time.Hour,
		"HOSPITALS":               len(c.Hospitals.All()) == 2,
		"HOSPITALS_FILE":          c.HospitalsFile == "",
		"SYNC_SCHEDULE":           c.Schedule == cron.Every(time.Minute),
		"SYNC_TIMEZONE":           c.Timezone.String() == "Asia/Seoul",
		"SYNC_ON_START":           c.SyncOnStart,
		"SYNC_CONCURRENCY":        c.SyncConcurrency == 8,
		"SYNC_TIMEOUT":            c.SyncTimeout == 30*time.Second,
		"SYNC_SKIP_STATUSES":      slices.Equal(c.SyncSkipStatuses, []templates.State{templates.Rejected}),
		"SYNC_COMPARE_ALSO":       len(c.SyncCompareAlso) == 0,
		"SYNC_DRY_RUN":            !c.SyncDryRun,
		"SYNC_HEARTBEAT_URL":      c.SyncHeartbeatURL == "",
		"CACHE_SHARED":            c.CacheShared,
		"CACHE_VERIFY_AFTER":      c.CacheVerifyAfter == time.Minute,
		"FLEET":                   !c.Fleet,
		"FLIGHT_LOADER_TIMEOUT":   c.FlightLoaderTimeout == 15*time.Second,
		"FLIGHT_MAX_KEYS":         c.FlightMaxKeys == 10000,
		"FLIGHT_MAX_WAITERS":      c.FlightMaxWaiters == 1000,
		"FLIGHT_FAILURE_COOLDOWN": c.FlightFailureCooldown == time.Second,
		"HTTP_ADDR":               c.HTTPAddr == "127.0.0.1:8080",
		"API_TOKENS":              len(c.APITokens) == 0,
		"DEBUG_ADDR":              c.DebugAddr == "",
		"SHUTDOWN_DELAY":          c.ShutdownDelay == 0,
		"SHUTDOWN_GRACE":          c.ShutdownGrace == 20*time.Second,
		"LOG_LEVEL":               c.LogLevel == zerolog.InfoLevel,
		"LOG_FORMAT":              c.LogFormat == "json",
	} {
		if !is {
			t.Errorf("%s has another default", name)
		}
	}
	if n := reflect.TypeFor[Config]().NumField() - 1; n != len(settings) || n != 47 {
		t.Errorf("%d fields, %d settings; this test and the README know 47", n, len(settings))
	}
}

func TestBothEdgesOfEveryBound(t *testing.T) {
	// inside and outside are the last values that are taken and the first that are not.
	for name, edge := range map[string]struct{ inside, outside []string }{
		"SUREM_PAGE_SIZE":         {[]string{"1", "1000"}, []string{"0", "1001"}},
		"SUREM_FIRST_PAGE":        {[]string{"0", "1"}, []string{"-1", "2"}},
		"SUREM_TIMEOUT":           {[]string{"1ms", "10m"}, []string{"999us", "10m1ns", "0s", "-1s"}},
		"SUREM_RATE_LIMIT":        {[]string{"0.001", "10000"}, []string{"0", "0.0", "10000.01", "-1"}},
		"SUREM_RATE_BURST":        {[]string{"1", "10000"}, []string{"0", "10001"}},
		"SUREM_MAX_RETRIES":       {[]string{"0", "10"}, []string{"-1", "11"}},
		"CACHE_TTL":               {[]string{"1s", "24h"}, []string{"999ms", "24h0m1s"}},
		"CACHE_VERIFY_AFTER":      {[]string{"0s", "24h"}, []string{"-1ns", "24h0m1s"}},
		"SYNC_CONCURRENCY":        {[]string{"1", "256"}, []string{"0", "257"}},
		"SYNC_TIMEOUT":            {[]string{"1ms", "1h"}, []string{"0s", "1h1ns"}},
		"SYNC_SCHEDULE":           {[]string{"@every 1s", "* * * * * *"}, []string{"@every 999ms", "@every 0s"}},
		"FLIGHT_LOADER_TIMEOUT":   {[]string{"1ms", "1h"}, []string{"0s", "1h1ns"}},
		"FLIGHT_MAX_KEYS":         {[]string{"1", "1000000"}, []string{"0", "1000001"}},
		"FLIGHT_MAX_WAITERS":      {[]string{"1", "1000000"}, []string{"0", "1000001"}},
		"FLIGHT_FAILURE_COOLDOWN": {[]string{"0s", "10m"}, []string{"-1ns", "10m1ns"}},
		"HTTP_ADDR":               {[]string{"127.0.0.1:0", "127.255.255.255:65535", "[::1]:1", "localhost:80"}, []string{"127.0.0.1:65536", "127.0.0.1:-1", "128.0.0.0:1", "[::2]:1", "localhost.example:80"}},
		"DEBUG_ADDR":              {[]string{"127.0.0.1:0", "127.255.255.255:65535", "[::1]:1", "localhost:80"}, []string{"127.0.0.1:65536", "128.0.0.0:1", "[::2]:1", "localhost.example:80", ":6060", "0.0.0.0:6060", "[::]:6060"}},
		"SHUTDOWN_DELAY":          {[]string{"0s", "10m"}, []string{"-1ns", "10m1ns"}},
		"SHUTDOWN_GRACE":          {[]string{"0s", "1h"}, []string{"-1ns", "1h1ns"}},
	} {
		for _, value := range edge.inside {
			mustLoad(t, name+"="+value)
		}
		for _, value := range edge.outside {
			if _, _, err := load(name + "=" + value); err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.HasPrefix(err.Error(), name+"=\""+value+"\": must ") {
				t.Errorf("%s=%s: got %v, want one line of it", name, value, err)
			}
		}
		delete(bounded, name)
	}
	for name := range bounded {
		t.Errorf("%s has bounds that are not tested", name)
	}
}

// bounded are the settings whose tags have bounds.
var bounded = func() map[string]bool {
	names := map[string]bool{}
	for _, s := range settings {
		if s.min != "" || s.max != "" {
			names[s.name] = true
		}
	}
	return names
}()

func TestAnEmptyVariableIsNotSet(t *testing.T) {
	var env []string
	for _, name := range knownNames {
		if !slices.ContainsFunc(base, func(b string) bool { return strings.HasPrefix(b, name+"=") }) {
			env = append(env, name+"=")
		}
	}
	c := mustLoad(t, append(env, "SUREM_UNKNOWN=", "SYNC_=")...)
	if c.SureMPageSize != 100 || c.LogLevel != zerolog.InfoLevel || !c.SyncOnStart {
		t.Error("an empty variable has replaced a default")
	}
}

func TestValuesArriveAsTheyShould(t *testing.T) {
	c := mustLoad(t,
		"SUREM_BASE_URL=https://gateway.example:8443/surem/",
		"SUREM_NOT_FOUND_CODES=A2001, A2002",
		"REDIS_URL=rediss://app:hush%23pw@redis.example/3?read_timeout=500ms",
		"SYNC_SKIP_STATUSES=rej, DELETED,HREJ",
		"SYNC_COMPARE_ALSO=modifiedAt , status",
		"SYNC_TIMEZONE=America/New_York",
		"SYNC_SCHEDULE=30 2 * * MON-FRI",
		"API_TOKENS=hush-a, hush-b",
		"HTTP_ADDR=:8080",
		"DEBUG_ADDR=[::1]:6060",
		"SYNC_HEARTBEAT_URL=https://ring.example/ping/hush?a=b",
		"LOG_LEVEL=trace")
	if c.DebugAddr != "[::1]:6060" || c.SyncHeartbeatURL.Reveal() != "https://ring.example/ping/hush?a=b" {
		t.Error("DEBUG_ADDR or SYNC_HEARTBEAT_URL reads differently")
	}
	if got := c.SureMBaseURL.String(); got != "https://gateway.example:8443/surem" {
		t.Errorf("base URL %q", got)
	}
	if !slices.Equal(c.SureMNotFoundCodes, []string{"A2001", "A2002"}) || !slices.Equal(c.SyncCompareAlso, []string{"modifiedAt", "status"}) {
		t.Errorf("lists %q, %q", c.SureMNotFoundCodes, c.SyncCompareAlso)
	}
	if got := c.Redis.String(); got != "rediss://[hidden]@redis.example:6379/3" {
		t.Error("REDIS_URL reads differently")
	}
	if !slices.Equal(c.SyncSkipStatuses, []templates.State{templates.Rejected, templates.Deleted}) {
		t.Errorf("skip %q", c.SyncSkipStatuses)
	}
	if !slices.Equal(c.APITokens, []hospitals.Secret{"hush-a", "hush-b"}) {
		t.Error("API_TOKENS reads differently")
	}
	friday := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	if next := c.Schedule.Next(friday); !next.Equal(time.Date(2026, 11, 30, 7, 30, 0, 0, time.UTC)) {
		t.Errorf("next pass %v, want Monday 02:30 in New York", next)
	}
	if c.LogLevel != zerolog.TraceLevel {
		t.Errorf("level %v", c.LogLevel)
	}
	if c := mustLoad(t, "SYNC_SKIP_STATUSES=none"); c.SyncSkipStatuses == nil || len(c.SyncSkipStatuses) != 0 {
		t.Errorf("none: skip %q", c.SyncSkipStatuses)
	}
}

func TestSecretsComeFromFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := mustLoad(t,
		"SUREM_SECRET_KEY=", "SUREM_SECRET_KEY_FILE="+write("secret", "hush-file\r\n\n"),
		"API_TOKENS_FILE="+write("tokens", "hush-a,hush-b\n"),
		"SYNC_HEARTBEAT_URL_FILE="+write("heartbeat", "https://ring.example/hush\n"),
		"REDIS_URL_FILE="+write("redis", "redis://:hush@redis.example:6380/1\n"))
	if c.SureMSecretKey.Reveal() != "hush-file" || len(c.APITokens) != 2 || c.Redis.String() != "redis://[hidden]@redis.example:6380/1" {
		t.Error("a secret from a file reads differently")
	}
	if s, ok := c.Hospitals.Secret("CLINICS"); !ok || s.Reveal() != "hush-file" {
		t.Error("the hospitals have another secret")
	}
	var text bytes.Buffer
	c.Print(&text)
	for _, line := range []string{"SUREM_SECRET_KEY=[hidden]", "API_TOKENS=[hidden]", "SYNC_HEARTBEAT_URL=[hidden]", "REDIS_URL=redis://[hidden]@redis.example:6380/1"} {
		if !strings.Contains(text.String(), line+"\n") {
			t.Errorf("no line %s in\n%s", line, text.String())
		}
	}
}

func TestHTTPAddrAloneNeedsNoOtherSetting(t *testing.T) {
	for value, want := range map[string]string{"": "127.0.0.1:8080", ":9090": ":9090", "[::1]:80": "[::1]:80"} {
		if got, err := HTTPAddr([]string{"HTTP_ADDR=" + value, "SYNC_TIMEOUT=never"}); got != want || err != nil {
			t.Errorf("HTTP_ADDR=%s: %q, %v; want %q", value, got, err, want)
		}
	}
	_, err := HTTPAddr([]string{"HTTP_ADDR=8080"})
	if want := `HTTP_ADDR="8080": must be host:port or :port, the port from 0 to 65535`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestPrintShowsTheEffectiveSettings(t *testing.T) {
	var text bytes.Buffer
	mustLoad(t, "SYNC_DRY_RUN=true", "CACHE_KEY_FORMAT=예약:<hospitalId>:<templateCode>").Print(&text)
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if len(lines) != len(settings) {
		t.Errorf("%d lines for %d settings", len(lines), len(settings))
	}
	for _, want := range []string{
		"SUREM_USER_CODE=CLINICS", "SUREM_SECRET_KEY=[hidden]", "HOSPITALS=[hidden]", "HOSPITALS_FILE=", "API_TOKENS=",
		"REDIS_URL=redis://127.0.0.1:6379/0", "SYNC_DRY_RUN=true", "SYNC_SCHEDULE=@every 1m", "CACHE_KEY_FORMAT=예약:<hospitalId>:<templateCode>",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %s in\n%s", want, text.String())
		}
	}
}

func TestTheREADMEHasTheTable(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- settings:begin -->", "<!-- settings:end -->"
	_, rest, found := strings.Cut(string(readme), begin)
	region, _, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("README.md has no %s … %s", begin, end)
	}
	var want bytes.Buffer
	Markdown(&want)
	if strings.TrimSpace(region) != strings.TrimSpace(want.String()) {
		t.Errorf("the README's table of settings is stale; put this between its marks:\n%s", want.String())
	}
}
