package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// passLine is what a scheduled pass leaves in the log.
type passLine struct {
	Time       time.Time
	Tick       time.Time // when the pass's tick ends; only in a fleet
	Trigger    string
	Hospitals  int
	OK         int
	Failed     int
	Elsewhere  int
	NotReached int   `json:"not_reached"`
	TookMs     int64 `json:"took_ms"`
}

// passes returns the scheduled passes that a process has ended, oldest first.
func (d *daemon) passes() []passLine {
	d.w.t.Helper()
	var all []passLine
	for line := range strings.Lines(d.stderr.String()) {
		var p passLine
		if !strings.HasSuffix(line, "\n") || !strings.Contains(line, `"message":"pass"`) {
			continue
		}
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			d.w.t.Fatalf("%v in %s", err, line)
		}
		if p.Trigger != "schedule" {
			continue
		}
		p.Tick = p.Tick.UTC()
		all = append(all, p)
	}
	return all
}

// ended is no earlier than the pass was: the log's times are cut to whole milliseconds.
func (p passLine) ended() time.Time { return p.Time.Add(time.Millisecond) }

// passOf returns which of a process's passes a call belongs to that it made at a time, or their
// number when that one has left no line.
func passOf(passes []passLine, at time.Time) int {
	i, _ := slices.BinarySearchFunc(passes, at, func(p passLine, at time.Time) int { return p.ended().Compare(at) })
	return i
}

// tickOf returns when the tick of a moment ends, fit for a key. every divides a day.
func tickOf(at time.Time, every time.Duration) time.Time { return at.UTC().Truncate(every).Add(every) }

// awaitTicks waits until n whole ticks are over that began after now.
func (f *fleet) awaitTicks(n int) {
	f.t.Helper()
	began := time.Now()
	eventually(f.t, soon+time.Duration(n+2)*f.every, fmt.Sprintf("%d ticks", n), func() bool {
		for _, l := range f.lives {
			after := tickOf(began.Add(l.ahead), f.every).Add(time.Duration(n) * f.every)
			if !l.done && !slices.ContainsFunc(l.passes(), func(p passLine) bool { return p.Tick.After(after) }) {
				return false
			}
		}
		return true
	})
}

// ledger is which hospital was read in which tick, by SureM's log and the replicas' own. A tick
// is what a replica's own clock says it is.
type ledger struct {
	ids   []string
	ticks []time.Time                  // that had all replicas from their beginning to their end
	reads map[time.Time]map[string]int // by tick and hospital
	cut   map[time.Time][]*life        // who, killed, may have taken claims of a tick along
	slow  map[time.Time]bool           // ticks too short for this machine: a replica did not come to their end
	share map[int]int                  // summary calls by replica
}

// ledger is to be asked for when stop has ended all replicas. What deaf ones did not come to
// is not this machine's fault.
func (f *fleet) ledger(deaf ...*life) ledger {
	f.t.Helper()
	k := ledger{ids: f.ids, reads: map[time.Time]map[string]int{}, cut: map[time.Time][]*life{}, slow: map[time.Time]bool{}, share: map[int]int{}}
	ofSender := map[string]string{}
	for _, id := range f.ids {
		ofSender[senderKey(id)] = id
	}
	first, last := time.Time{}, f.ended.Add(time.Hour)
	for _, l := range f.lives {
		passes := l.passes()
		broken := tickOf(l.started.Add(l.ahead), f.every) // the first tick whose pass a kill may have broken off
		for i, p := range passes {
			if broken = p.Tick.Add(f.every); i == 0 && l.number == 1 && broken.After(first) {
				first = broken
			}
		}
		if !slices.Contains(deaf, l) {
			k.note(passes, f.every)
		}
		for _, c := range f.surem.calls(func(c call) bool { return c.op == summaries && c.replica == l.name && ofSender[c.sender] != "" }) {
			k.share[l.replica]++
			tick := f.tickOfCall(l, passes, c)
			if k.reads[tick] == nil {
				k.reads[tick] = map[string]int{}
			}
			k.reads[tick][ofSender[c.sender]]++
		}
		if end := f.ended.Add(l.ahead); l.killed.IsZero() && end.Before(last) {
			last = end
		}
		for ; !broken.After(tickOf(l.killed.Add(l.ahead), f.every)); broken = broken.Add(f.every) {
			k.cut[broken] = append(k.cut[broken], l)
		}
	}
	for tick := first; tick.Before(tickOf(last, f.every)); tick = tick.Add(f.every) {
		k.ticks = append(k.ticks, tick)
	}
	return k
}

// note finds the ticks that were over before a replica came to their end, or to them at all;
// its last pass may have been broken off by a signal.
func (k *ledger) note(passes []passLine, every time.Duration) {
	for i, p := range passes[:max(0, len(passes)-1)] {
		tick, next := p.Tick, passes[i+1].Tick
		if p.NotReached > 0 {
			k.slow[tick] = true
		}
		for missing := tick.Add(every); missing.Before(next); missing = missing.Add(every) {
			k.slow[missing] = true
		}
	}
}

// tickOfCall returns the tick of a summary call: its pass', or, where a kill has cut that off,
// the one in which the call came.
func (f *fleet) tickOfCall(l *life, passes []passLine, c call) time.Time {
	f.t.Helper()
	at := c.at.Add(l.ahead)
	if i := passOf(passes, at); i < len(passes) {
		return passes[i].Tick
	}
	if l.killed.IsZero() {
		f.t.Errorf("replica %s has read %s at %s, after its last pass", l.name, c.sender, clock(c.at))
	}
	return tickOf(at, f.every)
}

// judge holds the ledger against the promise: every hospital once per tick and never twice;
// where a kill has cost a tick a hospital may go without for that one. It returns how often
// that was.
func (k ledger) judge(t testing.TB) (missed int) {
	t.Helper()
	for _, tick := range slices.SortedFunc(maps.Keys(k.reads), time.Time.Compare) {
		for id, n := range k.reads[tick] {
			if n > 1 {
				t.Errorf("%s was read %d times in the tick until %s", id, n, clock(tick))
			}
		}
	}
	for _, id := range k.ids {
		var culprits []*life // of the tick before, when that was missed
		for _, tick := range k.ticks {
			if k.reads[tick][id] > 0 || k.slow[tick] {
				culprits = nil
				continue
			}
			missed++
			suspects := k.cut[tick]
			switch {
			case len(suspects) == 0:
				t.Errorf("%s was not read in the tick until %s", id, clock(tick))
			case len(suspects) == 1 && slices.Equal(culprits, suspects):
				t.Errorf("%s was not read in the tick until %s nor in the one before, and one replica was killed", id, clock(tick))
			}
			culprits = suspects
		}
	}
	return missed
}

// whole returns the ticks that show something, and fails the test when this machine was too
// slow for most of them.
func (k ledger) whole(t testing.TB) []time.Time {
	t.Helper()
	whole := slices.DeleteFunc(slices.Clone(k.ticks), func(tick time.Time) bool { return k.slow[tick] })
	if len(whole) < 2 || 2*len(whole) < len(k.ticks) {
		t.Errorf("of %d ticks only %d were long enough for this machine", len(k.ticks), len(whole))
	}
	return whole
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
