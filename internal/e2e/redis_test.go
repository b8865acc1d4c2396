package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"alimtalk-syncer/internal/redistest"
)

// redisServer is a redis-server process and what these tests ask of it.
type redisServer struct {
	*redistest.Server
	t testing.TB
}

func newRedis(t testing.TB, args ...string) *redisServer {
	t.Helper()
	return &redisServer{redistest.Start(t, args...), t}
}

func (r *redisServer) url() string { return "redis://" + r.Addr + "/0" }

// freeze makes the server a black hole: connections stay, nothing answers.
func (r *redisServer) freeze() { r.Signal(syscall.SIGSTOP) }
func (r *redisServer) thaw()   { r.Signal(syscall.SIGCONT) }

// do runs one command, its words separated by blanks.
func (r *redisServer) do(command string) any {
	r.t.Helper()
	var args []any
	for _, w := range strings.Fields(command) {
		args = append(args, w)
	}
	v, err := r.Client.Do(context.Background(), args...).Result()
	if err != nil {
		r.t.Fatalf("redis %s: %v", command, err)
	}
	return v
}

func (r *redisServer) set(key, value string, ttl time.Duration) {
	r.t.Helper()
	if err := r.Client.Set(context.Background(), key, value, ttl).Err(); err != nil {
		r.t.Fatal("redis set:", err)
	}
}

// get returns a string's value, and false when there is no such key.
func (r *redisServer) get(key string) (string, bool) {
	r.t.Helper()
	v, err := r.Client.Get(context.Background(), key).Result()
	if err == redis.Nil {
		return "", false
	}
	if err != nil {
		r.t.Fatalf("redis get %s: %v", key, err)
	}
	return v, true
}

func (r *redisServer) has(key string) bool {
	r.t.Helper()
	n, err := r.Client.Exists(context.Background(), key).Result()
	if err != nil {
		r.t.Fatal("redis exists:", err)
	}
	return n == 1
}

// ttl returns how long a key has to live; -1ns means for ever.
func (r *redisServer) ttl(key string) time.Duration {
	r.t.Helper()
	d, err := r.Client.PTTL(context.Background(), key).Result()
	if err != nil {
		r.t.Fatal("redis pttl:", err)
	}
	return d
}

func (r *redisServer) keys(pattern string) []string {
	r.t.Helper()
	keys, err := r.Client.Keys(context.Background(), pattern).Result()
	if err != nil {
		r.t.Fatal("redis keys:", err)
	}
	return keys
}
