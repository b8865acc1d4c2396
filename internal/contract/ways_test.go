// Package contract is one suite of what the cache, its fence and the claims must do, over every
// way to reach a Redis: alone, alone with TLS and an ACL user of the least rights, by Sentinel,
// and as a Cluster. All are real redis-server processes.
package contract

import (
	"context"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/templates"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{})
	os.Exit(m.Run())
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// way is one way to reach a Redis, and what the test itself sees of it.
type way struct {
	mode  redisconn.Mode
	url   string
	files redisconn.Files
	test  redis.UniversalClient // the test's own, with all rights
	nodes []*redistest.Server   // that hold data, replicas too

	cluster *redistest.ClusterSet // where it is one
}

const password = "p%2Fhush" // as a URL has it

// ways start a Redis each, when it is asked for.
var ways = map[string]func(t *testing.T) *way{
	"single": func(t *testing.T) *way {
		server := redistest.Start(t)
		return &way{mode: redisconn.Single, url: "redis://" + server.Addr + "/0", test: server.Client, nodes: []*redistest.Server{server}}
	},
	"single with TLS and ACL": func(t *testing.T) *way {
		ca := redistest.NewCA(t)
		server := redistest.StartTLS(t, ca)
		cert, key := ca.Issue("syncer")
		w := &way{mode: redisconn.Single, test: server.Client, nodes: []*redistest.Server{server},
			url:   "rediss://syncer:" + password + "@" + server.Addr + "/3",
			files: redisconn.Files{CA: ca.File, Cert: cert, Key: key}}
		w.test = redis.NewClient(&redis.Options{Addr: server.Addr, DB: 3, TLSConfig: server.Client.Options().TLSConfig})
		t.Cleanup(func() { _ = w.test.Close() })
		restrict(t, acl(t, aclAlways, aclDatabase), server)
		return w
	},
	"sentinel": func(t *testing.T) *way {
		set := redistest.StartSentinel(t, 1)
		w := &way{mode: redisconn.Sentinel, test: set.Nodes[0].Client, nodes: set.Nodes,
			url: strings.Replace(set.URL(), "//", "//syncer:"+password+"@", 1) + "&username=syncer&password=" + password}
		restrict(t, acl(t, aclAlways), set.Nodes...)
		restrict(t, acl(t, aclSentinels), set.Sentinels...)
		return w
	},
	"cluster": func(t *testing.T) *way { return newCluster(t, 0) },
}

func newCluster(t *testing.T, replicas int) *way {
	set := redistest.StartCluster(t, replicas)
	restrict(t, acl(t, aclAlways, aclCluster), set.Nodes...)
	return &way{mode: redisconn.Cluster, test: set.Client, nodes: set.Nodes, cluster: set,
		url: strings.Replace(set.URL(), "//", "//syncer:"+password+"@", 1)}
}

// restrict gives servers the user of the README's ACL lines.
func restrict(t *testing.T, lines [][]string, servers ...*redistest.Server) {
	t.Helper()
	secret, err := url.PathUnescape(password)
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range servers {
		for _, line := range lines {
			var args []any
			for _, word := range line {
				if word == ">PASSWORD" {
					word = ">" + secret
				}
				args = append(args, word)
			}
			if err := server.Client.Do(t.Context(), args...).Err(); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
	}
}

// The README's ACL lines, in its order.
const (
	aclAlways = iota
	aclDatabase
	aclCluster
	aclSentinels
)

// acl returns some of the README's ACL lines, as words.
func acl(t *testing.T, which ...int) [][]string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^(ACL SETUSER syncer [^#\n]*?) *(?:#.*)?$`).FindAllStringSubmatch(string(readme), -1)
	if len(all) != aclSentinels+1 {
		t.Fatalf("README.md has %d lines that begin with ACL SETUSER syncer", len(all))
	}
	var lines [][]string
	for _, i := range which {
		lines = append(lines, strings.Fields(all[i][1]))
	}
	return lines
}

// cases are the suite.
var cases = map[string]func(t *testing.T, w *way){
	"An entry is stored with its life and read as it was": anEntryIsStoredWithItsLifeAndReadAsItWas,
	"A store needs its fence":                             aStoreNeedsItsFence,
	"Fences and reads tell each kind of entry":            fencesAndReadsTellEachKindOfEntry,
	"Only what was seen is deleted":                       onlyWhatWasSeenIsDeleted,
	"Forget deletes any string":                           forgetDeletesAnyString,
	"Holdings are noted and corrected":                    holdingsAreNotedAndCorrected,
	"Every key is one of ours and has a life":             everyKeyIsOneOfOursAndHasALife,
	"A tick is claimed once":                              aTickIsClaimedOnce,
	"The limit is shared":                                 theLimitIsShared,
	"A load's claim is renewed, released and runs out":    aLoadsClaimIsRenewedReleasedAndRunsOut,
	"Misses on two replicas are one load":                 missesOnTwoReplicasAreOneLoad,
}

func TestContract(t *testing.T) {
	for name, start := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			for name, test := range cases {
				w.empty(t)
				t.Run(name, func(t *testing.T) { test(t, w) })
			}
		})
	}
}

// empty leaves no key on any node.
func (w *way) empty(t *testing.T) {
	t.Helper()
	w.primaries(t, func(node *redistest.Server) {
		if err := node.Client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	})
}

// connect returns the program's own client, as its settings make it.
func (w *way) connect(t *testing.T) redis.UniversalClient {
	t.Helper()
	server, err := redisconn.Parse(w.mode, w.url, w.files)
	if err != nil {
		t.Fatal(err)
	}
	rdb := server.Connect()
	templates.WatchOver(rdb, zerolog.Nop())
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

const (
	life      = time.Hour
	fenceLife = time.Minute
)

var keys = func() templates.KeyFormat {
	keys, err := templates.ParseKeyFormat("infotalk:template:{<hospitalId>}:<templateCode>")
	if err != nil {
		panic(err)
	}
	return keys
}()

// cache returns the program's cache on a client of its own.
func (w *way) cache(t *testing.T) *templates.Cache {
	t.Helper()
	return templates.NewCache(w.connect(t), templates.CacheOptions{
		Keys: keys, TTL: life, FenceTTL: fenceLife, Current: func(hospitals.Hospital) bool { return true },
	})
}

func hospital(id string) hospitals.Hospital { return hospitals.Hospital{ID: id} }

func document(code, status string) templates.Document {
	return templates.Document{Raw: `{"templateCode":"` + code + `","inspectionStatus":"` + status + `"}`, Status: templates.Status(status)}
}

// primaries calls f for each node that takes writes.
func (w *way) primaries(t *testing.T, f func(node *redistest.Server)) {
	t.Helper()
	for _, node := range w.nodes {
		role, err := node.Client.Do(context.Background(), "role").Slice()
		if err != nil {
			t.Fatal(err)
		}
		if role[0] == "master" {
			f(node)
		}
	}
}

// through returns the program's client with every connection by way of a proxy that does what
// fault says.
func (w *way) through(t *testing.T, fault func(request []byte) (redistest.Fault, time.Duration)) redis.UniversalClient {
	t.Helper()
	proxies := make(map[string]string)
	for _, node := range w.nodes {
		proxies[node.Addr] = redistest.NewProxy(t, node.Addr, fault).Addr
	}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if proxy, ok := proxies[addr]; ok {
			addr = proxy
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	var rdb redis.UniversalClient
	switch u, _ := url.Parse(w.url); w.mode {
	case redisconn.Cluster:
		secret, _ := u.User.Password()
		rdb = redisconn.NewCluster(&redis.ClusterOptions{Addrs: append(u.Query()["addr"], u.Host), Dialer: dial, Username: u.User.Username(), Password: secret})
	case redisconn.Sentinel:
		rdb = redisconn.NewSentinel(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: []string{u.Host}, Dialer: dial,
			Username: u.Query().Get("username"), Password: u.Query().Get("password")})
	default:
		rdb = redisconn.NewSingle(&redis.Options{Addr: u.Host, Dialer: dial})
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
