package contract

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"alimtalk-syncer/internal/order"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/templates"
)

// fill is the whole way of a fill.
func fill(t *testing.T, cache *templates.Cache, id, code, status string) {
	t.Helper()
	look, err := cache.Look(t.Context(), hospital(id), code)
	if err != nil || look.Token == "" {
		t.Fatalf("look: %+v, %v", look, err)
	}
	if stored, err := cache.Store(t.Context(), hospital(id), code, look.Token, document(code, status)); err != nil || !stored {
		t.Fatalf("store: %t, %v", stored, err)
	}
}

func anEntryIsStoredWithItsLifeAndReadAsItWas(t *testing.T, w *way) {
	cache := w.cache(t)
	if err := cache.Ping(t.Context()); err != nil {
		t.Error("ping:", err)
	}
	if entry, err := cache.Get(t.Context(), hospital("H1"), "T1"); err != nil || entry.Kind != templates.Missing {
		t.Errorf("nothing is there: %+v, %v", entry, err)
	}
	fill(t, cache, "H1", "T1", "REQUESTED")
	want := document("T1", "REQUESTED").Raw
	if entry, err := cache.Get(t.Context(), hospital("H1"), "T1"); err != nil || entry.Doc.Raw != want {
		t.Errorf("get: %+v, %v", entry, err)
	}
	if look, err := cache.Look(t.Context(), hospital("H1"), "T1"); err != nil || look.Doc.Raw != want {
		t.Errorf("look: %+v, %v", look, err)
	}
	if raw := w.test.Get(t.Context(), keys.Key("H1", "T1")).Val(); raw != want {
		t.Errorf("stored %s", raw)
	}
	for key, most := range map[string]time.Duration{keys.Key("H1", "T1"): life, keys.FenceKey("H1"): fenceLife} {
		if ttl := w.test.PTTL(t.Context(), key).Val(); ttl <= most-time.Minute || ttl > most {
			t.Errorf("%s lives %v", key, ttl)
		}
	}
}

func aStoreNeedsItsFence(t *testing.T, w *way) {
	cache := w.cache(t)
	for name, between := range map[string]func(id string){
		"fenced": func(id string) {
			if _, err := cache.FenceAndRead(t.Context(), hospital(id), []string{"T1", "T2"}, new(bytes.Buffer)); err != nil {
				t.Fatal(err)
			}
		},
		"forgotten": func(id string) {
			if err := cache.Forget(t.Context(), hospital(id), "T1"); err != nil {
				t.Fatal(err)
			}
		},
		"evicted":  func(id string) { w.test.Del(t.Context(), keys.FenceKey(id)) },
		"replaced": func(id string) { w.test.Set(t.Context(), keys.FenceKey(id), "another", time.Minute) },
		"occupied": func(id string) { w.test.Set(t.Context(), keys.Key(id, "T1"), "{}", time.Minute) },
	} {
		id := "H-" + name
		look, err := cache.Look(t.Context(), hospital(id), "T1")
		if err != nil {
			t.Fatal(err)
		}
		between(id)
		if stored, err := cache.Store(t.Context(), hospital(id), "T1", look.Token, document("T1", "REQUESTED")); err != nil || stored {
			t.Errorf("%s: stored %t, %v", name, stored, err)
		}
	}
}

func fencesAndReadsTellEachKindOfEntry(t *testing.T, w *way) {
	cache := w.cache(t)
	var codes []string
	for i := range 1200 { // three batches
		codes = append(codes, fmt.Sprintf("T%04d", i))
	}
	fill(t, cache, "H1", "T0001", "APPROVED")
	fill(t, cache, "H1", "T1199", "REQUESTED")
	w.test.Set(t.Context(), keys.Key("H1", "T0002"), "not a document", time.Minute)
	w.test.HSet(t.Context(), keys.Key("H1", "T0003"), "a", "b")
	for name, read := range map[string]func() (map[string]templates.Entry, error){
		"fenced": func() (map[string]templates.Entry, error) {
			return cache.FenceAndRead(t.Context(), hospital("H1"), codes, new(bytes.Buffer))
		},
		"unfenced": func() (map[string]templates.Entry, error) {
			return cache.ReadAll(t.Context(), hospital("H1"), codes, new(bytes.Buffer))
		},
	} {
		entries, err := read()
		if err != nil || len(entries) != len(codes) {
			t.Fatalf("%s: %d entries, %v", name, len(entries), err)
		}
		if entries["T0001"].Doc.Raw != document("T0001", "APPROVED").Raw || entries["T1199"].Doc.Raw != document("T1199", "REQUESTED").Raw ||
			entries["T0002"].Kind != templates.Unreadable || entries["T0003"].Kind != templates.WrongType || entries["T0000"].Kind != templates.Missing {
			t.Errorf("%s: entries read otherwise than they are", name)
		}
	}
	if w.test.Exists(t.Context(), keys.FenceKey("H1")).Val() != 0 {
		t.Error("the fence is still there")
	}
}

func onlyWhatWasSeenIsDeleted(t *testing.T, w *way) {
	cache := w.cache(t)
	codes := []string{"T1", "T2", "T3", "T4"}
	for _, code := range codes[:3] {
		fill(t, cache, "H1", code, "REQUESTED")
	}
	seen, err := cache.FenceAndRead(t.Context(), hospital("H1"), codes, new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	w.test.Set(t.Context(), keys.Key("H1", "T2"), document("T2", "APPROVED").Raw, time.Minute)
	w.test.HSet(t.Context(), keys.Key("H1", "T4"), "a", "b")
	deleted, err := cache.DeleteIf(t.Context(), hospital("H1"), codes, seen)
	if err != nil || len(deleted) != 2 || !deleted["T1"] || !deleted["T3"] {
		t.Errorf("deleted %v, %v", deleted, err)
	}
	if n := w.test.Exists(t.Context(), keys.Key("H1", "T2")).Val() + w.test.Exists(t.Context(), keys.Key("H1", "T4")).Val(); n != 2 {
		t.Errorf("of two that had changed %d are there", n)
	}
}

func forgetDeletesAnyString(t *testing.T, w *way) {
	cache := w.cache(t)
	fill(t, cache, "H1", "T1", "REQUESTED")
	for range 2 { // the second finds nothing
		if err := cache.Forget(t.Context(), hospital("H1"), "T1"); err != nil || w.test.Exists(t.Context(), keys.Key("H1", "T1")).Val() != 0 {
			t.Errorf("forget: %v", err)
		}
	}
	w.test.HSet(t.Context(), keys.Key("H1", "T2"), "a", "b")
	if err := cache.Forget(t.Context(), hospital("H1"), "T2"); !errors.Is(err, templates.ErrWrongType) {
		t.Errorf("another type: %v", err)
	}
}

func holdingsAreNotedAndCorrected(t *testing.T, w *way) {
	cache := w.cache(t)
	fill(t, cache, "H1", "T1", "REQUESTED")
	fill(t, cache, "H2", "T1", "APPROVED")
	known, err := cache.Holdings(t.Context())
	if err != nil || len(known) != 2 || known["H1"].Heat() != order.Hot || known["H2"].Heat() != order.Cold {
		t.Fatalf("known is %v, %v", known, err)
	}
	if err := cache.Correct(t.Context(), []templates.Correction{
		{HospitalID: "H1", Was: known["H1"], Is: order.Holding{}},
		{HospitalID: "H2", Was: known["H2"], Is: order.Holding{Hot: time.Now().Add(life).UnixMilli()}},
	}); err != nil {
		t.Fatal(err)
	}
	known, err = cache.Holdings(t.Context())
	if err != nil || len(known) != 1 || known["H2"].Heat() != order.Hot || known["H2"].Cold != 0 {
		t.Errorf("corrected: %v, %v", known, err)
	}
}

func everyKeyIsOneOfOursAndHasALife(t *testing.T, w *way) {
	cache := w.cache(t)
	everything(t, w, cache)
	fleets(t, w)
	seen := 0
	w.primaries(t, func(node *redistest.Server) {
		for db := range 4 {
			conn := node.Client.Conn()
			if db != 0 && conn.Select(t.Context(), db).Err() != nil {
				continue // a Cluster has one
			}
			all, err := conn.Keys(t.Context(), "*").Result()
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range all {
				if ttl := conn.PTTL(t.Context(), key).Val(); ttl <= 0 || !strings.HasPrefix(key, "infotalk:template:{H") && !strings.HasPrefix(key, templates.OwnPrefix) {
					t.Errorf("%s lives %v", key, ttl)
				}
			}
			seen += len(all)
			_ = conn.Select(t.Context(), 0)
			_ = conn.Close()
		}
	})
	if seen < 10 {
		t.Errorf("only %d keys", seen)
	}
}

// everything makes the program send every command that it knows, to every node.
func everything(t *testing.T, w *way, cache *templates.Cache) {
	t.Helper()
	if err := cache.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		id := fmt.Sprintf("H%d", i)
		codes := []string{"T1", "T2", "T3"}
		for _, code := range codes {
			fill(t, cache, id, code, []string{"REQUESTED", "APPROVED"}[i%2])
		}
		seen, err := cache.FenceAndRead(t.Context(), hospital(id), codes, new(bytes.Buffer))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cache.DeleteIf(t.Context(), hospital(id), codes[:1], seen); err != nil {
			t.Fatal(err)
		}
		if err := cache.Forget(t.Context(), hospital(id), "T2"); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second renews the fence
			if _, err := cache.Look(t.Context(), hospital(id), "T1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	known, err := cache.Holdings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.Correct(t.Context(), []templates.Correction{{HospitalID: "H0", Was: known["H0"]}}); err != nil {
		t.Fatal(err)
	}
}
