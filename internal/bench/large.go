package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// large measures passes over ever more hospitals, each in a process of its own.
func (b *bench) large() error {
	size := entrySize
	need := b.sizes.largest * perHospital * (entrySize + 300) // with what Redis adds
	free, err := availableMemory()
	if err != nil {
		return err
	}
	if 2*need > free {
		size = 1 << 10
		fmt.Printf("The entries are of 1 KB here: %d MB for those of 3 KB is more than half of what is free.\n", need>>20)
	}
	server := b.redis()
	e := newEntries(b.sizes.largest, size)
	if err := e.fill(context.Background(), server.Client, everything); err != nil {
		return err
	}
	fmt.Printf("%d entries of %d bytes in each hospital, nothing changed.\n", perHospital, len(e.documents[0]))
	t := newTable("", "s/pass", "µs/hospital", "CPU µs/hospital", "trips/hospital", "peak memory MB")
	for _, n := range []int{b.sizes.hospitals, b.sizes.large, b.sizes.largest} {
		f, err := largePass(childArgs{Redis: server.Addr, Hospitals: n, Size: size})
		if err != nil {
			return err
		}
		each := 1e6 / float64(n)
		t.row(fmt.Sprintf("%d hospitals", n), "%.2f", f.Seconds, "%.0f", f.Seconds*each, "%.0f", f.CPU*each, "%.3f", float64(f.Trips)/float64(n), "%.0f", f.PeakMB)
	}
	t.print()
	return nil
}

// memory reads a figure of a process's memory, in MB: VmRSS, VmHWM.
func memory(pid int, name string) (float64, error) {
	kb, err := procField(fmt.Sprintf("/proc/%d/status", pid), name)
	return float64(kb) / 1024, err
}

// availableMemory is what the machine could still give, in bytes.
func availableMemory() (int, error) {
	kb, err := procField("/proc/meminfo", "MemAvailable")
	return kb * 1024, err
}

// procField reads "name:   123 kB".
func procField(file, name string) (kb int, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name+":" {
			return strconv.Atoi(fields[1])
		}
	}
	return 0, fmt.Errorf("no %s in %s", name, file)
}
