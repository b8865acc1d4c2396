package templates_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/order"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/templates"
)

// script is what a script must make of every state, written once more in Go. entry and fence
// are what the keys hold, "" where they do not exist; a list stands for another type.
type script struct {
	keys []string
	argv []any
	does func(entry, fence string) (entryAfter, fenceAfter, answer string)
}

const otherType = "(list)"

var scripts = map[string]script{
	"look": {[]string{entryKey, fenceKey}, []any{"fresh", 60_000}, func(entry, fence string) (string, string, string) {
		switch {
		case entry == otherType:
			return entry, fence, "[other]"
		case entry != "":
			return entry, fence, "[entry " + entry + "]"
		case fence == otherType:
			return entry, fence, "[fenceless WRONGTYPE"
		case fence != "":
			return entry, fence, "[miss " + fence + "]"
		default:
			return entry, "fresh", "[miss fresh]"
		}
	}},
	"store": {[]string{entryKey, fenceKey}, []any{"looked", "loaded", 60_000}, func(entry, fence string) (string, string, string) {
		switch {
		case fence == otherType:
			return entry, fence, "WRONGTYPE"
		case entry == "" && fence == "looked":
			return "loaded", fence, "1"
		default:
			return entry, fence, "0"
		}
	}},
	"delete_if": {[]string{entryKey}, []any{"seen"}, func(entry, fence string) (string, string, string) {
		if entry == "seen" {
			return "", fence, "[1]"
		}
		return entry, fence, "[0]"
	}},
	"note":   {[]string{"alimtalk-syncer:hot:x"}, []any{60_000, "H001"}, untouched("1")},
	"unnote": {[]string{"alimtalk-syncer:hot:x"}, []any{"H001", 1}, untouched("0")},
	// TestAClaimIsTakenRenewedAndReleasedByItsOwnLoadOnly has what these do.
	"renew":   {[]string{"alimtalk-syncer:load:x"}, []any{"load", 60_000}, untouched("0")},
	"release": {[]string{"alimtalk-syncer:load:x"}, []any{"load"}, untouched("0")},
	"forget": {[]string{entryKey, fenceKey}, nil, func(entry, fence string) (string, string, string) {
		switch entry {
		case otherType:
			return entry, "", "-1"
		case "":
			return "", "", "0"
		default:
			return "", "", "1"
		}
	}},
}

// untouched is a script that has nothing to do with the entry and the fence.
func untouched(answer string) func(entry, fence string) (string, string, string) {
	return func(entry, fence string) (string, string, string) { return entry, fence, answer }
}

func TestAScriptThatRunsTwiceLeavesWhatOneRunLeaves(t *testing.T) {
	server := redistest.Start(t)
	files, err := filepath.Glob("lua/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts found:", err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, ok := scripts[strings.TrimSuffix(filepath.Base(file), ".lua")]
		if !ok {
			t.Errorf("%s is not tested here", file)
			continue
		}
		for _, entry := range []string{"", "seen", "seen more", "loaded", otherType} {
			for _, fence := range []string{"", "looked", "looked again", otherType} {
				t.Run(fmt.Sprintf("%s/entry %q/fence %q", filepath.Base(file), entry, fence), func(t *testing.T) {
					lay(t, server.Client, entry, fence)
					entryAfter, fenceAfter, answer := s.does(entry, fence)
					got, err := server.Client.Eval(t.Context(), string(source), s.keys, s.argv...).Result()
					said := fmt.Sprint(got)
					if err != nil {
						said = err.Error()
					}
					if !strings.HasPrefix(said, answer) {
						t.Errorf("answers %s, want %s", said, answer)
					}
					want := contents{entryAfter, fenceAfter}
					if once := stands(t, server.Client); once != want {
						t.Errorf("one run leaves %q, want %q", once, want)
					}
					_, _ = server.Client.Eval(t.Context(), string(source), s.keys, s.argv...).Result()
					if twice := stands(t, server.Client); twice != want {
						t.Errorf("two runs leave %q, want %q", twice, want)
					}
				})
			}
		}
	}
}

// contents are those of the entry's and the fence's key.
type contents struct{ entry, fence string }

func lay(t *testing.T, rdb *redis.Client, entry, fence string) {
	t.Helper()
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		p.FlushAll(t.Context())
		for key, value := range map[string]string{entryKey: entry, fenceKey: fence} {
			switch value {
			case "":
			case otherType:
				p.RPush(t.Context(), key, "x")
				p.PExpire(t.Context(), key, time.Minute)
			default:
				p.Set(t.Context(), key, value, time.Minute)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// stands reads both keys; whatever stands there must go by itself within a minute.
func stands(t *testing.T, rdb *redis.Client) contents {
	t.Helper()
	read := func(key string) string {
		value, err := rdb.Get(t.Context(), key).Result()
		switch {
		case errors.Is(err, redis.Nil):
			return ""
		case err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE"):
			value = otherType
		case err != nil:
			t.Fatal(err)
		}
		if ttl := rdb.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("%s lives %v", key, ttl)
		}
		return value
	}
	return contents{read(entryKey), read(fenceKey)}
}

// newCache returns a Cache through addr, with the clinic it is asked for. Entries and fences
// live a minute.
func newCache(t *testing.T, addr, keys string) (*templates.Cache, hospitals.Hospital) {
	t.Helper()
	format, err := templates.ParseKeyFormat(keys)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redisconn.NewSingle(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() })
	return templates.NewCache(rdb, templates.CacheOptions{
		Keys: format, TTL: time.Minute, FenceTTL: time.Minute,
		Current: func(hospitals.Hospital) bool { return true },
	}), hospitals.Hospital{ID: "H001"}
}

const defaultKeys = "infotalk:template:{<hospitalId>}:<templateCode>"

func TestWhatIsRepeatedAfterALostReplyLeavesWhatAnAnswerLeaves(t *testing.T) {
	server := redistest.Start(t)
	var lose atomic.Bool
	proxy := redistest.NewProxy(t, server.Addr, func(request []byte) (redistest.Fault, time.Duration) {
		if strings.Contains(string(request), "infotalk") && lose.Swap(false) {
			return redistest.LoseReply, 0
		}
		return redistest.None, 0
	})
	direct, h := newCache(t, server.Addr, defaultKeys)
	if err := everything(t.Context(), direct, h); err != nil { // from here on Redis knows the scripts
		t.Fatal(err)
	}
	cache, _ := newCache(t, proxy.Addr, defaultKeys)
	stale := `{"inspectionStatus":"REQ"}`
	doc := templates.Document{Raw: `{"inspectionStatus":"APR"}`, Status: "APR"}
	ctx := t.Context()
	for name, c := range map[string]struct {
		before contents
		do     func(seen map[string]templates.Entry) error
		after  contents
	}{
		"look": {contents{"", ""}, func(map[string]templates.Entry) error {
			_, err := cache.Look(ctx, h, "T1")
			return err
		}, contents{"", "*"}},
		"store": {contents{"", "looked"}, func(map[string]templates.Entry) error {
			_, err := cache.Store(ctx, h, "T1", "looked", doc)
			return err
		}, contents{doc.Raw, "*"}},
		"fence": {contents{stale, "looked"}, func(map[string]templates.Entry) error {
			_, err := cache.FenceAndRead(ctx, h, []string{"T1"}, new(bytes.Buffer))
			return err
		}, contents{stale, ""}},
		"forget": {contents{stale, "looked"}, func(map[string]templates.Entry) error {
			return cache.Forget(ctx, h, "T1")
		}, contents{"", ""}},
		"delete_if": {contents{stale, "looked"}, func(seen map[string]templates.Entry) error {
			_, err := cache.DeleteIf(ctx, h, []string{"T1"}, seen)
			return err
		}, contents{"", "*"}},
	} {
		t.Run(name, func(t *testing.T) {
			lay(t, server.Client, c.before.entry, c.before.fence)
			seen, err := direct.ReadAll(ctx, h, []string{"T1"}, new(bytes.Buffer))
			if err != nil {
				t.Fatal(err)
			}
			for _, lost := range []bool{true, false} {
				lose.Store(lost)
				if err := c.do(seen); (err != nil) != lost {
					t.Errorf("with its reply lost %v: %v", lost, err)
				}
				got := stands(t, server.Client)
				if got.fence != "" {
					got.fence = "*"
				}
				if got != c.after {
					t.Errorf("with its reply lost %v it leaves %q, want %q", lost, got, c.after)
				}
			}
		})
	}
}

// TestTheKeysOfAScriptAreInOneSlot runs all that a Cache does on a server in cluster mode,
// which refuses a script whose keys are in several slots. That each key in a script is one of
// its KEYS is seen by fencemodel.
func TestTheKeysOfAScriptAreInOneSlot(t *testing.T) {
	_, bus, _ := net.SplitHostPort(redistest.FreeAddr(t))
	server := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-port", bus)
	if err := server.Client.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(server.Client.ClusterInfo(t.Context()).Val(), "cluster_state:ok"); {
		if time.Now().After(deadline) {
			t.Fatal("the cluster does not come up")
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, keys := range []string{defaultKeys, "{infotalk}:<hospitalId>:<templateCode>", "infotalk:<hospitalId>{:}<templateCode>"} {
		cache, h := newCache(t, server.Addr, keys)
		if err := everything(t.Context(), cache, h); err != nil {
			t.Errorf("%s: %v", keys, err)
		}
	}
	untagged, h := newCache(t, server.Addr, "infotalk:<hospitalId>:<templateCode>")
	if err := everything(t.Context(), untagged, h); err == nil || !strings.Contains(err.Error(), "same slot") {
		t.Errorf("without a hash tag: %v; does this server look at slots at all?", err)
	}
}

// everything has a Cache do all it can.
func everything(ctx context.Context, cache *templates.Cache, h hospitals.Hospital) error {
	codes := []string{"T1", "예약-1", "a/b {c}"}
	for _, code := range codes {
		looked, err := cache.LookAndClaim(ctx, h, code, "load")
		if err != nil || !looked.Claimed {
			return fmt.Errorf("claimed %v: %w", looked.Claimed, err)
		}
		if ours, err := cache.Renew(ctx, h, code, "load"); err != nil || !ours {
			return fmt.Errorf("renewed %v: %w", ours, err)
		}
		if err := cache.Release(ctx, h, code, "load"); err != nil {
			return err
		}
		if looked, err = cache.Look(ctx, h, code); err != nil {
			return err
		}
		if ok, err := cache.Store(ctx, h, code, looked.Token, templates.Document{Raw: `{"inspectionStatus":"REQ"}`}); err != nil || !ok {
			return fmt.Errorf("stored %v: %w", ok, err)
		}
	}
	seen, err := cache.FenceAndRead(ctx, h, codes, new(bytes.Buffer))
	if err != nil {
		return err
	}
	if deleted, err := cache.DeleteIf(ctx, h, codes[1:], seen); err != nil || len(deleted) != 2 {
		return fmt.Errorf("deleted %v: %w", deleted, err)
	}
	known, err := cache.Holdings(ctx)
	if err != nil || known[h.ID].Hot == 0 {
		return fmt.Errorf("holdings %v: %w", known, err)
	}
	if err := cache.Correct(ctx, []templates.Correction{{HospitalID: h.ID, Was: known[h.ID], Is: order.Holding{Cold: known[h.ID].Hot}}}); err != nil {
		return err
	}
	return cache.Forget(ctx, h, codes[0])
}

// work does a little of what a Cache can, as it comes, faults and all.
func work(ctx context.Context, cache *templates.Cache, h hospitals.Hospital) {
	looked, _ := cache.Look(ctx, h, "T1")
	if rand.IntN(2) == 0 {
		_, _ = cache.Store(ctx, h, "T1", looked.Token, templates.Document{Raw: `{"inspectionStatus":"REQ"}`})
	}
	if rand.IntN(4) == 0 {
		seen, _ := cache.FenceAndRead(ctx, h, []string{"T1"}, new(bytes.Buffer))
		_, _ = cache.DeleteIf(ctx, h, []string{"T1"}, seen)
	}
	if rand.IntN(8) == 0 {
		_ = cache.Forget(ctx, h, "T1")
	}
	_, _ = cache.LookAndClaim(ctx, h, "T1", "load")
	if rand.IntN(2) == 0 {
		_, _ = cache.Renew(ctx, h, "T1", "load")
	} else {
		_ = cache.Release(ctx, h, "T1", "load")
	}
}

// TestEveryKeyHasATTLWhateverIsKilledWhen kills, again and again, connections or the whole
// server while a Cache is at work, and looks at what is there then.
func TestEveryKeyHasATTLWhateverIsKilledWhen(t *testing.T) {
	server := redistest.Start(t, redistest.Durable...)
	found := make(map[string]int)
	for round := range 12 {
		stop, cancel := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		var did atomic.Int32
		for range 3 {
			cache, h := newCache(t, server.Addr, defaultKeys)
			workers.Go(func() {
				for ; stop.Err() == nil; did.Add(1) {
					work(stop, cache, h)
				}
			})
		}
		enough := 5 + rand.Int32N(50)
		for deadline := time.Now().Add(10 * time.Second); did.Load() < enough && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		if round%3 == 0 {
			server.Kill()
		} else {
			_ = server.Client.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err()
		}
		cancel()
		workers.Wait()
		if round%3 == 0 {
			server.Restart()
		}
		keys, err := server.Client.Keys(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			ttl, err := server.Client.PTTL(t.Context(), key).Result()
			if err != nil {
				t.Fatal(err)
			}
			if ttl != -2 && (ttl <= 0 || ttl > 2*time.Minute) { // -2: it has gone meanwhile; a note lives as an entry and its fence
				t.Errorf("%s lives %v", key, ttl)
			}
			found[strings.SplitAfter(key, ":")[0]]++
		}
	}
	if found["infotalk:"] == 0 || found["alimtalk-syncer:"] == 0 {
		t.Errorf("only such keys were ever there to see: %v", found)
	}
}
