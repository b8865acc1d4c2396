package e2e

import (
	"bytes"
	"context"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// redisServer is a redis-server process that can be killed, frozen and started again on its port.
type redisServer struct {
	t      testing.TB
	addr   string
	args   []string
	out    bytes.Buffer
	cmd    *exec.Cmd
	client *redis.Client
}

// durable makes a redis-server lose nothing that it has acknowledged when it is killed.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

func newRedis(t testing.TB, args ...string) *redisServer {
	t.Helper()
	r := &redisServer{t: t, addr: freeAddr(t)}
	_, port, _ := net.SplitHostPort(r.addr)
	r.args = append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--loglevel", "warning"}, args...)
	r.client = redis.NewClient(&redis.Options{
		Addr:                     r.addr,
		DialerRetries:            1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() {
		_ = r.client.Close()
		r.kill()
		if t.Failed() && r.out.Len() > 0 {
			t.Logf("redis-server said:\n%s", r.out.String())
		}
	})
	r.start()
	return r
}

func (r *redisServer) url() string { return "redis://" + r.addr + "/0" }

// start starts the server and waits until it has loaded its data.
func (r *redisServer) start() {
	r.t.Helper()
	r.cmd = exec.Command("redis-server", r.args...)
	r.cmd.Stdout, r.cmd.Stderr, r.cmd.SysProcAttr = &r.out, &r.out, ownProcess()
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal("redis-server:", err)
	}
	eventually(r.t, soon, "redis-server answers on "+r.addr, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return r.client.Ping(ctx).Err() == nil
	})
}

// kill ends the server as kill -9 does; it is safe on a frozen or a dead one.
func (r *redisServer) kill() {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	r.cmd = nil
}

// freeze makes the server a black hole: connections stay, nothing answers.
func (r *redisServer) freeze() { r.signal(syscall.SIGSTOP) }
func (r *redisServer) thaw()   { r.signal(syscall.SIGCONT) }

func (r *redisServer) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal("redis-server:", err)
	}
}

// do runs one command, its words separated by blanks.
func (r *redisServer) do(command string) any {
	r.t.Helper()
	var args []any
	for _, w := range strings.Fields(command) {
		args = append(args, w)
	}
	v, err := r.client.Do(context.Background(), args...).Result()
	if err != nil {
		r.t.Fatalf("redis %s: %v", command, err)
	}
	return v
}

func (r *redisServer) set(key, value string, ttl time.Duration) {
	r.t.Helper()
	if err := r.client.Set(context.Background(), key, value, ttl).Err(); err != nil {
		r.t.Fatal("redis set:", err)
	}
}

// get returns a string's value, and false when there is no such key.
func (r *redisServer) get(key string) (string, bool) {
	r.t.Helper()
	v, err := r.client.Get(context.Background(), key).Result()
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
	n, err := r.client.Exists(context.Background(), key).Result()
	if err != nil {
		r.t.Fatal("redis exists:", err)
	}
	return n == 1
}

// ttl returns how long a key has to live; -1ns means for ever.
func (r *redisServer) ttl(key string) time.Duration {
	r.t.Helper()
	d, err := r.client.PTTL(context.Background(), key).Result()
	if err != nil {
		r.t.Fatal("redis pttl:", err)
	}
	return d
}

func (r *redisServer) keys(pattern string) []string {
	r.t.Helper()
	keys, err := r.client.Keys(context.Background(), pattern).Result()
	if err != nil {
		r.t.Fatal("redis keys:", err)
	}
	return keys
}
