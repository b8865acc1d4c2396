package invalidate

import (
	"strings"
	"testing"
	"time"
)

func TestAReplicaThatSureMDoesNotAnswerLetsOthersClaimFirst(t *testing.T) {
	replicas, _ := newReplicas(t, 4)
	cut, other := replicas[0], replicas[1]
	cut.Away = func() bool { return true }
	for id := range cut.status {
		cut.fail[id] = true
	}
	began := time.Now()
	tick := until(began.Add(2 * time.Second))
	passed := make(chan struct{})
	go func() {
		cut.expect(tick)
		cut.tick(t.Context(), tick)
		close(passed)
	}()
	await(t, "it has asked SureM once", func() bool {
		cut.at.Lock()
		defer cut.at.Unlock()
		return len(cut.calls) == 1
	})
	if got := strings.Fields(other.run(tick)); len(got) != 4 {
		t.Errorf("the other replica read %s, want all", got)
	}
	<-passed
	if took := time.Since(began); took < time.Second {
		t.Errorf("it claimed after %v, half a tick is 1s", took)
	}
	if p, calls := cut.Status().Pass, strings.Fields(cut.called()); p.NotReached != 4 || len(calls) != 1 {
		t.Errorf("%+v, called %s", p, calls)
	}

	began = time.Now()
	tick = until(began.Add(2 * time.Second)) // all are cut off: it goes on alone
	if got := strings.Fields(cut.run(tick)); len(got) != 5 || time.Since(began) < time.Second {
		t.Errorf("alone it called %s after %v", got, time.Since(began))
	}
	clear(cut.fail)
	began = time.Now()
	if got := strings.Fields(cut.run(until(began.Add(10 * time.Second)))); len(got) != 5 || time.Since(began) > 4*time.Second {
		t.Errorf("its first call is answered, so that it goes on at once: %s", got)
	}
}

// TestWhatAReloadHasChangedIsReadByEachReplica: the other one knows nothing of the change, and
// leaves what agrees.
func TestWhatAReloadHasChangedIsReadByEachReplica(t *testing.T) {
	replicas, tick := newReplicas(t, 2)
	knows, other := replicas[0], replicas[1]
	knows.list(map[string]string{"H1": "another", "H2": "key-H2"})
	other.list(map[string]string{"H1": "another", "H2": "key-H2"})
	if _, err := other.Hospitals.Reload(); err != nil {
		t.Fatal(err)
	}
	for _, h := range other.Hospitals.All() {
		other.Hospitals.Settle(h)
	}
	knows.cache("REQUESTED", "H1", "H2")
	if got := other.run(tick); len(strings.Fields(got)) != 2 {
		t.Fatalf("the other one read %s", got)
	}
	if got := knows.run(tick); got != "H1" {
		t.Errorf("who knows of the change read %q, want H1", got)
	}
	if left := knows.rdb.Exists(t.Context(), "t:{H1}:T1").Val(); left != 0 {
		t.Error("the former sender key's entry is left")
	}
	if got := knows.run(tick); got != "" {
		t.Errorf("and then %q again", got)
	}
}
