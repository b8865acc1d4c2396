package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// books are what the demo has counted.
type books struct {
	changes, deleted, complaints   int
	delays                         []time.Duration // from a change to the entry's deletion
	hits, loaded, shared, past     int             // answered reads by Cache-Status; past = beside the cache
	failed, stale, early, rejected int             // reads
}

// count sorts an answered read by its Cache-Status.
func (b *books) count(cacheStatus string) {
	switch {
	case strings.HasSuffix(cacheStatus, "; hit"):
		b.hits++
	case strings.HasSuffix(cacheStatus, "; collapsed"):
		b.shared++
	case strings.HasSuffix(cacheStatus, "; stored"):
		b.loaded++
	default:
		b.past++
	}
}

// flightFigures are single-flight's, as /metrics shows them.
type flightFigures struct{ requests, loads float64 }

// close prints the sums.
func (b *books) close(out io.Writer, took time.Duration, unfinished int, flight flightFigures) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(out, "  %-24s%s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(out, "\nThat was the demo: %.1f s.\n", took.Seconds())
	line("changes at SureM", "%d", b.changes)
	deleted := fmt.Sprint(b.deleted)
	if len(b.delays) > 0 {
		slices.Sort(b.delays)
		deleted += fmt.Sprintf(", half of them within %s of the change, the slowest after %s",
			inSeconds(b.delays[len(b.delays)/2]), inSeconds(b.delays[len(b.delays)-1]))
	}
	line("entries deleted", "%s", deleted)
	if unfinished > 0 {
		line("not yet deleted", "%d", unfinished)
	}
	line("reads answered", "%d: %d from the cache, %d loaded, %d shared another's load, %d past the cache; %d failed",
		b.hits+b.loaded+b.shared+b.past, b.hits, b.loaded, b.shared, b.past, b.failed)
	line("stale reads", "%d (%d old answers before the daemon could know, %d of rejected ones, which are not compared)", b.stale, b.early, b.rejected)
	if flight.loads > 0 {
		line("requests per load", "%.1f (%.0f requests missed the cache, %.0f loads answered them)", flight.requests/flight.loads, flight.requests, flight.loads)
	}
	if b.complaints > 0 {
		line("warnings of the daemon", "%d", b.complaints)
	}
}
