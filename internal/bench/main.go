// Command bench measures the program beside what could be in its place, in one run and
// interleaved: a turn for each contender, then the next turn for each, in an order that
// rotates. It needs redis-server and wrk.
//
// What counts is the ratios. Each is the median of the ratios within one round, so that a
// machine that is busy now and idle later blurs it little; the figures beside them are
// medians over the rounds.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"alimtalk-syncer/internal/redistest"
)

// sizes are how much is measured.
type sizes struct {
	hospitals, large, largest int
	rounds                    int           // of a pass
	wrk                       time.Duration // one turn of wrk
	wrkRounds                 int
	callers, missRounds       int
	reads                     int // during a pass
	starts                    int
	rest                      time.Duration
}

var (
	full  = sizes{hospitals: 1000, large: 10_000, largest: 70_000, rounds: 7, wrk: 5 * time.Second, wrkRounds: 7, callers: 500, missRounds: 10, reads: 150, starts: 15, rest: 30 * time.Second}
	small = sizes{hospitals: 100, large: 1000, largest: 2000, rounds: 3, wrk: time.Second, wrkRounds: 2, callers: 50, missRounds: 2, reads: 20, starts: 3, rest: 5 * time.Second}
)

var sections = []struct {
	name, title string
	measure     func(*bench) error
}{
	{"pass", "1. A pass", (*bench).pass},
	{"large", "   … of more hospitals", (*bench).large},
	{"hit", "2. A hit", (*bench).hit},
	{"miss", "3. A miss", (*bench).miss},
	{"during", "4. A read during a pass", (*bench).during},
	{"rest", "5. Start and rest", (*bench).rest},
}

// bench is one run.
type bench struct {
	sizes sizes
	*scope
	binary string // the program
}

func main() {
	if child := os.Getenv(childVariable); child != "" {
		exit(children[child]())
	}
	only := flag.String("only", "", "sections, comma separated: pass, large, hit, miss, during, rest")
	quick := flag.Bool("quick", false, "small sizes, to see that it works")
	flag.Parse()
	exit(run(*only, *quick))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(only string, quick bool) error {
	b := &bench{sizes: full, scope: newScope()}
	defer b.end()
	if quick {
		b.sizes = small
	}
	b.binary = filepath.Join(b.TempDir(), "syncer")
	if err := build(b.binary); err != nil {
		return err
	}
	fmt.Printf("%s, %d CPUs, load average %s\n", runtime.Version(), runtime.NumCPU(), loadAverage())
	for _, s := range sections {
		if only != "" && !strings.Contains(","+only+",", ","+s.name+",") {
			continue
		}
		fmt.Printf("\n%s (load average %s)\n\n", s.title, loadAverage())
		inner := *b
		inner.scope = newScope()
		err := s.measure(&inner)
		inner.end()
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// build builds the program as `make build` does.
func build(binary string) error {
	at, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "alimtalk-syncer").Output()
	if err != nil {
		return fmt.Errorf("looking for the program's module: %w", err)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./cmd/syncer")
	cmd.Dir, cmd.Env = strings.TrimSpace(string(at)), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return nil
}

// loadAverage is the machine's, of the last minute.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// redis starts a server for one section.
func (b *bench) redis() *redistest.Server {
	return redistest.Start(b, "--maxmemory", "0")
}

var errNoWrk = errors.New("wrk is missing: on Debian, apt-get install wrk")
