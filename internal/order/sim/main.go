// Command sim simulates how long an entry can be wrong: a week of clinics, reviewers and
// readers on a virtual clock, over the code that orders the daemon's passes (package order).
// deploy/staleness.md holds what it prints and says how to read it.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
)

func main() {
	workers := flag.Int("workers", runtime.GOMAXPROCS(0), "runs at a time")
	flag.Parse()
	table(os.Stdout, everything(*workers, []int{100, 1_000, 10_000, 70_000}, []float64{1, 5, 20, 50}))
}

// cell is one number of hospitals at one limit, under every strategy.
type cell struct {
	hospitals int
	rate      float64
	perDay    float64   // sessions of a hospital
	outcomes  []outcome // by strategies
}

func everything(workers int, hospitals []int, rates []float64) []*cell {
	var cells []*cell
	for _, h := range hospitals {
		for _, rate := range rates {
			cells = append(cells, &cell{hospitals: h, rate: rate, perDay: perDay(h, rate), outcomes: make([]outcome, len(strategies))})
		}
	}
	var all sync.WaitGroup
	turns := make(chan func())
	for range workers {
		all.Go(func() {
			for do := range turns {
				do()
			}
		})
	}
	for _, c := range slices.Backward(cells) { // the longest first
		for i, s := range strategies {
			turns <- func() {
				// Of few hospitals there are several worlds, so that there is enough to see.
				for seed := range uint64(max(1, min(10, 4000/c.hospitals))) {
					c.outcomes[i].add(simulate(c.hospitals, c.rate, s, seed))
				}
			}
		}
	}
	close(turns)
	all.Wait()
	return cells
}

// judged is a round, H/R, from which on the order is held against round robin.
const judged = 1000 * time.Second

func table(w io.Writer, cells []*cell) {
	fmt.Fprintln(w, "| hospitals | calls/s | H/R | sessions | strategy | in review p50 | p90 | p99 | mean | others p50 | p90 | p99 | mean | stale per 1,000 | and REJECTED | calls/s |")
	fmt.Fprintln(w, "|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, c := range cells {
		for i, o := range c.outcomes {
			review, others := windowsOf(o.windows[outOfReview]), windowsOf(o.windows[other])
			fmt.Fprintf(w, "| %d | %g | %s | %.2g | %s | %s | %s | %.2f | %.2f | %.2f |\n", c.hospitals, c.rate, short(c.round()), c.perDay,
				strategies[i].name, review, others, perThousand(o.stale[outOfReview]+o.stale[other], o.reads), perThousand(o.stale[skipped], o.reads), float64(o.calls)/o.took.Seconds())
		}
	}
	fmt.Fprintln(w, "\n| hospitals | calls/s | H/R | in review p99 | mean | others' p99 | stale per 1,000 | reached |")
	fmt.Fprintln(w, "|---:|---:|---:|---:|---:|---:|---:|---|")
	for _, c := range cells {
		if c.round() < judged {
			continue
		}
		v := c.verdict()
		fmt.Fprintf(w, "| %d | %g | %s | %.2f × | %.2f × | %.2f × | %.3f | %s |\n", c.hospitals, c.rate, short(c.round()), v.reviewP99, v.reviewMean, v.othersP99, v.stale, v)
	}
}

func (c *cell) round() time.Duration { return seconds(float64(c.hospitals) / c.rate) }

// verdict is the order, with CACHE_SHARED=false, against round robin.
type verdict struct{ reviewP99, reviewMean, othersP99, stale float64 }

func (c *cell) verdict() verdict {
	var by = map[string]outcome{}
	for i, s := range strategies {
		by[s.name] = c.outcomes[i]
	}
	this, robin := by["this"], by["round robin"]
	review, reviewRobin := windowsOf(this.windows[outOfReview]), windowsOf(robin.windows[outOfReview])
	others, othersRobin := windowsOf(this.windows[other]), windowsOf(robin.windows[other])
	return verdict{
		reviewP99:  review.p99.Seconds() / reviewRobin.p99.Seconds(),
		reviewMean: review.mean.Seconds() / reviewRobin.mean.Seconds(),
		othersP99:  others.p99.Seconds() / othersRobin.p99.Seconds(),
		stale:      perThousand(this.stale[outOfReview]+this.stale[other], this.reads),
	}
}

// String says what was not reached, or "all".
func (v verdict) String() string {
	missed := ""
	for _, goal := range []struct {
		name   string
		is, at float64
	}{{"in review p99", v.reviewP99, .25}, {"mean", v.reviewMean, .30}, {"others' p99", v.othersP99, 1.1}, {"stale", v.stale, .1}} {
		if !(goal.is <= goal.at) {
			missed += ", not " + goal.name
		}
	}
	if missed == "" {
		return "all"
	}
	return missed[2:]
}

// windows are how long entries were wrong.
type windows struct{ p50, p90, p99, mean time.Duration }

func windowsOf(all []time.Duration) windows {
	if len(all) == 0 {
		return windows{}
	}
	slices.Sort(all)
	at := func(p int) time.Duration { return all[min(len(all)-1, len(all)*p/100)] }
	sum := 0.0
	for _, d := range all {
		sum += d.Seconds()
	}
	return windows{p50: at(50), p90: at(90), p99: at(99), mean: seconds(sum / float64(len(all)))}
}

func (w windows) String() string {
	return fmt.Sprintf("%s | %s | %s | %s", short(w.p50), short(w.p90), short(w.p99), short(w.mean))
}

// short prints a duration for people.
func short(d time.Duration) string {
	switch {
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.1fh", d.Hours())
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.1fm", d.Minutes())
	default:
		return fmt.Sprintf("%.0fs", d.Seconds())
	}
}

func perThousand(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return 1000 * float64(n) / float64(of)
}
