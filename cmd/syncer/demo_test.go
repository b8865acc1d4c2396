package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"alimtalk-syncer/internal/config"
	"alimtalk-syncer/internal/sureM/simulator"
	"alimtalk-syncer/internal/templates"
)

// console is an io.Writer that may be read while it is written to.
type console struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(b)
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

func demoWorldFor(t *testing.T) (*demoWorld, *narrator, *console) {
	t.Helper()
	w, err := newDemoWorld()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	out := new(console)
	return w, newNarrator(out, w), out
}

// store puts a template as it stands at SureM into Redis.
func (w *demoWorld) store(t *testing.T, e entry) {
	t.Helper()
	if err := w.redis.Set("infotalk:template:{"+e.hospital+"}:"+e.code, w.surem.Document(e.senderKey(), e.code)); err != nil {
		t.Fatal(err)
	}
}

func TestDemoTemplatesAreWhatClinicsSend(t *testing.T) {
	w, _, _ := demoWorldFor(t)
	if len(clinics) != 3 || len(messages) < 12 {
		t.Errorf("%d hospitals with %d templates each", len(clinics), len(messages))
	}
	for _, c := range clinics {
		seen := map[string]bool{}
		for _, m := range messages {
			got, _ := w.surem.Template(c.senderKey, m.code)
			document := w.surem.Document(c.senderKey, m.code)
			switch {
			case seen[m.code] || templates.CheckCode(m.code) != nil:
				t.Errorf("%s: code comes twice or is none", m.code)
			case len(document) < 1<<10 || len(document) > 4<<10:
				t.Errorf("%s %s: %d bytes, want 1 to 4 KB", c.id, m.code, len(document))
			case strings.Contains(strings.ReplaceAll(got.Content, "\r\n", ""), "\n") || !strings.Contains(got.Content, "\r\n"):
				t.Errorf("%s %s: line ends are not CRLF", c.id, m.code)
			case strings.Contains(document, "@") || !strings.Contains(got.Content, "#{고객명}") || !strings.Contains(got.Content, c.name):
				t.Errorf("%s %s: lacks the clinic's or the patient's name: %s", c.id, m.code, got.Content)
			case len([]rune(got.Content)) > 1000:
				t.Errorf("%s: longer than the 1,000 characters that Kakao takes", m.code)
			case len(got.Buttons) < 1 || len(got.Buttons) > 5 || stateOf(document) != templates.Status(m.status).State():
				t.Errorf("%s: %d buttons, state %s", m.code, len(got.Buttons), stateOf(document))
			}
			for _, b := range got.Buttons {
				if len([]rune(b.Name)) > 14 {
					t.Errorf("%s: button %q is longer than 14 characters", m.code, b.Name)
				}
			}
			seen[m.code] = true
		}
	}
}

func TestDemoSettingsAreGood(t *testing.T) {
	w, _, _ := demoWorldFor(t)
	_, warnings, err := config.Load(w.settings("127.0.0.1:0"))
	if err != nil || len(warnings) > 0 {
		t.Errorf("%v %q", err, warnings)
	}
}

func TestReviewersNeverGetStuck(t *testing.T) {
	for from, next := range steps {
		sum := 0.0
		for _, s := range next {
			if sum += s.chance; steps[s.to] == nil || s.to == from {
				t.Errorf("%s → %s leads nowhere", from, s.to)
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("the chances of %s add up to %v", from, sum)
		}
		for _, draw := range []float64{0, .999999} {
			template := simulator.Template{InspectionStatus: from}
			if advance(&template, draw); template.InspectionStatus == from || len(template.Comments) != 1 {
				t.Errorf("%s: a draw of %v changes nothing", from, draw)
			}
		}
	}
	for _, m := range messages {
		if steps[m.status] == nil {
			t.Errorf("%s begins as %s, which nobody reviews", m.code, m.status)
		}
	}
}

func TestNarratorTellsWhatBecomesOfAChange(t *testing.T) {
	some := entry{"H001", "APPT_CONFIRM"} // REQUESTED
	invalidated := func(to, reason string) string {
		return `{"level":"info","hospital":"H001","code":"APPT_CONFIRM","from":"REQUESTED","to":"` + to + `","reason":"` + reason + `","message":"invalidated"}` + "\n"
	}
	for name, c := range map[string]struct {
		cached bool
		to     []string // "" takes the template away
		log    string
		want   string
		left   int // changes that wait for the daemon
	}{
		"deleted":             {true, []string{"APPROVED"}, invalidated("APPROVED", "status"), "H001 APPT_CONFIRM: REQUESTED → APPROVED at SureM; entry deleted ", 0},
		"deleted, other word": {true, []string{"APPROVED"}, invalidated("apr", "status"), "REQUESTED → APPROVED at SureM; entry deleted", 0},
		"two changes in one":  {true, []string{"REGISTERED", "APPROVED"}, invalidated("APPROVED", "status"), "REQUESTED → APPROVED at SureM; entry deleted", 0},
		"not yet":             {true, []string{"APPROVED"}, "", "", 1},
		"back again":          {true, []string{"APPROVED", "REQUESTED"}, "", "APPROVED → REQUESTED at SureM; its entry says so already", 0},
		"not cached":          {false, []string{"APPROVED"}, "", "REQUESTED → APPROVED at SureM; not cached, nothing to delete", 0},
		"stored meanwhile":    {false, []string{"APPROVED"}, invalidated("APPROVED", "status"), "REQUESTED → APPROVED at SureM; entry deleted", 0},
		"rejected":            {true, []string{"REJECTED"}, "", "rejected ones are not compared, its entry stays", 0},
		"gone":                {true, []string{""}, "", "gone from SureM's list", 0},
		"a lie":               {true, nil, invalidated("TSC03", "status"), `entry deleted, it said "REQUESTED" and SureM's list says "TSC03"`, 0},
		"ambiguous":           {true, []string{"APPROVED"}, invalidated("APPROVED", "ambiguous"), "(reason ambiguous)", 0},
		"a warning":           {true, nil, `{"level":"warn","hospital":"H002","error":"HTTP 500","message":"hospital failing"}`, "the daemon warns: hospital failing: H002: HTTP 500", 0},
		"a recovery":          {true, nil, `{"level":"info","hospital":"H002","message":"hospital recovered"}`, "the daemon reads H002 again", 0},
		"no news":             {true, nil, `{"level":"info","message":"pass"}`, "", 0},
		"no JSON":             {true, nil, `panic: …`, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, tell, out := demoWorldFor(t)
			if c.cached {
				w.store(t, some)
			}
			for _, to := range c.to {
				change := func() error { return w.surem.SetStatus(some.senderKey(), some.code, to) }
				if to == "" {
					change = func() error { return w.surem.Remove(some.senderKey(), some.code) }
				}
				if err := change(); err != nil {
					t.Fatal(err)
				}
			}
			fmt.Fprint(tell, c.log)
			if said := out.String(); !strings.Contains(said, c.want) || c.want == "" && said != "" {
				t.Errorf("said %q, want %q", said, c.want)
			}
			if left := tell.unfinished(); left != c.left || tell.books.changes != len(c.to) {
				t.Errorf("%d changes left of %d, want %d of %d", left, tell.books.changes, c.left, len(c.to))
			}
		})
	}
}

func TestNarratorRepeatsNoComplaintAtOnce(t *testing.T) {
	_, tell, out := demoWorldFor(t)
	for range 5 {
		fmt.Fprint(tell, `{"level":"warn","hospital":"H001","error":"HTTP 500","message":"hospital failing"}`)
	}
	if n := strings.Count(out.String(), "\n"); n != 1 || tell.books.complaints != 5 {
		t.Errorf("%d lines for %d complaints, want 1 for 5", n, tell.books.complaints)
	}
}

func TestNarratorKnowsAStaleReadFromAnEarlyOne(t *testing.T) {
	w, tell, out := demoWorldFor(t)
	some := entry{"H001", "APPT_CONFIRM"}
	read := func(began time.Time, state templates.State) books {
		tell.read(some, answer{began: began, state: state, cacheStatus: "alimtalk-syncer; hit"})
		return tell.books
	}
	start := time.Now()
	w.store(t, some)
	if err := w.surem.SetStatus(some.senderKey(), some.code, "APPROVED"); err != nil {
		t.Fatal(err)
	}
	if b := read(start, "REQUESTED"); b.early != 0 {
		t.Error("a read that began before the change may show either state")
	}
	if b := read(time.Now(), "REQUESTED"); b.early != 1 || b.stale != 0 {
		t.Errorf("a read before the daemon could know: %+v", b)
	}
	fmt.Fprint(tell, `{"level":"info","hospital":"H001","code":"APPT_CONFIRM","from":"REQUESTED","to":"APPROVED","reason":"status","message":"invalidated"}`)
	if b := read(start, "REQUESTED"); b.stale != 0 {
		t.Error("a read that began before the deletion is not stale")
	}
	if b := read(time.Now(), "APPROVED"); b.stale != 0 || b.early != 1 {
		t.Errorf("a fresh read: %+v", b)
	}
	if b := read(time.Now(), "REQUESTED"); b.stale != 1 || !strings.Contains(out.String(), "STALE READ") {
		t.Errorf("a stale read: %+v", b)
	}
	if err := w.surem.SetStatus(some.senderKey(), some.code, "REJECTED"); err != nil {
		t.Fatal(err)
	}
	if b := read(time.Now(), "APPROVED"); b.rejected != 1 || b.hits != 6 {
		t.Errorf("an old read of a rejected one: %+v", b)
	}
}

func TestDemoShowsTheMainJob(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var out console
	start := time.Now()
	if err := demo(t.Context(), demoOptions{For: 4 * time.Second}, &out); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 4*time.Second || took > 15*time.Second {
		t.Errorf("took %v, want about 4s", took)
	}
	said := out.String()
	for _, part := range []string{"  curl -i http://127.0.0.1:", "  curl -X POST http://127.0.0.1:", " → ", "; entry deleted ", "stale reads             0 ", "; 0 failed", "requests per load"} {
		if !strings.Contains(said, part) {
			t.Errorf("%q is not said", part)
		}
	}
	for _, part := range []string{"STALE", "the daemon warns", "not yet deleted", "demo-secret"} {
		if strings.Contains(said, part) {
			t.Errorf("%q is said", part)
		}
	}
	if t.Failed() {
		t.Log(said)
	}
}

func TestDemoStandsChaos(t *testing.T) {
	t.Parallel()
	var out console
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	if err := demo(ctx, demoOptions{Chaos: true}, &out); err != nil {
		t.Fatal(err)
	}
	if said := out.String(); !strings.Contains(said, "chaos: SureM's next ") || !strings.Contains(said, "stale reads             0 ") {
		t.Error(said)
	}
}

// Every fault that chaos can lay must be one that SureM takes, and leave it as it was.
func TestChaosIsAllowedAndEnds(t *testing.T) {
	t.Parallel()
	w, _, _ := demoWorldFor(t)
	ctx, cancel := context.WithCancel(t.Context())
	told := 0
	w.misbehave(ctx, rand.New(rand.NewPCG(1, 2)), func(_ string, f simulator.Fault, k simulator.Kind) {
		if told++; f.Times < 1 || k.Meaning == "" {
			t.Errorf("%+v", f)
		}
		cancel()
	})
	if told != 1 || len(w.surem.Faults()) != 0 {
		t.Errorf("%d faults told, %v left", told, w.surem.Faults())
	}
}
