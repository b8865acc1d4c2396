package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"alimtalk-syncer/internal/hospitals"
)

// gate decides who may ask at all, before anything else is looked at.
type gate struct {
	tokens [][sha256.Size]byte
	host   string // HTTP_ADDR's
	origin http.CrossOriginProtection
}

func newGate(tokens []hospitals.Secret, addr string) *gate {
	g := &gate{host: hostname(addr)}
	for _, t := range tokens {
		g.tokens = append(g.tokens, sha256.Sum256([]byte(t.Reveal())))
	}
	return g
}

// scheme is a way of showing a token: the token found in a request, and the challenge.
type scheme struct {
	challenge string
	token     func(*http.Request) (string, bool)
}

var (
	bearer = scheme{`Bearer realm="alimtalk-syncer"`, func(r *http.Request) (string, bool) {
		name, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		return token, strings.EqualFold(name, "Bearer")
	}}
	// basic is how a browser gets in: any name, the token as password.
	basic = scheme{`Basic realm="alimtalk-syncer", charset="UTF-8"`, func(r *http.Request) (string, bool) {
		_, password, ok := r.BasicAuth()
		return password, ok
	}}
)

// admits reports whether a request may be answered, and else refuses it: it must show a token
// in one of the schemes. Without tokens it must name this machine: a web page that has its own
// name resolve to a loopback address (DNS rebinding) cannot. What changes something must not
// come from another origin.
func (g *gate) admits(w http.ResponseWriter, r *http.Request, schemes ...scheme) bool {
	switch {
	case len(g.tokens) > 0 && !g.knows(r, schemes):
		for _, s := range schemes {
			w.Header().Add("WWW-Authenticate", s.challenge)
		}
		problem{Status: http.StatusUnauthorized, Detail: "one of API_TOKENS is needed"}.write(w)
	case len(g.tokens) == 0 && !g.isHere(r.Host):
		problem{Status: http.StatusMisdirectedRequest,
			Detail: "without API_TOKENS only requests for localhost, a loopback address or HTTP_ADDR's host are answered"}.write(w)
	case g.origin.Check(r) != nil:
		problem{Status: http.StatusForbidden, Detail: "cross-origin requests of browsers may change nothing"}.write(w)
	default:
		return true
	}
	return false
}

// knows compares in constant time, and with every token.
func (g *gate) knows(r *http.Request, schemes []scheme) bool {
	found := 0
	for _, s := range schemes {
		token, ok := s.token(r)
		if !ok {
			continue
		}
		sum := sha256.Sum256([]byte(token))
		for _, t := range g.tokens {
			found |= subtle.ConstantTimeCompare(sum[:], t[:])
		}
	}
	return found == 1
}

// isHere reports whether a Host header means this machine, whatever its port.
func (g *gate) isHere(hostport string) bool {
	host := hostname(hostport)
	if host == "" {
		return false
	}
	if strings.EqualFold(host, "localhost") || strings.EqualFold(host, g.host) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// hostname returns the host of "host:port", "host", "[::1]:port" or "[::1]".
func hostname(hostport string) string { return (&url.URL{Host: hostport}).Hostname() }
