package templates_test

import (
	"bytes"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/templates"
)

// TestAPassMakesNoGarbageOfEntries: what a pass reads lies in its caller's buffer, and what it
// keeps of that is its own.
func TestAPassMakesNoGarbageOfEntries(t *testing.T) {
	rdb := redistest.Start(t)
	cache, h := newCache(t, rdb.Addr, "t:{<hospitalId>}:<templateCode>")
	const size, rounds = 100_000, 20
	texts := map[string]string{"T1": "APPROVED", "T2": "a word nobody knows", "T3": "reg"}
	for code, status := range texts {
		text := `{"inspectionStatus":"` + status + `","templateContent":"` + strings.Repeat("x", size) + `"}`
		if err := rdb.Client.Set(t.Context(), cache.Keys.Key(h.ID, code), text, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	codes := slices.Collect(maps.Keys(texts))
	var buffer bytes.Buffer
	entries, err := cache.FenceAndRead(t.Context(), h, codes, &buffer)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		if _, err := cache.FenceAndRead(t.Context(), h, codes, &buffer); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if garbage := (after.TotalAlloc - before.TotalAlloc) / rounds; garbage > size {
		t.Errorf("reading %d entries of %d bytes allocates %d", len(codes), size, garbage)
	}
	clear(buffer.Bytes())
	for code, status := range texts {
		if e := entries[code]; e.Kind != templates.Readable || string(e.Doc.Status) != status {
			t.Errorf("%s was read, and says %q once its buffer is used again", status, e.Doc.Status)
		}
	}
}
