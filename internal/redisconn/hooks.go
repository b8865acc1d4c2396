package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// onceOnly keeps a Cluster's client from sending a command again whose reply was lost: what
// MaxRetries -1 does for a single server, a Cluster's client does up to MaxRedirects times. As
// it then does not see either that a node is gone, onceOnly has it ask who has taken its place.
type onceOnly struct{ rdb *redis.ClusterClient }

// once is a command that is not to be sent again.
type once struct{ redis.Cmder }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// DialHook implements redis.Hook.
func (onceOnly) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (o onceOnly) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, once{cmd})
		o.look(ctx, err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook. Pipelines in MULTI come through it too.
func (o onceOnly) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		wrapped := make([]redis.Cmder, len(cmds))
		for i, cmd := range cmds {
			wrapped[i] = once{cmd}
		}
		err := next(ctx, wrapped)
		for _, cmd := range cmds { // err may be an answer to another of them
			o.look(ctx, cmd.Err())
		}
		return err
	}
}

// look asks for the Cluster's state anew, not waiting for it, when err is no answer of Redis.
func (o onceOnly) look(ctx context.Context, err error) {
	if err != nil && !isAnswer(err) {
		o.rdb.ReloadState(ctx)
	}
}

// isAnswer tells the answers of a Redis, errors among them, from none at all.
func isAnswer(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// sentinels keeps what Sentinels answer from being taken for what Redis does. To a name that
// they do not know they say nil, and that would be an entry that is not there.
type sentinels struct{ masterName string }

// DialHook implements redis.Hook.
func (s sentinels) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		var answer redis.Error
		switch {
		case errors.Is(err, redis.Nil):
			return nil, fmt.Errorf("no Sentinel knows a primary named %q", s.masterName)
		case errors.As(err, &answer):
			return nil, errors.New("the Sentinels say: " + answer.Error())
		}
		return conn, err
	}
}

// ProcessHook implements redis.Hook.
func (sentinels) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (sentinels) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// PoolStats returns how to read the figures of a client's connections, of all nodes of a Cluster
// together. Unlike a Cluster client's own it asks no node first. It is called before the
// client's first command.
func PoolStats(rdb redis.UniversalClient) func() *redis.PoolStats {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return rdb.PoolStats
	}
	var mu sync.Mutex
	var nodes []*redis.Client // also those that have left: what they counted still counts
	cluster.OnNewNode(func(node *redis.Client) {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
	})
	return func() *redis.PoolStats {
		mu.Lock()
		defer mu.Unlock()
		sum := new(redis.PoolStats)
		for _, node := range nodes {
			s := node.PoolStats()
			sum.Hits, sum.Misses, sum.Timeouts = sum.Hits+s.Hits, sum.Misses+s.Misses, sum.Timeouts+s.Timeouts
			sum.TotalConns, sum.IdleConns = sum.TotalConns+s.TotalConns, sum.IdleConns+s.IdleConns
		}
		return sum
	}
}
