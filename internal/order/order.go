// Package order decides which hospitals a scheduled pass looks at and in which order, what a
// look teaches about the next one, and how often a read may ask for one. All of it is pure:
// no clock, no lock, no I/O, so that the simulation (internal/order/sim) runs the very code
// that the daemon runs.
//
// While one round of all hospitals fits into a tick there is nothing to decide. Past that, the
// order is what users feel: a hospital with a cached template in review is where an entry
// goes wrong, so half of the calls go to those, and nobody starves.
package order

import (
	"cmp"
	"slices"
	"time"
)

// Heat says how much a hospital needs a look.
type Heat uint8

// The heats, in rising order.
const (
	None Heat = iota // nothing of it is known to be cached: it needs no look
	Cold             // it holds entries, or may
	Hot              // it holds an entry whose state a reviewer is about to change
)

// Unit is what one summary call is made for: a sender key, and the hospitals that share it.
type Unit struct {
	Account string    // whose limit the call counts against
	Last    time.Time // last attempt, well or badly ended; zero: never
	Heat    Heat      // the hottest of its hospitals'
}

// Plan returns the units (their indices) that a pass is to look at before the next tick, in
// the order in which it should begin them. tick is the time until then, rate the calls per
// second of an account; a rate of 0 means no limit. Each account has a budget of B = tick ×
// rate calls, at least 1. Its burst is no part of that: what one tick borrows the next one
// misses.
//
// An account whose units all fit into B gets them all, oldest attempt first. Otherwise None is
// left out; of the calls, half go to Hot and half to Cold, oldest attempt first in each, and
// what one of them does not need, or the odd one, goes to the oldest of the rest. The two are
// interleaved, so that a pass that does not come to its end has still served both alike.
// Accounts are interleaved likewise when not all of them fit.
//
// Nobody starves: where a pass makes its B calls, a unit in play (not None) is looked at
// within ⌈C/(B/2)⌉ + 1 ticks, C being the units of its account that are in play meanwhile.
// Proof. Let x have been attempted last at time t, and let a tick plan B units, x not among
// them. Whichever heat x has then, its class got its ⌊B/2⌋, all of them older than x, since x
// was there to be taken; and the odd call, where B is odd, went to a unit older than x, since x
// was among the rest. So ⌈B/2⌉ or more units older than x are attempted, and each of them is
// younger than x from then on. There are C − 1 of them at most, so that no more than
// (C−1)/⌈B/2⌉ ticks pass x by before one looks at it. Heats may change meanwhile.
func Plan(units []Unit, tick time.Duration, rate float64) []int {
	byAccount := make(map[string]*[]int)
	var mine *[]int
	for i, u := range units {
		if i == 0 || u.Account != units[i-1].Account { // few accounts, mostly one
			if mine = byAccount[u.Account]; mine == nil {
				mine = new([]int)
				byAccount[u.Account] = mine
			}
		}
		*mine = append(*mine, i)
	}
	older := func(a, b int) int {
		return cmp.Or(units[a].Last.Compare(units[b].Last), cmp.Compare(a, b))
	}
	accounts := make([][]int, 0, len(byAccount))
	fits := true
	for _, mine := range byAccount {
		all := *mine
		b := budget(len(all), tick, rate)
		if len(all) > b {
			fits = false
			all = share(units, all, b, older)
		} else {
			slices.SortFunc(all, older)
		}
		if len(all) > 0 {
			accounts = append(accounts, all)
		}
	}
	if fits {
		all := slices.Concat(accounts...)
		slices.SortFunc(all, older)
		return all
	}
	// The order of a map must not show: the accounts stand as their first units do.
	slices.SortFunc(accounts, func(a, b []int) int { return older(a[0], b[0]) })
	return interleave(accounts...)
}

// budget is how many of n units an account has calls for.
func budget(n int, tick time.Duration, rate float64) int {
	calls := tick.Seconds() * rate
	if rate <= 0 || calls >= float64(n) {
		return n
	}
	return max(1, int(calls))
}

// share takes b of an account's units, as Plan says.
func share(units []Unit, all []int, b int, order func(a, b int) int) []int {
	kept := [Hot + 1]oldest{}
	for heat := range kept {
		kept[heat] = oldest{n: b, order: order, bound: -1}
	}
	for _, i := range all {
		if heat := units[i].Heat; heat != None {
			kept[heat].add(i)
		}
	}
	hot, cold := kept[Hot].list(), kept[Cold].list()
	h, c := min(len(hot), b/2), min(len(cold), b/2)
	for h+c < min(b, len(hot)+len(cold)) {
		if c == len(cold) || h < len(hot) && order(hot[h], cold[c]) < 0 {
			h++
		} else {
			c++
		}
	}
	return interleave(hot[:h], cold[:c])
}

// oldest keeps the oldest of what it is shown, few of many: of 70,000 hospitals a tick takes
// some hundreds.
type oldest struct {
	n     int // that are kept
	order func(a, b int) int
	few   []int // fewer than 2n, and all that can be among the n
	bound int   // the n-th of those seen so far; -1: not known yet
}

func (o *oldest) add(i int) {
	if o.bound >= 0 && o.order(o.bound, i) < 0 {
		return
	}
	if o.few = append(o.few, i); len(o.few) == 2*o.n {
		o.bound = o.list()[o.n-1]
		o.few = o.few[:o.n]
	}
}

// list returns what was kept, the oldest first.
func (o *oldest) list() []int {
	slices.SortFunc(o.few, o.order)
	return o.few[:min(o.n, len(o.few))]
}

// interleave merges lists, each in its order, so that every beginning of the result holds
// nearly the same share of each.
func interleave(lists ...[]int) []int {
	type place struct {
		at   float64 // in its list, from 0 to 1
		list int
		unit int
	}
	var places []place
	for l, list := range lists {
		for n, unit := range list {
			places = append(places, place{(float64(n) + .5) / float64(len(list)), l, unit})
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.list, b.list)) })
	merged := make([]int, len(places))
	for i, p := range places {
		merged[i] = p.unit
	}
	return merged
}
