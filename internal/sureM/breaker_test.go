package surem

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"alimtalk-syncer/internal/hospitals"
)

func TestBreakerOpensAtOverHalfOfTwentyCallsInThirtySeconds(t *testing.T) {
	for name, c := range map[string]struct {
		calls string // x failed, o did not, s a second passes
		open  bool
	}{
		"nineteen":            {strings.Repeat("x", 19), false},
		"twenty":              {strings.Repeat("x", 20), true},
		"half":                {strings.Repeat("ox", 30), false},
		"just over half":      {strings.Repeat("ox", 10) + "x", true},
		"over half, few":      {strings.Repeat("x", 8) + strings.Repeat("o", 7), false},
		"slowly":              {strings.Repeat("xss", 40), false},
		"just fast enough":    {strings.Repeat("xs", 20), true},
		"old failures":        {strings.Repeat("x", 19) + strings.Repeat("s", 30) + "x", false},
		"older failures":      {strings.Repeat("x", 19) + strings.Repeat("s", 33) + "x", false},
		"old successes":       {strings.Repeat("o", 100) + strings.Repeat("s", 30) + strings.Repeat("x", 20), true},
		"after a long rest":   {strings.Repeat("x", 19) + strings.Repeat("s", 300) + strings.Repeat("x", 19), false},
		"good, then bad":      {strings.Repeat("o", 30) + strings.Repeat("x", 30), false},
		"good, then very bad": {strings.Repeat("o", 30) + strings.Repeat("x", 31), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := 0
				b := newBreaker(func(open bool, _ *Error) {
					if open {
						told++
					}
				})
				for _, call := range c.calls {
					switch call {
					case 's':
						time.Sleep(time.Second)
					default:
						b.note(time.Now(), nil, call == 'x', call == 'o')
					}
				}
				if b.isOpen() != c.open || told != map[bool]int{true: 1}[c.open] {
					t.Fatalf("open %v, told %d times", b.isOpen(), told)
				}
			})
		})
	}
}

func TestOneReadInTenSecondsFindsOutWhetherSureMIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(func(bool, *Error) {})
		before := time.Now()
		time.Sleep(time.Second)
		for range breakerFloor {
			b.note(time.Now(), nil, true, false)
		}
		if b.wait() != breakerPause || b.pass(false) != breakerPause {
			t.Fatalf("a read may be sent in %s", b.wait())
		}
		b.note(before, nil, false, true) // was sent when SureM still answered
		if !b.isOpen() {
			t.Fatal("an answer to an old call has closed it")
		}
		time.Sleep(breakerPause)
		if b.wait() != 0 || b.pass(false) != 0 || b.pass(false) != breakerPause {
			t.Fatal("not exactly one read goes through")
		}
		if b.pass(true) != 0 {
			t.Fatal("a pass's call does not")
		}
		b.note(time.Now(), nil, true, false)
		if !b.isOpen() {
			t.Fatal("a failure has closed it")
		}
		b.note(time.Now(), nil, false, true)
		if b.isOpen() || b.wait() != 0 {
			t.Fatal("an answer has not closed it")
		}
		for range breakerFloor - 1 {
			b.note(time.Now(), nil, true, false)
		}
		if b.isOpen() {
			t.Fatal("it has not begun to count anew")
		}
	})
}

func TestOnlyWhatSaysThatSureMIsInTroubleOpensTheBreaker(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		open   bool
	}{
		"500":              {answer(500, ""), true},
		"503 for a day":    {header(answer(503, ""), "Retry-After", "86400"), true},
		"closed":           {hijacked(""), true},
		"closed half-way":  {hijacked("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"), true},
		"time-out":         {hang, true},
		"400":              {answer(400, `{"code":"A1"}`), false},
		"404":              {answer(404, `{"code":"A4040"}`), false},
		"404, wrong path":  {answer(404, "<html>"), false},
		"no such template": {answer(200, `{"code":"A4040"}`), false},
		"error code":       {answer(200, `{"code":"E1"}`), false},
		"web page":         {answer(200, "<html>"), false},
		"redirect":         {answer(301, ""), false},
		"401":              {answer(401, ""), false},
		"403":              {answer(403, ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVendor(t)
			good := v.detail
			v.detail = inTurn(good, c.answer)
			client, out := v.client(t, func(o *Options) {
				if name == "time-out" {
					o.Timeout = 300 * time.Millisecond
				}
			})
			if _, err := client.Detail(t.Context(), h001, "T1"); err != nil {
				t.Fatal(err)
			}
			var readers sync.WaitGroup
			for range 3 * breakerFloor {
				readers.Go(func() { _, _ = client.Detail(t.Context(), h001, "T1") })
			}
			readers.Wait()
			if client.BreakerOpen() != c.open || strings.Count(out.String(), "surem breaker open") != map[bool]int{true: 1}[c.open] {
				t.Fatalf("open %v, log %s", client.BreakerOpen(), out)
			}
		})
	}
}

func TestLimitsAndThoseWhoLeaveDoNotCount(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	reached := make(chan struct{}, 100)
	v.detail = func(_ http.ResponseWriter, r *http.Request) { reached <- struct{}{}; <-r.Context().Done() }
	v.list = answer(429, "")
	c, _ := v.client(t, nil)
	a := c.account(h001.UserCode)
	for range 2 * breakerFloor {
		ctx, leave := context.WithCancel(t.Context())
		go func() { <-reached; leave() }()
		if _, err := c.Detail(ctx, h001, "T1"); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond) // no time for any SureM
		_, _ = c.Detail(short, h001, "T1")
		cancel()
		for len(reached) > 0 {
			<-reached
		}
	}
	for range 2 * breakerFloor {
		a.limiter.mu.Lock()
		a.limiter.held = time.Time{}
		a.limiter.mu.Unlock()
		_, _ = c.Summaries(t.Context(), h001, nil)
	}
	if c.BreakerOpen() {
		t.Fatal("it is open")
	}
}

// They are neither failures nor do they make up for failures.
func TestRefusalsDoNotHideAnOutage(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.detail = inTurnForEver(answer(400, ""), answer(404, `{"code":"A4040"}`), answer(500, ""), answer(200, `{"code":"A4040"}`))
	c, _ := v.client(t, nil)
	for range 4*breakerFloor + 3 {
		_, _ = c.Detail(t.Context(), h001, "T1")
	}
	if !c.BreakerOpen() {
		t.Fatal("it is closed")
	}
}

// opened returns a client whose breaker the answer that v gives has opened.
func opened(t *testing.T, v *vendor, adjust func(*Options)) (*Client, *safeLog) {
	t.Helper()
	c, out := v.client(t, adjust)
	for range breakerFloor {
		_, _ = c.Detail(t.Context(), h001, "T1")
	}
	if !c.BreakerOpen() {
		t.Fatal("the breaker is closed")
	}
	return c, out
}

func TestWhileTheBreakerIsOpenReadsEndAtOnceAndAPassAsksOnce(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	var down atomic.Bool
	down.Store(true)
	orDown := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if down.Load() {
				answer(502, "")(w, r)
				return
			}
			h(w, r)
		}
	}
	v.detail, v.list = orDown(v.detail), orDown(v.list)
	c, out := opened(t, v, func(o *Options) { o.MaxRetries = 3 })
	before := len(v.calls())
	var e *Error
	_, err := c.Detail(t.Context(), h001, "T1")
	if !errors.Is(err, ErrOpen) || !errors.As(err, &e) || e.RetryAfter < time.Second || e.RetryAfter > breakerPause {
		t.Fatalf("a read: %v", err)
	}
	if list, err := c.Summaries(t.Context(), h001, nil); !errors.Is(err, ErrOpen) || list.Pages != 0 {
		t.Fatalf("a list: %v", err)
	}
	if len(v.calls()) != before {
		t.Fatal("SureM was asked")
	}
	if c.State() != StateAway {
		t.Fatalf("state %s", c.State())
	}

	probe := NewTurn(false, nil, nil)
	probe.Probe = true
	for n := range 3 {
		_, err = c.Summaries(t.Context(), h001, probe)
		if !errors.Is(err, ErrOpen) || !errors.As(err, &e) || e.Status != 502 || len(v.calls()) != before+n+1 {
			t.Fatalf("a pass: %v after %d calls", err, len(v.calls())-before)
		}
	}
	other := hospitals.Hospital{ID: "H2", SenderKey: "S2", UserCode: "other"}
	if _, err := c.Detail(t.Context(), other, "T1"); err == nil || errors.Is(err, ErrOpen) {
		t.Fatalf("another account's read: %v", err)
	}

	down.Store(false)
	if _, err := c.Detail(t.Context(), h001, "T1"); !errors.Is(err, ErrOpen) {
		t.Fatalf("nobody has found out yet: %v", err)
	}
	if list, err := c.Summaries(t.Context(), h001, probe); err != nil || !list.Complete {
		t.Fatal(err)
	}
	if _, err := c.Detail(t.Context(), h001, "T1"); err != nil || c.BreakerOpen() || c.State() != StateOK {
		t.Fatalf("not healed: %v, open %v, state %s", err, c.BreakerOpen(), c.State())
	}
	if s := out.String(); strings.Count(s, "surem breaker open") != 1 || strings.Count(s, "surem breaker closed") != 1 {
		t.Fatal(s)
	}
}

func TestLoginsCountAndAPassLogsInWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	good := v.login
	v.login = answer(500, "")
	c, _ := v.client(t, nil)
	a := c.account(h001.UserCode)
	forget := func() { // a failed login stands for a second
		a.mu.Lock()
		a.loginAgain = time.Time{}
		a.mu.Unlock()
	}
	for range breakerFloor {
		_, _ = c.Detail(t.Context(), h001, "T1")
		forget()
	}
	if _, err := c.Detail(t.Context(), h001, "T1"); !errors.Is(err, ErrOpen) || v.loginCount() != breakerFloor {
		t.Fatalf("%v after %d logins", err, v.loginCount())
	}
	probe := NewTurn(false, nil, nil)
	probe.Probe = true
	if _, err := c.Summaries(t.Context(), h001, probe); !errors.Is(err, ErrOpen) || v.loginCount() != breakerFloor+1 {
		t.Fatalf("a pass: %v after %d logins", err, v.loginCount())
	}
	v.mu.Lock()
	v.login = good
	v.mu.Unlock()
	forget()
	if list, err := c.Summaries(t.Context(), h001, probe); err != nil || !list.Complete || c.BreakerOpen() {
		t.Fatalf("not healed: %v", err)
	}
}

// An outage of all accounts is told once; and an answer to one says nothing of the others.
func TestBreakersOfTwoAccountsAreToldOnce(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.detail = answer(500, "")
	c, out := opened(t, v, nil)
	other := hospitals.Hospital{ID: "H2", SenderKey: "S2", UserCode: "other"}
	for range breakerFloor {
		_, _ = c.Detail(t.Context(), other, "T1")
	}
	if len(c.open) != 2 || strings.Count(out.String(), "surem breaker open") != 1 {
		t.Fatalf("%d are open: %s", len(c.open), out)
	}
	probe := NewTurn(false, nil, nil)
	probe.Probe = true
	if _, err := c.Summaries(t.Context(), other, probe); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); !c.BreakerOpen() || c.State() != StateAway || strings.Contains(s, "surem breaker closed") || strings.Contains(s, "surem back") {
		t.Fatalf("one is closed, state %s: %s", c.State(), s)
	}
	if _, err := c.Summaries(t.Context(), h001, probe); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); c.BreakerOpen() || c.State() != StateOK || strings.Count(s, "surem breaker closed") != 1 {
		t.Fatalf("both are closed, state %s: %s", c.State(), s)
	}
}

// What SureM answers may be that the call is wrong: it is there.
func TestAnyAnswerClosesTheBreaker(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"400": answer(400, `{"code":"A1"}`), "429": answer(429, ""), "403": answer(403, ""), "error code": answer(200, `{"code":"E1"}`), "web page": answer(200, "<html>"),
	} {
		v := newVendor(t)
		v.detail, v.list = answer(500, ""), h
		c, _ := opened(t, v, nil)
		probe := NewTurn(false, nil, nil)
		probe.Probe = true
		if _, err := c.Summaries(t.Context(), h001, probe); err == nil || errors.Is(err, ErrOpen) || c.BreakerOpen() {
			t.Errorf("%s: %v, open %v", name, err, c.BreakerOpen())
		}
	}
}

// An account that is no longer in the list must not keep the alert ringing.
func TestABreakerOfAnAccountThatIsGoneIsNotReported(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.detail = answer(500, "")
	var gone atomic.Bool
	c, _ := opened(t, v, func(o *Options) {
		secret := o.Secret
		o.Secret = func(userCode string) (hospitals.Secret, bool) {
			s, ok := secret(userCode)
			return s, ok && !gone.Load()
		}
	})
	gone.Store(true)
	if c.BreakerOpen() {
		t.Fatal("it is")
	}
}
