package main

import (
	"errors"
	"io"
	"testing"
)

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestWhatCannotBePrintedIsAFailure(t *testing.T) {
	t.Setenv("HOSPITALS", "H001=key")
	t.Setenv("SUREM_USER_CODE", "user")
	t.Setenv("SUREM_SECRET_KEY", "secret")
	for _, args := range [][]string{{"config"}, {"config", "--markdown"}, {"version"}} {
		if code := run(args, fullDisk{}, io.Discard); code != exitFailed {
			t.Errorf("syncer %v ended with %d, and has said nothing", args, code)
		}
	}
}
