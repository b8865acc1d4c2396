package main

import (
	"fmt"
	"os"
	"testing"
)

// scope is what redistest needs of a test, outside of one: what it has opened ends with it.
type scope struct {
	testing.TB // nil: only what is below is ever called
	cleanups   []func()
}

func newScope() *scope { return &scope{} }

func (s *scope) end() {
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
	s.cleanups = nil
}

func (s *scope) Helper()          {}
func (s *scope) Failed() bool     { return false }
func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scope) Fatal(args ...any) {
	s.end()
	fmt.Fprintln(os.Stderr, append([]any{"bench:"}, args...)...)
	os.Exit(1)
}

func (s *scope) TempDir() string {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
