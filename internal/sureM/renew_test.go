package surem

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"alimtalk-syncer/internal/hospitals"
)

func TestATokenIsRenewedAtNinetyPercentOfItsLife(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	var with atomic.Value
	ok := v.detail
	v.detail = func(w http.ResponseWriter, r *http.Request) {
		with.Store(r.Header.Get("Authorization"))
		ok(w, r)
	}
	hold := make(chan struct{})
	good := v.login
	v.login = inTurn(good, answer(500, ""), func(w http.ResponseWriter, r *http.Request) { <-hold; good(w, r) })
	c, _ := v.client(t, nil)
	read := func(want string) {
		t.Helper()
		if _, err := c.Detail(t.Context(), h001, "T1"); err != nil || with.Load() != "Bearer "+want {
			t.Fatalf("%v with %s, want %s", err, with.Load(), want)
		}
	}
	renewed := func() bool {
		a := c.account("clinic")
		a.mu.Lock()
		defer a.mu.Unlock()
		return !a.renewing
	}
	read("tok-1")
	c.aged(53 * time.Minute)
	read("tok-1")
	if v.loginCount() != 1 {
		t.Fatal("a login before 90 % of the token's life")
	}
	c.aged(90 * time.Second) // 54.5 of 60 minutes
	read("tok-1")
	eventually(t, "the renewal has failed", func() bool { return v.loginCount() == 2 && renewed() })
	read("tok-1") // and no login within the second
	if v.loginCount() != 2 {
		t.Fatalf("%d logins", v.loginCount())
	}
	c.aged(time.Second)
	for range 20 {
		read("tok-1") // nobody waits for the renewal
	}
	eventually(t, "the renewal runs", func() bool { return v.loginCount() == 3 })
	close(hold)
	eventually(t, "the renewal has ended", renewed)
	read("tok-3")
	if v.loginCount() != 3 {
		t.Fatalf("%d logins", v.loginCount())
	}
}

func TestExpiresIn(t *testing.T) {
	for raw, want := range map[string]time.Duration{
		`3600`: time.Hour, `"3600"`: time.Hour, `" 60 "`: time.Minute, `0.5`: 500 * time.Millisecond, `1`: time.Second,
		`null`: defaultLife, `0`: defaultLife, `-1`: defaultLife, `"-5"`: defaultLife, `"soon"`: defaultLife, `""`: defaultLife,
		`true`: defaultLife, `[]`: defaultLife, `"NaN"`: defaultLife, `"1e400"`: defaultLife,
		`1e400`: maxLife, `"Inf"`: maxLife, `1e300`: maxLife, `31536000`: maxLife,
	} {
		value, life, err := readToken(gjson.Parse(`{"accessToken":"t","expiresIn":` + raw + `}`))
		if err != nil || value.Reveal() != "t" || life != want {
			t.Errorf("expiresIn %s: %s, %s, %v, want %s", raw, value.Reveal(), life, err, want)
		}
	}
	if _, life, err := readToken(gjson.Parse(`{"accessToken":"t"}`)); err != nil || life != defaultLife {
		t.Errorf("no expiresIn: %s, %v", life, err)
	}
}

func TestATokenOfATinyLifeStillServes(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.login = data(`{"accessToken":"tok-x","expiresIn":0.000001}`)
	c, _ := v.client(t, nil)
	for range 3 {
		if _, err := c.Detail(t.Context(), h001, "T1"); err != nil {
			t.Fatal(err)
		}
	}
	if n := v.loginCount(); n > 3 {
		t.Fatalf("%d logins for 3 calls", n)
	}
}

func TestAnAccountThatIsGoneIsNoLoginAndNoState(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.login = answer(403, "")
	var gone atomic.Bool
	c, _ := v.client(t, func(o *Options) {
		o.Secret = func(string) (hospitals.Secret, bool) { return testSecret, !gone.Load() }
	})
	if _, err := c.Detail(t.Context(), h001, "T1"); !errors.Is(err, ErrRefused) || c.State() != StateRefused {
		t.Fatalf("%v, state %s", err, c.State())
	}
	gone.Store(true)
	c.aged(time.Minute)
	if _, err := c.Detail(t.Context(), h001, "T1"); !errors.Is(err, ErrRefused) || v.loginCount() != 1 || c.State() != StateOK {
		t.Fatalf("%v, %d logins, state %s", err, v.loginCount(), c.State())
	}
}

// Those who need a login that SureM puts off are told so, and not kept until their deadline.
func TestALoginThatSureMPutsOffHoldsNobody(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	v.login = header(answer(429, ""), "Retry-After", "30")
	c, _ := v.client(t, func(o *Options) { o.MaxRetries = 3 })
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	began := time.Now()
	for range 3 {
		_, err := c.Detail(ctx, h001, "T1")
		var e *Error
		if !errors.As(err, &e) || e.Outcome != "rate_limited" || e.RetryAfter < 20*time.Second || e.RetryAfter > 30*time.Second {
			t.Fatalf("%v, %+v", err, e)
		}
		c.aged(time.Second) // the memory of the failed login is over, the hold is not
	}
	if v.loginCount() != 1 || time.Since(began) > 5*time.Second {
		t.Fatalf("%d logins, after %s", v.loginCount(), time.Since(began))
	}
}
