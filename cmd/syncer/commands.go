package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/config"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/templates"
)

// version and commit are set by the linker (make build).
var version, commit = "dev", ""

// usageError ends the program with exitUsage.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

var (
	errHelp = errors.New("help was asked for")
	errSaid = errors.New("the output says what failed")
)

// parse reads a command's flags; -h prints its help to stdout.
func parse(flags *flag.FlagSet, args []string, stdout io.Writer, synopsis string, operands int) error {
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, "syncer %s\n", synopsis)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return errHelp
	case err != nil:
		return &usageError{fmt.Sprintf("syncer %s: %v", flags.Name(), err)}
	case flags.NArg() != operands:
		return &usageError{fmt.Sprintf("syncer %s: usage: syncer %s", flags.Name(), synopsis)}
	}
	return nil
}

// load reads the settings; warnings go to the log.
func load(stderr io.Writer) (*config.Config, zerolog.Logger, error) {
	cfg, warnings, err := config.Load(os.Environ())
	if err != nil {
		return nil, zerolog.Nop(), &usageError{err.Error()}
	}
	log := newLog(cfg, stderr)
	for _, w := range warnings {
		log.Warn().Str("warning", w).Msg("settings")
	}
	return cfg, log, nil
}

func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	if err := parse(flags, args, stdout, "run: the daemon", 0); err != nil {
		return err
	}
	cfg, log, err := load(stderr)
	if err != nil {
		return err
	}
	return daemon(ctx, cfg, log, func(string) {})
}

func syncCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("sync", flag.ContinueOnError)
	dryRun := flags.Bool("dry-run", false, "delete nothing, say what would be")
	asJSON := flags.Bool("json", false, "print the reports as JSON")
	var ids []string
	flags.Func("hospital", "only this hospital `ID` (may be repeated)", func(id string) error {
		ids = append(ids, id)
		return nil
	})
	if err := parse(flags, args, stdout, "sync [--dry-run] [--hospital ID]… [--json]: one pass now", 0); err != nil {
		return err
	}
	cfg, log, err := load(stderr)
	if err != nil {
		return err
	}
	hs, err := choose(cfg.Hospitals, ids)
	if err != nil {
		return err
	}
	cfg.SyncDryRun = cfg.SyncDryRun || *dryRun
	if *dryRun || len(ids) > 0 {
		cfg.SyncHeartbeatURL = "" // a trial or a part must not keep the monitor quiet
	}
	a := newApp(cfg, log)
	defer a.closeNow()
	defer a.heartbeat.close(ctx)
	reports := a.syncer.Pass(ctx, invalidate.TriggerManual, hs)
	if *asJSON {
		err = json.NewEncoder(stdout).Encode(map[string]any{"hospitals": reports})
	} else {
		err = table(stdout, reports)
	}
	if err != nil {
		return fmt.Errorf("printing the reports: %w", err)
	}
	if len(reports) < len(hs) {
		return fmt.Errorf("stopped by a signal: %d of %d hospitals were not reached", len(hs)-len(reports), len(hs))
	}
	for _, r := range reports {
		if !r.OK {
			return errSaid
		}
	}
	return nil
}

// choose returns the hospitals with these ids, each once, or all.
func choose(dir *hospitals.Directory, ids []string) ([]hospitals.Hospital, error) {
	if len(ids) == 0 {
		return dir.All(), nil
	}
	var hs []hospitals.Hospital
	chosen := make(map[string]bool)
	for _, id := range ids {
		h, ok := dir.Get(id)
		if !ok {
			return nil, &usageError{fmt.Sprintf("syncer sync: hospital %q is not configured", id)}
		}
		if !chosen[id] {
			chosen[id] = true
			hs = append(hs, h)
		}
	}
	return hs, nil
}

// table prints reports for people.
func table(w io.Writer, reports []invalidate.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HOSPITAL\tOK\tLISTED\tCOMPARED\tSKIPPED\tINVALIDATED\tERROR")
	for _, r := range reports {
		ok := "yes"
		if !r.OK {
			ok = "NO"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", r.HospitalID, ok, r.Listed, r.Compared, r.Skipped, len(r.Invalidated), r.Error)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range reports {
		did := "deleted"
		if r.DryRun {
			did = "would delete"
		}
		for _, c := range r.Invalidated {
			if _, err := fmt.Fprintf(w, "%s %q: %s (%s, %q -> %q)\n", r.HospitalID, c.Code, did, c.Reason, c.From, c.To); err != nil {
				return err
			}
		}
	}
	return nil
}

func getCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("get", flag.ContinueOnError)
	if err := parse(flags, args, stdout, "get HOSPITAL CODE: one detail read through the cache", 2); err != nil {
		return err
	}
	cfg, log, err := load(stderr)
	if err != nil {
		return err
	}
	id, code := flags.Arg(0), flags.Arg(1)
	h, ok := cfg.Hospitals.Get(id)
	if !ok {
		return &usageError{fmt.Sprintf("syncer get: hospital %q is not configured", id)}
	}
	if err := templates.CheckCode(code); err != nil {
		return &usageError{"syncer get: " + err.Error()}
	}
	a := newApp(cfg, log)
	defer a.closeNow()
	answer, err := a.reader.Read(ctx, h, code)
	if err != nil {
		return fmt.Errorf("reading template %q of hospital %s: %w", code, id, err)
	}
	if _, err := io.WriteString(stdout, answer.Document+"\n"); err != nil {
		return fmt.Errorf("printing the template: %w", err)
	}
	return nil
}

func configCommand(_ context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("config", flag.ContinueOnError)
	markdown := flags.Bool("markdown", false, "print the README's table of settings")
	if err := parse(flags, args, stdout, "config [--markdown]: check the settings and print them", 0); err != nil {
		return err
	}
	var text bytes.Buffer
	if *markdown {
		config.Markdown(&text)
	} else {
		cfg, _, err := load(stderr)
		if err != nil {
			return err
		}
		cfg.Print(&text)
	}
	if _, err := text.WriteTo(stdout); err != nil {
		return fmt.Errorf("printing the settings: %w", err)
	}
	return nil
}

func versionCommand(_ context.Context, args []string, stdout, _ io.Writer) error {
	flags := flag.NewFlagSet("version", flag.ContinueOnError)
	if err := parse(flags, args, stdout, "version: version, commit, Go version", 0); err != nil {
		return err
	}
	v := buildVersion()
	if _, err := fmt.Fprintf(stdout, "syncer %s, commit %s, %s\n", v.version, v.commit, v.goVersion); err != nil {
		return fmt.Errorf("printing the version: %w", err)
	}
	return nil
}

type build struct{ version, commit, goVersion string }

// buildVersion returns what the linker and the Go tool know of this binary.
func buildVersion() build {
	b := build{version: version, commit: commit, goVersion: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok && b.commit == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.commit = s.Value
			}
		}
	}
	if b.commit == "" {
		b.commit = "unknown"
	}
	return b
}

// closeNow ends the parts of a command that is done.
func (a *app) closeNow() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	a.close(ctx)
}
