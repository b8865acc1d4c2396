package templates

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// Watch is a hook on a Redis client that says in the log when Redis goes away and when it
// is back, once each.
type Watch struct {
	Log  zerolog.Logger
	node bool // of a Cluster
	away atomic.Bool
}

// WatchOver watches a client, in a Cluster each of its nodes on its own: one that is away says
// nothing about the others. It is called before the client's first command.
func WatchOver(rdb redis.UniversalClient, log zerolog.Logger) {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		rdb.AddHook(&Watch{Log: log})
		return
	}
	cluster.OnNewNode(func(node *redis.Client) {
		node.AddHook(&Watch{node: true, Log: log.With().Str("node", node.Options().Addr).Logger()})
	})
}

// Away reports whether the last command found no Redis that serves.
func (w *Watch) Away() bool { return w.away.Load() }

// DialHook implements redis.Hook.
func (w *Watch) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (w *Watch) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if name := cmd.Name(); w.node && err == nil && (name == "ping" || name == "cluster") {
			return nil // it answers these also while it refuses all else (CLUSTERDOWN)
		}
		w.note(err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (w *Watch) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		w.note(err)
		return err
	}
}

func (w *Watch) note(err error) {
	if errors.Is(err, context.Canceled) {
		return // says nothing about Redis
	}
	away := notServing(err)
	if w.away.Swap(away) == away {
		return
	}
	if away {
		w.Log.Error().Str("error", plain(err)).Msg("redis away")
	} else {
		w.Log.Info().Msg("redis back")
	}
}

// notServing tells the answers of a Redis at work, errors among them, from none at all.
func notServing(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) {
		return false
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return true
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	switch word {
	case "LOADING", "CLUSTERDOWN", "MASTERDOWN", "NOAUTH", "WRONGPASS":
		return true
	}
	return false
}

// plain is an error's text without the addresses that the net package puts into it.
func plain(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}
