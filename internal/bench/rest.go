package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// rest measures what the program costs when it has nothing to do: to start, and to be there.
func (b *bench) rest() error {
	server, surem := b.redis(), b.sureM()
	e := newEntries(b.sizes.hospitals, entrySize)
	if err := e.fill(context.Background(), server.Client, everything); err != nil {
		return err
	}
	binary, err := os.Stat(b.binary)
	if err != nil {
		return err
	}
	var starts []time.Duration
	for range b.sizes.starts {
		d, err := b.start(server, surem, b.sizes.hospitals)
		if err != nil {
			return err
		}
		starts = append(starts, d.ready)
		d.stop()
	}

	quiet, err := b.start(server, surem, b.sizes.hospitals)
	if err != nil {
		return err
	}
	// A tick every five seconds, and a rate limit that lets all hospitals be looked at in it.
	busy, err := b.start(server, surem, b.sizes.hospitals, "SYNC_ON_START=true", "SYNC_SCHEDULE=@every 5s")
	if err != nil {
		return err
	}
	time.Sleep(2500 * time.Millisecond) // between two ticks
	var cpu, rss [2]float64
	lists := surem.lists.Load()
	for i, d := range []*daemon{quiet, busy} {
		before, err := processCPU(d.pid)
		if err != nil {
			return err
		}
		cpu[i] = -milliseconds(before)
	}
	time.Sleep(b.sizes.rest)
	for i, d := range []*daemon{quiet, busy} {
		after, err := processCPU(d.pid)
		if err != nil {
			return err
		}
		cpu[i] += milliseconds(after)
		if rss[i], err = memory(d.pid, "VmRSS"); err != nil {
			return err
		}
	}
	peak, err := memory(busy.pid, "VmHWM")
	if err != nil {
		return err
	}
	ticks := float64(surem.lists.Load()-lists) / float64(b.sizes.hospitals)

	fmt.Printf("%d hospitals, %d cached entries of %d bytes each, nothing changes.\n", b.sizes.hospitals, perHospital, len(e.documents[0]))
	t := newTable("", "")
	t.row("size of the binary, MB", "%.1f", float64(binary.Size())/(1<<20))
	t.row(fmt.Sprintf("process start to ready, ms: median of %d", len(starts)), "%.0f", quantile(starts, 0.5, milliseconds))
	t.row("… and the longest", "%.0f", quantile(starts, 1, milliseconds))
	t.row("resident memory before the first pass, MB", "%.0f", rss[0])
	t.row("resident memory at rest between passes, MB", "%.0f", rss[1])
	t.row("… and its peak", "%.0f", peak)
	t.row("CPU of a process without ticks, % of a core", "%.2f", cpu[0]/milliseconds(b.sizes.rest)*100)
	t.row(fmt.Sprintf("CPU of a tick that looks at all %d hospitals, ms (%.0f ticks)", b.sizes.hospitals, ticks), "%.0f", (cpu[1]-cpu[0])/ticks)
	t.print()
	return nil
}
