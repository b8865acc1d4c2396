package httpapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/sureM"
	"alimtalk-syncer/internal/templates"
)

func TestEveryFailureOfAReadHasItsStatus(t *testing.T) {
	w := newWorld(t).serve()
	away := &surem.Error{Op: "detail", Message: "vendor text", Err: context.DeadlineExceeded}
	later := &surem.Error{Op: "detail", RetryAfter: 1200 * time.Millisecond, Err: errors.New("server error")}
	breaker := &surem.Error{Op: "detail", RetryAfter: 7 * time.Second, Err: surem.ErrOpen}
	for name, c := range map[string]struct {
		err        error
		status     int
		retryAfter string
	}{
		"not found":          {surem.ErrNotFound, 404, ""},
		"not found, cooling": {&templates.CoolingError{Err: surem.ErrNotFound, RetryAfter: time.Second}, 404, ""},
		"keys":               {flight.ErrTooManyKeys, 429, "1"},
		"waiters":            {flight.ErrTooManyWaiters, 429, "1"},
		"our rate limit":     {&surem.LimitError{RetryAfter: 2100 * time.Millisecond}, 429, "3"},
		"our rate limit now": {&surem.LimitError{}, 429, "1"},
		"SureM away":         {away, 502, ""},
		"SureM refuses":      {&surem.Error{Op: "login", Status: 403, Message: "vendor text", Err: surem.ErrRefused}, 502, ""},
		"SureM away, later":  {later, 502, "2"},
		"cooling":            {&templates.CoolingError{Err: away, RetryAfter: 300 * time.Millisecond}, 502, "1"},
		"cooling, longer":    {&templates.CoolingError{Err: later, RetryAfter: 300 * time.Millisecond}, 502, "2"},
		"breaker open":       {breaker, 503, "7"},
		"breaker, cooling":   {&templates.CoolingError{Err: breaker, RetryAfter: 300 * time.Millisecond}, 503, "7"},
		"breaker, cools on":  {&templates.CoolingError{Err: breaker, RetryAfter: time.Minute}, 503, "60"},
		"closed":             {flight.ErrClosed, 503, ""},
		"cut":                {context.Canceled, 503, ""},
		"deadline":           {flight.ErrDeadline, 504, ""},
		"deadline inside":    {context.DeadlineExceeded, 504, ""},
		"deadline, cooling":  {&templates.CoolingError{Err: context.DeadlineExceeded, RetryAfter: time.Second}, 504, "1"},
		"panic":              {&flight.PanicError{Value: away}, 500, ""},
		"goexit":             {&flight.GoexitError{}, 500, ""},
		"unknown":            {errors.New("vendor text"), 500, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{c.err, fmt.Errorf("reading: %w", c.err)} {
				w.read = func(context.Context, hospitals.Hospital, string) (templates.Answer, error) {
					return templates.Answer{}, err
				}
				a := w.do("GET", "/v1/hospitals/H001/templates/T1")
				w.wantProblem(a, c.status)
				if got := a.header.Get("Retry-After"); got != c.retryAfter {
					t.Errorf("Retry-After %q, want %q", got, c.retryAfter)
				}
				if a.header.Get("Cache-Status") != "" {
					t.Errorf("Cache-Status %q", a.header.Get("Cache-Status"))
				}
			}
		})
	}
}

func TestWhyAListCannotBeRead(t *testing.T) {
	w := newWorld(t).serve()
	for _, c := range []struct {
		listErr, lookErr error
		status           int
		retryAfter       string
	}{
		{listErr: &surem.Error{Op: "summaries", Message: "vendor text", Err: surem.ErrRefused}, status: 502},
		{listErr: &surem.Error{Op: "summaries", RetryAfter: 90 * time.Second, Err: surem.ErrRefused}, status: 502, retryAfter: "90"},
		{listErr: context.DeadlineExceeded, status: 502},
		{listErr: errors.New("vendor text"), status: 502},
		{listErr: &surem.LimitError{RetryAfter: time.Second}, status: 429, retryAfter: "1"},
		{lookErr: &surem.LimitError{RetryAfter: 5 * time.Second}, status: 429, retryAfter: "5"},
		{listErr: &surem.Error{Op: "summaries", RetryAfter: 7 * time.Second, Err: surem.ErrOpen}, status: 503, retryAfter: "7"},
		{lookErr: flight.ErrClosed, status: 503},
		{lookErr: context.DeadlineExceeded, status: 504},
	} {
		w.look = func(context.Context, hospitals.Hospital, string) (invalidate.Reading, error) {
			return invalidate.Reading{Unread: c.listErr != nil, ListErr: c.listErr}, c.lookErr
		}
		for _, request := range [][2]string{{"GET", "/v1/hospitals/H001/templates"}, {"POST", "/v1/hospitals/H001/sync"}} {
			a := w.do(request[0], request[1])
			w.wantProblem(a, c.status)
			if got := a.header.Get("Retry-After"); got != c.retryAfter {
				t.Errorf("%+v: Retry-After %q", c, got)
			}
			if hasReport := strings.Contains(a.body, `"report":{`); hasReport != (request[0] == "POST" && c.lookErr == nil) {
				t.Errorf("%+v: %s", c, a.body)
			}
		}
	}
}

func TestTheLogHearsOfOurFaultsOnly(t *testing.T) {
	w := newWorld(t).serve()
	fail := func(err error) {
		w.read = func(context.Context, hospitals.Hospital, string) (templates.Answer, error) {
			return templates.Answer{}, err
		}
		w.do("GET", "/v1/hospitals/H001/templates/T1")
	}
	fail(surem.ErrNotFound)
	fail(flight.ErrTooManyKeys)
	fail(&surem.Error{Op: "detail", Err: surem.ErrOpen}) // told by the client, once for all
	w.do("GET", "/v1/hospitals/H001/templates/%00")
	w.do("PUT", "/v1/hospitals/H001/templates/T1")
	if got := w.log.String(); got != "" {
		t.Errorf("log of the callers' faults: %s", got)
	}
	fail(errors.New("what happened"))
	want := `{"level":"warn","hospital":"H001","status":500,"error":"what happened","code":"T1","message":"request failed"}` + "\n"
	if got := w.log.String(); got != want {
		t.Errorf("log %s, want %s", got, want)
	}
}

func TestAFloodOfFailuresIsNoFloodOfTheLog(t *testing.T) {
	w := newWorld(t).serve()
	w.read = func(context.Context, hospitals.Hospital, string) (templates.Answer, error) {
		return templates.Answer{}, &surem.Error{Op: "detail", Outcome: "server_error", Err: errors.New("away")}
	}
	began := time.Now()
	for range 200 {
		w.wantProblem(w.do("GET", "/v1/hospitals/H001/templates/T1"), 502)
	}
	most := failuresLogged * (2 + int(time.Since(began)/time.Second))
	if n := strings.Count(w.log.String(), "request failed"); n < failuresLogged || n > most {
		t.Errorf("%d lines about 200 failed requests, want %d in a second", n, failuresLogged)
	}
}

func TestAClientThatLeftIsAnsweredNothing(t *testing.T) {
	w := newWorld(t).serve()
	began, ended := make(chan struct{}), make(chan error, 1)
	w.read = func(ctx context.Context, _ hospitals.Hospital, _ string) (templates.Answer, error) {
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return templates.Answer{}, context.Cause(ctx)
	}
	c := w.raw("GET /v1/hospitals/H001/templates/T1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-began
	c.Close()
	if err := within(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("cause %v", err)
	}
	w.do("GET", "/healthz") // the server lives
	if got := w.log.String(); got != "" {
		t.Errorf("log %s", got)
	}
}

func TestARequestThatShutdownCutsIsToldSo(t *testing.T) {
	w := newWorld(t).serve()
	began := make(chan struct{})
	w.look = func(ctx context.Context, _ hospitals.Hospital, _ string) (invalidate.Reading, error) {
		close(began)
		<-ctx.Done()
		return invalidate.Reading{Report: invalidate.Report{HospitalID: "H001"}, Unread: true, ListErr: context.Cause(ctx)}, nil
	}
	got := make(chan answer, 1)
	go func() { got <- w.do("POST", "/v1/hospitals/H001/sync") }()
	<-began
	w.cancel(errors.New("grace time over"))
	a := within(t, got)
	w.wantProblem(a, 503)
	if !strings.Contains(a.body, `"report":{`) {
		t.Errorf("no report: %s", a.body)
	}
}

func within[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came within 10 s")
		panic("unreachable")
	}
}
