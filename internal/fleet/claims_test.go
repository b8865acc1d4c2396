package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/templates"
)

var sender = hospitals.Sender{UserCode: "clinic", Key: "hush"}

func newClaims(t *testing.T, rdb redis.UniversalClient, format string) *Claims {
	t.Helper()
	keys, err := templates.ParseKeyFormat(format)
	if err != nil {
		t.Fatal(err)
	}
	return NewClaims(rdb, keys)
}

const format = "t:{<hospitalId>}:<templateCode>"

func claim(t *testing.T, tick *Tick, s hospitals.Sender) Claim {
	t.Helper()
	c, err := tick.Claim(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAClaimIsOnePassesOfOneTickAndDeployment(t *testing.T) {
	server := redistest.Start(t)
	claims := newClaims(t, server.Client, format)
	end := time.Now().Add(time.Minute)
	mine := claims.Tick(end)
	won := func(tick *Tick, s hospitals.Sender) bool {
		t.Helper()
		return claim(t, tick, s).Won
	}
	if !won(mine, sender) {
		t.Error("not the first pass's")
	}
	if !won(mine, sender) {
		t.Error("no longer the first pass's when it asks again, for a reply that was lost")
	}
	other := claims.Tick(end)
	if c := claim(t, other, sender); c.Won || c.Ago < 0 || c.Ago > 10*time.Second {
		t.Errorf("another pass in that tick: %+v", c)
	}
	ago := redis.Z{Score: float64(server.Client.Time(t.Context()).Val().Add(-time.Minute).UnixMilli()), Member: Unit(sender)}
	if err := server.Client.ZAdd(t.Context(), claims.lookedKey(), ago).Err(); err != nil {
		t.Fatal(err)
	}
	if c := claim(t, other, sender); c.Won || c.Ago < time.Minute || c.Ago > 70*time.Second {
		t.Errorf("claimed a minute ago: %+v", c)
	}
	if !won(other, hospitals.Sender{UserCode: "clinic", Key: "another"}) || !won(other, hospitals.Sender{UserCode: "another", Key: "hush"}) {
		t.Error("another sender key, or another account's, is not claimed")
	}
	if !won(claims.Tick(end.Add(time.Second)), sender) {
		t.Error("nor is the next tick")
	}
	if !won(newClaims(t, server.Client, "u:{<hospitalId>}:<templateCode>").Tick(end), sender) {
		t.Error("nor another deployment's")
	}
}

func TestClaimsAreOurOwnKeysLiveAsLongAsTheyMustAndHoldNoSecret(t *testing.T) {
	server := redistest.Start(t)
	claims := newClaims(t, server.Client, format)
	claim(t, claims.Tick(time.Now().Add(time.Minute)), sender)
	if err := claims.Ended(t.Context(), sender, true); err != nil {
		t.Fatal(err)
	}
	keys, err := server.Client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 3 {
		t.Fatal(keys, err)
	}
	for _, key := range keys {
		life, err := server.Client.PTTL(t.Context(), key).Result()
		least, most := 7*24*time.Hour-time.Minute, 7*24*time.Hour
		if strings.HasPrefix(key, "alimtalk-syncer:claim:") {
			least, most = 2*time.Minute+50*time.Second, 3*time.Minute // replicas' clocks may differ by two
		}
		if err != nil || life < least || life > most || !strings.HasPrefix(key, templates.OwnPrefix) || strings.Contains(key, "hush") || strings.Contains(key, "clinic") {
			t.Errorf("%s lives for %v, %v", key, life, err)
		}
	}
	// A replica whose clock is half a minute behind comes to a tick that has ended here.
	late := claims.Tick(time.Now().Add(-30 * time.Second))
	if !claim(t, late, sender).Won {
		t.Error("a tick that ended half a minute ago, by this clock, cannot be claimed")
	}
}

func TestLooksAreKnownByRedisClockForSevenDays(t *testing.T) {
	server := redistest.Start(t)
	claims := newClaims(t, server.Client, format)
	looked := func() map[string]time.Time {
		t.Helper()
		looked, err := claims.Looked(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return looked
	}
	if got := looked(); len(got) != 0 {
		t.Errorf("nobody was looked at: %v", got)
	}
	old := redis.Z{Score: float64(time.Now().Add(-7*24*time.Hour - time.Second).UnixMilli()), Member: "gone"}
	if err := server.Client.ZAdd(t.Context(), claims.lookedKey(), old).Err(); err != nil {
		t.Fatal(err)
	}
	before := server.Client.Time(t.Context()).Val()
	claim(t, claims.Tick(time.Now().Add(time.Hour)), sender)
	claim(t, claims.Tick(time.Now().Add(time.Hour)), sender) // lost, which is no look
	after := server.Client.Time(t.Context()).Val()
	got := looked()
	if at := got[Unit(sender)]; len(got) != 1 || at.Before(before.Truncate(time.Millisecond)) || at.After(after) {
		t.Errorf("%v, want one look between %v and %v", got, before, after)
	}
}

func TestHowALookEndedIsKnownToAll(t *testing.T) {
	server := redistest.Start(t)
	claims := newClaims(t, server.Client, format)
	end := time.Now().Add(time.Minute)
	for _, failed := range []bool{false, true, true, false} {
		if err := claims.Ended(t.Context(), sender, failed); err != nil {
			t.Fatal(err)
		}
		end = end.Add(time.Minute)
		for _, who := range []string{"the winner", "another"} {
			if c := claim(t, claims.Tick(end), sender); c.Failing != failed {
				t.Errorf("the last look failed: %t; %s hears %+v", failed, who, c)
			}
		}
		if c := claim(t, claims.Tick(end), hospitals.Sender{Key: "another"}); c.Failing {
			t.Errorf("another sender key: %+v", c)
		}
	}
}

func TestARedisWithoutRoomIsToldFromOneThatIsAway(t *testing.T) {
	server := redistest.Start(t)
	claims := newClaims(t, server.Client, format)
	tick := claims.Tick(time.Now().Add(time.Hour))
	if err := server.Client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := tick.Claim(t.Context(), sender); !Full(err) {
		t.Errorf("no room: %v", err)
	}
	server.Client.ConfigSet(t.Context(), "maxmemory", "0")
	if err := server.Client.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := tick.Claim(t.Context(), sender); err == nil || Full(err) {
		t.Errorf("a replica, which takes no writes: %v", err)
	}
	server.Kill()
	if _, err := tick.Claim(t.Context(), sender); err == nil || Full(err) {
		t.Errorf("away: %v", err)
	}
}
