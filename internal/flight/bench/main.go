// Command bench compares this project's single-flight with those that others offer, in one
// run and interleaved: a slice of time for each peer, then the next slice for each, in an
// order that rotates. The table shows medians over the slices.
//
// Figures on a busy machine are rough: what counts is their order within a row. The age test
// runs in slices of its own, so that its clock readings are in no other figure.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"
)

const keyCount = 1 << 14

var keys = func() (keys [keyCount]string) {
	for i := range keys {
		keys[i] = "template-" + strconv.Itoa(i)
	}
	return keys
}()

// row is one way of calling: how many callers, what their next key is, what a load takes.
type row struct {
	name    string
	callers int
	next    func(caller int) func() int // indexes into keys
	load    time.Duration
}

var rows = []row{
	{"distinct keys, serial", 1, distinct, 0},
	{"distinct keys, parallel", 64, distinct, 0},
	{"one hot key, loader 0", 64, hot, 0},
	{"one hot key, loader 100µs", 64, hot, 100 * time.Microsecond},
	{"one hot key, loader 1ms", 64, hot, time.Millisecond},
	{"Zipf keys, loader 100µs", 64, zipf, 100 * time.Microsecond},
}

func distinct(caller int) func() int {
	const each = keyCount / 64
	i := 0
	return func() int {
		i = (i + 1) % each
		return caller*each + i
	}
}

func hot(int) func() int { return func() int { return 0 } }

func zipf(int) func() int {
	z := rand.NewZipf(rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), 1.2, 1, keyCount-1)
	return func() int { return int(z.Uint64() % keyCount) }
}

// figures are what one slice of time gave.
type figures struct {
	ns, cpu, allocs, loads float64
	stale                  int64         // results that a caller had already taken home when this one came
	oldest                 time.Duration // of those, the longest time between load's end and caller's arrival
}

// keyState is what the loads and callers of one key know.
type keyState struct {
	version atomic.Int64 // loads begun
	seen    atomic.Int64 // newest version that any caller has taken home
	_       [48]byte     // callers of neighbouring keys must not slow each other
}

// slice lets one peer work for a while.
func slice(r row, call do, length time.Duration, age bool) figures {
	states := make([]keyState, keyCount)
	var ops, loads, stale, oldest atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	began := time.Now()
	now := func() int64 { return int64(time.Since(began)) + 1 }
	caller := func(id int) {
		ctx, cancel := context.WithCancel(context.Background()) // as a server's request has
		defer cancel()
		next, n := r.next(id), int64(0)
		for ; !stop.Load(); n++ {
			k := next()
			state, arrived, floor := &states[k], int64(0), int64(0)
			if age {
				floor, arrived = state.seen.Load(), now()
			}
			v, err := call(ctx, keys[k], func(ctx context.Context) (v result, err error) {
				loads.Add(1)
				v.version = state.version.Add(1)
				if err = wait(ctx, r.load); age {
					v.ended = now()
				}
				return v, err
			})
			if err != nil || v.version == 0 {
				panic(fmt.Sprintf("%s: %+v, %v", r.name, v, err))
			}
			if age {
				if v.version <= floor {
					stale.Add(1)
					raise(&oldest, arrived-v.ended)
				}
				raise(&state.seen, v.version)
			}
		}
		ops.Add(n)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began = time.Now()
	cpu := cpuTime()
	for id := range r.callers {
		all.Go(func() { caller(id) })
	}
	timer := time.AfterFunc(length, func() { stop.Store(true) })
	defer timer.Stop()
	all.Wait()
	took := time.Since(began)
	cpu = cpuTime() - cpu
	runtime.ReadMemStats(&after)
	n := float64(ops.Load())
	return figures{
		ns: float64(took.Nanoseconds()) / n, cpu: float64(cpu.Nanoseconds()) / n, allocs: float64(after.Mallocs-before.Mallocs) / n,
		loads: float64(loads.Load()) / n, stale: stale.Load(), oldest: time.Duration(oldest.Load()),
	}
}

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// wait is the work of a loader, which heeds its deadline. A runtime timer with nothing else
// to run fires about a millisecond late, so short waits yield instead of sleeping.
func wait(ctx context.Context, length time.Duration) error {
	if length >= time.Millisecond {
		t := time.NewTimer(length)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			return nil
		}
	}
	done := ctx.Done()
	for began := time.Now(); ; runtime.Gosched() {
		select {
		case <-done:
			return ctx.Err()
		default:
		}
		if length == 0 || time.Since(began) >= length {
			return nil
		}
	}
}

func raise(to *atomic.Int64, v int64) {
	for old := to.Load(); v > old; old = to.Load() {
		if to.CompareAndSwap(old, v) {
			return
		}
	}
}

func main() {
	whole := flag.Duration("for", 2*time.Minute, "how long all rows take together")
	length := flag.Duration("slice", 25*time.Millisecond, "length of a slice")
	only := flag.String("row", "", "only rows whose name contains this")
	flag.Parse()
	rows := slices.DeleteFunc(rows, func(r row) bool { return !strings.Contains(r.name, *only) })
	fmt.Printf("%s, GOMAXPROCS %d, slices of %v\n\n", runtime.Version(), runtime.GOMAXPROCS(0), *length)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, r := range rows {
		slices, ages := compare(r, *length, *whole/time.Duration(len(rows)))
		fmt.Fprintf(w, "%s (%d slices)\tns/op\t±\tto ours\tCPU ns/op\tallocs/op\tloads/op\tstale\toldest result\t\n", r.name, len(slices[0]))
		for i, p := range peers {
			by := func(f func(figures) float64) float64 { return quantile(slices[i], 0.5, f) }
			ns := func(f figures) float64 { return f.ns }
			var toOurs []figures // pairs of neighbours in time tell more than two medians
			for round := range slices[i] {
				toOurs = append(toOurs, figures{ns: slices[i][round].ns / slices[0][round].ns})
			}
			fmt.Fprintf(w, "%s\t%.0f\t%.0f%%\t%.2f\t%.0f\t%.1f\t%.4f\t%d\t%v\t\n", p.name, by(ns),
				50*(quantile(slices[i], 0.75, ns)-quantile(slices[i], 0.25, ns))/by(ns), quantile(toOurs, 0.5, ns),
				by(func(f figures) float64 { return f.cpu }), by(func(f figures) float64 { return f.allocs }),
				by(func(f figures) float64 { return f.loads }), ages[i].stale, ages[i].oldest.Round(100*time.Nanosecond))
		}
		fmt.Fprintln(w, "\t\t\t\t\t\t\t\t\t")
	}
	_ = w.Flush()
	fmt.Print(`±: half the distance between the quartiles. to ours: the median of ns/op by our ns/op of the
same round. CPU: of the whole process, which a busy machine blurs least. stale: results that
some caller had taken home before the one who got them again came; a peer with any fails the
age test. oldest result: the longest time from the end of such a load to that caller's coming.
`)
}

// compare gives the slices of a row, by peer and round, and what the age test found.
func compare(r row, length, whole time.Duration) (all [][]figures, ages []figures) {
	all, ages = make([][]figures, len(peers)), make([]figures, len(peers))
	began := time.Now()
	for round := 0; time.Since(began) < whole*5/6; round++ {
		for i := range peers {
			p := (round + i) % len(peers)
			all[p] = append(all[p], slice(r, peers[p].make(), length, false))
		}
	}
	for time.Since(began) < whole {
		for p := range peers {
			f := slice(r, peers[p].make(), length, true)
			ages[p].stale += f.stale
			ages[p].oldest = max(ages[p].oldest, f.oldest)
		}
	}
	return all, ages
}

func quantile(all []figures, q float64, of func(figures) float64) float64 {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b figures) int { return cmp.Compare(of(a), of(b)) })
	return of(sorted[int(q*float64(len(sorted)-1)+0.5)])
}
