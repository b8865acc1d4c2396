package fencemodel

import (
	"cmp"
	"slices"
)

// casts returns every choice of n actors on so many templates, once for all that differ only
// in which process or template is which. There are at most two passes, one in each process:
// a process reads a hospital once at a time.
func casts(n, templates int) (all [][]role) {
	every := []role{{pass, 0, 0}, {pass, 1, 0}}
	for t := range uint8(templates) {
		every = append(every, role{reader, 0, t}, role{reader, 1, t}, role{forget, 0, t}, role{application, 0, t})
	}
	slices.SortFunc(every, compareRoles)

	var choose func(cast []role, from int)
	choose = func(cast []role, from int) {
		if len(cast) == n {
			if comesFirst(cast, templates) {
				all = append(all, slices.Clone(cast))
			}
			return
		}
		for i, r := range every[from:] {
			next := from + i
			if r.kind == pass {
				next++
			}
			choose(append(cast, r), next)
		}
	}
	choose(nil, 0)
	return all
}

func compareRoles(a, b role) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.process, b.process), cmp.Compare(a.template, b.template))
}

// comesFirst reports whether no renaming of processes and templates gives a cast before this.
func comesFirst(cast []role, templates int) bool {
	for _, swap := range []role{{process: 1}, {template: 1}, {process: 1, template: 1}} {
		if int(swap.template) >= templates {
			continue
		}
		other := make([]role, len(cast))
		for i, r := range cast {
			if r.kind == reader || r.kind == pass {
				r.process ^= swap.process
			}
			if r.kind != pass {
				r.template ^= swap.template
			}
			other[i] = r
		}
		slices.SortFunc(other, compareRoles)
		if slices.CompareFunc(other, cast, compareRoles) < 0 {
			return false
		}
	}
	return true
}
