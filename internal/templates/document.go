package templates

import (
	"encoding/json"
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
	if !ValidJSON(value) {
		return e
	}
	top := gjson.Parse(value)
	raw := top.Raw
	status, n := Member(top, "inspectionStatus")
	if n == 0 {
		inner, inners := Member(top, "value")
		expires, stamps := Member(top, "expires")
		if inners != 1 || stamps > 1 || !inner.IsObject() || hasExpired(expires, now) {
			return e
		}
		raw = inner.Raw
		status, n = Member(inner, "inspectionStatus")
	}
	if n != 1 || status.Type != gjson.String || Status(status.Str).State() == "" {
		return e
	}
	e.Kind, e.Doc = Readable, Document{Raw: raw, Status: Status(status.Str)}
	return e
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

// Member returns the last member of an object with exactly this name, and how many there
// are: gjson's own look-up takes the first of several, JavaScript and encoding/json the last.
func Member(object gjson.Result, name string) (last gjson.Result, n int) {
	if !object.IsObject() {
		return gjson.Result{}, 0
	}
	object.ForEach(func(key, value gjson.Result) bool {
		if key.Str == name {
			last, n = value, n+1
		}
		return true
	})
	return last, n
}

// maxBrackets bounds the nesting that is handed to gjson, whose validator recurses.
const maxBrackets = 10_000

// ValidJSON reports whether s is one JSON value (RFC 8259). Every reader here asks it first:
// gjson answers from invalid documents too.
func ValidJSON(s string) bool {
	if strings.Count(s, "[")+strings.Count(s, "{") > maxBrackets {
		return json.Valid([]byte(s)) // slower, but it bounds its depth itself
	}
	return gjson.Valid(s)
}

// Field returns a top-level member of a JSON object as it is written, the last one where a
// name stands twice, and false where there is none. The object must be ValidJSON.
func Field(object, name string) (raw string, ok bool) {
	value, n := Member(gjson.Parse(object), name)
	return value.Raw, n > 0
}
