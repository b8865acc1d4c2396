package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/httpapi"
	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/templates"
)

const (
	wrkConnections = 32
	wrkScript      = `
local requests, at = {}, 0
function init()
	for n = 0, %d do
		for i = 0, %d do
			requests[#requests+1] = wrk.format("GET", string.format("/v1/hospitals/H%%05d/templates/APPT_CONFIRM_%%02d", n, i))
		end
	end
end
function request()
	at = at %% #requests + 1
	return requests[at]
end
`
)

// load is what wrk says of one turn.
type load struct{ requests, perSecond, p50, p99, cpu float64 } // latencies in ms, cpu of the server in µs per request

// hit measures reads of cached entries over HTTP: the built program's and a bare handler's.
func (b *bench) hit() error {
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		return errNoWrk
	}
	server := b.redis()
	e := newEntries(b.sizes.hospitals, entrySize)
	if err := e.fill(context.Background(), server.Client, everything); err != nil {
		return err
	}
	d, err := b.start(server, b.sureM(), b.sizes.hospitals)
	if err != nil {
		return err
	}
	addr := redistest.FreeAddr(b)
	peer, err := child("bare", childArgs{Redis: server.Addr, Listen: addr})
	if err != nil {
		return err
	}
	if err := peer.Start(); err != nil {
		return fmt.Errorf("starting the bare handler: %w", err)
	}
	b.Cleanup(func() { _ = peer.Process.Kill(); _ = peer.Wait() })
	script := filepath.Join(b.TempDir(), "paths.lua")
	if err := os.WriteFile(script, fmt.Appendf(nil, wrkScript, b.sizes.hospitals-1, perHospital-1), 0o600); err != nil {
		return err
	}

	contenders := []struct {
		name, url string
		pid       int
	}{{"syncer", d.url, d.pid}, {"bare handler", "http://" + addr, peer.Process.Pid}}
	got := make([][]load, len(contenders))
	for round := range b.sizes.wrkRounds + 1 {
		for i := range contenders {
			i = (i + round) % len(contenders)
			before, err := processCPU(contenders[i].pid)
			if err != nil {
				return err
			}
			l, err := runWrk(wrk, script, contenders[i].url, b.sizes.wrk)
			if err != nil {
				return fmt.Errorf("%s: %w", contenders[i].name, err)
			}
			after, err := processCPU(contenders[i].pid)
			if err != nil {
				return err
			}
			l.cpu = 1000 * milliseconds(after-before) / l.requests
			if round > 0 {
				got[i] = append(got[i], l)
			}
		}
	}
	allocs, err := hitAllocs(server.Addr)
	if err != nil {
		return err
	}
	fmt.Printf("%d entries of %d bytes, wrk with %d connections for %v a turn.\n", b.sizes.hospitals*perHospital, len(e.documents[0]), wrkConnections, b.sizes.wrk)
	t := newTable("", "requests/s", "ours is", "CPU µs/request", "its CPU to ours", "p50 ms", "p99 ms", "allocations/hit")
	perSecond, cpu := func(l load) float64 { return l.perSecond }, func(l load) float64 { return l.cpu }
	for i, c := range contenders {
		t.row(c.name, "%.0f", median(got[i], perSecond), "%.2f ×", medianRatio(got[0], got[i], perSecond),
			"%.1f", median(got[i], cpu), "%.2f ×", medianRatio(got[i], got[0], cpu),
			"%.2f", median(got[i], func(l load) float64 { return l.p50 }), "%.2f", median(got[i], func(l load) float64 { return l.p99 }), "%.0f", allocs[i])
	}
	t.print()
	return nil
}

var (
	wrkCount   = regexp.MustCompile(`(\d+) requests in`)
	wrkRate    = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkLatency = regexp.MustCompile(`(50|99)%\s+([\d.]+)(us|ms|s)\n`)
	wrkFaults  = regexp.MustCompile(`(?m)^\s*(Non-2xx|Socket errors).*$`)
)

func runWrk(wrk, script, url string, length time.Duration) (l load, err error) {
	out, err := exec.Command(wrk, "-t1", "-c", strconv.Itoa(wrkConnections), "-d", strconv.Itoa(int(length.Seconds()))+"s", "--latency", "-s", script, url).CombinedOutput()
	count, rate, latencies := wrkCount.FindSubmatch(out), wrkRate.FindSubmatch(out), wrkLatency.FindAllSubmatch(out, -1)
	if err != nil || count == nil || rate == nil || len(latencies) != 2 || wrkFaults.Match(out) {
		return l, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	if l.requests, err = strconv.ParseFloat(string(count[1]), 64); err != nil {
		return l, err
	}
	if l.perSecond, err = strconv.ParseFloat(string(rate[1]), 64); err != nil {
		return l, err
	}
	for _, m := range latencies {
		took, err := time.ParseDuration(string(m[2]) + string(m[3]))
		if err != nil {
			return l, err
		}
		if string(m[1]) == "50" {
			l.p50 = milliseconds(took)
		} else {
			l.p99 = milliseconds(took)
		}
	}
	return l, nil
}

// hitAllocs counts the allocations of a hit in the handlers, the client of Redis included and
// the HTTP server left out: the program's and the bare one's.
func hitAllocs(addr string) (allocs [2]float64, err error) {
	rdb := redisconn.NewSingle(&redis.Options{Addr: addr})
	defer func() { _ = rdb.Close() }()
	handler, err := newHandler(rdb)
	if err != nil {
		return allocs, err
	}
	for i, h := range []http.Handler{handler, bare(addr)} {
		r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:8080/v1/hospitals/"+hospitalID(1)+"/templates/"+code(1), http.NoBody)
		if err != nil {
			return allocs, err
		}
		w := &sink{header: http.Header{}}
		h.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			return allocs, fmt.Errorf("a hit in the handler was answered with %d", w.status)
		}
		allocs[i] = testing.AllocsPerRun(1000, func() {
			clear(w.header)
			h.ServeHTTP(w, r)
		})
	}
	return allocs, nil
}

// newHandler is the program's own handler, for reads.
func newHandler(rdb *redis.Client) (http.Handler, error) {
	directory, err := newEntries(10, entrySize).directory()
	if err != nil {
		return nil, err
	}
	keys, err := templates.ParseKeyFormat(keyFormat)
	if err != nil {
		return nil, err
	}
	m := metrics.New("", "", "")
	cache := templates.NewCache(rdb, templates.CacheOptions{Keys: keys, TTL: 24 * time.Hour, FenceTTL: time.Minute, Current: directory.Current})
	reader := templates.NewReader(templates.ReaderOptions{
		Cache: cache, Flight: flight.Options{Observer: m}, CoolDown: time.Second, CoolingMax: 10, Metrics: m, Log: zerolog.Nop(),
	})
	return httpapi.New(httpapi.Options{
		Directory: directory, Reader: reader, Looker: (*invalidate.Syncer)(nil), Addr: "127.0.0.1:8080",
		Healthy: func() error { return nil }, Ready: func() ([]string, bool) { return nil, true }, Metrics: m.Registry, Log: zerolog.Nop(),
	}), nil
}

// sink is a ResponseWriter that keeps nothing.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header    { return s.header }
func (s *sink) WriteHeader(status int) { s.status = status }
func (s *sink) WriteString(p string) (int, error) {
	s.status = max(s.status, http.StatusOK)
	return len(p), nil
}
func (s *sink) Write(p []byte) (int, error) {
	s.status = max(s.status, http.StatusOK)
	return len(p), nil
}
