package flight

import (
	"errors"
	"fmt"
)

// The errors of a Group itself.
var (
	ErrBadCall        = errors.New("single-flight: unusable call")
	ErrReentrant      = errors.New("single-flight: a loader asked for the key it is loading")
	ErrTooManyKeys    = errors.New("single-flight: too many loads at once")
	ErrTooManyWaiters = errors.New("single-flight: too many callers wait for this key")
	ErrDeadline       = errors.New("single-flight: the load took longer than it may")
	ErrClosed         = errors.New("single-flight: shutting down")
)

// PanicError is what all waiters of a loader that panicked get.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // of the loader, as debug.Stack formats it
}

// Error names the value; the stack is for the log.
func (e *PanicError) Error() string {
	return fmt.Sprintf("single-flight: loader panicked: %v", e.Value)
}

// Unwrap returns the value when it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// GoexitError is what all waiters of a loader that called runtime.Goexit get.
type GoexitError struct {
	Stack []byte // of the loader, as debug.Stack formats it
}

// Error implements error.
func (*GoexitError) Error() string { return "single-flight: loader ended its goroutine" }
