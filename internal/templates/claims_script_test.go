package templates_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/templates"
)

func TestAClaimIsTakenRenewedAndReleasedByItsOwnLoadOnly(t *testing.T) {
	server := redistest.Start(t)
	run := func(script string, keys []string, argv ...any) string {
		source, err := os.ReadFile("lua/" + script + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		got, err := server.Client.Eval(t.Context(), string(source), keys, argv...).Result()
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(got)
	}
	const claimKey = "alimtalk-syncer:load:x"
	look := func() string {
		return run("look", []string{entryKey, fenceKey, claimKey}, "fresh", 60_000, "load", 40_000)
	}
	renew := func() string { return run("renew", []string{claimKey}, "load", 40_000) }
	release := func() string { return run("release", []string{claimKey}, "load") }
	for _, c := range []struct {
		name                 string
		do                   func() string
		entry, fence, holder string
		says                 string // and what it leaves
		fenceAfter, holds    string
	}{
		{"a free claim is taken", look, "", "looked", "", "[miss looked]", "looked", "load"},
		{"and the fence made", look, "", "", "", "[miss fresh]", "fresh", "load"},
		{"our own is taken again: the reply was lost", look, "", "looked", "load", "[miss looked]", "looked", "load"},
		{"another's is waited for, and no fence made", look, "", "", "another", "[wait]", "", "another"},
		{"one whose token begins as ours does is another's", look, "", "", "load 2", "[wait]", "", "load 2"},
		{"an entry needs no claim", look, "theirs", "looked", "", "[entry theirs]", "looked", ""},
		{"nor does it wait for one", look, "theirs", "looked", "another", "[entry theirs]", "looked", "another"},
		{"another type is nobody's to load", look, otherType, "looked", "another", "[other]", "looked", "another"},
		{"who can have no fence claims nothing", look, "", otherType, "", "[fenceless WRONGTYPE", otherType, ""},
		{"what is no claim keeps nobody", look, "", "looked", otherType, "[miss looked]", "looked", "load"},
		{"ours is renewed", renew, "", "", "load", "1", "", "load"},
		{"another's is not", renew, "", "", "another", "0", "", "another"},
		{"nor one that has run out", renew, "", "", "", "0", "", ""},
		{"ours is released", release, "", "", "load", "1", "", ""},
		{"another's is not", release, "", "", "another", "0", "", "another"},
		{"nor one that has run out", release, "", "", "", "0", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			lay(t, server.Client, c.entry, c.fence)
			const before = 20 * time.Second
			switch c.holder {
			case "":
			case otherType:
				server.Client.RPush(t.Context(), claimKey, "x")
			default:
				server.Client.Set(t.Context(), claimKey, c.holder, before)
			}
			for range 2 { // what one run leaves, two leave
				if said := c.do(); !strings.HasPrefix(said, c.says) && c.says != "1" {
					t.Errorf("answers %s, want %s", said, c.says)
				}
				if got := stands(t, server.Client); got != (contents{c.entry, c.fenceAfter}) {
					t.Errorf("it leaves %q", got)
				}
				if holder := server.Client.Get(t.Context(), claimKey).Val(); holder != c.holds {
					t.Errorf("it leaves the claim to %q, want %q", holder, c.holds)
				}
				ttl := server.Client.PTTL(t.Context(), claimKey).Val()
				if ours := c.holds == "load"; ours && (ttl <= before || ttl > 40*time.Second) || !ours && ttl > before {
					t.Errorf("the claim lives %v", ttl)
				}
			}
		})
	}
}

// A claim that cannot be had keeps nobody from loading, and, where there is a fence, from storing.
func TestLoadsGoOnWithoutAClaim(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		user  string
		spoil func(*testing.T, *redistest.Server)
		via   templates.Via
	}{
		"Redis is full": {"", func(t *testing.T, s *redistest.Server) {
			s.Client.Set(t.Context(), fenceKey, "looked", time.Minute)
			s.Client.ConfigSet(t.Context(), "maxmemory", "1")
		}, templates.Missed},
		"Redis is full, and there is no fence": {"", func(t *testing.T, s *redistest.Server) {
			s.Client.ConfigSet(t.Context(), "maxmemory", "1")
		}, templates.Missed},
		"Redis is a replica": {"", func(t *testing.T, s *redistest.Server) {
			s.Client.ReplicaOf(t.Context(), "127.0.0.1", "1")
		}, templates.Missed},
		"the user may not touch claims": {"narrow", func(t *testing.T, s *redistest.Server) {
			if err := s.Client.Do(t.Context(), "ACL", "SETUSER", "narrow", "on", ">narrow", "+@all",
				"~infotalk:*", "~alimtalk-syncer:fence:*", "~alimtalk-syncer:hot:*").Err(); err != nil {
				t.Fatal(err)
			}
		}, templates.Stored},
		"something else stands there": {"", func(t *testing.T, s *redistest.Server) {
			keys, _ := templates.ParseKeyFormat(defaultKeys)
			s.Client.RPush(t.Context(), keys.LoadKey(hospitals.Hospital{ID: "H001", UserCode: "user", SenderKey: "key-1"}, "T1"), "x")
		}, templates.Stored},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			c.spoil(t, server)
			replicas := []*replica{newReplica(t, server, c.user), newReplica(t, server, c.user)}
			if name == "Redis is full" {
				look, err := replicas[0].cache.LookAndClaim(t.Context(), replicas[0].h, "T1", "load")
				if err != nil || look.Token != "looked" || look.Claimed || look.NoClaim == nil {
					t.Errorf("a look: %+v, %v", look, err)
				}
			}
			var lets []func()
			var reads []<-chan readResult
			both := 2
			if name == "something else stands there" {
				both = 1 // it is written over
			}
			for _, r := range replicas[:both] {
				asked, let := r.hold()
				lets = append(lets, let)
				reads = append(reads, r.read())
				await(t, asked) // the others wait for nothing
			}
			for i, let := range lets {
				let()
				got := <-reads[i]
				want := c.via
				if i > 0 && want == templates.Stored {
					want = templates.Missed
				}
				got.is(t, fmt.Sprint("replica ", i), want, "REQUESTED")
				if errs, won := replicas[i].claims("error"), replicas[i].claims("won"); errs+won != 1 || errs != both-1 {
					t.Errorf("replica %d: %d claims won, %d in error", i, won, errs)
				}
			}
		})
	}
}

// A look may have taken the claim though its reply was lost. That load stores nothing, so that
// nobody is to wait for it.
func TestTheClaimOfALostReplyIsGivenBack(t *testing.T) {
	t.Parallel()
	_, replicas := newFleet(t, 2)
	asked, let := replicas[0].hold()
	defer let()
	lost := make(chan struct{}, 1)
	lose := func(request string) redistest.Fault {
		if strings.Contains(request, "-- look:") && len(lost) == 0 { // the EVAL: Redis does not know the script yet
			lost <- struct{}{}
			return redistest.LoseReply
		}
		return redistest.None
	}
	replicas[0].fault.Store(&lose)
	first := replicas[0].read()
	await(t, asked)
	if len(lost) == 0 {
		t.Fatal("no reply was lost")
	}
	next := <-replicas[1].read()
	next.is(t, "who came next", templates.Stored, "REQUESTED")
	if next.took > claimLife*2/3 {
		t.Errorf("who came next was served after %v, as if the claim had to run out", next.took)
	}
	let()
	(<-first).is(t, "who lost the reply", templates.Bypass, "REQUESTED")
	if n := replicas[0].claims("error"); n != 1 {
		t.Errorf("%d claims in error", n)
	}
}

// Close leaves no claim behind, so that nobody waits for a replica that has ended in peace.
func TestCloseReleasesTheClaims(t *testing.T) {
	t.Parallel()
	server, replicas := newFleet(t, 1)
	asked, _ := replicas[0].hold()
	first := replicas[0].read()
	await(t, asked)
	if len(loadClaims(t, server)) != 1 {
		t.Fatal("there is no claim to release")
	}
	if err := replicas[0].reader.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if held := loadClaims(t, server); len(held) != 0 {
		t.Error("after Close there are", held)
	}
	if got := <-first; got.err == nil {
		t.Error("the load was not cut")
	}
}

// sent records what a client sends, a connection's own commands aside.
type sent struct{ commands [][]any }

func (s *sent) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (s *sent) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "hello" {
			s.commands = append(s.commands, cmd.Args())
		}
		return next(ctx, cmd)
	}
}

func (s *sent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			s.commands = append(s.commands, cmd.Args())
		}
		return next(ctx, cmds)
	}
}

func TestWithoutFleetNotOneByteMoreIsSent(t *testing.T) {
	server := redistest.Start(t)
	everywhere := &sent{}
	rdb := redisconn.NewSingle(&redis.Options{Addr: server.Addr})
	defer func() { _ = rdb.Close() }()
	keys, err := templates.ParseKeyFormat(defaultKeys)
	if err != nil {
		t.Fatal(err)
	}
	s := newSetup(t, nil)
	reader := templates.NewReader(templates.ReaderOptions{Source: s.surem, Metrics: metrics.New("", "", ""), Log: zerolog.Nop(), CoolingMax: 10,
		Cache: templates.NewCache(rdb, templates.CacheOptions{Keys: keys, TTL: time.Hour, FenceTTL: time.Minute, Current: s.dir.Current})})
	for _, name := range []string{"look", "store", "note"} {
		source, err := os.ReadFile("lua/" + name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		server.Client.ScriptLoad(t.Context(), string(source))
	}
	rdb.AddHook(everywhere)
	for _, via := range []templates.Via{templates.Stored, templates.Hit} {
		if got, err := reader.Read(t.Context(), s.h, "T1"); err != nil || got.Via != via {
			t.Fatalf("a read: via %d, %v", got.Via, err)
		}
	}
	if err := reader.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, args := range everywhere.commands {
		text := fmt.Sprint(args[0])
		for _, arg := range args[1:] {
			switch arg := arg.(type) {
			case string:
				if len(arg) > 80 || len(arg) == 40 || len(arg) == 26 { // a script, its hash, a token
					arg = strings.Repeat("·", 3)
				}
				if strings.HasPrefix(arg, "alimtalk-syncer:hot:") {
					arg = "alimtalk-syncer:hot:"
				}
				text += " " + arg
			default:
				text += fmt.Sprint(" ", arg)
			}
		}
		got = append(got, text)
	}
	want := []string{
		"get " + entryKey,
		"evalsha ··· 2 " + entryKey + " " + fenceKey + " ··· 60000",
		"eval ··· 2 " + entryKey + " " + fenceKey + " ··· ··· 3600000",
		"eval ··· 1 alimtalk-syncer:hot: 3660000 H001",
		"get " + entryKey,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("a miss and a hit send\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
