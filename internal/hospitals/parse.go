package hospitals

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// MaxFileSize is the largest HOSPITALS_FILE that is read, in bytes.
const MaxFileSize = 64 << 20

// maxFaults bounds how many faults of one list are told: a file of 64 MiB that is something
// else altogether could have millions.
const maxFaults = 1000

// Entry is one hospital as the list gives it. UserCode is empty when the hospital uses the
// account for all; SecretKey may be empty when the account's secret stands elsewhere.
type Entry struct {
	ID        string
	SenderKey Secret
	UserCode  string
	SecretKey Secret

	told   []string // what was found wrong in reading it
	unread field    // the fields among that: they hold nothing, and that is no further fault
}

// field is a set of an Entry's fields.
type field uint8

const (
	fieldID field = 1 << iota
	fieldSenderKey
	fieldUserCode
	fieldSecretKey
)

// AccountError says that hospitals have no account of their own and that there is no whole
// account for all.
type AccountError struct {
	Entries []string // such as "entry 3 (H003)", at least one
}

// Error implements error.
func (e *AccountError) Error() string {
	s := e.Entries[0] + " brings no account of its own, and there is no account for all"
	if n := len(e.Entries) - 1; n > 0 {
		s += fmt.Sprintf(" (so it is with %d more)", n)
	}
	return s
}

// ParseList reads HOSPITALS, such as "H001=senderKey,H002=senderKey". Blanks around entries,
// ids and keys are ignored. What is wrong with single entries stays with them, for New to tell.
func ParseList(s string) []Entry {
	var entries []Entry
	for part := range strings.SplitSeq(s, ",") {
		id, key, ok := strings.Cut(part, "=")
		key = strings.TrimSpace(key)
		if strings.Trim(key, "=") == "" {
			key = "" // what stands before it is a key whose end is base64's padding
		}
		e := Entry{ID: strings.TrimSpace(id), SenderKey: Secret(key)}
		switch {
		case strings.TrimSpace(part) == "":
			e = unreadEntry("is empty")
		case !ok:
			e = unreadEntry("has no \"=\" between id and sender key")
		}
		entries = append(entries, e)
	}
	return entries
}

// unreadEntry is an entry that holds nothing but its fault.
func unreadEntry(fault string) Entry {
	return Entry{told: []string{fault}, unread: fieldID | fieldSenderKey | fieldUserCode | fieldSecretKey}
}

var errTooLarge = errors.New("is larger than 64 MiB")

// readFile reads a hospitals file. Its errors leave out the path, which the caller knows.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path) // before opening, which would wait on a pipe
	if err != nil {
		return nil, cannotRead(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	if info.Size() > MaxFileSize {
		return nil, errTooLarge
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, cannotRead(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, cannotRead(err)
	}
	if len(data) > MaxFileSize {
		return nil, errTooLarge // it has grown meanwhile
	}
	return data, nil
}

func cannotRead(err error) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// parseFile reads the JSON list of a hospitals file. What is wrong with single entries stays
// with them, for resolve to tell in its place; an error means that there is no list at all.
func parseFile(data []byte) ([]Entry, error) {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return nil, errors.New("is UTF-16; it must be UTF-8")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("is empty")
	}
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8")
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(data, new(json.RawMessage)); errors.As(err, &syntax) {
		before := data[:max(0, min(int(syntax.Offset)-1, len(data)))]
		line := bytes.Count(before, []byte("\n")) + 1
		column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
		return nil, fmt.Errorf("is not JSON: line %d, column %d", line, column)
	} else if err != nil {
		return nil, errors.New("is not JSON")
	}
	top := gjson.ParseBytes(data)
	if !top.IsArray() {
		return nil, errors.New("must be a JSON list of hospitals")
	}
	var entries []Entry
	bad := 0
	top.ForEach(func(_, item gjson.Result) bool {
		e := parseEntry(item)
		entries = append(entries, e)
		if len(e.told) > 0 || e.ID == "" || e.SenderKey == "" {
			bad++
		}
		return bad <= maxFaults
	})
	return entries, nil
}

// parseEntry reads one element of the list.
func parseEntry(item gjson.Result) (e Entry) {
	if !item.IsObject() {
		return unreadEntry("is not an object")
	}
	var seen field
	item.ForEach(func(key, value gjson.Result) bool {
		name := key.String()
		target, bit := e.field(name)
		optional := bit == fieldUserCode || bit == fieldSecretKey
		switch {
		case target == nil && plainName(name):
			e.told = append(e.told, fmt.Sprintf("has an unknown field %q (known are id, senderKey, userCode, secretKey)", name))
		case target == nil:
			e.told = append(e.told, "has a field with an unknown name (known are id, senderKey, userCode, secretKey)")
		case seen&bit != 0:
			e.told = append(e.told, "has "+name+" twice")
		case value.Type == gjson.String:
			*target = value.String()
		case optional && value.Type == gjson.Null:
		default:
			e.told = append(e.told, "must have a string as "+name)
			e.unread |= bit
		}
		seen |= bit
		return len(e.told) <= maxFaults
	})
	return e
}

// field returns where the value of a JSON name goes; names are told apart by case.
func (e *Entry) field(name string) (*string, field) {
	switch name {
	case "id":
		return &e.ID, fieldID
	case "senderKey":
		return (*string)(&e.SenderKey), fieldSenderKey
	case "userCode":
		return &e.UserCode, fieldUserCode
	case "secretKey":
		return (*string)(&e.SecretKey), fieldSecretKey
	}
	return nil, 0
}

// plainName reports whether a field's name may be quoted: one that is longer, or holds
// anything but letters and _, may be a key in the wrong place.
func plainName(s string) bool {
	return s != "" && len(s) <= 20 && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r))
	})
}

func join(errs []error) error {
	if n := len(errs) - maxFaults; n > 0 {
		errs = append(errs[:maxFaults:maxFaults], fmt.Errorf("and %d more faults", n))
	}
	return errors.Join(errs...)
}
