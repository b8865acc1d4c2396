package e2e

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// history is what readers, passes and Redis showed of hospitals whose template T1 changes its
// state all the time: each version has a state of its own.
type history struct {
	*fleet
	passed []string // hospitals that only scheduled passes read
	asked  []string // hospitals that POSTs read too

	mu        sync.Mutex        // guards what follows
	versions  map[string]int    // by hospital; what SureM has
	shown     map[string][]seen // by hospital: what summaries said, when, and to which replica
	answered  []seen            // to readers, by when they came
	sightings []seen            // in Redis, by when it was asked
	posts     []post
}

// seen is a hospital's version at a moment.
type seen struct {
	hospital, replica string
	version           int
	at                time.Time
}

// post is a POST that was ok.
type post struct {
	hospital, replica string
	sent, ended       time.Time
}

// newHistory watches SureM's summary calls for the hospitals.
func newHistory(f *fleet, passed, asked []string) *history {
	h := &history{fleet: f, passed: passed, asked: asked, versions: map[string]int{}, shown: map[string][]seen{}}
	bySender := map[string]string{}
	for _, id := range slices.Concat(passed, asked) {
		bySender[senderKey(id)] = id
		h.change(id)
	}
	f.surem.each(func(c call) *reply {
		if id := bySender[c.sender]; c.op == summaries && id != "" {
			version := versionOf(f.surem.senders[c.sender][0].status)
			h.note(func() { h.shown[id] = append(h.shown[id], seen{id, c.replica, version, c.at}) })
		}
		return nil
	})
	return h
}

func (h *history) note(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

// change is a reviewer's decision.
func (h *history) change(id string) {
	version := 0
	h.note(func() { h.versions[id]++; version = h.versions[id] })
	h.offer(id, template{code: "T1", status: fmt.Sprintf("V%d", version)})
}

var versionPattern = regexp.MustCompile(`^V(\d+)$|"inspectionStatus":"V(\d+)"`)

// versionOf returns the version in a status or a document.
func versionOf(text string) int {
	found := versionPattern.FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1] + found[2])
	return n
}

// slowness holds detail answers back, some of them for longer than a tick.
func slowness(r *rand.Rand) func(call) time.Duration {
	var mu sync.Mutex
	return func(c call) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		switch n := r.IntN(200); {
		case c.op != detail:
			return 0
		case n == 0:
			return 1500 * time.Millisecond
		case n < 10:
			return time.Duration(r.IntN(300)) * time.Millisecond
		}
		return time.Duration(r.IntN(5)) * time.Millisecond
	}
}

// readAt is a read at a replica that may be killed meanwhile.
func (h *history) readAt(l *life, id string) {
	came := time.Now()
	a := l.read(id, "T1")
	switch {
	case a.err != nil: // killed
	case a.ok() && versionOf(a.body) > 0:
		h.note(func() { h.answered = append(h.answered, seen{id, l.name, versionOf(a.body), came}) })
	default:
		h.t.Errorf("a read of %s at replica %s: %d %s", id, l.name, a.status, a.body)
	}
}

// postAt is a POST there.
func (h *history) postAt(l *life, id string) {
	sent := time.Now()
	if a := l.sync(id); a.ok() {
		ended := time.Now()
		h.note(func() { h.posts = append(h.posts, post{id, l.name, sent, ended}) })
	} else if a.err == nil {
		h.t.Errorf("a POST of %s at replica %s: %d %s", id, l.name, a.status, a.body)
	}
}

// look notes what stands in Redis.
func (h *history) look() {
	for _, id := range slices.Concat(h.passed, h.asked) {
		at := time.Now()
		if value, ok := h.redis.get(key(id, "T1")); ok {
			h.note(func() { h.sightings = append(h.sightings, seen{id, "Redis", versionOf(value), at}) })
		}
	}
}

// compared returns, by hospital, the versions of which a reading had ended, by when it surely
// had. It is to be asked for when all replicas have ended.
func (h *history) compared() map[string][]seen {
	ended := map[string][]seen{}
	add := func(s seen, end time.Time) {
		s.at = end
		ended[s.hospital] = append(ended[s.hospital], s)
	}
	for _, l := range h.lives {
		passes := l.passes()
		for _, id := range h.passed {
			for _, s := range h.shown[id] {
				if i := passOf(passes, s.at); s.replica == l.name && i < len(passes) && passes[i].Failed == 0 {
					add(s, passes[i].ended())
				}
			}
		}
	}
	for _, p := range h.posts {
		// The first one after the POST was sent is its own, or one that has ended before that.
		i := slices.IndexFunc(h.shown[p.hospital], func(s seen) bool { return s.replica == p.replica && s.at.After(p.sent) })
		if i >= 0 && h.shown[p.hospital][i].at.Before(p.ended) {
			add(h.shown[p.hospital][i], p.ended)
		}
	}
	for _, list := range ended {
		slices.SortFunc(list, func(a, b seen) int { return a.at.Compare(b.at) })
		for i := 1; i < len(list); i++ {
			list[i].version = max(list[i].version, list[i-1].version)
		}
	}
	return ended
}

// judge holds what readers got and Redis held against the readings that had ended before
// (contract §8.1), and returns how many of these there were.
func (h *history) judge() (readings int) {
	h.t.Helper()
	compared := h.compared()
	for _, list := range compared {
		readings += len(list)
	}
	for _, s := range slices.Concat(h.answered, h.sightings) {
		list := compared[s.hospital]
		i, _ := slices.BinarySearchFunc(list, s.at, func(c seen, at time.Time) int { return c.at.Compare(at) })
		if i > 0 && s.version < list[i-1].version {
			h.t.Errorf("%s at %s from %s: version %d; a reading that had ended at %s saw version %d",
				s.hospital, clock(s.at), s.replica, s.version, clock(list[i-1].at), list[i-1].version)
		}
	}
	return readings
}
