package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// wiretap is what clients say to Redis, but for what opens a connection.
type wiretap struct {
	r     *redisServer
	mu    sync.Mutex // guards lines
	lines []string
}

var (
	monitorLine = regexp.MustCompile(`^\+[0-9.]+ \[0 ([^ \]]+)\] "([^"]*)"(.*)$`)
	monitorKey  = regexp.MustCompile(`"((?:infotalk|alimtalk-syncer):[^"]*)"`)
)

// marks are what the test itself says to Redis.
const marks = "e2e-mark-"

// tap listens with MONITOR until the test ends.
func (r *redisServer) tap() *wiretap {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.Addr)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		r.t.Fatal(err)
	}
	m := &wiretap{r: r}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			m.note(lines.Text())
		}
	}()
	r.t.Cleanup(func() {
		_ = conn.Close()
		<-heard
	})
	eventually(r.t, soon, "MONITOR listens", func() bool { // what was said before is not heard
		r.do("ECHO " + marks)
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.lines) > 0
	})
	return m
}

func (m *wiretap) note(line string) {
	found := monitorLine.FindStringSubmatch(line)
	if found == nil {
		return
	}
	name := strings.ToLower(found[2])
	switch {
	case slices.Contains([]string{"hello", "client", "select", "ping", "command"}, name):
		return
	case found[1] == "lua": // within a script
		return
	}
	for _, k := range monitorKey.FindAllStringSubmatch(found[3], -1) {
		name += " " + k[1]
	}
	if strings.Contains(found[3], marks) {
		name = strings.Trim(found[3], ` "`)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, name)
}

// take returns what has come since it was last asked.
func (m *wiretap) take() []string {
	m.r.t.Helper()
	var taken []string
	mark := fmt.Sprintf("%s%d", marks, time.Now().UnixNano())
	m.r.do("ECHO " + mark)
	eventually(m.r.t, soon, "MONITOR tells of the mark", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		i := slices.Index(m.lines, mark)
		if i < 0 {
			return false
		}
		taken, m.lines = m.lines[:i:i], m.lines[i+1:]
		return true
	})
	return slices.DeleteFunc(taken, func(line string) bool { return strings.HasPrefix(line, marks) })
}

// The keys of H001, as the list below has them.
var tapKeys = strings.NewReplacer(
	"alimtalk-syncer:fence:infotalk:template:{H001}:", "FENCE", "infotalk:template:{H001}:T1", "ENTRY",
	"alimtalk-syncer:hot:87d213c4a8a096cc", "HOT", "alimtalk-syncer:cold:87d213c4a8a096cc", "COLD",
)

func TestWithoutAFleetRedisIsAskedForNothingMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	w.offer("H001", template{code: "T1", status: "APPROVED"})
	tap := w.redis.tap()
	d := w.start("FLEET=false", "SYNC_ON_START=true")
	pass := func() answer {
		eventually(t, soon, "the pass has ended", func() bool { return len(d.passes()) == 1 })
		return answer{status: http.StatusOK}
	}
	read := func() answer { return d.read("H001", "T1") }
	for _, step := range []struct {
		name string
		do   func() answer
		said string // up to issue 8, and from then on
	}{
		{"a pass", pass, "zrange HOT, zrange COLD, del FENCE, get ENTRY"},
		{"a miss", read, "get ENTRY, evalsha ENTRY FENCE, eval ENTRY FENCE, eval ENTRY FENCE, eval COLD"},
		{"a hit", read, "get ENTRY"},
		{"a list", func() answer { return d.get(listPath("H001")) }, "del FENCE, get ENTRY"},
		{"a POST", func() answer { return d.sync("H001") }, "del FENCE, get ENTRY"},
		{"a DELETE", func() answer { return d.delete("H001", "T1") }, "evalsha ENTRY FENCE, eval ENTRY FENCE"},
	} {
		if a := step.do(); a.err != nil || a.status/100 != 2 {
			t.Fatalf("%s: %d %v", step.name, a.status, a.err)
		}
		if said := tapKeys.Replace(strings.Join(tap.take(), ", ")); said != step.said {
			t.Errorf("%s: Redis is asked for\n%s, want\n%s", step.name, said, step.said)
		}
	}
	if keys := w.redis.keys("*"); len(keys) != 1 { // COLD: entry and fence are deleted
		t.Errorf("what is left in Redis: %q", keys)
	}
}
