package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// MasterName is what the Sentinels call their primary.
const MasterName = "mymaster"

// SentinelSet is a primary, a replica, and the Sentinels that watch them.
type SentinelSet struct {
	Nodes     []*Server // the first of them is the primary at first
	Sentinels []*Server

	t  testing.TB
	ca *CA
}

// StartSentinel starts a primary and a replica and this many Sentinels, and waits until each
// knows the others. The Sentinels call the primary dead after half a second of silence.
func StartSentinel(t testing.TB, sentinels int, args ...string) *SentinelSet {
	t.Helper()
	return startSentinel(t, nil, sentinels, args)
}

// StartSentinelTLS is StartSentinel with all connections by TLS.
func StartSentinelTLS(t testing.TB, ca *CA, sentinels int, args ...string) *SentinelSet {
	t.Helper()
	return startSentinel(t, ca, sentinels, args)
}

func startSentinel(t testing.TB, ca *CA, sentinels int, args []string) *SentinelSet {
	t.Helper()
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...)
	s := &SentinelSet{t: t, ca: ca, Nodes: []*Server{startOn(t, FreeAddr(t), ca, args)}}
	primary := strings.ReplaceAll(s.Nodes[0].Addr, ":", " ")
	s.Nodes = append(s.Nodes, startOn(t, FreeAddr(t), ca, append([]string{"--replicaof", primary}, args...)))
	until(t, "the replica follows", func() bool { return says(s.Nodes[1], "replication", "master_link_status:up") })

	for range sentinels {
		addr := FreeAddr(t)
		config := filepath.Join(t.TempDir(), "sentinel.conf")
		text := fmt.Sprintf("bind 127.0.0.1\ndir %s\nloglevel warning\n", filepath.Dir(config))
		for pair := range slices.Chunk(ca.listen(addr, ""), 2) {
			text += pair[0] + " " + pair[1] + "\n"
		}
		text += fmt.Sprintf("sentinel monitor %s %s %d\n", MasterName, primary, sentinels/2+1) +
			fmt.Sprintf("sentinel down-after-milliseconds %s 500\nsentinel failover-timeout %[1]s 2000\n", MasterName)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal("configuring a Sentinel:", err)
		}
		s.Sentinels = append(s.Sentinels, launch(t, addr, ca, []string{config, "--sentinel"}))
	}
	for _, sentinel := range s.Sentinels {
		until(t, "the Sentinels know each other and the replica", func() bool {
			return says(sentinel, "sentinel", fmt.Sprintf("slaves=1,sentinels=%d", sentinels))
		})
	}
	return s
}

// URL is the REDIS_URL of the set.
func (s *SentinelSet) URL() string {
	url := s.ca.scheme() + s.Sentinels[0].Addr + "?master_name=" + MasterName
	for _, other := range s.Sentinels[1:] {
		url += "&addr=" + other.Addr
	}
	return url
}

// Primary is the node that the Sentinels name now.
func (s *SentinelSet) Primary() *Server {
	s.t.Helper()
	for _, sentinel := range s.Sentinels {
		at := redis.NewStringSliceCmd(context.Background(), "sentinel", "get-master-addr-by-name", MasterName)
		if sentinel.Client.Process(context.Background(), at) != nil {
			continue
		}
		for _, node := range s.Nodes {
			if node.Addr == net.JoinHostPort(at.Val()[0], at.Val()[1]) {
				return node
			}
		}
	}
	s.t.Fatal("no Sentinel names a primary")
	return nil
}

// Failover kills the primary and waits until the Sentinels have put the other node in its
// place.
func (s *SentinelSet) Failover() {
	s.t.Helper()
	dead := s.Primary()
	dead.Kill()
	until(s.t, "the Sentinels name another primary", func() bool { return s.Primary() != dead })
}

// says reports whether a section of INFO holds a text.
func says(s *Server, section, text string) bool {
	info, err := s.Client.Info(context.Background(), section).Result()
	return err == nil && strings.Contains(info, text)
}

// until observes cond until it holds.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 30s:", what)
		}
	}
}
