package redisconn_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/redistest"
)

// What goes wrong between here and the primary is never an answer of the primary's.
func TestWhatSentinelsAnswerIsNotTakenForRedis(t *testing.T) {
	set := redistest.StartSentinel(t, 1)
	locked := redistest.StartSentinel(t, 1)
	if err := locked.Sentinels[0].Client.ConfigSet(t.Context(), "requirepass", "hush").Err(); err != nil {
		_ = locked.Sentinels[0].Client.Do(t.Context(), "acl", "setuser", "default", "resetpass", ">hush")
	}
	for want, url := range map[string]string{
		`no Sentinel knows a primary named "another"`: strings.Replace(set.URL(), redistest.MasterName, "another", 1),
		"the Sentinels say: NOAUTH":                   locked.URL(),
		"the Sentinels say: ERR unknown command":      "redis://" + set.Nodes[0].Addr + "?master_name=" + redistest.MasterName,
	} {
		err := connect(t, redisconn.Sentinel, url, redisconn.Files{}).Get(t.Context(), "k").Err()
		var answer redis.Error
		if err == nil || errors.As(err, &answer) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s and no answer of Redis", err, want)
		}
	}
}

func TestThePoolsFiguresAreReadWithoutAskingANode(t *testing.T) {
	asked := make(chan struct{}, 100)
	dead := redisconn.NewCluster(&redis.ClusterOptions{Addrs: []string{"c1.example:7000", "c2.example:7000"},
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}})
	t.Cleanup(func() { _ = dead.Close() })
	if s := redisconn.PoolStats(dead)(); s.TotalConns != 0 || len(asked) != 0 {
		t.Errorf("%+v, with %d connections tried", s, len(asked))
	}

	set := redistest.StartCluster(t, 0)
	rdb := connect(t, redisconn.Cluster, set.URL(), redisconn.Files{})
	stats := redisconn.PoolStats(rdb)
	for range 2 {
		for _, k := range []string{"a", "b", "c", "d", "e", "f"} {
			if err := rdb.Set(t.Context(), k, "v", time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s := stats(); s.TotalConns < 3 || s.IdleConns < 3 || s.Hits < 6 || s.Misses < 3 {
		t.Errorf("%+v", s)
	}
}
