package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// miss measures many callers at once of what is not cached.
func (b *bench) miss() error {
	surem := b.sureM()
	d, err := b.start(b.redis(), surem, b.sizes.hospitals)
	if err != nil {
		return err
	}
	caller, err := b.callers(d.url+"/healthz", surem.url+"/api/v1/alimtalk/templates")
	if err != nil {
		return err
	}
	fresh := 0
	contenders := []struct {
		name string
		url  func(caller int) string // of its fresh-th time
	}{
		{"one cold key", func(int) string {
			return fmt.Sprintf("%s/v1/hospitals/%s/templates/ONE_%d", d.url, hospitalID(0), fresh)
		}},
		{"a cold key each", func(n int) string {
			return fmt.Sprintf("%s/v1/hospitals/%s/templates/EACH_%d_%d", d.url, hospitalID(n%b.sizes.hospitals), fresh, n)
		}},
		{"straight to SureM", func(n int) string { return fmt.Sprintf("%s/api/v1/alimtalk/templates/STRAIGHT_%d", surem.url, n) }},
	}
	took := make([][]time.Duration, len(contenders))
	calls := make([]int64, len(contenders))
	for round := range b.sizes.missRounds + 1 {
		for i := range contenders {
			i = (i + round) % len(contenders)
			fresh++
			before := surem.details.Load()
			all, err := b.together(caller, contenders[i].url)
			if err != nil {
				return fmt.Errorf("%s: %w", contenders[i].name, err)
			}
			if round > 0 {
				took[i] = append(took[i], all...)
				calls[i] += surem.details.Load() - before
			}
		}
	}
	fmt.Printf("%d callers at once, SureM takes %v, no rate limit. Added: to those %v.\n", b.sizes.callers, detailTime, detailTime)
	t := newTable("", "added p50 ms", "added p99 ms", "SureM calls a time")
	for i, c := range contenders {
		added := func(d time.Duration) float64 { return milliseconds(d - detailTime) }
		t.row(c.name, "%.1f", quantile(took[i], 0.5, added), "%.1f", quantile(took[i], 0.99, added), "%.1f", float64(calls[i])/float64(b.sizes.missRounds))
	}
	t.print()
	return nil
}

// callers returns a client that has a connection for every caller to each of the hosts.
func (b *bench) callers(urls ...string) (*http.Client, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: b.sizes.callers, MaxIdleConns: len(urls) * b.sizes.callers}
	b.Cleanup(transport.CloseIdleConnections)
	c := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	for _, url := range urls {
		for range 3 { // some of the first ones are answered before others have dialled
			if _, err := b.together(c, func(int) string { return url }); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// together has all callers ask at once and returns what each has waited.
func (b *bench) together(c *http.Client, url func(caller int) string) ([]time.Duration, error) {
	took, errs := make([]time.Duration, b.sizes.callers), make([]error, b.sizes.callers)
	start := make(chan struct{})
	var all sync.WaitGroup
	for n := range took {
		to := url(n)
		all.Go(func() {
			<-start
			began := time.Now()
			errs[n] = get(c, to)
			took[n] = time.Since(began)
		})
	}
	close(start)
	all.Wait()
	return took, errors.Join(errs...)
}

func get(c *http.Client, url string) error {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return nil
}

// during measures reads of what is not cached beside a pass that waits for its account's rate
// limit, and at the same moments those of a daemon that has nothing else to do.
func (b *bench) during() error {
	const rate, slot = 5, time.Second / 5
	limit := []string{fmt.Sprintf("SUREM_RATE_LIMIT=%d", rate), fmt.Sprintf("SUREM_RATE_BURST=%d", rate)}
	names := []string{"beside a pass", "idle"}
	settings := [][]string{append(limit, "SYNC_ON_START=true"), limit}
	surem := make([]*sureM, len(names))
	daemons := make([]*daemon, len(names))
	for i := range names {
		surem[i] = b.sureM()
		var err error
		if daemons[i], err = b.start(b.redis(), surem[i], max(b.sizes.hospitals, 10*b.sizes.reads), settings[i]...); err != nil {
			return err
		}
	}
	took := make([][]time.Duration, len(names))
	errs := make([]error, len(names))
	c := &http.Client{Timeout: 30 * time.Second}
	began := time.Now()
	for n := range b.sizes.reads {
		time.Sleep(time.Duration(300+rand.IntN(600)) * time.Millisecond)
		var both sync.WaitGroup
		for i, d := range daemons {
			both.Go(func() {
				asked := time.Now()
				errs[i] = errors.Join(errs[i], get(c, fmt.Sprintf("%s/v1/hospitals/%s/templates/COLD_%d", d.url, hospitalID(n), n)))
				took[i] = append(took[i], time.Since(asked))
			})
		}
		both.Wait()
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	length := time.Since(began).Seconds()
	fmt.Printf("%d hospitals, a limit of %d calls/s (a slot every %v), %.1f reads/s, SureM takes %v.\n", max(b.sizes.hospitals, 10*b.sizes.reads), rate, slot, float64(b.sizes.reads)/length, detailTime)
	t := newTable("", "p50 ms", "p99 ms", "max ms", "p99 − idle's, slots", "looks/s meanwhile")
	for i, name := range names {
		p99 := quantile(took[i], 0.99, milliseconds)
		t.row(name, "%.0f", quantile(took[i], 0.5, milliseconds), "%.0f", p99, "%.0f", quantile(took[i], 1, milliseconds),
			"%.2f", (p99-quantile(took[1], 0.99, milliseconds))/milliseconds(slot), "%.1f", float64(surem[i].lists.Load())/length)
	}
	t.print()
	return nil
}
