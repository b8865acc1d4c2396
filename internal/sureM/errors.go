package surem

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What an *Error can be, for errors.Is.
var (
	// ErrNotFound means that SureM said it has no such template.
	ErrNotFound = errors.New("SureM has no such template")
	// ErrRefused means that SureM does not let us in: HTTP 401 or 403, one of
	// SUREM_RELOGIN_CODES, or a login answered with any other error code.
	ErrRefused = errors.New("refused")
)

// The outcomes of a call: metrics.Outcomes.
const (
	outcomeOK        = "ok"
	outcomeNotFound  = "not_found"
	outcomeRefused   = "refused"
	outcomeLimited   = "rate_limited"
	outcomeClient    = "client_error"
	outcomeServer    = "server_error"
	outcomeNetwork   = "network"
	outcomeTimeout   = "timeout"
	outcomeBad       = "bad_answer"
	outcomeCancelled = "cancelled"
)

// The operations: metrics.Operations.
const (
	opLogin     = "login"
	opSummaries = "summaries"
	opDetail    = "detail"
)

// Error is a call to SureM that failed there or on the way. Nothing in it is a secret, a
// sender key or a URL.
type Error struct {
	Op         string        // "login", "summaries" or "detail"
	Outcome    string        // one of metrics.Outcomes; "cancelled" also when no call was made
	Status     int           // HTTP status, 0 without an answer
	Code       string        // SureM's code, at most 32 bytes
	Message    string        // SureM's message, at most 100 bytes
	RetryAfter time.Duration // when SureM may be asked again; 0 = it is not known
	Err        error         // why; never nil. Of Is and As

	open bool // the account's breaker is open
}

// Error is one line for the operator at night.
func (e *Error) Error() string {
	said := make([]string, 0, 2)
	if e.Code != "" {
		said = append(said, "code "+printable(e.Code))
	}
	if e.Message != "" {
		said = append(said, strconv.Quote(e.Message))
	}
	return e.line(said, e.Err.Error())
}

// Public is Error without what SureM wrote, its code aside, and without addresses: for an
// answer to somebody else.
func (e *Error) Public() string {
	var said []string
	if e.Code != "" && printable(e.Code) == e.Code {
		said = []string{"code " + e.Code}
	}
	switch e.Outcome {
	case outcomeNetwork:
		return e.line(said, "SureM could not be reached, or broke off")
	case outcomeTimeout:
		return e.line(said, "SureM did not answer in time")
	}
	return e.line(said, e.Err.Error())
}

func (e *Error) line(said []string, why string) string {
	var b strings.Builder
	b.WriteString(e.Op + ": ")
	if e.Status != 0 {
		fmt.Fprintf(&b, "SureM answered HTTP %d", e.Status)
		if len(said) > 0 {
			b.WriteString(" (" + strings.Join(said, ", ") + ")")
		}
		b.WriteString(": ")
	}
	b.WriteString(why)
	return b.String()
}

// Unwrap returns what is inside.
func (e *Error) Unwrap() error { return e.Err }

// Is finds ErrOpen, which need not be what is inside.
func (e *Error) Is(target error) bool { return e.open && target == ErrOpen }

// transient reports whether the same call may well succeed a little later.
func (e *Error) transient() bool { return e.Outcome == outcomeLimited || e.isAway() }

// isAway reports whether SureM could not be reached, or is in trouble.
func (e *Error) isAway() bool {
	switch e.Outcome {
	case outcomeServer, outcomeNetwork, outcomeTimeout:
		return true
	}
	return false
}

// LimitError means that our own limit of calls per second has no slot for the call before
// its deadline.
type LimitError struct {
	RetryAfter time.Duration // until that slot, at least
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("our own limit of calls to SureM has no slot in time; the next free one is %s away", ceilSecond(e.RetryAfter))
}

// fault is an error of the network or of net/http with its text made safe: such texts may
// quote what the other side sent.
type fault struct {
	text string
	err  error
}

func (f *fault) Error() string { return f.text }
func (f *fault) Unwrap() error { return f.err }

// printable returns a code as it is, or quoted when it holds anything but [A-Za-z0-9_.-].
func printable(code string) string {
	for i := range len(code) {
		c := code[i]
		if !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte("_.-", c) >= 0) {
			return strconv.Quote(code)
		}
	}
	return code
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}
