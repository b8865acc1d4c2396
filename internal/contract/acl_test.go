package contract

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/redistest"
)

var statistic = regexp.MustCompile(`(?m)^cmdstat_([a-z|_-]+):calls=(\d+)`)

// ran counts the commands that the primaries run, those in scripts too, while f runs.
func (w *way) ran(t *testing.T, f func()) map[string]int {
	t.Helper()
	w.primaries(t, func(node *redistest.Server) {
		if err := node.Client.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	})
	f()
	counts := make(map[string]int)
	w.primaries(t, func(node *redistest.Server) {
		stats, err := node.Client.Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range statistic.FindAllStringSubmatch(stats, -1) {
			n, _ := strconv.Atoi(line[2])
			counts[line[1]] += n
		}
	})
	return counts
}

// The user of the README's ACL lines may do all that the program does, and nothing else.
func TestTheACLAllowsWhatIsSentAndNothingElse(t *testing.T) {
	for name, lines := range map[string][]int{
		"single with TLS and ACL": {aclAlways, aclDatabase},
		"cluster":                 {aclAlways, aclCluster},
		"sentinel":                {aclAlways},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ways[name](t)
			ran := w.ran(t, func() {
				cache := w.cache(t)
				everything(t, w, cache)
				fleets(t, w)
				if w.cluster != nil {
					slot := w.cluster.Slot(keys.FenceKey("H0"))
					w.cluster.Move(slot, w.cluster.Others(slot)[0], func() {
						if _, err := cache.Get(t.Context(), hospital("H0"), "T9"); err != nil {
							t.Error("reading where a slot moves:", err)
						}
					})
				}
			})
			for _, node := range w.nodes {
				if denied := node.Client.Do(t.Context(), "acl", "log").Val().([]any); len(denied) > 0 {
					t.Errorf("denied: %v", denied)
				}
			}
			allowed := make(map[string]bool)
			for _, line := range acl(t, lines...) {
				for _, word := range line {
					if command, ok := strings.CutPrefix(word, "+"); ok {
						allowed[command] = true
					}
				}
			}
			// Everybody may say hello; the rest is the test's own, and replication's.
			for _, others := range []string{"hello", "auth", "config|resetstat", "info", "acl|log", "role", "publish", "subscribe", "replconf", "psync",
				"cluster|setslot", "cluster|myid", "cluster|keyslot", "cluster|countkeysinslot", "cluster|getkeysinslot", "migrate", "restore-asking"} {
				delete(ran, others)
			}
			if w.cluster != nil {
				delete(ran, "select") // a node's, when it takes a key over
			}
			if got, want := slices.Sorted(maps.Keys(ran)), slices.Sorted(maps.Keys(allowed)); !slices.Equal(got, want) {
				t.Errorf("the program sends\n%q, the README allows\n%q", got, want)
			}
		})
	}
}

var request = regexp.MustCompile(`\*\d+\r\n\$\d+\r\n([a-z]+)\r\n\$\d+\r\n([^\r]+)`)

// The same of the Sentinels' user. Some of what is sent to them is seconds in coming: the ping of
// who waits for a new primary.
func TestTheSentinelsACLAllowsWhatIsSentAndNothingElse(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinel(t, 1)
	lines := acl(t, aclSentinels)
	restrict(t, lines, set.Sentinels...)
	want := make(map[string]bool)
	for _, word := range lines[0] {
		if command, ok := strings.CutPrefix(word, "+"); ok {
			want[command] = true
		}
	}
	var mu sync.Mutex
	sent := make(map[string]bool)
	proxy := redistest.NewProxy(t, set.Sentinels[0].Addr, func(bytes []byte) (redistest.Fault, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		for _, words := range request.FindAllStringSubmatch(strings.ToLower(string(bytes))+"$0\r\n-", -1) {
			switch command := words[1]; command {
			case "hello": // which everybody may say
			case "sentinel":
				sent[command+"|"+words[2]] = true
			default:
				sent[command] = true
			}
		}
		return redistest.None, 0
	})
	w := &way{mode: redisconn.Sentinel, url: "redis://syncer:" + password + "@" + proxy.Addr + "?master_name=" + redistest.MasterName}
	if err := w.cache(t).Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	pinged := func() bool { mu.Lock(); defer mu.Unlock(); return sent["ping"] }
	for begun := time.Now(); !pinged() && time.Since(begun) < 20*time.Second; {
		time.Sleep(50 * time.Millisecond)
	}
	mu.Lock()
	defer mu.Unlock()
	if got, want := slices.Sorted(maps.Keys(sent)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) {
		t.Errorf("the program sends\n%q, the README allows\n%q", got, want)
	}
	if denied := set.Sentinels[0].Client.Do(t.Context(), "acl", "log").Val().([]any); len(denied) > 0 {
		t.Errorf("denied: %v", denied)
	}
}
