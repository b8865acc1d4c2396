package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/hospitals"
)

// Bounds of a heartbeat: two tries at most.
const (
	heartbeatTimeout = 5 * time.Second // of one try
	heartbeatPause   = time.Second     // before the second one
)

// heartbeat tells a monitor that a pass has succeeded: when the beats stop coming, it rings.
// The URL is a secret, since who has it can keep the monitor quiet: no message shows it.
type heartbeat struct {
	url    hospitals.Secret
	log    zerolog.Logger
	client *http.Client
	life   context.Context // of what is under way
	cut    context.CancelFunc
	beats  sync.WaitGroup

	mu      sync.Mutex // guards what follows
	beating bool       // a beat is under way
	failing bool       // the last one failed
}

// newHeartbeat returns the heartbeat of a URL; of none, one that never beats.
func newHeartbeat(u hospitals.Secret, log zerolog.Logger) *heartbeat {
	life, cut := context.WithCancel(context.Background())
	return &heartbeat{url: u, log: log, life: life, cut: cut, client: &http.Client{
		Timeout: heartbeatTimeout,
		// A redirect would show the URL to another server, as the Referer.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// beat begins one beat and returns at once. While one is under way there is no need of another.
func (h *heartbeat) beat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.url == "" || h.beating || h.life.Err() != nil {
		return
	}
	h.beating = true
	h.beats.Go(func() { // ends by its own bounds, or with life
		err := h.try()
		if err != nil && h.pause() {
			err = h.try()
		}
		h.ended(err)
	})
}

// ended notes how a beat went and logs it where that is news.
func (h *heartbeat) ended(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beating = false
	failed := err != nil
	switch {
	case h.life.Err() != nil || failed == h.failing:
		return
	case failed:
		h.log.Warn().Str("error", err.Error()).Msg("heartbeat failing")
	default:
		h.log.Info().Msg("heartbeat back")
	}
	h.failing = failed
}

func (h *heartbeat) pause() bool {
	select {
	case <-time.After(heartbeatPause):
		return true
	case <-h.life.Done():
		return false
	}
}

func (h *heartbeat) try() error {
	request, err := http.NewRequestWithContext(h.life, http.MethodGet, h.url.Reveal(), nil)
	if err != nil {
		return errors.New("the URL makes no request") // it was checked when it was set
	}
	request.Header.Set("User-Agent", "alimtalk-syncer")
	response, err := h.client.Do(request)
	if err != nil {
		return errors.New(withoutURL(err, request.URL.Hostname()))
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection serves again
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the monitor answered HTTP %d", response.StatusCode)
	}
	return nil
}

// withoutURL is the text of an error of net/http without the URL, its host and addresses.
func withoutURL(err error, host string) string {
	var (
		outer  *url.Error
		lookup *net.DNSError
		dialed *net.OpError
	)
	if errors.As(err, &outer) {
		err = outer.Err
	}
	text := err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		text = "no answer in time"
	case errors.As(err, &lookup):
		text = "looking up its host: " + lookup.Err
	case errors.As(err, &dialed):
		text = dialed.Op + ": " + dialed.Err.Error()
	}
	return strings.ReplaceAll(text, host, "[host]")
}

// close waits for the beat that is under way; when ctx ends first it is cut.
func (h *heartbeat) close(ctx context.Context) {
	done := make(chan struct{})
	go func() { // ends with the beat
		h.beats.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	h.cut()
	<-done
	h.client.CloseIdleConnections()
}
