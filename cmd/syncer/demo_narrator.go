package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"alimtalk-syncer/internal/sureM/simulator"
	"alimtalk-syncer/internal/templates"
)

// narrator tells in plain words what happens in the demo, and keeps the books. It is the
// writer of the daemon's log, from which it learns what the daemon has done.
type narrator struct {
	out    io.Writer
	began  time.Time
	cached func(entry) templates.State // what Redis holds now
	burst  chan entry                  // entries just deleted, for readers to rush at

	mu       sync.Mutex
	history  map[entry][]moment   // states at SureM, the present one last
	waiting  map[entry]change     // changes that Redis does not know of yet
	noticed  map[entry]sighting   // the last change that the daemon has acted on
	lastSaid map[string]time.Time // complaints of the daemon
	books    books
}

// moment is a state at SureM from a time on.
type moment struct {
	at    time.Time
	state templates.State
}

// change is a change at SureM that waits for the daemon.
type change struct {
	at       time.Time
	from, to string
}

// sighting says that the daemon had seen a moment of an entry's history, and when it said so.
type sighting struct {
	at     time.Time
	moment int
}

func newNarrator(out io.Writer, w *demoWorld) *narrator {
	n := &narrator{
		out: out, began: time.Now(), cached: w.cached, burst: make(chan entry, 1),
		history: make(map[entry][]moment), waiting: make(map[entry]change),
		noticed: make(map[entry]sighting), lastSaid: make(map[string]time.Time),
	}
	for _, c := range clinics {
		for _, m := range messages {
			n.history[entry{c.id, m.code}] = []moment{{n.began, templates.Status(m.status).State()}}
		}
	}
	w.surem.Watch(n.changed)
	return n
}

// welcome tells what there is to see, and what to try.
func (n *narrator) welcome(o demoOptions, addr, suremURL string) {
	some := entry{clinics[0].id, messages[0].code}
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(n.out, `A daemon, a Redis and a SureM run in this process, with %[1]d hospitals of %[2]d templates each. SureM's reviewers
change a template every second or so; every second the daemon compares what Redis holds with SureM's
summaries, and deletes what has changed. Readers fill the cache again.

Try it from another terminal:
  curl -i http://%[3]s/v1/hospitals/%[4]s/templates/%[5]s
  curl -X POST http://%[3]s/v1/hospitals/%[4]s/sync
See how it fares at http://%[3]s/ (for people) and http://%[3]s/metrics. To be a reviewer yourself, PUT
{"inspectionStatus":"APPROVED"} to
  %[6]s/_sim/templates/%[7]s/%[5]s

`, len(clinics), len(messages), addr, some.hospital, some.code, suremURL, some.senderKey())
	if o.Chaos {
		fmt.Fprint(n.out, "Chaos is on: every two seconds SureM misbehaves for a call or a few, at random.\n\n")
	}
}

// close prints the sums of what has happened. Nothing happens any more.
func (n *narrator) close(figures flightFigures) {
	n.books.close(n.out, time.Since(n.began), n.unfinished(), figures)
}

// say prints one line with the time since the demo's begin.
func (n *narrator) say(format string, args ...any) {
	fmt.Fprintf(n.out, "%6.1fs  %s\n", time.Since(n.began).Seconds(), fmt.Sprintf(format, args...))
}

// changed takes note of a change at SureM. One that the daemon will act on is told when it
// has, the others at once.
func (n *narrator) changed(c simulator.Change) {
	e, to := entryOf(c.SenderKey, c.Code), templates.Status(c.To).State()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.books.changes++
	n.history[e] = append(n.history[e], moment{c.At, to})
	first, unseen := n.waiting[e]
	if !unseen {
		first = change{at: c.At, from: c.From}
	}
	first.to = c.To
	delete(n.waiting, e)
	held := n.cached(e)
	switch {
	case c.From == "":
		n.say("%s: new at SureM, %s", e, c.To)
	case c.To == "":
		n.say("%s: gone from SureM's list; an entry that is not listed lives out its 24 h", e)
	case held == "":
		n.say("%s: %s → %s at SureM; not cached, nothing to delete", e, c.From, c.To)
	case held == to:
		n.say("%s: %s → %s at SureM; its entry says so already", e, c.From, c.To)
	case to == templates.Rejected:
		n.say("%s: %s → %s at SureM; rejected ones are not compared, its entry stays", e, c.From, c.To)
	default:
		n.waiting[e] = first
	}
}

// Write implements io.Writer for the daemon's log: one JSON object a call.
func (n *narrator) Write(line []byte) (int, error) {
	if !gjson.ValidBytes(line) {
		return len(line), nil
	}
	event := gjson.ParseBytes(line)
	text := func(name string) string { return event.Get(name).String() }
	n.mu.Lock()
	defer n.mu.Unlock()
	switch level, message := text("level"), text("message"); {
	case message == "invalidated":
		n.deleted(entry{text("hospital"), text("code")}, text("from"), text("to"), text("reason"))
	case message == "hospital recovered":
		n.say("the daemon reads %s again", text("hospital"))
	case level == "warn" || level == "error" || level == "fatal" || level == "panic":
		n.complain(message, text("hospital"), text("code"), text("error"))
	}
	return len(line), nil
}

// deleted takes note of an entry that the daemon has deleted. The caller holds mu.
func (n *narrator) deleted(e entry, from, to, reason string) {
	now := time.Now()
	n.books.deleted++
	c, known := n.waiting[e]
	delete(n.waiting, e)
	seen := -1
	for i, m := range n.history[e] {
		if m.state == templates.Status(to).State() {
			seen = i
		}
	}
	if reason != "status" || seen < 1 {
		n.say("%s: entry deleted, it said %q and SureM's list says %q (reason %s)", e, from, to, reason)
		return
	}
	if !known { // a load had read it before the change and stored it after
		c = change{at: n.history[e][seen].at, from: from, to: to}
	}
	n.noticed[e] = sighting{now, seen}
	n.books.delays = append(n.books.delays, now.Sub(c.at))
	n.say("%s: %s → %s at SureM; entry deleted %s later", e, c.from, c.to, inSeconds(now.Sub(c.at)))
	select {
	case n.burst <- e:
	default:
	}
}

// inSeconds writes a duration as people say it: "0.6 s", and "0.04 s" where one digit says nothing.
func inSeconds(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// complain tells a warning or an error of the daemon, the same one at most every three
// seconds. The caller holds mu.
func (n *narrator) complain(message, hospital, code, fault string) {
	n.books.complaints++
	key := message + " " + hospital
	if last, ok := n.lastSaid[key]; ok && time.Since(last) < 3*time.Second {
		return
	}
	n.lastSaid[key] = time.Now()
	said := []string{message}
	if about := strings.TrimSpace(hospital + " " + code); about != "" {
		said = append(said, about)
	}
	if fault != "" {
		said = append(said, fault)
	}
	n.say("the daemon warns: %s", strings.Join(said, ": "))
}

// misbehaves tells of a fault that has been laid on SureM.
func (n *narrator) misbehaves(hospital string, f simulator.Fault, k simulator.Kind) {
	calls := map[string]string{simulator.Login: "logins", simulator.Summaries: "lists", simulator.Detail: "details"}[f.Operation]
	if hospital != "" {
		calls += " of " + hospital
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	next := "next answer"
	if f.Times > 1 {
		next = fmt.Sprintf("next %d answers", f.Times)
	}
	n.say("chaos: SureM's %s to %s: %s", next, calls, k.Meaning)
}

// rushed tells of a crowd of readers of one entry, and what it cost SureM.
func (n *narrator) rushed(e entry, calls int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.say("%s: %d readers asked for it at once; calls to SureM: %d", e, crowd, calls)
}

// answer is one answer of the daemon to a reader.
type answer struct {
	began       time.Time
	failed      bool
	state       templates.State
	cacheStatus string
}

// read judges an answer. It is stale when the daemon had acted on a newer state before the
// reader came; until then an old answer is what the cache is there for.
func (n *narrator) read(e entry, a answer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a.failed {
		n.books.failed++
		return
	}
	n.books.count(a.cacheStatus)
	past := n.history[e]
	atStart := 0
	for i, m := range past {
		if !m.at.After(a.began) {
			atStart = i
		}
	}
	if was, ok := n.noticed[e]; ok && a.began.After(was.at) && !contains(past[was.moment:], a.state) {
		n.books.stale++
		n.say("%s: STALE READ: %s, which the daemon had seen to be over", e, a.state)
		return
	}
	switch {
	case atStart >= len(past) || contains(past[atStart:], a.state):
	case past[atStart].state == templates.Rejected:
		n.books.rejected++
	default:
		n.books.early++
	}
}

func contains(moments []moment, state templates.State) bool {
	for _, m := range moments {
		if m.state == state {
			return true
		}
	}
	return false
}

// unfinished counts the changes of cached entries that the daemon has not yet acted on.
func (n *narrator) unfinished() (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for e, c := range n.waiting {
		if held := n.cached(e); held != "" && held != templates.Status(c.to).State() {
			count++
		}
	}
	return count
}

// stateOf reads the inspection state of a document.
func stateOf(document string) templates.State {
	var d struct {
		InspectionStatus templates.Status `json:"inspectionStatus"`
	}
	if json.Unmarshal([]byte(document), &d) != nil {
		return ""
	}
	return d.InspectionStatus.State()
}
