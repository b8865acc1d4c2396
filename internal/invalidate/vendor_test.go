package invalidate_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/sureM"
	"alimtalk-syncer/internal/sureM/simulator"
	"alimtalk-syncer/internal/templates"
)

const (
	account  = "clinic"
	secret   = "surem-secret-51c9"
	text     = "본문-7c4e" // in every template
	pageSize = 4
)

// clinic is a SureM that misbehaves, a real Redis, and the parts of the daemon between them.
type clinic struct {
	*invalidate.Syncer
	*simulator.Simulator
	hospitals *hospitals.Directory
	surem     *surem.Client
	reader    *templates.Reader
	log       *lines
	server    *redistest.Server
	keys      templates.KeyFormat
}

// setting is what a test may change of a clinic's.
type setting struct {
	surem  surem.Options
	syncer invalidate.Options
	vendor http.Handler // in place of the Simulator
}

var clinics atomic.Int32

// newClinic puts hospitals on a Redis that others may use too: ids are given to it by the
// test, and keys are its own.
func newClinic(t testing.TB, server *redistest.Server, adjust func(*setting), ids ...string) *clinic {
	t.Helper()
	c := &clinic{Simulator: simulator.New(), server: server, log: &lines{}}
	c.AddAccount(account, secret)
	var entries []hospitals.Entry
	for _, id := range ids {
		c.AddSender(account, senderKey(id))
		entries = append(entries, hospitals.Entry{ID: id, SenderKey: hospitals.Secret(senderKey(id))})
	}
	var err error
	if c.hospitals, err = hospitals.New(entries, account, secret); err != nil {
		t.Fatal(err)
	}
	if c.keys, err = templates.ParseKeyFormat(fmt.Sprintf("clinic-%d:{<hospitalId>}:<templateCode>", clinics.Add(1))); err != nil {
		t.Fatal(err)
	}
	both := []string{"templateCode", "senderKey"}
	summaries, err := surem.ParsePath(simulator.TemplatesPath+"{?senderKey,page,size}", both[1:], []string{"senderKey", "page", "size"})
	if err != nil {
		t.Fatal(err)
	}
	detail, err := surem.ParsePath(simulator.TemplatesPath+"/{templateCode}{?senderKey}", both, both)
	if err != nil {
		t.Fatal(err)
	}
	figures := metrics.New("", "", "")
	log := zerolog.New(c.log)
	s := setting{
		surem: surem.Options{
			TokenPath: simulator.LoginPath, SummaryPath: summaries, DetailPath: detail, PageSize: pageSize, FirstPage: 1,
			Timeout: 5 * time.Second, RateLimit: 1e5, RateBurst: 1000, MaxRetries: 1,
			ReloginCodes: []string{"A1001", "A1006"}, NotFoundCodes: []string{"A4040"},
			Secret: c.hospitals.Secret, Mask: c.hospitals.Mask, Metrics: figures, Log: log,
		},
		syncer: invalidate.Options{
			Hospitals: c.hospitals, Skip: map[templates.State]bool{templates.Rejected: true},
			Timeout: 30 * time.Second, Concurrency: 8, Metrics: figures, Log: log,
		},
		vendor: c.Simulator,
	}
	if adjust != nil {
		adjust(&s)
	}
	vendor := httptest.NewServer(s.vendor)
	if s.surem.BaseURL, err = url.Parse(vendor.URL); err != nil {
		t.Fatal(err)
	}
	rdb := redisconn.NewSingle(&redis.Options{Addr: server.Addr})
	c.surem = surem.New(s.surem)
	cache := templates.NewCache(rdb, templates.CacheOptions{
		Keys: c.keys, TTL: time.Hour, FenceTTL: time.Minute, Current: c.hospitals.Current,
	})
	c.reader = templates.NewReader(templates.ReaderOptions{
		Cache: cache, Source: c.surem, CoolingMax: 100, Metrics: figures, Log: log,
		Flight: flight.Options{MaxKeys: 100, MaxWaiters: 100, LoaderTimeout: 30 * time.Second, Observer: figures},
	})
	s.syncer.Source, s.syncer.Cache = c.surem, cache
	c.Syncer = invalidate.New(s.syncer)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		c.Syncer.Close(ctx)
		if err := c.reader.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := c.surem.Close(ctx); err != nil {
			t.Error(err)
		}
		_ = rdb.Close()
		vendor.CloseClientConnections()
		vendor.Close()
		for _, hidden := range []string{secret, "sender-key-of-", text, "Bearer"} {
			if c.log.count(hidden) > 0 {
				t.Errorf("the log shows %q: %s", hidden, c.log)
			}
		}
	})
	return c
}

func senderKey(id string) string { return "sender-key-of-" + id }

// offer lets SureM have a template in this state, last in its list if it is new.
func (c *clinic) offer(t testing.TB, id, code, status string) {
	t.Helper()
	err := c.Put(senderKey(id), simulator.Template{Code: code, Name: "예약 " + code, InspectionStatus: status, Status: "A", Content: text})
	if err != nil {
		t.Fatal(err)
	}
}

// cache puts an entry into Redis as an earlier read would have, when SureM said status.
func (c *clinic) cache(t testing.TB, id, code, status string) {
	t.Helper()
	c.cacheRaw(t, id, code, fmt.Sprintf(`{"templateCode":%q,"inspectionStatus":%q,"status":"A","templateContent":%q}`, code, status, text))
}

func (c *clinic) cacheRaw(t testing.TB, id, code, document string) {
	t.Helper()
	if err := c.server.Client.Set(context.Background(), c.keys.Key(id, code), document, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
}

// gone returns which of these entries are not in Redis.
func (c *clinic) gone(t testing.TB, id string, codes ...string) string {
	t.Helper()
	var gone []string
	for _, code := range codes {
		n, err := c.server.Client.Exists(context.Background(), c.keys.Key(id, code)).Result()
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			gone = append(gone, code)
		}
	}
	return strings.Join(gone, " ")
}

// pass makes one scheduled pass and returns the reports by hospital.
func (c *clinic) pass(t testing.TB) map[string]invalidate.Report {
	t.Helper()
	reports := make(map[string]invalidate.Report)
	for _, r := range c.Pass(context.Background(), invalidate.TriggerSchedule, c.hospitals.All()) {
		reports[r.HospitalID] = r
	}
	if len(reports) != len(c.hospitals.All()) {
		t.Fatalf("%d reports", len(reports))
	}
	return reports
}

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) count(part string) int { return strings.Count(l.String(), part) }

// events returns how often an event stands in the log.
func (l *lines) events(name string) int { return l.count(`"message":"` + name + `"`) }

// changed returns the codes of a report's invalidations, sorted.
func changed(r invalidate.Report) string {
	var codes []string
	for _, change := range r.Invalidated {
		codes = append(codes, change.Code)
	}
	slices.Sort(codes)
	return strings.Join(codes, " ")
}
