package surem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/templates"
)

const (
	defaultLife = 50 * time.Minute // of a token whose expiresIn says nothing usable
	maxLife     = 24 * time.Hour

	minLoginPause, maxLoginPause = time.Second, 30 * time.Second // after a refused login
	minKept, maxKept             = time.Minute, 10 * time.Minute // after a refused fresh token
)

// account is one user code's login, slots and health.
type account struct {
	userCode string
	limiter  *limiter
	breaker  *breaker

	mu         sync.Mutex // guards what follows
	token      *token     // the newest, nil before the first login and when it was dropped
	renewing   bool
	lost       bool          // the last token was dropped because it was refused
	loginAgain time.Time     // before that, a login is answered with loginErr
	loginErr   *Error        // how the last login failed
	loginPause time.Duration // its length, while logins are refused
	keepUntil  time.Time     // before that, a refused token is kept and no login made for it
	keepPause  time.Duration // its length

	loginRefused, tokenRefused bool // guarded by Client.mu
}

// token is an access token. Its age is counted on the monotonic clock.
type token struct {
	value hospitals.Secret
	since time.Time // before the login that brought it was sent
	life  time.Duration

	again  bool // the login that brought it was made because a token was refused
	proven bool // a call with it has gone well
	kept   bool // it was refused though fresh; the three are guarded by account.mu
}

func (t *token) reveal() string {
	if t == nil {
		return ""
	}
	return t.value.Reveal()
}

func (t *token) lives() bool { return t != nil && time.Since(t.since) < t.life }

// isDue reports whether the token has come to 90 % of its life.
func (t *token) isDue() bool { return time.Since(t.since) >= t.life/10*9 }

func (a *account) liveToken() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.token.reveal()
}

// newest returns the account's token, or t when it has none just now.
func (a *account) newest(t *token) *token {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token != nil {
		return a.token
	}
	return t
}

// call sends r with a token. When that is refused it logs in once and sends r once more.
func (c *Client) call(ctx context.Context, a *account, r *request) error {
	for again := false; ; again = true {
		if wait := a.breaker.wait(); wait > 0 && !r.turn.probes() {
			return open(r.op, wait)
		}
		t, err := c.tokenOf(ctx, a)
		if err != nil {
			return err
		}
		r.token = t
		err = c.send(ctx, a, r)
		switch {
		case err == nil, errors.Is(err, ErrNotFound):
			c.accepted(a, r.token, again)
			return err
		case !errors.Is(err, ErrRefused):
			return err
		case !c.rejected(a, r.token, again, err):
			return err
		}
	}
}

// accepted notes that a call with t went well, again after a login for a refused token.
func (c *Client) accepted(a *account, t *token, again bool) {
	a.mu.Lock()
	t.proven = true
	if again {
		a.keepPause = 0
	}
	a.mu.Unlock()
	c.note(a, nil, func() { a.tokenRefused = false })
}

// rejected notes that a call with t was refused, and reports whether the call should be
// made once more. t is dropped unless another call has replaced it; but a fresh one that is
// refused too is kept, and for a while no refusal leads to a login: it may concern one
// sender key only.
func (c *Client) rejected(a *account, t *token, again bool, why error) (retry bool) {
	a.mu.Lock()
	now := time.Now()
	keep := false
	switch {
	case a.token != t:
		retry = !again
	case now.Before(a.keepUntil): // this call fails alone
	case t.again && (again || !t.proven && !t.kept):
		keep, t.kept = true, true
		a.keepPause = min(max(2*a.keepPause, minKept), maxKept)
		a.keepUntil = now.Add(a.keepPause)
	default:
		a.token, a.lost = nil, true
		retry = !again
	}
	a.mu.Unlock()
	if keep {
		c.note(a, why, func() { a.tokenRefused = true })
	}
	return retry
}

// tokenOf returns a token that lives: the account's, or one from a login that all who need
// it wait for. One that has come to 90 % of its life is used while a login for the next runs.
func (c *Client) tokenOf(ctx context.Context, a *account) (*token, error) {
	a.mu.Lock()
	t := a.token
	if t.lives() {
		if t.isDue() && !a.renewing && !time.Now().Before(a.loginAgain) {
			a.renewing = true
			go c.renew(a)
		}
		a.mu.Unlock()
		return t, nil
	}
	err := a.remembered()
	a.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return c.loggedIn(ctx, a)
}

// remembered returns the failure of the last login while it stands for new ones. The caller
// holds a.mu.
func (a *account) remembered() error {
	wait := time.Until(a.loginAgain)
	if wait <= 0 {
		return nil
	}
	e := *a.loginErr
	e.RetryAfter = max(e.RetryAfter, wait)
	return &e
}

// renew fetches the next token; when that fails the old one goes on for the rest of its life.
func (c *Client) renew(a *account) {
	_, _ = c.loggedIn(context.Background(), a)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.renewing = false
}

// loggedIn returns a new token from the one login that runs for the account. A call that has
// no time for the login's slot is refused at once, as it would be for its own.
func (c *Client) loggedIn(ctx context.Context, a *account) (*token, error) {
	if err := a.limiter.late(ctx); err != nil {
		return nil, refusal(opLogin, err)
	}
	t, _, err := c.logins.Do(ctx, a.userCode, func(ctx context.Context, _ *flight.Run) (*token, error) {
		return c.login(ctx, a)
	})
	switch {
	case err == nil:
		return t, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("waiting for a login: %w", context.Cause(ctx))
	case errors.Is(err, flight.ErrDeadline):
		return nil, &Error{Op: opLogin, Outcome: outcomeTimeout, Err: fmt.Errorf("no token within %s", loginTimeout(c.o))}
	}
	return nil, err
}

// loginTimeout is enough for all of a login's attempts.
func loginTimeout(o Options) time.Duration {
	return time.Duration(o.MaxRetries+1)*(o.Timeout+maxPause) + 10*time.Second
}

// login fetches a token. Only one runs at a time for an account.
func (c *Client) login(ctx context.Context, a *account) (*token, error) {
	a.mu.Lock()
	t, err := a.token, a.remembered()
	a.mu.Unlock()
	if t.lives() && !t.isDue() { // another login has just ended
		return t, nil
	}
	if err != nil {
		return nil, err
	}

	secret, known := c.o.Secret(a.userCode)
	if !known {
		return nil, &Error{Op: opLogin, Outcome: outcomeRefused, Err: fmt.Errorf("%w: the account's secret is not known any more", ErrRefused)}
	}
	body, err := json.Marshal(map[string]string{"userCode": a.userCode, "secretKey": secret.Reveal()})
	if err != nil {
		return nil, fmt.Errorf("login: %w", err)
	}
	// Those who wait for the login are told of a long pause that SureM asks for, and not
	// kept waiting for its end.
	turn := NewTurn(true, nil, nil)
	turn.Left = func() time.Duration { return c.o.Timeout }
	turn.Probe = true // who comes here has passed the breaker
	t = &token{}
	r := &request{
		op: opLogin, url: c.base + c.o.TokenPath, login: string(body), secret: secret, turn: turn,
		read: func(data gjson.Result) (err error) {
			t.value, t.life, err = readToken(data)
			return err
		},
	}
	if err := c.send(ctx, a, r); err != nil {
		c.loginFailed(ctx, a, err)
		return nil, err
	}
	a.mu.Lock()
	t.since, t.again = r.began, a.lost
	a.token, a.lost = t, false
	a.loginPause, a.loginAgain = 0, time.Time{}
	a.mu.Unlock()
	c.note(a, nil, func() { a.loginRefused = false })
	return t, nil
}

// loginFailed makes the failure stand for other logins: a second, or while SureM refuses
// them up to half a minute.
func (c *Client) loginFailed(ctx context.Context, a *account, err error) {
	var e *Error
	if !errors.As(err, &e) {
		if ctx.Err() == nil {
			return // our own limit
		}
		e = &Error{Op: opLogin, Outcome: outcomeTimeout, Err: errors.New("no answer in time")}
	}
	refused := e.Outcome == outcomeRefused || e.Outcome == outcomeClient
	a.mu.Lock()
	pause := minLoginPause
	if refused {
		a.loginPause = min(max(2*a.loginPause, minLoginPause), maxLoginPause)
		pause = a.loginPause
	}
	a.loginErr, a.loginAgain = e, time.Now().Add(pause)
	a.mu.Unlock()
	if refused {
		c.note(a, e, func() { a.loginRefused = true })
	}
}

// readToken reads the data of a login's answer.
func readToken(data gjson.Result) (value hospitals.Secret, life time.Duration, err error) {
	access, n := templates.Member(data, "accessToken")
	switch {
	case !data.IsObject():
		return "", 0, errors.New("the login's data is no object")
	case n != 1 || access.Type != gjson.String:
		return "", 0, errors.New("the login's data has no accessToken")
	case !isHeaderWord(access.Str):
		return "", 0, errors.New("the login's accessToken cannot be sent in a header")
	}
	expires, _ := templates.Member(data, "expiresIn")
	return hospitals.Secret(access.Str), readLife(expires), nil
}

// readLife reads expiresIn, seconds as a number or a string: at most maxLife, and
// defaultLife when it is missing, not a number or not positive.
func readLife(expires gjson.Result) time.Duration {
	seconds := expires.Num
	if expires.Type == gjson.String {
		var err error
		if seconds, err = strconv.ParseFloat(strings.TrimSpace(expires.Str), 64); err != nil {
			seconds = 0
		}
	}
	if !(seconds > 0) { // nor NaN
		return defaultLife
	}
	return time.Duration(min(seconds, maxLife.Seconds()) * float64(time.Second))
}

// isHeaderWord reports whether s is visible ASCII and no longer than any token.
func isHeaderWord(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= 8<<10
}
