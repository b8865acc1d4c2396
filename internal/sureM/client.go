package surem

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/metrics"
)

// Options say how SureM is reached and read. All but Shared, ReloginCodes, NotFoundCodes
// and Mask are required.
type Options struct {
	BaseURL             *url.URL // http or https, without query
	TokenPath           string
	SummaryPath         Path // of senderKey, page and size; without page the list is one answer
	DetailPath          Path // of templateCode and senderKey
	PageSize, FirstPage int
	Timeout             time.Duration // of one HTTP call, its body included
	RateLimit           float64       // calls per second and account, above 0
	RateBurst           int           // at least 1
	Shared              Shared        // the limit is kept with other processes, too; nil = by this one alone
	MaxRetries          int           // per call
	ReloginCodes        []string      // codes that mean: log in again
	NotFoundCodes       []string      // codes that mean: no such template
	Secret              func(userCode string) (hospitals.Secret, bool)
	Mask                func(string) string // hides every secret and sender key in a text
	Metrics             *metrics.Metrics
	Log                 zerolog.Logger
}

// Client reads SureM for all accounts. It is safe for use by many goroutines.
type Client struct {
	o                 Options
	base              string
	relogin, notFound map[string]bool
	transport         *http.Transport
	logins            *flight.Group[string, *token] // by user code
	log               zerolog.Logger
	strange, limits   news // of answers that are not JSON; of holds

	mu       sync.Mutex // guards what follows
	accounts map[string]*account
	refused  map[*account]bool // whose last login or fresh token was refused
	open     map[*account]bool // whose breaker is open
	away     bool              // the last call failed on the way, or by a 5xx
	told     State             // by the last line about it in the log
	toldAway time.Time         // the last such line that said "away"
}

// New returns a Client; Close ends it.
func New(o Options) *Client {
	if o.Mask == nil {
		o.Mask = func(s string) string { return s }
	}
	return &Client{
		o:         o,
		base:      strings.TrimRight(o.BaseURL.String(), "/"),
		relogin:   set(o.ReloginCodes),
		notFound:  set(o.NotFoundCodes),
		transport: newTransport(),
		logins:    flight.New[string, *token](flight.Options{LoaderTimeout: loginTimeout(o)}),
		log:       o.Log,
		accounts:  map[string]*account{},
		refused:   map[*account]bool{},
		open:      map[*account]bool{},
		told:      StateOK,
	}
}

func set(codes []string) map[string]bool {
	s := make(map[string]bool, len(codes))
	for _, code := range codes {
		s[code] = true
	}
	return s
}

// newTransport returns a transport of our own. The Client uses it without an http.Client:
// so no redirect is followed, which would carry the secret to another host, and no error
// is a *url.Error, which prints the query.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    5 * time.Second,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second}, // a connection that has died silently
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// proxy is http.ProxyFromEnvironment without its error, which quotes the proxy's password.
func proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errors.New("HTTP_PROXY or HTTPS_PROXY holds no usable URL")
	}
	return u, nil
}

// Close ends the logins that run and the idle connections. Its error is flight.Group.Close's.
func (c *Client) Close(ctx context.Context) error {
	err := c.logins.Close(ctx)
	c.transport.CloseIdleConnections()
	return err
}

func (c *Client) account(userCode string) *account {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.accounts[userCode]
	if a == nil {
		a = &account{userCode: userCode, limiter: newLimiter(c.o.RateLimit, c.o.RateBurst)}
		a.limiter.share(c.o.Shared, userCode)
		a.breaker = newBreaker(func(open bool, why *Error) { c.breakerTold(a, open, why) })
		c.accounts[userCode] = a
	}
	return a
}

const hidden = "[hidden]"

// mask hides every secret, sender key and token in a text of SureM's.
func (c *Client) mask(a *account, r *request, s string) string {
	if s == "" {
		return s
	}
	s = c.o.Mask(s)
	for _, secret := range []string{a.liveToken(), r.token.reveal(), r.secret.Reveal()} {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, hidden)
		}
	}
	return s
}

// newsAfter is how long what was told is no news.
const newsAfter = time.Minute

// news remembers what was told when, so that it is not told again each time.
type news struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// isNews reports whether what was not told for newsAfter, and counts it as told now. There
// are to be few whats: they are remembered for good.
func (n *news) isNews(what string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, ok := n.told[what]; ok && time.Since(at) < newsAfter {
		return false
	}
	if n.told == nil {
		n.told = map[string]time.Time{}
	}
	n.told[what] = time.Now()
	return true
}
