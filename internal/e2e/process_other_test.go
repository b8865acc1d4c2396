//go:build !linux

package e2e

import "syscall"

func ownProcess() *syscall.SysProcAttr { return nil }

func stopped(int) bool { return true }
