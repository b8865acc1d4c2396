package main

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"alimtalk-syncer/internal/sureM/simulator"
)

// readers ask the daemon for templates over its own HTTP API.
type readers struct {
	base   string // http://host:port
	client *http.Client
	tell   *narrator
	asked  func(entry) int // calls of a template's detail that SureM has had
}

func newReaders(addr string, tell *narrator, w *demoWorld) *readers {
	return &readers{
		base:   "http://" + addr,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: crowd}, Timeout: 15 * time.Second},
		tell:   tell,
		asked:  func(e entry) int { return w.surem.Calls(simulator.Detail, e.senderKey(), e.code) },
	}
}

// crowd is how many readers rush at an entry that has just been deleted.
const crowd = 30

// fill reads every template once.
func (r *readers) fill(ctx context.Context) {
	for _, c := range clinics {
		for _, m := range messages {
			r.one(ctx, entry{c.id, m.code})
		}
	}
}

// run makes a trickle of reads, and a rush now and then, until ctx ends and the last answer
// is there.
func (r *readers) run(ctx context.Context, rnd *rand.Rand) {
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() { r.rush(ctx) })
	slots := make(chan struct{}, crowd) // a SureM that hangs must not pile readers up
	for pauseFor(ctx, time.Duration(100+rnd.IntN(150))*time.Millisecond) {
		e := entry{clinics[rnd.IntN(len(clinics))].id, messages[rnd.IntN(len(messages))].code}
		select {
		case slots <- struct{}{}:
			reading.Go(func() {
				r.one(ctx, e)
				<-slots
			})
		default:
		}
	}
}

// rush sends a crowd at an entry that has just been deleted, at most every four seconds.
func (r *readers) rush(ctx context.Context) {
	for pauseFor(ctx, 4*time.Second) {
		select {
		case <-r.tell.burst: // long past: the next one
		default:
		}
		select {
		case <-ctx.Done():
			return
		case e := <-r.tell.burst:
			before := r.asked(e)
			var all sync.WaitGroup
			for range crowd {
				all.Go(func() { r.one(ctx, e) })
			}
			all.Wait()
			if ctx.Err() == nil {
				r.tell.rushed(e, r.asked(e)-before)
			}
		}
	}
}

// one makes one read and hands it to the narrator. A read that the demo's end cuts is none.
func (r *readers) one(ctx context.Context, e entry) {
	a := answer{began: time.Now()}
	status, header, body, err := r.get(ctx, "/v1/hospitals/"+e.hospital+"/templates/"+url.PathEscape(e.code))
	if ctx.Err() != nil {
		return
	}
	a.failed = err != nil || status != http.StatusOK
	a.state, a.cacheStatus = stateOf(body), header.Get("Cache-Status")
	r.tell.read(e, a)
}

// figures reads what the daemon says of its single-flight; all 0 when it does not answer.
func (r *readers) figures(ctx context.Context) (f flightFigures) {
	_, _, body, err := r.get(ctx, "/metrics")
	if err != nil {
		return f
	}
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		switch name, value, _ := strings.Cut(lines.Text(), " "); name {
		case "single_flight_requests_total":
			f.requests, _ = strconv.ParseFloat(value, 64)
		case "single_flight_loaders_started_total":
			f.loads, _ = strconv.ParseFloat(value, 64)
		}
	}
	return f
}

func (r *readers) get(ctx context.Context, path string) (int, http.Header, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path, http.NoBody)
	if err != nil {
		return 0, nil, "", err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return 0, nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, string(body), err
}
