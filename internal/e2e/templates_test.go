package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// textMark stands in every template's text, so that a log that quotes one is found out.
const textMark = "본문-7c4e"

// template is one Alimtalk template at SureM.
type template struct {
	code, name, status string
	dormant            bool
	version            string // told apart in the document's text
	rest               string // more members of row and document, such as `"modifiedAt":"…",`
	row                string // when set, the row in place of the usual one
}

func (t template) title() string {
	if t.name == "" {
		return "예약 확정"
	}
	return t.name
}

// summary is the template's row in the list, with blanks and an escape that no encoder would write.
func (t template) summary() string {
	if t.row != "" {
		return t.row
	}
	return fmt.Sprintf(`{"templateCode": %s,%s "name":%s , "inspectionStatus":%s,"dormant":%t,"memo":"\u003c\/a>"}`,
		quote(t.code), t.rest, quote(t.title()), quote(t.status), t.dormant)
}

// document is the template in full: CRLF, no-break space, markup, trailing blanks and key order
// are such that decoding and encoding it again would show.
func (t template) document() string {
	return fmt.Sprintf(`{"templateContent":"%s%s #{이름}님,\r\n<b>예약</b> & 안내`+"\u00a0"+` \u00e9\/  ", "templateCode" : %s,%s"name":%s,"buttons":[ ],"amount":1.10,"inspectionStatus":%s }`,
		textMark, t.version, quote(t.code), t.rest, quote(t.title()), quote(t.status))
}

func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// gate holds back SureM's answers, which were decided when the calls arrived.
type gate struct {
	t          testing.TB
	op, sender string
	codes      []string
	limit      int // how many calls it takes; the later ones pass

	mu    sync.Mutex
	taken int
	open  chan struct{}
	once  sync.Once
}

// hold makes the first limit matching calls wait (0 = all) until the gate is released.
func (s *sureM) hold(op, sender string, limit int, codes ...string) *gate {
	g := &gate{t: s.t, op: op, sender: sender, codes: codes, limit: limit, open: make(chan struct{})}
	s.mu.Lock()
	s.gates = append(s.gates, g)
	s.mu.Unlock()
	s.t.Cleanup(g.release)
	return g
}

func (g *gate) takes(c *call) bool {
	if c.op != g.op || c.sender != g.sender || len(g.codes) > 0 && !slices.Contains(g.codes, c.code) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limit > 0 && g.taken >= g.limit {
		return false
	}
	g.taken++
	return true
}

func (g *gate) wait(r *http.Request) {
	select {
	case <-g.open:
	case <-r.Context().Done():
	}
}

// await waits until n calls have come to the gate.
func (g *gate) await(n int) {
	g.t.Helper()
	eventually(g.t, soon, fmt.Sprintf("%d %s call(s) held at SureM", n, g.op), func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.taken >= n
	})
}

// release lets the held calls go, and all later ones pass.
func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

// aLongTime is a TTL that no test outlives.
const aLongTime = time.Hour
