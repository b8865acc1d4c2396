package invalidate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/sureM/simulator"
)

// The one hospital of the table: what SureM says of its templates, and what is cached. T2, T5
// and T6 have changed, T4 is in a skipped state, GONE is not listed.
var shelf = []struct{ code, said, cached string }{
	{"T1", "APPROVED", "APPROVED"},
	{"T2", "APPROVED", "REQUESTED"},
	{"T3", "REQUESTED", "REQUESTED"},
	{"T4", "REJECTED", "APPROVED"},
	{"T5", "APPROVED", "REQUESTED"}, // second page; dormant
	{"T6", "DELETED", "APPROVED"},
	{"T7", "REGISTERED", "REGISTERED"},
	{"GONE", "", "APPROVED"},
}

// seen is what a pass has come to.
type seen struct {
	deleted  string // and nothing else; codes, sorted
	complete bool
	bad      int // rows
	calls    int // for summaries
	logins   int
	err      string // a part of the report's error; "" = ok
	strange  bool   // the log shows the body
}

func TestWhatAPassMakesOfEachKindOfAnswer(t *testing.T) {
	server := redistest.Start(t)
	type run struct {
		kind, variant string
		fault         simulator.Fault
		want          seen
		got           seen
		why           []string
	}
	var runs []*run
	for _, kind := range simulator.Kinds {
		want, ok := wanted[kind.Name]
		if !ok {
			t.Errorf("nothing is expected of %q", kind.Name)
			continue
		}
		add := func(variant string, f simulator.Fault, want seen) {
			f.Name = kind.Name
			runs = append(runs, &run{kind: kind.Name, variant: variant, fault: f, want: want})
		}
		if slices.Contains(kind.Operations, simulator.Summaries) {
			add("every page", simulator.Fault{Operation: simulator.Summaries}, want.every)
			add("page two", simulator.Fault{Operation: simulator.Summaries, Page: 2}, want.second)
			add("the first call", simulator.Fault{Operation: simulator.Summaries, Times: 1}, want.once)
		}
		if slices.Contains(kind.Operations, simulator.Login) {
			add("every login", simulator.Fault{Operation: simulator.Login}, want.login)
		}
	}
	for name := range wanted {
		if !slices.ContainsFunc(simulator.Kinds, func(k simulator.Kind) bool { return k.Name == name }) {
			t.Errorf("%q is expected and does not exist", name)
		}
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, 24) // they wait more than they work
	for _, r := range runs {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			r.got, r.why = passOver(t, server, r.fault)
		})
	}
	all.Wait()
	for _, r := range runs {
		t.Run(r.kind+"/"+r.variant, func(t *testing.T) {
			for _, why := range r.why {
				t.Error(why)
			}
			if !strings.Contains(r.got.err, r.want.err) || r.want.err == "" && r.got.err != "" {
				t.Errorf("error %q, want %q", r.got.err, r.want.err)
			}
			r.got.err, r.want.err = "", ""
			if r.got != r.want {
				t.Errorf("got  %+v\nwant %+v", r.got, r.want)
			}
		})
	}
}

// passOver makes a pass over the shelf under a fault, and another when the fault is gone, and
// says what is wrong whatever the fault was.
func passOver(t *testing.T, server *redistest.Server, fault simulator.Fault) (got seen, wrong []string) {
	c := newClinic(t, server, patientWithSize(fault.Name), "H1")
	var codes []string
	for _, s := range shelf {
		if s.said != "" {
			c.offer(t, "H1", s.code, s.said)
		}
		c.cache(t, "H1", s.code, s.cached)
		codes = append(codes, s.code)
	}
	_ = c.Edit(senderKey("H1"), "T5", func(t *simulator.Template) { t.Dormant = true })
	if err := c.SetFaults(fault); err != nil {
		return seen{}, []string{err.Error()}
	}
	r := c.pass(t)["H1"]
	got = seen{
		deleted: c.gone(t, "H1", codes...), complete: r.Complete, bad: r.BadRows, err: r.Error,
		calls: c.Calls(simulator.Summaries, "", ""), logins: c.Calls(simulator.Login, "", ""),
		strange: c.log.events("surem strange answer") > 0,
	}
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if changed(r) != got.deleted || c.log.events("invalidated") != len(r.Invalidated) {
		say("%q are gone, the report says %q, the log %d", got.deleted, changed(r), c.log.events("invalidated"))
	}
	if r.OK != (r.Error == "") || r.OK != r.Complete || c.log.events("hospital failing") != map[bool]int{false: 1}[r.OK] {
		say("ok %v, complete %v, error %q, log %s", r.OK, r.Complete, r.Error, c.log)
	}
	if c.Stats().Trapped > 0 {
		say("a redirect was followed")
	}

	// All heals with the fault, but for a day's pause and a token that was refused though
	// fresh, which stand for a minute.
	if fault.Name == "limit-day" || fault.Name == "token-dead" {
		return got, wrong
	}
	if err := c.SetFaults(); err != nil {
		say("%v", err)
	}
	end := time.Now().Add(20 * time.Second)
	for r = c.pass(t)["H1"]; !r.OK && time.Now().Before(end); r = c.pass(t)["H1"] {
		time.Sleep(50 * time.Millisecond) // a failed login stands for a second
	}
	if left := c.gone(t, "H1", "T2", "T5", "T6"); !r.OK || left != "T2 T5 T6" {
		say("not healed: %q are gone, error %q", left, r.Error)
	}
	return got, wrong
}

// A read that misses is answered byte for byte and stored, or fails and stores nothing.
func TestWhatAReadMakesOfEachKindOfAnswer(t *testing.T) {
	server := redistest.Start(t)
	slots, all := make(chan struct{}, 20), sync.WaitGroup{}
	for _, kind := range simulator.Kinds {
		want := wanted[kind.Name]
		if want.read == "" {
			want.read = want.every.err
		}
		if !slices.Contains(kind.Operations, simulator.Detail) {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			c := newClinic(t, server, patientWithSize(kind.Name), "H1")
			c.offer(t, "H1", "T1", "APPROVED")
			if err := c.SetFaults(simulator.Fault{Name: kind.Name, Operation: simulator.Detail}); err != nil {
				t.Error(err)
				return
			}
			h, _ := c.hospitals.Get("H1")
			answer, err := c.reader.Read(context.Background(), h, "T1")
			stored := c.gone(t, "H1", "T1") == ""
			switch {
			case want.read == "" && kind.Name == "detail-huge": // its text is the fault's
				if err != nil || len(answer.Document) < 50<<10 || !stored {
					t.Errorf("%s: %d bytes, %v, stored %v", kind.Name, len(answer.Document), err, stored)
				}
			case want.read == "":
				if err != nil || answer.Document != c.Document(senderKey("H1"), "T1") || !stored {
					t.Errorf("%s: %q, %v, stored %v", kind.Name, answer.Document, err, stored)
				}
			case err == nil || !strings.Contains(err.Error(), want.read) || stored:
				t.Errorf("%s: %q, %v, want %q; stored %v", kind.Name, answer.Document, err, want.read, stored)
			}
		})
	}
	all.Wait()
}

// patientWithSize gives answers that only their size is to end all the time they need.
func patientWithSize(kind string) func(*setting) {
	return func(s *setting) {
		if slices.Contains([]string{"oversized", "gzip-bomb", "endless-body"}, kind) {
			s.surem.Timeout = 20 * time.Second
		}
	}
}
