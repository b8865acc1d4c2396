package surem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/tidwall/gjson"

	"alimtalk-syncer/internal/hospitals"
)

const (
	maxBody  = 8 << 20 // bytes of an answer, unpacked
	maxDrain = 64 << 10
	maxPause = 3 * time.Second // between retries that SureM names no time for
	minPause = 200 * time.Millisecond
	rateWait = time.Second // after a 429 that names no time
)

// request is one call, with all its retries.
type request struct {
	op     string
	url    string
	login  string           // the body of a login, which is a POST; "" for a GET
	secret hospitals.Secret // of a login
	token  *token           // of the last attempt; nil for a login
	turn   *Turn
	read   func(data gjson.Result) error // takes what a success brought

	retries int
	began   time.Time // the last attempt
	size    int       // of the last answer, in bytes
}

func (r *request) credential() string {
	if r.op == opLogin {
		return "login"
	}
	return "token"
}

// send makes the call: each attempt takes a slot, and what may pass is tried again. The
// error is an *Error, a *LimitError, or wraps the cause of the context's end.
func (c *Client) send(ctx context.Context, a *account, r *request) error {
	pauses := &backoff.ExponentialBackOff{InitialInterval: minPause, Multiplier: 2, RandomizationFactor: .5, MaxInterval: maxPause / 3 * 2}
	var failure *Error
	for {
		r.turn.begins()
		if err := a.limiter.wait(ctx, r.turn); err != nil {
			if failure == nil {
				return noSlot(ctx, r.op, err)
			}
			return c.end(ctx, a, r, failure) // what it met says more than that its next attempt got no slot
		}
		r.turn.served()
		if wait := a.breaker.pass(r.turn.probes()); wait > 0 {
			if failure == nil {
				return open(r.op, wait)
			}
			return c.end(ctx, a, r, failure)
		}
		if r.token != nil {
			r.token = a.newest(r.token) // there may have been a login while it queued
		}
		failure = c.attempt(ctx, a, r)
		if failure != nil && failure.Outcome == outcomeLimited {
			c.hold(a, r, failure)
		}
		if !c.pause(ctx, a, r, failure, pauses.NextBackOff()) {
			return c.end(ctx, a, r, failure)
		}
	}
}

// hold holds the whole account back after a 429.
func (c *Client) hold(a *account, r *request, failure *Error) {
	failure.RetryAfter = max(failure.RetryAfter, rateWait)
	if a.limiter.hold(failure.RetryAfter) && c.limits.isNews(a.userCode) {
		c.log.Warn().Str("operation", r.op).Dur("retry_after_ms", min(failure.RetryAfter, maxHold)).Msg("surem limited")
	}
}

// pause waits before another attempt, and reports false when there is none to be made: the
// failure will not pass, the retries are used up, the breaker is open, or the pause that
// SureM asks for, or ours, lies beyond what is left of the call's time.
func (c *Client) pause(ctx context.Context, a *account, r *request, failure *Error, ours time.Duration) bool {
	if failure == nil || !failure.transient() || r.retries >= c.o.MaxRetries || ctx.Err() != nil || a.breaker.isOpen() {
		return false
	}
	length := max(failure.RetryAfter, ours)
	left, known := r.turn.left(ctx)
	if !known {
		left = maxHold + 1
	}
	if length >= left {
		return false
	}
	r.retries++
	if failure.Outcome != outcomeLimited || length > maxHold { // else the hold is the pause
		sleep(ctx, length)
	}
	return true
}

// end is what a call returns that made its last attempt.
func (c *Client) end(ctx context.Context, a *account, r *request, failure *Error) error {
	if failure == nil {
		c.note(a, nil, func() { c.away = false })
		return nil
	}
	if failure.Outcome != outcomeCancelled {
		c.note(a, failure, func() { c.away = failure.isAway() })
	}
	if failure.isAway() && a.breaker.isOpen() {
		failure.open, failure.RetryAfter = true, max(failure.RetryAfter, a.breaker.wait(), time.Second)
	}
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return failure
	case errors.Is(failure, cause):
		return fmt.Errorf("%s: SureM had not answered yet: %w", r.op, cause)
	default:
		return fmt.Errorf("%s: %w; before that: %s", r.op, cause, failure.Public())
	}
}

// noSlot is what a call returns that got no slot for its first attempt.
func noSlot(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("%s: waiting for a slot: %w", op, err)
	}
	return refusal(op, err)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// attempt makes one HTTP call and counts it.
func (c *Client) attempt(ctx context.Context, a *account, r *request) *Error {
	r.began = time.Now()
	failure := c.exchange(ctx, a, r)
	outcome := outcomeOK
	if failure != nil {
		outcome = failure.Outcome
	}
	c.o.Metrics.SureMRequests.WithLabelValues(r.op, outcome).Inc()
	c.o.Metrics.SureMDuration.WithLabelValues(r.op).Observe(time.Since(r.began).Seconds())
	c.weigh(a, r, failure)
	return failure
}

// exchange sends the request and reads the answer, body and all, within the time-out.
func (c *Client) exchange(ctx context.Context, a *account, r *request) *Error {
	timed, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	req, err := r.http(timed)
	if err != nil {
		return &Error{Op: r.op, Outcome: outcomeClient, Err: errors.New("the settings give no usable URL")}
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return c.broken(ctx, timed, a, r, err)
	}
	body, err := readBody(resp.Body)
	r.size = len(body)
	// What the status says stands, also when the body breaks off.
	if err != nil && !errors.Is(err, errTooLarge) && (ctx.Err() != nil || resp.StatusCode/100 == 2) {
		return c.broken(ctx, timed, a, r, err)
	}
	return c.judge(a, r, resp.StatusCode, resp.Header, body, err)
}

func (r *request) http(ctx context.Context) (*http.Request, error) {
	method, body := http.MethodGet, io.Reader(nil)
	if r.op == opLogin {
		method, body = http.MethodPost, strings.NewReader(r.login)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.url, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "alimtalk-syncer")
	if r.op == opLogin {
		req.Header.Set("Content-Type", "application/json")
	} else {
		req.Header.Set("Authorization", "Bearer "+r.token.reveal())
	}
	return req, nil
}

var errTooLarge = errors.New("the answer is larger than 8 MiB")

// readBody reads at most maxBody and a little more, so that the connection can be used
// again, and closes the body.
func readBody(body io.ReadCloser) (string, error) {
	defer func() {
		_, _ = io.CopyN(io.Discard, body, maxDrain)
		_ = body.Close()
	}()
	var b strings.Builder
	n, err := io.Copy(&b, io.LimitReader(body, maxBody+1))
	switch {
	case err != nil:
		return "", err
	case n > maxBody:
		return "", errTooLarge
	}
	return b.String(), nil
}

// broken is the failure of an exchange that came to no answer.
func (c *Client) broken(ctx, timed context.Context, a *account, r *request, err error) *Error {
	e := &Error{Op: r.op, Outcome: outcomeNetwork}
	var netErr net.Error
	switch cause := context.Cause(ctx); {
	case ctx.Err() == context.DeadlineExceeded, errors.Is(cause, context.DeadlineExceeded):
		e.Outcome, e.Err = outcomeTimeout, cause
	case cause != nil:
		e.Outcome, e.Err = outcomeCancelled, cause
	case timed.Err() != nil:
		e.Outcome, e.Err = outcomeTimeout, fmt.Errorf("no whole answer within %s", c.o.Timeout)
	default:
		if errors.As(err, &netErr) && netErr.Timeout() {
			e.Outcome = outcomeTimeout
		}
		e.Err = &fault{text: cut(c.mask(a, r, err.Error()), 200), err: err}
	}
	return e
}
