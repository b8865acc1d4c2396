package templates

import (
	"math/bits"
	"strings"

	"github.com/tidwall/gjson"
)

// maxDepth bounds the nesting of what is called valid, as encoding/json does.
const maxDepth = 10_000

// ValidJSON reports whether s is one JSON value (RFC 8259). Every reader here asks it first:
// gjson answers from invalid documents too.
func ValidJSON(s string) bool { return walk(s, nil) }

// Member returns the last member of an object with exactly this name, and how many there
// are: gjson's own look-up takes the first of several, JavaScript and encoding/json the last.
// The object must be ValidJSON.
func Member(object gjson.Result, name string) (last gjson.Result, n int) {
	var raw string
	if object.IsObject() {
		walk(object.Raw, func(member, value string) {
			if member == name {
				raw, n = value, n+1
			}
		})
	}
	if n == 0 {
		return gjson.Result{}, 0
	}
	return gjson.Parse(raw), n
}

// Field returns a top-level member of a JSON object as it is written, the last one where a
// name stands twice, and false where there is none. The object must be ValidJSON.
func Field(object, name string) (raw string, ok bool) {
	walk(object, func(member, value string) {
		if member == name {
			raw, ok = value, true
		}
	})
	return raw, ok
}

// walk reports whether s is one JSON value, and hands each the members of the object that it
// is: the names unescaped, the values as they are written. They are to be trusted only when
// walk has returned true.
//
// Every pass reads every cached document, so this is the one loop that its rate hangs on:
// validity and members come from one reading, in which nothing is copied and text, which is
// nearly all of a document, is read eight bytes at a time.
func walk(s string, each func(name, value string)) bool {
	end := 0
	if i := blanks(s, 0); i < len(s) && s[i] == '{' {
		end = walkObject(s, i+1, 1, each)
	} else {
		end = walkValue(s, i, 0)
	}
	return end > 0 && blanks(s, end) == len(s)
}

// The functions below read what begins at s[i] and return where it ends, or -1.

func walkValue(s string, i, depth int) int {
	if i >= len(s) || depth >= maxDepth && (s[i] == '{' || s[i] == '[') {
		return -1
	}
	switch c := s[i]; {
	case c == '"':
		return walkText(s, i+1)
	case c == '{':
		return walkObject(s, i+1, depth+1, nil)
	case c == '[':
		return walkArray(s, i+1, depth+1)
	case c == '-' || '0' <= c && c <= '9':
		return walkNumber(s, i)
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if strings.HasPrefix(s[i:], word) {
			return i + len(word)
		}
	}
	return -1
}

// walkObject begins behind the brace.
func walkObject(s string, i, depth int, each func(name, value string)) int {
	i = blanks(s, i)
	if i < len(s) && s[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(s) || s[i] != '"' {
			return -1
		}
		name := i
		if i = walkText(s, i+1); i < 0 {
			return -1
		}
		nameEnd := i
		if i = blanks(s, i); i >= len(s) || s[i] != ':' {
			return -1
		}
		value := blanks(s, i+1)
		if i = walkValue(s, value, depth); i < 0 {
			return -1
		}
		if each != nil {
			each(unquoted(s[name:nameEnd]), s[value:i])
		}
		if i = blanks(s, i); i >= len(s) {
			return -1
		}
		switch s[i] {
		case '}':
			return i + 1
		case ',':
			i = blanks(s, i+1)
		default:
			return -1
		}
	}
}

// walkArray begins behind the bracket.
func walkArray(s string, i, depth int) int {
	i = blanks(s, i)
	if i < len(s) && s[i] == ']' {
		return i + 1
	}
	for {
		if i = walkValue(s, i, depth); i < 0 {
			return -1
		}
		if i = blanks(s, i); i >= len(s) {
			return -1
		}
		switch s[i] {
		case ']':
			return i + 1
		case ',':
			i = blanks(s, i+1)
		default:
			return -1
		}
	}
}

// walkText begins behind the opening quote and ends behind the closing one.
func walkText(s string, i int) int {
	const (
		ones  = 0x01_01_01_01_01_01_01_01
		highs = 0x80 * ones
	)
	for i < len(s) {
		if i+8 <= len(s) {
			b := s[i : i+8] // little endian: the first byte is the lowest
			w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
				uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
			quote, backslash := w^'"'*ones, w^'\\'*ones // zero bytes where they stand
			// x-ones borrows into the high bit of a zero byte, w-' '*ones into that of a byte below
			// a blank. Borrows reach the bytes above too, so only the lowest find is to be trusted.
			found := ((quote-ones)&^quote | (backslash-ones)&^backslash | (w-' '*ones)&^w) & highs
			if found == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(found) / 8
		}
		switch c := s[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = walkEscape(s, i+1); i < 0 {
				return -1
			}
		case c < ' ':
			return -1 // a control character
		default:
			i++
		}
	}
	return -1
}

// walkEscape begins behind the backslash.
func walkEscape(s string, i int) int {
	if i >= len(s) {
		return -1
	}
	switch s[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
	default:
		return -1
	}
	if i+5 > len(s) {
		return -1
	}
	for _, c := range []byte(s[i+1 : i+5]) {
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
			return -1
		}
	}
	return i + 5
}

func walkNumber(s string, i int) int {
	if s[i] == '-' {
		i++
	}
	whole := digits(s, i)
	if whole == i || s[i] == '0' && whole > i+1 {
		return -1
	}
	i = whole
	if i < len(s) && s[i] == '.' {
		if whole = digits(s, i+1); whole == i+1 {
			return -1
		}
		i = whole
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		if i++; i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if whole = digits(s, i); whole == i {
			return -1
		}
		i = whole
	}
	return i
}

func digits(s string, i int) int {
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	return i
}

func blanks(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\r' || s[i] == '\t') {
		i++
	}
	return i
}

// unquoted is the text of a valid JSON string.
func unquoted(quoted string) string {
	if strings.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	return gjson.Parse(quoted).Str
}
