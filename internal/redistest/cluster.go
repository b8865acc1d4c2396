package redistest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// slots is how many slots a Cluster has.
const slots = 16384

// ClusterSet is a Cluster of three primaries, each with as many replicas as asked for.
type ClusterSet struct {
	Nodes  []*Server            // the first three are the primaries at first
	Client *redis.ClusterClient // the test's own

	t  testing.TB
	ca *CA
}

// StartCluster starts a Cluster and waits until it serves. A node is taken for dead after a
// second and a half of silence.
func StartCluster(t testing.TB, replicas int, args ...string) *ClusterSet {
	t.Helper()
	return startCluster(t, nil, replicas, args)
}

// StartClusterTLS is StartCluster with all connections by TLS.
func StartClusterTLS(t testing.TB, ca *CA, replicas int, args ...string) *ClusterSet {
	t.Helper()
	return startCluster(t, ca, replicas, args)
}

func startCluster(t testing.TB, ca *CA, replicas int, args []string) *ClusterSet {
	t.Helper()
	c := &ClusterSet{t: t, ca: ca}
	var addrs, buses []string
	for range 3 * (1 + replicas) {
		bus := port(FreeAddr(t))
		s := startOn(t, FreeAddr(t), ca, append([]string{"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "1500",
			"--repl-diskless-sync-delay", "0", "--cluster-allow-replica-migration", "no"}, args...))
		c.Nodes, addrs, buses = append(c.Nodes, s), append(addrs, s.Addr), append(buses, bus)
	}
	ctx := context.Background()
	for i, s := range c.Nodes {
		c.must(s, "cluster", "set-config-epoch", i+1)
		if i < 3 {
			c.must(s, "cluster", "addslotsrange", i*slots/3, (i+1)*slots/3-1)
		}
		c.must(c.Nodes[0], "cluster", "meet", "127.0.0.1", port(s.Addr), buses[i])
	}
	for _, s := range c.Nodes {
		until(t, "the nodes know each other", func() bool {
			nodes, err := s.Client.ClusterNodes(ctx).Result()
			return err == nil && strings.Count(nodes, "\n") == len(c.Nodes) && !strings.Contains(nodes, "handshake")
		})
	}
	for i, s := range c.Nodes[3:] {
		c.must(s, "cluster", "replicate", c.id(c.Nodes[i%3]))
	}
	for i, s := range c.Nodes {
		until(t, "the Cluster serves", func() bool {
			info, err := s.Client.ClusterInfo(ctx).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_assigned:16384") &&
				(i < 3 || says(s, "replication", "master_link_status:up")) && len(c.primaries(s)) == 3
		})
	}
	c.Client = redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, DisableIdentity: true, TLSConfig: ca.client(addrs[0]), MaxRedirects: 10, ClusterStateReloadInterval: 100 * time.Millisecond,
	})
	t.Cleanup(func() { _ = c.Client.Close() })
	return c
}

// URL is the REDIS_URL of the Cluster.
func (c *ClusterSet) URL() string {
	var addrs []string
	for _, s := range c.Nodes[1:] {
		addrs = append(addrs, "addr="+s.Addr)
	}
	return c.ca.scheme() + c.Nodes[0].Addr + "?" + strings.Join(addrs, "&")
}

// must runs a command on one node.
func (c *ClusterSet) must(s *Server, args ...any) any {
	c.t.Helper()
	v, err := s.Client.Do(context.Background(), args...).Result()
	if err != nil {
		c.t.Fatalf("redis %v: %v", args, err)
	}
	return v
}

func (c *ClusterSet) id(s *Server) string {
	c.t.Helper()
	return c.must(s, "cluster", "myid").(string)
}

// ranges returns who serves which slots, as one node sees it; nothing when it does not answer.
func ranges(s *Server) []redis.ClusterSlot {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.Client.ClusterSlots(ctx).Val() //nolint:staticcheck // what clients ask for, and all that Redis 6.2 has
}

// primaries returns the addresses of the nodes that serve slots, as one of them sees it.
func (c *ClusterSet) primaries(s *Server) map[string]bool {
	found := make(map[string]bool)
	for _, r := range ranges(s) {
		found[r.Nodes[0].Addr] = true
	}
	return found
}

// Slot is the slot of a key.
func (c *ClusterSet) Slot(key string) int {
	c.t.Helper()
	return int(c.must(c.Nodes[0], "cluster", "keyslot", key).(int64))
}

// Owner is the node that serves a slot, as a living node sees it.
func (c *ClusterSet) Owner(slot int) *Server {
	c.t.Helper()
	for _, s := range c.Nodes {
		for _, r := range ranges(s) {
			for _, node := range c.Nodes {
				if r.Start <= slot && slot <= r.End && r.Nodes[0].Addr == node.Addr {
					return node
				}
			}
		}
	}
	c.t.Fatal("nobody serves slot", slot)
	return nil
}

// Failover kills the primary of a slot and waits until its replica serves in its place.
func (c *ClusterSet) Failover(slot int) {
	c.t.Helper()
	dead := c.Owner(slot)
	dead.Kill()
	until(c.t, "a replica takes the slot over", func() bool {
		for _, s := range c.Nodes {
			if s == dead {
				continue
			}
			if seen := c.primaries(s); len(seen) != 3 || seen[dead.Addr] {
				return false
			}
			if info, err := s.Client.ClusterInfo(context.Background()).Result(); err != nil || !strings.Contains(info, "cluster_state:ok") {
				return false
			}
		}
		return true
	})
}

// Move moves a slot to another primary, key by key, as an operator's rebalancing does. It
// calls halfway when the slot is open and half of its keys have moved.
func (c *ClusterSet) Move(slot int, to *Server, halfway func()) {
	c.t.Helper()
	from := c.Owner(slot)
	c.must(to, "cluster", "setslot", slot, "importing", c.id(from))
	c.must(from, "cluster", "setslot", slot, "migrating", c.id(to))
	count := func() int64 { return c.must(from, "cluster", "countkeysinslot", slot).(int64) }
	migrate := func(rest int64) {
		for count() > rest {
			for _, key := range c.must(from, "cluster", "getkeysinslot", slot, count()-rest).([]any) {
				c.must(from, "migrate", "127.0.0.1", port(to.Addr), key, 0, 5000)
			}
		}
	}
	migrate(count() / 2)
	if halfway != nil {
		halfway()
	}
	migrate(0)
	for _, s := range []*Server{to, from} {
		c.must(s, "cluster", "setslot", slot, "node", c.id(to))
	}
	until(c.t, fmt.Sprintf("all know who serves slot %d", slot), func() bool { return c.Owner(slot) == to })
}

// Others are the primaries that do not serve a slot.
func (c *ClusterSet) Others(slot int) []*Server {
	c.t.Helper()
	owner := c.Owner(slot)
	var others []*Server
	for _, s := range c.Nodes {
		if s != owner && c.primaries(owner)[s.Addr] {
			others = append(others, s)
		}
	}
	return others
}
