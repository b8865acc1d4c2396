package e2e

import "syscall"

// ownProcess makes children die with the tests, also when a time-out kills those.
func ownProcess() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
