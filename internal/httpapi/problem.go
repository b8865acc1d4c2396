package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/sureM"
	"alimtalk-syncer/internal/templates"
)

// problem is an error answer (RFC 9457) of type about:blank, whose title is the status's.
type problem struct {
	Status int
	Detail string             // in the operator's words
	Report *invalidate.Report // what was done before it failed; nil = nothing to say

	RetryAfter time.Duration // 0 = none is said
}

func (p problem) write(w http.ResponseWriter) {
	if p.RetryAfter > 0 {
		// Rounded up: who comes back early is only sent away again.
		w.Header().Set("Retry-After", strconv.FormatInt(int64((p.RetryAfter+time.Second-1)/time.Second), 10))
	}
	writeJSON(w, "application/problem+json", p.Status, struct {
		Type   string             `json:"type"`
		Title  string             `json:"title"`
		Status int                `json:"status"`
		Detail string             `json:"detail"`
		Report *invalidate.Report `json:"report,omitempty"`
	}{"about:blank", http.StatusText(p.Status), p.Status, p.Detail, p.Report})
}

// problemFor translates what a detail read can fail with.
func problemFor(err error) problem {
	var cooling *templates.CoolingError
	if errors.As(err, &cooling) {
		p := problemFor(cooling.Err)
		if p.Status != http.StatusNotFound {
			p.RetryAfter = max(p.RetryAfter, cooling.RetryAfter)
		}
		return p
	}
	var (
		panicked *flight.PanicError
		limit    *surem.LimitError
		vendor   *surem.Error
	)
	switch {
	case errors.As(err, &panicked): // first: it may unwrap to any of the others
		return ownFault
	case errors.Is(err, surem.ErrNotFound):
		return problem{Status: http.StatusNotFound, Detail: "SureM has no such template"}
	case errors.Is(err, flight.ErrTooManyKeys):
		return problem{Status: http.StatusTooManyRequests, Detail: "too many templates are being loaded (FLIGHT_MAX_KEYS)", RetryAfter: time.Second}
	case errors.Is(err, flight.ErrTooManyWaiters):
		return problem{Status: http.StatusTooManyRequests, Detail: "too many requests wait for this template (FLIGHT_MAX_WAITERS)", RetryAfter: time.Second}
	case errors.As(err, &limit):
		return problem{Status: http.StatusTooManyRequests, Detail: "the next free slot of SUREM_RATE_LIMIT comes too late for this request",
			RetryAfter: max(limit.RetryAfter, time.Second)}
	case errors.Is(err, flight.ErrClosed):
		return shuttingDown
	case errors.Is(err, flight.ErrDeadline):
		return problem{Status: http.StatusGatewayTimeout, Detail: "loading from SureM took longer than FLIGHT_LOADER_TIMEOUT"}
	case errors.As(err, &vendor) && errors.Is(err, surem.ErrOpen):
		return problem{Status: http.StatusServiceUnavailable, Detail: "most calls to SureM fail just now, so it is asked only now and then", RetryAfter: vendor.RetryAfter}
	case errors.As(err, &vendor):
		return problem{Status: http.StatusBadGateway, Detail: vendor.Public(), RetryAfter: vendor.RetryAfter}
	case errors.Is(err, context.DeadlineExceeded):
		return problem{Status: http.StatusGatewayTimeout, Detail: "loading from SureM took too long"}
	case errors.Is(err, context.Canceled): // not by the caller, who would be gone: by the process' end
		return shuttingDown
	default:
		return ownFault
	}
}

// unreadable translates why a hospital's summaries could not be read, or not to their end.
// Whatever it was that is not a limit of ours or our own end, SureM could not be read.
func unreadable(err error) problem {
	p := problemFor(err)
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
		return p
	case http.StatusGatewayTimeout:
		return problem{Status: http.StatusBadGateway, Detail: "reading SureM's summaries took longer than SYNC_TIMEOUT", RetryAfter: p.RetryAfter}
	default:
		return problem{Status: http.StatusBadGateway, Detail: "SureM's summaries could not be read", RetryAfter: p.RetryAfter}
	}
}

var (
	shuttingDown = problem{Status: http.StatusServiceUnavailable, Detail: "shutting down"}
	ownFault     = problem{Status: http.StatusInternalServerError, Detail: "a fault of this daemon; its log says more"}
	redisAway    = problem{Status: http.StatusServiceUnavailable, Detail: "Redis did not confirm"}
)

// fail answers a request that came to nothing. Of faults that are not the caller's the log
// hears too, those aside that an open breaker has told of once for all. A client that has
// left is answered nothing; one that was cut by the end of the server's base context still is.
func (s *server) fail(w http.ResponseWriter, r *http.Request, h hospitals.Hospital, code string, err error, p problem) {
	if r.Context().Err() != nil {
		if errors.Is(context.Cause(r.Context()), context.Canceled) {
			panic(http.ErrAbortHandler)
		}
		p = problem{Status: shuttingDown.Status, Detail: shuttingDown.Detail, Report: p.Report}
	}
	if p.Status >= http.StatusInternalServerError && !errors.Is(err, surem.ErrOpen) {
		line := s.Log.Warn().Str("hospital", h.ID).Int("status", p.Status).Err(err)
		if code != "" {
			line = line.Str("code", code)
		}
		line.Msg("request failed")
	}
	p.write(w)
}

// writeJSON writes v compactly, its text as it is: nothing here is for a browser to run.
func writeJSON(w http.ResponseWriter, contentType string, status int, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // structs of strings and numbers
	}
	b.Truncate(b.Len() - len("\n"))
	write(w, contentType, status, b.String())
}

func write(w http.ResponseWriter, contentType string, status int, body string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if status != http.StatusOK { // which is understood, and for which the headers are not copied
		w.WriteHeader(status)
	}
	_, _ = io.WriteString(w, body) // a client that has left, or a HEAD
}
