package order_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"alimtalk-syncer/internal/order"
)

var begin = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// units spells units as "heat at": h3 was attempted last 3 s after begin, c0 at begin.
func units(account string, words ...string) []order.Unit {
	var us []order.Unit
	for _, w := range words {
		var kind byte
		var at int
		if _, err := fmt.Sscanf(w, "%c%d", &kind, &at); err != nil {
			panic(err)
		}
		heat := map[byte]order.Heat{'h': order.Hot, 'c': order.Cold, 'n': order.None}[kind]
		us = append(us, order.Unit{Account: account, Last: begin.Add(time.Duration(at) * time.Second), Heat: heat})
	}
	return us
}

func TestThePlanOfATick(t *testing.T) {
	for name, c := range map[string]struct {
		units []order.Unit
		calls float64
		want  string
	}{
		"nothing to do":                   {nil, 3, "[]"},
		"a round fits: all, oldest first": {units("a", "c4", "n1", "h3", "n0", "c2"), 5, "[3 1 4 2 0]"},
		"no limit":                        {units("a", "c4", "n1", "h3"), 0, "[1 2 0]"},
		"half each":                       {units("a", "h3", "h1", "h2", "c3", "c1", "c2"), 4, "[1 4 2 5]"},
		"few hot: cold has the rest":      {units("a", "h9", "c3", "c1", "c2", "c0"), 4, "[4 0 2 3]"},
		"few cold: hot has the rest":      {units("a", "c9", "h3", "h1", "h2", "h0"), 4, "[4 2 0 3]"},
		"an odd call is the oldest's":     {units("a", "h3", "h1", "c4", "c2"), 3, "[1 3 0]"},
		"a lone call is the oldest's":     {units("a", "h3", "h1", "c4", "c0"), .2, "[3]"},
		"none is left out":                {units("a", "n0", "n1", "c2", "n3"), 3, "[2]"},
		"none at all is in play":          {units("a", "n0", "n1"), 1, "[]"},
		"accounts have a budget each": {append(units("a", "c1", "c3", "c5", "c7"), units("b", "h0", "h6")...), 2,
			"[4 0 5 1]"},
		"accounts that all fit are one round": {append(units("a", "c1", "c3"), units("b", "n0", "h2")...), 2, "[2 0 3 1]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fmt.Sprint(order.Plan(c.units, time.Second, c.calls)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// The rule for an even B, spelled out: cold takes min(|cold|, max(B/2, B − |hot|)),
// hot the rest.
func TestColdAndHotGetTheirShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hot, cold, b := rapid.IntRange(0, 40).Draw(t, "hot"), rapid.IntRange(0, 40).Draw(t, "cold"), 2*rapid.IntRange(1, 20).Draw(t, "B/2")
		us := make([]order.Unit, hot+cold)
		for i := range us {
			us[i] = order.Unit{Last: begin.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "last")) * time.Second), Heat: order.Cold}
			if i < hot {
				us[i].Heat = order.Hot
			}
		}
		plan := order.Plan(us, time.Second, float64(b))
		n := map[order.Heat]int{}
		for _, i := range plan {
			n[us[i].Heat]++
		}
		wantCold := min(cold, max(b/2, b-hot))
		if n[order.Cold] != wantCold || n[order.Hot] != min(hot, b-wantCold) {
			t.Errorf("%d hot and %d cold with %d calls: got %d and %d", hot, cold, b, n[order.Hot], n[order.Cold])
		}
		if hot+cold <= b {
			return // one round fits
		}
		// Whatever part of the pass is done, both have had their share of it.
		h := 0
		for k, i := range plan {
			if us[i].Heat == order.Hot {
				h++
			}
			if share := float64(k+1) * float64(n[order.Hot]) / float64(len(plan)); math.Abs(float64(h)-share) > 1 {
				t.Errorf("%d hot among the first %d, want about %.1f", h, k+1, share)
			}
		}
		if !slices.IsSortedFunc(plan, func(a, b int) int {
			if us[a].Heat != us[b].Heat {
				return 0
			}
			return us[a].Last.Compare(us[b].Last)
		}) {
			t.Error("not the oldest first")
		}
	})
}

func TestNobodyInPlayStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.IntRange(1, 12).Draw(t, "B")
		us := make([]order.Unit, rapid.IntRange(1, 60).Draw(t, "units"))
		for i := range us {
			us[i].Heat = rapid.SampledFrom([]order.Heat{order.None, order.Cold, order.Hot}).Draw(t, "heat")
			if rapid.Bool().Draw(t, "attempted") {
				us[i].Last = begin.Add(time.Duration(-rapid.IntRange(1, 1000).Draw(t, "ago")) * time.Second)
			}
		}
		bound := int(math.Ceil(float64(len(us))/(float64(b)/2))) + 1
		waits := make([]int, len(us))
		now := begin
		for range 3 * bound {
			planned := map[int]bool{}
			for _, i := range order.Plan(us, time.Second, float64(b)) {
				if planned[i] {
					t.Fatalf("unit %d twice in a plan", i)
				}
				planned[i] = true
				us[i].Last = now
				now = now.Add(time.Millisecond)
			}
			if len(us) > b && len(planned) > b {
				t.Fatalf("%d planned with %d calls", len(planned), b)
			}
			for i := range us {
				if us[i].Heat == order.None || planned[i] {
					waits[i] = 0
				} else if waits[i]++; waits[i] >= bound {
					t.Fatalf("unit %d was passed by in %d ticks; %d units, B = %d", i, waits[i], len(us), b)
				}
			}
			// Heats change as they like, also to None and back.
			for range rapid.IntRange(0, 5).Draw(t, "changes") {
				i := rapid.IntRange(0, len(us)-1).Draw(t, "which")
				us[i].Heat = rapid.SampledFrom([]order.Heat{order.None, order.Cold, order.Hot}).Draw(t, "to")
			}
			// Lists that are opened are looks, too.
			if rapid.Bool().Draw(t, "list") {
				i := rapid.IntRange(0, len(us)-1).Draw(t, "of")
				us[i].Last, waits[i] = now, 0
			}
			now = now.Add(time.Second)
		}
	})
}

func TestHeat(t *testing.T) {
	if order.None >= order.Cold || order.Cold >= order.Hot {
		t.Error("the heats do not rise")
	}
	for _, c := range []struct {
		holds order.Holding
		want  order.Heat
	}{{order.Holding{}, order.None}, {order.Holding{Cold: 1}, order.Cold}, {order.Holding{Hot: 1}, order.Hot}, {order.Holding{Hot: 1, Cold: 1}, order.Hot}} {
		if got := c.holds.Heat(); got != c.want {
			t.Errorf("%+v is %d, want %d", c.holds, got, c.want)
		}
	}
}

func TestWhatALookTeaches(t *testing.T) {
	const life = time.Hour
	at := func(minutes int) int64 { return begin.Add(time.Duration(minutes) * time.Minute).UnixMilli() }
	for name, c := range map[string]struct {
		known order.Holding
		found order.Found
		want  order.Holding
	}{
		"as known":                            {order.Holding{Hot: at(50), Cold: at(40)}, order.Found{Hot: true, Cold: true}, order.Holding{Hot: at(50), Cold: at(40)}},
		"as known, but soon over":             {order.Holding{Hot: at(29)}, order.Found{Hot: true}, order.Holding{Hot: at(60)}},
		"news":                                {order.Holding{}, order.Found{Hot: true, Cold: true}, order.Holding{Hot: at(60), Cold: at(60)}},
		"hot no more":                         {order.Holding{Hot: at(50)}, order.Found{Cold: true}, order.Holding{Cold: at(60)}},
		"nothing left":                        {order.Holding{Hot: at(50), Cold: at(10)}, order.Found{}, order.Holding{}},
		"nothing seen, but not all seen":      {order.Holding{Hot: at(50), Cold: at(10)}, order.Found{More: true}, order.Holding{Cold: at(50)}},
		"nothing known, and not all seen":     {order.Holding{}, order.Found{More: true}, order.Holding{}},
		"not all seen, what is seen is known": {order.Holding{Cold: at(10)}, order.Found{Cold: true, More: true}, order.Holding{Cold: at(60)}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.known.After(c.found, begin, life); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestReadsAskForEverySecondCallAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.SampledFrom([]float64{.5, 1, 5, 20}).Draw(t, "rate")
		burst := rapid.IntRange(1, 10).Draw(t, "burst")
		within := time.Duration(rapid.IntRange(0, 15).Draw(t, "within")) * time.Second
		pace, now := order.NewPace(rate, burst), begin
		var given []time.Time
		for range rapid.IntRange(1, 200).Draw(t, "reads") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "ms")) * time.Millisecond)
			wait, ok := pace.Take(now, within)
			switch {
			case ok && wait > within:
				t.Fatalf("waits %v, longer than %v", wait, within)
			case ok:
				given = append(given, now.Add(wait))
			}
		}
		slices.SortFunc(given, func(a, b time.Time) int { return cmp.Compare(a.UnixNano(), b.UnixNano()) })
		for i := range given {
			for j := i + 1; j < len(given); j++ {
				if most := float64(max(1, burst/2)) + given[j].Sub(given[i]).Seconds()*rate/2; float64(j-i+1) > most+1e-6 {
					t.Fatalf("%d looks within %v at %v/s, burst %d", j-i+1, given[j].Sub(given[i]), rate, burst)
				}
			}
		}
	})
	pace := order.NewPace(1, 1)
	if _, ok := pace.Take(begin, 0); !ok {
		t.Error("the first one waits")
	}
	pace.Spend(3)
	if _, ok := pace.Take(begin, 7*time.Second); ok {
		t.Error("pages are not counted")
	}
	if wait, ok := pace.Take(begin, 8*time.Second); !ok || wait != 8*time.Second {
		t.Errorf("wait %v, %v", wait, ok)
	}
	var free order.Pace
	if wait, ok := free.Take(begin, 0); !ok || wait != 0 {
		t.Error("without a limit there is something to wait for")
	}
}
