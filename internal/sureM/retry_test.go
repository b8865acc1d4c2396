package surem

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"alimtalk-syncer/internal/hospitals"
)

func TestWhatMayPassIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"500":              answer(500, ""),
		"closed":           hijacked(""),
		"closed half-way":  hijacked("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"),
		"429":              answer(429, ""),
		"time-out":         func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"503 for a second": header(answer(503, ""), "Retry-After", "1"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVendor(t)
			v.login = header(v.login, "Connection", "close") // a call on a used connection may be sent again by net/http itself
			v.list = inTurn(h, h, data(`{"list":[{"templateCode":"T1","inspectionStatus":"APR"}],"total":1}`))
			c, _ := v.client(t, func(o *Options) { o.MaxRetries, o.Timeout = 2, time.Second })
			var waiting, slots atomic.Int32
			turn := NewTurn(false, func() { waiting.Add(1) }, func() { slots.Add(1) })
			list, err := c.Summaries(t.Context(), h001, turn)
			if err != nil || !list.Complete {
				t.Fatalf("%+v, %v", list, err)
			}
			if waiting.Load() != 3 || slots.Load() != 3 {
				t.Fatalf("it queued %d times and got %d slots for 3 attempts", waiting.Load(), slots.Load())
			}
			v.detail = h
			if _, err := c.Detail(t.Context(), h001, "T1"); err == nil {
				t.Fatal("three failures in a row were a success")
			}
			if n := strings.Count(strings.Join(v.calls(), "\n"), "/detail"); n < 3 {
				t.Fatalf("%d attempts", n)
			}
		})
	}
}

func TestWhatWillNotPassIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	for _, h := range []http.HandlerFunc{
		answer(400, `{"code":"A1"}`), answer(404, ""), answer(200, `{"code":"E1"}`), answer(200, "<html>"), data(`null`), answer(301, ""),
	} {
		v := newVendor(t)
		v.detail = h
		c, _ := v.client(t, func(o *Options) { o.MaxRetries = 3 })
		if _, err := c.Detail(t.Context(), h001, "T1"); err == nil || len(v.calls()) != 1 {
			t.Fatalf("%v after %d attempts", err, len(v.calls()))
		}
	}
}

func TestRetryAfterForms(t *testing.T) {
	date := time.Now().Add(-3 * time.Hour).UTC() // a clock that is slow
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "-7": 0, "1.5": 0, "soon": 0, "+3": 0,
		"86400": maxRetryAfter, "99999999999999999999999999": maxRetryAfter,
		date.Add(90 * time.Second).Format(http.TimeFormat):                  90 * time.Second,
		date.Add(90 * time.Second).Format("Monday, 02-Jan-06 15:04:05 GMT"): 90 * time.Second,
		date.Add(-time.Hour).Format(http.TimeFormat):                        0,
		date.AddDate(5, 0, 0).Format(http.TimeFormat):                       maxRetryAfter,
		"Sun, 99 Nov 2026 00:00:00 GMT":                                     0,
	} {
		h := http.Header{}
		h.Set("Retry-After", value)
		h.Set("Date", date.Format(http.TimeFormat))
		if got := retryAfter(h); got != want {
			t.Errorf("Retry-After %q is %s, want %s", value, got, want)
		}
	}
	h := http.Header{"Retry-After": {time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat)}}
	if got := retryAfter(h); got < 28*time.Second || got > 30*time.Second {
		t.Errorf("a date in 30s without a Date is %s", got)
	}
}

func TestARetryAfterBeyondTheDeadlineEndsTheCallAtOnce(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"429 for a day":         header(answer(429, ""), "Retry-After", "86400"),
		"503 for a day":         header(answer(503, ""), "Retry-After", "86400"),
		"503 until another day": header(answer(503, ""), "Retry-After", time.Now().Add(100*time.Hour).UTC().Format(http.TimeFormat)),
		"429 for 30s":           header(answer(429, ""), "Retry-After", "30"),
	} {
		for _, kind := range []string{"deadline", "left", "nothing known"} {
			if kind == "nothing known" && strings.HasSuffix(name, "30s") {
				continue // it would wait
			}
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				v := newVendor(t)
				v.list, v.detail = h, h
				c, _ := v.client(t, func(o *Options) { o.MaxRetries = 3 })
				ctx := t.Context()
				turn := NewTurn(false, nil, nil)
				switch kind {
				case "deadline":
					limited, cancel := context.WithTimeout(ctx, 20*time.Second)
					defer cancel()
					ctx, turn = limited, nil
				case "left":
					turn.Left = func() time.Duration { return 20 * time.Second }
				}
				began := time.Now()
				_, err := c.Summaries(ctx, h001, turn)
				var e *Error
				if !errors.As(err, &e) || e.RetryAfter < 29*time.Second || e.RetryAfter > maxRetryAfter || time.Since(began) > 5*time.Second {
					t.Fatalf("%v with RetryAfter %v after %s", err, e, time.Since(began))
				}
				if n := len(v.calls()); n != 1 {
					t.Fatalf("%d attempts", n)
				}
			})
		}
	}
}

func TestA429HoldsItsAccountAndNoOther(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.list = inTurn(header(answer(429, `{"code":"A4290","message":"slow down"}`), "Retry-After", "2"), data(`[]`))
	c, out := v.client(t, func(o *Options) { o.MaxRetries = 1 })
	if _, err := c.Detail(t.Context(), h001, "T1"); err != nil { // the login is over
		t.Fatal(err)
	}
	other := hospitals.Hospital{ID: "H2", SenderKey: "S2", UserCode: "other"}
	if _, err := c.Detail(t.Context(), other, "T1"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var calls sync.WaitGroup
	calls.Go(func() {
		if list, err := c.Summaries(t.Context(), h001, NewTurn(false, nil, nil)); err != nil || !list.Complete {
			t.Errorf("the call that met the 429: %+v, %v", list, err)
		}
		if waited := time.Since(began); waited < 1900*time.Millisecond {
			t.Errorf("it was tried again after %s", waited)
		}
	})
	eventually(t, "the account is held", func() bool { return c.State() == StateLimited })
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := c.Detail(short, h001, "T1")
	var e *Error
	if !errors.As(err, &e) || e.Outcome != "rate_limited" || e.RetryAfter <= 0 || e.RetryAfter > 2*time.Second || short.Err() != nil {
		t.Errorf("a call that cannot wait: %v", err)
	}
	if _, err := c.Detail(short, other, "T1"); err != nil {
		t.Errorf("another account: %v", err)
	}
	calls.Wait()
	if c.State() != StateOK || strings.Count(out.String(), "surem limited") != 1 {
		t.Fatalf("state %s, log %s", c.State(), out)
	}
}

func TestOurOwnLimitIsALimitError(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	c, _ := v.client(t, func(o *Options) { o.RateLimit, o.RateBurst = 0.01, 2 })
	if _, err := c.Detail(t.Context(), h001, "T1"); err != nil { // and the login
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	began := time.Now()
	_, err := c.Detail(ctx, h001, "T1")
	var limit *LimitError
	if !errors.As(err, &limit) || limit.RetryAfter < 90*time.Second || limit.RetryAfter > 100*time.Second || time.Since(began) > 5*time.Second {
		t.Fatalf("%v after %s", err, time.Since(began))
	}
}

func TestAFailureIsToldRatherThanTheWaitAfterIt(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.detail = answer(500, "")
	c, _ := v.client(t, func(o *Options) { o.RateLimit, o.RateBurst, o.MaxRetries = 0.01, 2, 3 })
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	_, err := c.Detail(ctx, h001, "T1")
	var e *Error
	if !errors.As(err, &e) || e.Status != 500 || c.State() != StateAway {
		t.Fatalf("%v, want the 500 that the call met", err)
	}
}

func TestACallersEndIsNotSureMsFault(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	reached := make(chan struct{}, 10)
	v.detail = func(_ http.ResponseWriter, r *http.Request) { reached <- struct{}{}; <-r.Context().Done() }
	c, _ := v.client(t, func(o *Options) { o.MaxRetries = 3 })
	cause := errors.New("the reader has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-reached; cancel(cause) }()
	_, err := c.Detail(ctx, h001, "T1")
	var e *Error
	if !errors.Is(err, cause) || errors.As(err, &e) || counted(c, opDetail, "cancelled") != 1 || c.State() != StateOK {
		t.Fatalf("%v, state %s", err, c.State())
	}

	limited, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	_, err = c.Detail(limited, h001, "T1")
	if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) || counted(c, opDetail, "timeout") != 1 || c.State() != StateAway {
		t.Fatalf("%v, state %s", err, c.State())
	}
}

// Nor is it a sign that SureM is back.
func TestACallersEndChangesNoState(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	reached := make(chan struct{})
	v.detail = inTurn(answer(503, ""), func(_ http.ResponseWriter, r *http.Request) { close(reached); <-r.Context().Done() })
	c, _ := v.client(t, nil)
	_, _ = c.Detail(t.Context(), h001, "T1")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	if _, err := c.Detail(ctx, h001, "T1"); !errors.Is(err, context.Canceled) || c.State() != StateAway {
		t.Fatalf("%v, state %s", err, c.State())
	}
}

func TestStateAndItsLogLines(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	good, bad := v.detail, answer(503, "")
	v.detail = inTurn(good, bad, bad, bad, good, good, bad, good) // it comes and goes at the end: one pair of lines
	c, out := v.client(t, nil)
	for i, want := range []State{StateOK, StateAway, StateAway, StateAway, StateOK, StateOK, StateAway, StateOK} {
		_, _ = c.Detail(t.Context(), h001, "T1")
		if got := c.State(); got != want {
			t.Fatalf("after call %d: %s, want %s", i, got, want)
		}
	}
	if n, m := strings.Count(out.String(), "surem away"), strings.Count(out.String(), "surem back"); n != 1 || m != 1 {
		t.Fatalf("%d lines say away and %d back: %s", n, m, out)
	}
}

func TestSureMGoneIsAwayAndHeals(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	c, _ := v.client(t, nil)
	if _, err := c.Detail(t.Context(), h001, "T1"); err != nil {
		t.Fatal(err)
	}
	addr := v.Listener.Addr().String()
	handler := v.Config.Handler
	v.Server.Close()
	_, err := c.Detail(t.Context(), h001, "T1")
	var e *Error
	if !errors.As(err, &e) || e.Outcome != "network" || c.State() != StateAway {
		t.Fatalf("%v, state %s", err, c.State())
	}
	if strings.Contains(e.Public(), addr) || strings.Contains(err.Error(), "senderKey") {
		t.Fatalf("the error shows too much: %v; %s", err, e.Public())
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	back := &http.Server{Handler: handler}
	go func() { _ = back.Serve(l) }()
	defer func() { _ = back.Close() }()
	if _, err := c.Detail(t.Context(), h001, "T1"); err != nil || c.State() != StateOK {
		t.Fatalf("not healed: %v, state %s", err, c.State())
	}
}

// A thousand faulty answers leave no connection and, by TestMain, no goroutine.
func TestFaultyAnswersLeaveNoConnections(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.detail = inTurnForEver(
		answer(500, strings.Repeat("x", 10<<10)), answer(403, "<html>"), answer(404, ""), data(`null`), answer(200, "{"), answer(301, "moved"),
		hijacked(""), hijacked("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"), answer(200, strings.Repeat(" ", 100<<10)),
	)
	c, _ := v.client(t, nil)
	var callers sync.WaitGroup
	for range 10 {
		callers.Go(func() {
			for range 100 {
				if _, err := c.Detail(t.Context(), h001, "T1"); err == nil {
					t.Error("a fault was a success")
				}
			}
		})
	}
	callers.Wait()
	eventually(t, "no more connections than callers", func() bool { return v.open.Load() <= 10 })
	c.transport.CloseIdleConnections()
	eventually(t, "no connection is left", func() bool { return v.open.Load() == 0 })
}

func inTurnForEver(handlers ...http.HandlerFunc) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		handlers[int(n.Add(1))%len(handlers)](w, r)
	}
}
