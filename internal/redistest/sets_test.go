package redistest

import (
	"context"
	"testing"
	"time"
)

func TestTheSetsStartAndFailOver(t *testing.T) {
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		begun := time.Now()
		s := StartSentinel(t, 3)
		t.Log("started after", time.Since(begun))
		was := s.Primary()
		begun = time.Now()
		s.Failover()
		t.Log("failed over after", time.Since(begun))
		if now := s.Primary(); now == was || now.Client.Set(context.Background(), "k", "v", time.Minute).Err() != nil {
			t.Error("the new primary is the old one, or takes no writes")
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		begun := time.Now()
		c := StartCluster(t, 1)
		t.Log("started after", time.Since(begun))
		for _, k := range []string{"{a}1", "{a}2", "{a}3", "b", "c"} {
			if err := c.Client.Set(context.Background(), k, k, time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
		}
		slot := c.Slot("{a}")
		halfway := false
		c.Move(slot, c.Others(slot)[0], func() {
			halfway = c.Client.Exists(context.Background(), "{a}1").Val() == 1 && c.Client.Exists(context.Background(), "{a}3").Val() == 1
		})
		if !halfway {
			t.Error("keys are not to be had while their slot moves")
		}
		begun = time.Now()
		c.Failover(slot)
		t.Log("failed over after", time.Since(begun))
		until(t, "the entry is to be had from the replica that was", func() bool {
			return c.Client.Get(context.Background(), "{a}2").Val() == "{a}2"
		})
	})
}
