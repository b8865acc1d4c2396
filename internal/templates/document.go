package templates

import (
	"errors"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Document is a template as SureM's detail call sent it, byte for byte: line ends, no-break
// spaces and trailing blanks are part of what Kakao compares when a message is sent.
// It is a string so that those who share one cannot change it under each other.
type Document struct {
	Raw    string
	Status Status
}

// Entry is what Redis holds under a template's key.
type Entry struct {
	Kind  EntryKind
	Doc   Document // of a Readable entry
	value string   // the bytes in Redis, for delete-if
}

// EntryKind tells what stands under a template's key.
type EntryKind uint8

// What can stand under a template's key.
const (
	Missing    EntryKind = iota
	Readable             // a template document, bare or enveloped
	Unreadable           // a string that cannot be shown to agree with anything
	WrongType            // no string at all: somebody else's, left alone
)

// ErrNoDocument means that a string is not a template document.
var ErrNoDocument = errors.New("not a template document")

// readEntry judges a string found in Redis. Both shapes are read whatever CACHE_VALUE_FORMAT
// says: the bare document, and {"value":document,"expires":unix-ms} as Keyv stores it.
func readEntry(value string, now time.Time) Entry {
	e := Entry{Kind: Unreadable, value: value}
	raw := strings.TrimLeft(value, " \t\r\n")
	top, ok := readMembers(raw)
	if ok && top.statuses == 0 {
		inner, isObject := readMembers(top.value)
		if top.values != 1 || top.stamps > 1 || !isObject || hasExpired(gjson.Parse(top.expires), now) {
			return e
		}
		raw, top = top.value, inner
	}
	status := gjson.Parse(top.status)
	if !ok || top.statuses != 1 || status.Type != gjson.String || Status(status.Str).State() == "" {
		return e
	}
	e.Kind, e.Doc = Readable, Document{Raw: raw, Status: spelled(status.Str)}
	return e
}

// members are those of an object that say what it is, as they are written, the last of each
// name, and how many there are.
type members struct {
	status, value, expires   string
	statuses, values, stamps int
}

// readMembers reads an object; false when s is none.
func readMembers(s string) (m members, ok bool) {
	ok = strings.HasPrefix(s, "{") && walk(s, func(name, value string) {
		switch name {
		case "inspectionStatus":
			m.status, m.statuses = value, m.statuses+1
		case "value":
			m.value, m.values = value, m.values+1
		case "expires":
			m.expires, m.stamps = value, m.stamps+1
		}
	})
	return m, ok
}

// hasExpired judges Keyv's "expires": absent or null means never, anything that is not a
// number of milliseconds cannot be trusted.
func hasExpired(expires gjson.Result, now time.Time) bool {
	switch expires.Type {
	case gjson.Null:
		return false
	case gjson.Number:
		return expires.Num <= float64(now.UnixMilli())
	default:
		return true
	}
}
