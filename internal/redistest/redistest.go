// Package redistest runs real redis-server processes for tests.
package redistest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Server is a redis-server process on loopback that can be killed, frozen and started again
// on its port. It ends with its test.
type Server struct {
	Addr   string        // host:port
	Client *redis.Client // the test's own

	t    testing.TB
	args []string
	out  bytes.Buffer
	cmd  *exec.Cmd
}

// Durable are arguments with which a server loses nothing it has acknowledged when it is
// killed.
var Durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// Start starts a server that keeps nothing on disk unless args say so, and waits until it
// answers.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return startOn(t, FreeAddr(t), nil, args)
}

// StartTLS starts a server that speaks TLS only, and only with who shows a certificate of ca.
func StartTLS(t testing.TB, ca *CA, args ...string) *Server {
	t.Helper()
	return startOn(t, FreeAddr(t), ca, args)
}

// startOn starts a server on an address; without a ca it speaks no TLS.
func startOn(t testing.TB, addr string, ca *CA, args []string) *Server {
	t.Helper()
	all := append(ca.listen(addr, "--"), "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--loglevel", "warning")
	return launch(t, addr, ca, append(all, args...))
}

func launch(t testing.TB, addr string, ca *CA, args []string) *Server {
	t.Helper()
	s := &Server{Addr: addr, t: t, args: args}
	s.Client = redis.NewClient(&redis.Options{
		Addr: s.Addr, DisableIdentity: true, ContextTimeoutEnabled: true, TLSConfig: ca.client(addr),
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() {
		_ = s.Client.Close()
		s.Kill()
		if t.Failed() && s.out.Len() > 0 {
			t.Logf("redis-server said:\n%s", s.out.String())
		}
	})
	s.Restart()
	return s
}

// Restart starts the server again after Kill and waits until it has loaded its data.
func (s *Server) Restart() {
	s.t.Helper()
	s.cmd = exec.Command("redis-server", s.args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	endWithParent(s.cmd)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal("starting redis-server:", err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for s.Client.Ping(context.Background()).Err() != nil {
		if time.Now().After(deadline) {
			s.t.Fatal("redis-server does not answer on", s.Addr)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Kill ends the server as kill -9 does; it is safe on a frozen or a dead one.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Signal sends the process a signal: SIGSTOP makes it a black hole, SIGCONT brings it back.
func (s *Server) Signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal("signalling redis-server:", err)
	}
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// lastPort counts upwards from a place of this process's own, below the range that the
// kernel gives to outgoing connections, so that a port stays free until its owner starts.
var lastPort atomic.Int32

func init() { lastPort.Store(int32(os.Getpid() % 180 * 100)) }

// FreeAddr returns a loopback address where nobody listens. It asks by dialling: a listener
// opened to find out can outlive its Close in a child process that is just being forked.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range 2000 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(12000+int(lastPort.Add(1))%20000))
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return addr
		}
		if err == nil {
			_ = c.Close()
		}
	}
	t.Fatal("no free port")
	return ""
}
