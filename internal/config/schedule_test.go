package config

import (
	"testing"
	"time"
)

func TestInAFleetEveryTickFallsAlikeInAllProcesses(t *testing.T) {
	const every = "SYNC_SCHEDULE=@every 1m30s"
	fleet := mustLoad(t, "FLEET=true", every).Schedule
	tick := time.Date(2026, 11, 29, 9, 1, 30, 0, time.UTC) // a multiple of 90 s since 1970
	for _, start := range []time.Time{tick.Add(-90 * time.Second), tick.Add(-time.Minute), tick.Add(-time.Nanosecond)} {
		if next := fleet.Next(start); !next.Equal(tick) {
			t.Errorf("from %v on the next tick is %v, want %v", start, next, tick)
		}
	}
	if next := fleet.Next(tick); !next.Equal(tick.Add(90 * time.Second)) {
		t.Errorf("after a tick: %v", next)
	}
	now := time.Now()
	if next := fleet.Next(now); next != next.Round(0) { // or cron would compare it by the monotonic clock
		t.Errorf("%v has a monotonic reading", next)
	}
	alone := mustLoad(t, every).Schedule
	if next := alone.Next(tick.Add(-time.Second)); !next.Equal(tick.Add(89 * time.Second)) {
		t.Errorf("alone it is counted from the start of the process, as ever: %v", next)
	}
	cron := mustLoad(t, "FLEET=true", "SYNC_SCHEDULE=*/5 * * * *").Schedule
	if next := cron.Next(tick); !next.Equal(tick.Add(3*time.Minute + 30*time.Second)) {
		t.Errorf("fields are wall-clock already: %v", next)
	}
}
