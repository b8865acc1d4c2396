package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ownProcess makes children die with the tests, also when a time-out kills those.
func ownProcess() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// stopped reports whether every thread of a process has obeyed a SIGSTOP, which takes a while.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if _, state, _ := bytes.Cut(stat, []byte(") ")); err == nil && !bytes.HasPrefix(state, []byte("T")) {
			return false
		}
	}
	return true
}
