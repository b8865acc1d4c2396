package redisconn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// forms are what a URL may be, as a message says it.
var forms = map[Mode]string{
	Single:   "must be redis://[user:password@]host[:port][/database], or rediss:// for TLS",
	Sentinel: "must be redis://[user:password@]sentinel[:port][/database]?master_name=NAME[&addr=sentinel:port]…[&username=USER][&password=PASSWORD], the user before the @ being the Sentinels' and the parameters the primary's, or rediss:// for TLS",
	Cluster:  "must be redis://[user:password@]host[:port][?addr=host:port]…, or rediss:// for TLS",
}

// maxWait is the longest time-out that a URL may ask for: "read_timeout=500" means 500
// seconds, and whoever writes it means milliseconds.
const maxWait = time.Minute

// Parse reads a URL in go-redis' own form of the mode. Errors say what is allowed, begin with
// "must", and never quote the URL, as go-redis' do: it holds passwords. The time-outs and
// retries that it may hold are not used.
func Parse(mode Mode, s string, files Files) (*Server, error) {
	form := forms[mode]
	u, err := url.Parse(s)
	switch {
	case err != nil || strings.Contains(s, "#"):
		return nil, errors.New(form + "; in a password / ? # @ and % are written %2F %3F %23 %40 and %25")
	case u.Scheme != "redis" && u.Scheme != "rediss":
		return nil, errors.New(form)
	case u.Hostname() == "" || !validPort(u.Port()):
		return nil, errors.New(form + "; it names no host, or no port from 1 to 65535")
	}
	if _, hasPassword := u.User.Password(); u.User != nil && !hasPassword {
		return nil, errors.New(form + "; it has a user without a password (a password alone is written :password@)")
	}
	server := &Server{files: files}
	switch mode {
	case Cluster:
		err = server.parseCluster(s, u.Path)
	case Sentinel:
		err = server.parseSentinel(s)
	default:
		err = server.parseSingle(s)
	}
	if err != nil {
		return nil, fmt.Errorf("%s; %w", form, err)
	}
	return server, server.check()
}

// validPort reports whether a URL's port is one; "" is the default.
func validPort(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && port[0] != '0'
}

// errParameter stands for go-redis' error, which may quote what is secret.
var errParameter = errors.New("its database or one of its parameters is not one that go-redis knows")

func (s *Server) parseSingle(text string) error {
	o, err := redis.ParseURL(text)
	if err != nil || o.DB < 0 {
		return errParameter
	}
	s.single = o
	return checkAddrs([]string{o.Addr})
}

func (s *Server) parseSentinel(text string) error {
	o, err := redis.ParseFailoverURL(text)
	switch {
	case err != nil || o.DB < 0:
		return errParameter
	case o.MasterName == "":
		return errors.New("it has no master_name")
	case o.Username != "" && o.Password == "":
		return errors.New("it has a username without a password")
	case o.ReplicaOnly || o.RouteByLatency || o.RouteRandomly:
		return errReplicas
	}
	s.sentinel = o
	return checkAddrs(o.SentinelAddrs)
}

func (s *Server) parseCluster(text, path string) error {
	o, err := redis.ParseClusterURL(text)
	switch {
	case err != nil:
		return errParameter
	case strings.Trim(path, "/") != "" && path != "/0":
		return errors.New("a Cluster has no database but 0")
	case o.ReadOnly || o.RouteByLatency || o.RouteRandomly:
		return errReplicas
	}
	s.cluster = o
	return checkAddrs(o.Addrs)
}

var errReplicas = errors.New("reads go to primaries only, so that read_only, replica_only, route_by_latency and route_randomly are not allowed")

// checkAddrs judges the addresses, which go-redis takes as they are.
func checkAddrs(addrs []string) error {
	for _, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		_, noIP := netip.ParseAddr(host)
		if err != nil || port == "" || !validPort(port) || noIP != nil && strings.ContainsAny(host, "@:/?#&%[] ") {
			return errors.New("one of its addresses is not host:port, the port from 1 to 65535")
		}
	}
	return nil
}

// check judges the numbers of whichever options there are.
func (s *Server) check() error {
	var waits []time.Duration
	var sizes []int
	switch {
	case s.cluster != nil:
		o := s.cluster
		waits = []time.Duration{o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout}
		sizes = []int{o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns, o.MaxConcurrentDials}
	case s.sentinel != nil:
		o := s.sentinel
		waits = []time.Duration{o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout}
		sizes = []int{o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns, o.MaxConcurrentDials}
	default:
		o := s.single
		waits = []time.Duration{o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout}
		sizes = []int{o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns, o.MaxConcurrentDials}
	}
	if slices.ContainsFunc(waits, func(d time.Duration) bool { return d < 0 || d > maxWait }) {
		return errors.New("must have no time-out below 0 or above 1m; a number without a unit means seconds")
	}
	if slices.ContainsFunc(sizes, func(n int) bool { return n < 0 || n > math.MaxInt16 }) {
		return fmt.Errorf("must have no number of connections below 0 or above %d", math.MaxInt16)
	}
	return nil
}

// TLS reports whether connections are made by TLS, and whether the server is then verified.
func (s *Server) TLS() (on, verified bool) {
	c := s.tls()
	return c != nil, c != nil && !c.InsecureSkipVerify
}

func (s *Server) tls() *tls.Config {
	switch {
	case s.cluster != nil:
		return s.cluster.TLSConfig
	case s.sentinel != nil:
		return s.sentinel.TLSConfig
	default:
		return s.single.TLSConfig
	}
}

// String returns the URL without its users, passwords and further parameters.
func (s *Server) String() string {
	scheme := "redis"
	if s.tls() != nil {
		scheme = "rediss"
	}
	var addrs []string
	var tail string
	var secret bool
	switch {
	case s.cluster != nil:
		o := s.cluster
		addrs, secret = o.Addrs, o.Username+o.Password != ""
	case s.sentinel != nil:
		o := s.sentinel
		addrs, secret = o.SentinelAddrs, o.Username+o.Password+o.SentinelUsername+o.SentinelPassword != ""
		tail = fmt.Sprintf("/%d?master_name=%s", o.DB, url.QueryEscape(o.MasterName))
	default:
		o := s.single
		addrs, secret = []string{o.Addr}, o.Username+o.Password != ""
		tail = fmt.Sprintf("/%d", o.DB)
	}
	user := ""
	if secret {
		user = "[hidden]@"
	}
	for _, addr := range addrs[1:] {
		mark := "&"
		if !strings.Contains(tail, "?") {
			mark = "?"
		}
		tail += mark + "addr=" + addr
	}
	return scheme + "://" + user + addrs[0] + tail
}
