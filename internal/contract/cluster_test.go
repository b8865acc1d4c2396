package contract

import (
	"fmt"
	"testing"
	"time"

	"alimtalk-syncer/internal/templates"
)

// While a slot moves, some of a hospital's keys are on one node and some on another. A script
// over both is refused then; what touches one key at a time goes on.
func TestWhileASlotMovesHitsFencesAndReadsGoOn(t *testing.T) {
	t.Parallel()
	w := ways["cluster"](t)
	cache := w.cache(t)
	var codes []string
	for i := range 20 {
		code := fmt.Sprintf("T%02d", i)
		codes = append(codes, code)
		if i%4 != 0 {
			fill(t, cache, "H1", code, "REQUESTED")
		}
	}
	before, err := cache.Look(t.Context(), hospital("H1"), "T00")
	if err != nil || before.Token == "" {
		t.Fatalf("look: %+v, %v", before, err)
	}
	holds := func(entries map[string]templates.Entry, when string) {
		t.Helper()
		for i, code := range codes {
			if e := entries[code]; i%4 != 0 && e.Doc.Raw != document(code, "REQUESTED").Raw || i%4 == 0 && e.Kind != templates.Missing {
				t.Errorf("%s: %s is %+v", when, code, e)
			}
		}
	}
	slot := w.cluster.Slot(keys.FenceKey("H1"))
	w.cluster.Move(slot, w.cluster.Others(slot)[0], func() {
		hits := make(map[string]templates.Entry)
		for _, code := range codes {
			if hits[code], err = cache.Get(t.Context(), hospital("H1"), code); err != nil {
				t.Errorf("get: %v", err)
			}
		}
		holds(hits, "hits")
		entries, err := cache.FenceAndRead(t.Context(), hospital("H1"), codes)
		if err != nil {
			t.Errorf("fence and read: %v", err)
		}
		holds(entries, "reads")
		if look, err := cache.Look(t.Context(), hospital("H1"), "T00"); err == nil && look.Token == before.Token {
			t.Error("the fence is still the one of before")
		}
	})
	if stored, err := cache.Store(t.Context(), hospital("H1"), "T00", before.Token, document("T00", "REQUESTED")); stored || err != nil {
		t.Errorf("with the fence of before it is stored: %t, %v", stored, err)
	}
	entries, err := cache.FenceAndRead(t.Context(), hospital("H1"), codes)
	if err != nil {
		t.Errorf("on the new node: %v", err)
	}
	holds(entries, "on the new node")
	deleted, err := cache.DeleteIf(t.Context(), hospital("H1"), codes, entries)
	if err != nil || len(deleted) != 15 {
		t.Errorf("deleted %v, %v", deleted, err)
	}
	fill(t, cache, "H1", "T00", "APPROVED")
	if err := cache.Forget(t.Context(), hospital("H1"), "T00"); err != nil {
		t.Error(err)
	}
}

// A primary that dies is told by its own hospitals' commands, and by a ping; the others' go on,
// and its own do once a replica has taken over, though no client is told.
func TestAClustersFailoverIsFollowed(t *testing.T) {
	t.Parallel()
	w := newCluster(t, 1)
	cache := w.cache(t)
	there := make(map[string]bool)
	slot := w.cluster.Slot(keys.FenceKey("H0"))
	dead := w.cluster.Owner(slot)
	for i := range 12 {
		id := fmt.Sprintf("H%d", i)
		fill(t, cache, id, "T1", "REQUESTED")
		there[id] = w.cluster.Owner(w.cluster.Slot(keys.FenceKey(id))) == dead
	}
	dead.Kill()
	for id, dead := range there {
		begun := time.Now()
		_, err := cache.FenceAndRead(t.Context(), hospital(id), []string{"T1"})
		if dead != (err != nil) && time.Since(begun) < time.Second { // slower: a replica may have taken over
			t.Errorf("%s, on the dead node: %t: %v", id, dead, err)
		}
	}
	if err := cache.Ping(t.Context()); err == nil {
		t.Error("a ping does not tell that a primary is away")
	}
	begun := time.Now()
	for id := range there {
		for {
			_, err := cache.FenceAndRead(t.Context(), hospital(id), []string{"T1"})
			if err == nil {
				break
			}
			if time.Since(begun) > 20*time.Second {
				t.Fatalf("%s is not to be had after %v: %v", id, time.Since(begun), err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	if err := cache.Ping(t.Context()); err != nil {
		t.Error("ping:", err)
	}
}
