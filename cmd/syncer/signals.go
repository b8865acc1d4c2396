package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signals watches for SIGTERM and SIGINT.
type signals struct {
	first  context.Context // ends with the first
	second <-chan struct{} // closed by the second
}

// watchSignals watches until stop is called.
func watchSignals() (s signals, stop func()) {
	first, end := context.WithCancel(context.Background())
	second := make(chan struct{})
	caught := make(chan os.Signal, 2)
	signal.Notify(caught, syscall.SIGTERM, os.Interrupt)
	go func() { // ends with the program at the latest
		select {
		case <-caught:
			end()
		case <-first.Done():
			return
		}
		<-caught
		close(second)
	}()
	return signals{first: first, second: second}, func() {
		signal.Stop(caught)
		end()
	}
}
