package config

import (
	"strconv"
	"strings"
	"unicode"
)

// Fault is one thing that is wrong with the settings.
type Fault struct {
	Name  string // the variable
	Value string // as it may be shown: quoted or "[hidden]"; "" when it is not set or its name is unknown
	Text  string // what is wrong, and what is allowed
}

// String returns the fault as one line.
func (f Fault) String() string {
	if f.Value == "" {
		return f.Name + ": " + f.Text
	}
	return f.Name + "=" + f.Value + ": " + f.Text
}

// Faults is everything that is wrong with the settings, in the order of the table, unknown
// names last.
type Faults []Fault

// Error returns one line per fault. No line shows a secret.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

const hidden = "[hidden]"

// maxShown is how much of a value a message shows, in runes.
const maxShown = 200

// show quotes a value for a message.
func show(value string) string {
	if runes := []rune(value); len(runes) > maxShown {
		value = string(runes[:maxShown]) + "…"
	}
	return strconv.Quote(value)
}

// oneLine keeps a reason, which may repeat a piece of the value, on its line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
