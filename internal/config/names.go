package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Prefixes whose unknown names are errors, and those that others use too: there only what
// looks like a slip of the pen is one.
var (
	ownPrefixes    = []string{"SUREM_", "SYNC_", "FLIGHT_", "HOSPITALS", "SHUTDOWN_"}
	sharedPrefixes = []string{"REDIS_", "CACHE_", "HTTP_", "API_", "LOG_"}
)

// maxEdits is how far a slip of the pen is from the name that was meant.
const maxEdits = 2

// judgeNames looks for names that are set and that nobody reads.
func (l *loader) judgeNames() {
	for _, name := range slices.Sorted(maps.Keys(l.given)) {
		own, shared := hasPrefix(name, ownPrefixes), hasPrefix(name, sharedPrefixes)
		if !own && !shared || slices.Contains(knownNames, name) || injected(name, l.given[name]) {
			continue
		}
		meant, edits := nearest(name)
		switch {
		case edits <= maxEdits:
			l.fault(name, "is not a setting; "+meant+" is")
		case own:
			l.fault(name, "is not a setting")
		default:
			l.warn(name + ": is not a setting, and is ignored")
		}
	}
}

func hasPrefix(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

var (
	serviceVariable = regexp.MustCompile(`_SERVICE_(HOST|PORT.*)$`)
	portVariable    = regexp.MustCompile(`_PORT_[0-9]+_(TCP|UDP)`)
)

// injected reports whether a variable is one of those that Kubernetes and Docker make for
// every service, or that a platform sets for every program.
func injected(name, value string) bool {
	return name == "HTTP_PROXY" || serviceVariable.MatchString(name) || portVariable.MatchString(name) ||
		strings.HasSuffix(name, "_PORT") && (strings.HasPrefix(value, "tcp://") || strings.HasPrefix(value, "udp://"))
}

// nearest returns the known name that is the fewest edits away.
func nearest(name string) (known string, edits int) {
	edits = len(name)
	for _, k := range knownNames {
		if n := distance(name, k); n < edits {
			known, edits = k, n
		}
	}
	return known, edits
}

// distance counts the characters to insert, delete or replace to come from a to b.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j, s := range to {
			change := diagonal
			if r != s {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}
