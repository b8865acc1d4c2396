package surem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"alimtalk-syncer/internal/hospitals"
)

// aged sets the account's clocks back by d.
func (c *Client) aged(d time.Duration) {
	a := c.account(h001.UserCode)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token != nil {
		old := *a.token
		old.since = old.since.Add(-d)
		a.token = &old
	}
	a.loginAgain = a.loginAgain.Add(-d)
	a.keepUntil = a.keepUntil.Add(-d)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("not so after 10s: %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestALoginSendsTheNewestSecret(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	var secret atomic.Value
	secret.Store(hospitals.Secret("old"))
	c, _ := v.client(t, func(o *Options) {
		o.Secret = func(string) (hospitals.Secret, bool) { return secret.Load().(hospitals.Secret), true }
	})
	for _, s := range []string{"old", `new"secret`} {
		secret.Store(hospitals.Secret(s))
		if _, err := c.Detail(t.Context(), h001, "T1"); err != nil {
			t.Fatal(err)
		}
		var sent map[string]string
		if err := json.Unmarshal([]byte(v.bodies[len(v.bodies)-1]), &sent); err != nil || sent["secretKey"] != s || sent["userCode"] != "clinic" {
			t.Fatalf("sent %v (%v), want the secret %s", sent, err, s)
		}
		c.aged(2 * time.Hour)
	}
}

func TestAllTokensRevokedWhileThirtyHospitalsAreRead(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]http.HandlerFunc{
		"401":      answer(401, ``),
		"403":      answer(403, `<html>`),
		"200+code": answer(200, `{"code":"A1001"}`),
	} {
		t.Run(name, func(t *testing.T) {
			v := newVendor(t)
			ok := v.detail
			var revoked atomic.Bool
			var refused sync.WaitGroup // all thirty are refused before anyone may go on
			refused.Add(30)
			v.detail = func(w http.ResponseWriter, r *http.Request) {
				if revoked.Load() && r.Header.Get("Authorization") == "Bearer tok-1" {
					refused.Done()
					refused.Wait()
					refusal(w, r)
					return
				}
				ok(w, r)
			}
			c, _ := v.client(t, nil)
			if _, err := c.Detail(t.Context(), h001, "T1"); err != nil {
				t.Fatal(err)
			}
			revoked.Store(true)
			var readers sync.WaitGroup
			for i := range 30 {
				readers.Go(func() {
					h := hospitals.Hospital{ID: fmt.Sprint("H", i), SenderKey: hospitals.Secret(fmt.Sprint("S", i)), UserCode: "clinic"}
					if _, err := c.Detail(t.Context(), h, "T1"); err != nil {
						t.Error(err)
					}
				})
			}
			readers.Wait()
			if n := v.loginCount(); n != 2 {
				t.Fatalf("%d logins, want the first and one more", n)
			}
			if c.State() != StateOK {
				t.Fatalf("state %s", c.State())
			}
		})
	}
}

func TestARefusedFreshTokenIsKeptAndStopsLogins(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	ok := v.detail
	const bad = hospitals.Secret("bad-sender")
	v.detail = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("senderKey") == bad.Reveal() {
			answer(403, `{"code":"A1005"}`)(w, r)
			return
		}
		ok(w, r)
	}
	c, out := v.client(t, nil)
	refusedOne := hospitals.Hospital{ID: "H2", SenderKey: bad, UserCode: "clinic"}
	logins := 0
	for _, pause := range []time.Duration{1, 2, 4, 8, 10, 10} {
		logins++
		if pause == 1 {
			logins++ // the very first
		}
		for range 5 { // while it lasts, a refusal fails that call alone
			if _, err := c.Detail(t.Context(), refusedOne, "T1"); !errors.Is(err, ErrRefused) {
				t.Fatalf("the refused sender: %v", err)
			}
			if _, err := c.Detail(t.Context(), h001, "T1"); err != nil {
				t.Fatalf("another sender: %v", err)
			}
		}
		if v.loginCount() != logins {
			t.Fatalf("%d logins in the pause of %d min, want %d", v.loginCount(), pause, logins)
		}
		c.aged(pause*time.Minute - 5*time.Second)
		_, _ = c.Detail(t.Context(), refusedOne, "T1")
		if v.loginCount() != logins {
			t.Fatalf("a login 5s before the pause of %d min had ended", pause)
		}
		c.aged(6 * time.Second)
	}
	// A repeat that a login has helped ends the doubling.
	v.mu.Lock()
	v.revoked[fmt.Sprintf("tok-%d", logins)] = true
	v.mu.Unlock()
	if _, err := c.Detail(t.Context(), h001, "T1"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Detail(t.Context(), refusedOne, "T1"); !errors.Is(err, ErrRefused) {
		t.Fatal(err)
	}
	a := c.account("clinic")
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keepPause != minKept {
		t.Fatalf("the pause is %s after a login that helped, want %s", a.keepPause, minKept)
	}
	if !strings.Contains(out.String(), "surem refused") || !strings.Contains(out.String(), "surem back") {
		t.Fatalf("log: %s", out)
	}
}

func TestAFreshTokenRefusedForAllCostsTwoLogins(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.detail = answer(401, ``)
	c, _ := v.client(t, nil)
	var readers sync.WaitGroup
	for range 30 {
		readers.Go(func() {
			for range 10 {
				if _, err := c.Detail(t.Context(), h001, "T1"); !errors.Is(err, ErrRefused) {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
	if n := v.loginCount(); n != 2 {
		t.Fatalf("%d logins for 300 refused calls, want 2", n)
	}
	if c.State() != StateRefused {
		t.Fatalf("state %s", c.State())
	}
	c.aged(2 * time.Hour) // an expired token may always be renewed
	if _, err := c.Detail(t.Context(), h001, "T1"); !errors.Is(err, ErrRefused) || v.loginCount() < 3 {
		t.Fatalf("%v after %d logins", err, v.loginCount())
	}
}

func TestARefusedLoginIsAnsweredFromMemory(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"403":             answer(403, "<html>Forbidden</html>"),
		"401":             answer(401, ""),
		"code under 200":  answer(200, `{"code":"A1002","message":"wrong secret"}`),
		"relogin code":    answer(200, `{"code":"A1001"}`),
		"400 in envelope": answer(400, `{"code":"A1003"}`),
	} {
		t.Run(name, func(t *testing.T) {
			v := newVendor(t)
			good := v.login
			v.login = func(w http.ResponseWriter, r *http.Request) { h(w, r) }
			c, out := v.client(t, func(o *Options) { o.MaxRetries = 3 })
			for i, pause := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
				var readers sync.WaitGroup
				for range 10 {
					readers.Go(func() {
						_, err := c.Detail(t.Context(), h001, "T1")
						var e *Error
						if !errors.As(err, &e) || !errors.Is(err, ErrRefused) || e.Op != opLogin {
							t.Errorf("%v", err)
						}
						noSecrets(t, err.Error())
					})
				}
				readers.Wait()
				if v.loginCount() != i+1 {
					t.Fatalf("%d logins after %d pauses", v.loginCount(), i)
				}
				_, err := c.Detail(t.Context(), h001, "T1")
				var e *Error
				if !errors.As(err, &e) || e.RetryAfter <= (pause-1)*time.Second || e.RetryAfter > pause*time.Second {
					t.Fatalf("pause %d: %v, RetryAfter %s, want %ds", i, err, e.RetryAfter, pause)
				}
				c.aged(pause * time.Second)
			}
			if c.State() != StateRefused || strings.Count(out.String(), "surem refused") != 1 {
				t.Fatalf("state %s, log %s", c.State(), out)
			}
			h = good
			if _, err := c.Detail(t.Context(), h001, "T1"); err != nil || c.State() != StateOK {
				t.Fatalf("not healed: %v, state %s", err, c.State())
			}
		})
	}
}

func TestALoginThatFailsOnTheWayIsTriedAgainAfterASecond(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"closed":                hijacked(""),
		"500":                   answer(500, ""),
		"data null":             data(`null`),
		"no accessToken":        data(`{"expiresIn":3600}`),
		"accessToken null":      data(`{"accessToken":null}`),
		"accessToken a number":  data(`{"accessToken":7}`),
		"accessToken empty":     data(`{"accessToken":""}`),
		"accessToken two lines": data(`{"accessToken":"a\r\nX: b"}`),
		"accessToken twice":     data(`{"accessToken":"a","accessToken":"b"}`),
		"HTML with a token":     answer(200, "<html>tok-1"),
		"data a string":         data(`"tok-1"`),
	} {
		t.Run(name, func(t *testing.T) {
			v := newVendor(t)
			v.login = inTurn(h, h, h, v.login)
			c, _ := v.client(t, nil)
			for i := range 3 {
				_, err := c.Detail(t.Context(), h001, "T1")
				var e *Error
				if !errors.As(err, &e) || errors.Is(err, ErrRefused) || e.Op != opLogin {
					t.Fatalf("%v, want a failure of the login that is no refusal", err)
				}
				if _, err = c.Detail(t.Context(), h001, "T1"); err == nil || v.loginCount() != i+1 {
					t.Fatalf("%v after %d logins, want an answer from memory", err, v.loginCount())
				}
				c.aged(time.Second)
			}
			if _, err := c.Detail(t.Context(), h001, "T1"); err != nil {
				t.Fatalf("not healed: %v", err)
			}
		})
	}
}

// TestWhatARefusedTokenLeadsTo is the truth table of rejected.
func TestWhatARefusedTokenLeadsTo(t *testing.T) {
	v := newVendor(t)
	c, _ := v.client(t, nil)
	later := time.Now().Add(time.Hour)
	for name, tc := range map[string]struct {
		token           token
		replaced, again bool
		keepUntil       time.Time
		retry, dropped  bool
		keepPause       time.Duration
	}{
		"an old one":                                     {retry: true, dropped: true},
		"an old one, in a repeat":                        {again: true, dropped: true},
		"replaced meanwhile":                             {replaced: true, retry: true},
		"replaced meanwhile, in a repeat":                {replaced: true, again: true},
		"fresh, in the repeat it was fetched for":        {token: token{again: true}, again: true, keepPause: time.Minute},
		"the same, good for another call meanwhile":      {token: token{again: true, proven: true}, again: true, keepPause: time.Minute},
		"fresh, by another call, before it was good":     {token: token{again: true}, keepPause: time.Minute},
		"fetched after a refusal, long good":             {token: token{again: true, proven: true}, retry: true, dropped: true},
		"kept, after the pause":                          {token: token{again: true, kept: true}, retry: true, dropped: true},
		"within the pause":                               {token: token{again: true, kept: true}, keepUntil: later},
		"within the pause, in a repeat":                  {token: token{again: true}, again: true, keepUntil: later},
		"within the pause, the next one after renewal":   {keepUntil: later},
		"within the pause, replaced: the other is tried": {replaced: true, keepUntil: later, retry: true},
	} {
		a := &account{userCode: "clinic", keepUntil: tc.keepUntil}
		used, current := &tc.token, &tc.token
		if tc.replaced {
			current = &token{}
		}
		a.token = current
		if got := c.rejected(a, used, tc.again, ErrRefused); got != tc.retry || (a.token == nil) != tc.dropped || a.keepPause != tc.keepPause {
			t.Errorf("%s: retry %v, dropped %v, pause %s", name, got, a.token == nil, a.keepPause)
		}
	}
}

// Who finds no token, but comes when the login for it has just ended, uses that login's.
func TestOneLoginServesAlsoThoseWhoComeAsItEnds(t *testing.T) {
	v := newVendor(t)
	c, _ := v.client(t, nil)
	a := c.account("clinic")
	first, err := c.loggedIn(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := c.loggedIn(t.Context(), a); err != nil || second != first || v.loginCount() != 1 {
		t.Fatalf("%v, %d logins", err, v.loginCount())
	}
}
