// Command syncer keeps the Alimtalk templates that clinics see in Redis true to what SureM
// says of them. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/rs/zerolog"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2 // a bad setting, usage, an unknown hospital
)

// logTime is how the log says when: several replicas' lines are put in their order by it.
const logTime = "2006-01-02T15:04:05.000Z07:00"

const usage = `syncer keeps cached Alimtalk templates true to SureM.

  syncer [run]       the daemon
  syncer sync        one pass now
  syncer get         one detail read through the cache
  syncer health      ask the daemon on this machine whether it makes progress
  syncer config      check the settings and print them
  syncer demo        the daemon on an embedded Redis and a simulated SureM
  syncer version     version, commit, Go version

Every command but demo and version is set up by environment variables; 'syncer config
--markdown' lists them. 'syncer COMMAND -h' says more.
`

func main() {
	zerolog.TimeFieldFormat = logTime
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program but for its exit.
func run(args []string, stdout, stderr io.Writer) int {
	log.SetOutput(io.Discard) // only net/http's client writes there, and quotes what SureM sent: tokens, templates
	signals, stop := watchSignals()
	defer stop()
	command := "run"
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	commands := map[string]func(context.Context, []string, io.Writer, io.Writer) error{
		"run": runCommand, "sync": syncCommand, "get": getCommand,
		"health": healthCommand, "config": configCommand, "demo": demoCommand, "version": versionCommand,
	}
	do, ok := commands[command]
	switch {
	case command == "-h" || command == "--help" || command == "help":
		fmt.Fprint(stdout, usage)
		return exitOK
	case !ok:
		fmt.Fprintf(stderr, "syncer: unknown command %q\n\n%s", command, usage)
		return exitUsage
	}
	done := make(chan error, 1)
	go func() { done <- do(signals.first, args, stdout, stderr) }() // ends with the program
	select {
	case err := <-done:
		return exitCode(err, stderr)
	case <-signals.second: // whoever sends it wants no more words
		return exitFailed
	}
}

// exitCode says why a command failed, and how the program ends.
func exitCode(err error, stderr io.Writer) int {
	var usage *usageError
	switch {
	case err == nil || errors.Is(err, errHelp):
		return exitOK
	case errors.Is(err, errSaid):
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, usage.text)
		return exitUsage
	default:
		fmt.Fprintln(stderr, "syncer:", err)
		return exitFailed
	}
}
