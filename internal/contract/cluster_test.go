package contract

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/redistest"
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
		entries, err := cache.FenceAndRead(t.Context(), hospital("H1"), codes, new(bytes.Buffer))
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
	entries, err := cache.FenceAndRead(t.Context(), hospital("H1"), codes, new(bytes.Buffer))
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

// Where a slot moves, a node sends on what it no longer has, and a pipeline comes out of order. No
// entry is read before the fence is confirmed, though.
func TestWhileASlotMovesTheFenceStillComesFirst(t *testing.T) {
	t.Parallel()
	w := ways["cluster"](t)
	var mu sync.Mutex
	var sent []string
	cache := templates.NewCache(w.through(t, func(request []byte) (redistest.Fault, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, strings.ToLower(string(request)))
		return redistest.None, 0
	}), templates.CacheOptions{Keys: keys, TTL: life, FenceTTL: fenceLife, Current: func(hospitals.Hospital) bool { return true }})
	codes := []string{"T1", "T2", "T3", "T4"}
	for _, code := range codes {
		fill(t, cache, "H1", code, "REQUESTED")
	}
	w.test.Del(t.Context(), keys.FenceKey("H1")) // a key that is not there is the next node's
	slot := w.cluster.Slot(keys.FenceKey("H1"))
	w.cluster.Move(slot, w.cluster.Others(slot)[0], func() {
		mu.Lock()
		sent = nil
		mu.Unlock()
		if entries, err := cache.FenceAndRead(t.Context(), hospital("H1"), codes, new(bytes.Buffer)); err != nil || entries["T1"].Kind != templates.Readable {
			t.Errorf("%v, %v", entries, err)
		}
	})
	mu.Lock()
	defer mu.Unlock()
	fences, asked := 0, false
	read := false
	for _, request := range sent {
		read = read || strings.Contains(request, "\nget\r")
		if strings.Contains(request, "\ndel\r") {
			fences++
			asked = asked || strings.Contains(request, "asking")
			if read {
				t.Errorf("entries are read before the fence: %q", sent)
			}
		}
	}
	if fences != 2 || !asked || !read {
		t.Errorf("the fence was not sent on: %q", sent)
	}
}

// A node that hangs keeps the readers of its own hospitals waiting, until they give up, and no
// others.
func TestANodeThatHangsKeepsNoReadersOfOthersWaiting(t *testing.T) {
	t.Parallel()
	w := ways["cluster"](t)
	cache := w.cache(t)
	slow := w.cluster.Owner(w.cluster.Slot(keys.FenceKey("H0")))
	others := make(map[string]bool)
	for i := range 12 {
		id := fmt.Sprintf("H%d", i)
		fill(t, cache, id, "T1", "REQUESTED")
		others[id] = w.cluster.Owner(w.cluster.Slot(keys.FenceKey(id))) != slow
	}
	slow.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { slow.Signal(syscall.SIGCONT) })
	var readers sync.WaitGroup
	for id, other := range others {
		readers.Go(func() {
			slow := 0
			for range 5 {
				begun := time.Now()
				if _, err := cache.Get(t.Context(), hospital(id), "T1"); err != nil || time.Since(begun) > 400*time.Millisecond {
					slow++
				}
			}
			if other && slow > 1 || !other && slow < 5 { // the machine, too, may hang for a moment
				t.Errorf("%s, on another node than the one that hangs: %t: %d of 5 reads fail or are slow", id, other, slow)
			}
		})
	}
	readers.Wait()
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
	killed := time.Now()
	early := func() bool { return time.Since(killed) < time.Second } // later a replica may have taken over
	for n := 0; n < 10 && early(); n++ {
		if err := cache.Ping(t.Context()); err == nil {
			t.Error("a ping does not tell that a primary is away")
		}
	}
	for id, dead := range there {
		_, err := cache.FenceAndRead(t.Context(), hospital(id), []string{"T1"}, new(bytes.Buffer))
		if dead != (err != nil) && early() {
			t.Errorf("%s, on the dead node: %t: %v", id, dead, err)
		}
	}
	begun := time.Now()
	for id := range there {
		for {
			_, err := cache.FenceAndRead(t.Context(), hospital(id), []string{"T1"}, new(bytes.Buffer))
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
