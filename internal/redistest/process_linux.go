package redistest

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the process die with the test binary, however that dies.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
