package templates

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxCodeLen is the longest template code that is accepted, in bytes.
const MaxCodeLen = 128

// CheckCode says why a template code cannot be used, or nil. A code is 1 to MaxCodeLen
// bytes of valid UTF-8 without control characters, not blank and not "." or ".."; it is
// taken exactly as given, so blanks around it are part of it.
func CheckCode(code string) error {
	switch {
	case code == "":
		return errors.New("template code is empty")
	case len(code) > MaxCodeLen:
		return errors.New("template code is longer than 128 bytes")
	case !utf8.ValidString(code):
		return errors.New("template code is not valid UTF-8")
	case strings.ContainsFunc(code, unicode.IsControl):
		return errors.New("template code holds a control character")
	case strings.TrimSpace(code) == "":
		return errors.New("template code is blank")
	case code == "." || code == "..":
		return errors.New("template code is a path step")
	}
	return nil
}
