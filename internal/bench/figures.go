package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
)

// turn is what one contender's turn has taken.
type turn struct {
	wall, cpu      time.Duration // cpu: this process's
	trips, deleted float64
}

func measured(f func() error) (turn, error) {
	runtime.GC()
	cpu, began := cpuTime(), time.Now()
	err := f()
	return turn{wall: time.Since(began), cpu: cpuTime() - cpu}, err
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median[T any](all []T, of func(T) float64) float64 { return quantile(all, 0.5, of) }

func quantile[T any](all []T, q float64, of func(T) float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(all), func(a, b T) int { return cmp.Compare(of(a), of(b)) })
	return of(sorted[int(q*float64(len(sorted)-1)+0.5)])
}

// medianRatio is the median of a's figure to b's within a round.
func medianRatio[T any](a, b []T, of func(T) float64) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = of(a[i]) / of(b[i])
	}
	return median(ratios, func(r float64) float64 { return r })
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// table is a plain one on standard output.
type table struct{ w *tabwriter.Writer }

func newTable(columns ...string) table {
	t := table{tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)}
	fmt.Fprintln(t.w, strings.Join(columns, "\t")+"\t")
	return t
}

func (t table) heading(text string) { fmt.Fprintln(t.w, text+"\t") }

// row takes pairs of a format and its value.
func (t table) row(name string, pairs ...any) {
	cells := []string{name}
	for i := 0; i < len(pairs); i += 2 {
		cells = append(cells, fmt.Sprintf(pairs[i].(string), pairs[i+1]))
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t")+"\t")
}

func (t table) print() { _ = t.w.Flush() }

// counter is a hook that counts round trips to Redis, those in which a connection says hello aside.
type counter struct{ n atomic.Int64 }

// DialHook implements redis.Hook.
func (c *counter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "hello" {
			c.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}
