package simulator_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"alimtalk-syncer/internal/sureM/simulator"
)

func TestFaultsBefallOnlyWhatTheyName(t *testing.T) {
	for name, c := range map[string]struct {
		fault simulator.Fault
		hit   string // of the calls below, in their order
	}{
		"everything":       {simulator.Fault{}, "xxxxxx"},
		"an operation":     {simulator.Fault{Operation: simulator.Detail}, "....xx"},
		"a sender":         {simulator.Fault{SenderKey: senderB}, "...x.x"},
		"a sender's lists": {simulator.Fault{Operation: simulator.Summaries, SenderKey: senderA}, ".xx..."},
		"a template":       {simulator.Fault{SenderKey: senderA, Code: "T1"}, "....x."},
		"a page":           {simulator.Fault{Page: 2}, "..x..."},
		"twice":            {simulator.Fault{Times: 2}, "xx...."},
		"every third":      {simulator.Fault{Every: 3}, "..x..x"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVendor(t)
			token := v.token()
			c.fault.Name = "status-500"
			if err := v.SetFaults(c.fault); err != nil {
				t.Fatal(err)
			}
			var hit strings.Builder
			for _, g := range []got{
				v.logIn(t.Context()),
				v.do(t.Context(), http.MethodGet, summariesPath(senderA, 1, 3), token, ""),
				v.do(t.Context(), http.MethodGet, summariesPath(senderA, 2, 3), token, ""),
				v.do(t.Context(), http.MethodGet, summariesPath(senderB, 1, 3), token, ""),
				v.do(t.Context(), http.MethodGet, detailPath(senderA, "T1"), token, ""),
				v.do(t.Context(), http.MethodGet, detailPath(senderB, "T1"), token, ""),
			} {
				hit.WriteString(map[int]string{200: ".", 500: "x"}[g.status])
			}
			if hit.String() != c.hit {
				t.Errorf("hit %s, want %s", hit.String(), c.hit)
			}
		})
	}
}

func TestARefusedCallSpendsNoFault(t *testing.T) {
	v := newVendor(t)
	if err := v.SetFaults(simulator.Fault{Name: "status-500", Operation: simulator.Summaries, Times: 1}); err != nil {
		t.Fatal(err)
	}
	path := summariesPath(senderA, 1, 3)
	v.do(t.Context(), http.MethodGet, path, "made-up", "").refusal(t, http.StatusUnauthorized, "A1001")
	v.do(t.Context(), http.MethodGet, path, v.token(), "").refusal(t, http.StatusInternalServerError, "A9999")
}

func TestControlOverHTTP(t *testing.T) {
	v := newVendor(t)
	control := func(method, path, body string, status int) string {
		t.Helper()
		g := v.do(t.Context(), method, "/_sim"+path, "", body)
		if g.err != nil || g.status != status {
			t.Errorf("%s %s: status %d, want %d: %s (%v)", method, path, g.status, status, g.body, g.err)
		}
		return strings.TrimSpace(string(g.body))
	}

	laid := `[{"fault":"html","senderKey":"key-A","times":1},{"fault":"slow","delayMs":20}]`
	control(http.MethodPut, "/faults", laid, 204)
	if now := control(http.MethodGet, "/faults", "", 200); now != laid {
		t.Errorf("faults %s, want %s", now, laid)
	}
	for body, why := range map[string]string{
		`[{"fault":"no such"}]`:                                         "no such kind",
		`[{"fault":"list-null","operation":"login"}]`:                   "cannot befall",
		`[{"fault":"html","operation":"login","senderKey":"key-A"}]`:    "no sender key",
		`[{"fault":"html","times":-1}]`:                                 "negative",
		`[{"fault":"html","tmes":1}]`:                                   "unknown field",
		`{"fault":"html"}`:                                              "cannot unmarshal",
		`[{"fault":"html"},{"fault":"html","operation":"summary","x":1`: "EOF",
	} {
		if said := control(http.MethodPut, "/faults", body, 400); !strings.Contains(said, why) {
			t.Errorf("%s: %q, want %q", body, said, why)
		}
	}
	token := v.token()
	if g := v.call(t.Context(), simulator.Summaries, token, 1); !strings.Contains(string(g.body), "<html>") {
		t.Errorf("a bad list of faults has changed the good one: %.100q", g.body)
	}
	if now := control(http.MethodGet, "/faults", "", 200); now != `[{"fault":"slow","delayMs":20}]` {
		t.Errorf("a spent fault is shown: %s", now)
	}
	control(http.MethodDelete, "/faults", "", 204)
	if now := control(http.MethodGet, "/faults", "", 200); now != `[]` {
		t.Errorf("faults %s, want none", now)
	}

	control(http.MethodPut, "/templates/key-A/T1", `{"inspectionStatus":"APPROVED","dormant":true}`, 204)
	one, _ := v.Template(senderA, "T1")
	if one.InspectionStatus != "APPROVED" || !one.Dormant || one.Name != "예약 안내 T1" {
		t.Errorf("changed to %+v", one)
	}
	control(http.MethodPut, "/templates/key-A/T9", `{"inspectionStatus":"REQUESTED"}`, 204)
	if _, ok := v.Template(senderA, "T9"); !ok {
		t.Error("T9 was not added")
	}
	control(http.MethodPut, "/templates/key-A/T1", `{"inspectonStatus":"APPROVED"}`, 400)
	control(http.MethodPut, "/templates/nobody/T1", `{}`, 400)
	control(http.MethodDelete, "/templates/key-A/T9", "", 204)
	control(http.MethodDelete, "/templates/key-A/T9", "", 400)

	control(http.MethodDelete, "/tokens", "", 204)
	v.call(t.Context(), simulator.Summaries, token, 1).refusal(t, 401, "A1001")

	var stats simulator.Stats
	if err := json.Unmarshal([]byte(control(http.MethodGet, "/stats", "", 200)), &stats); err != nil {
		t.Fatal(err)
	}
	want := simulator.Count{Operation: simulator.Summaries, SenderKey: senderA, Calls: 2, Faulty: 1, Peak: 1}
	if len(stats.Counts) != 2 || stats.Counts[1] != want || stats.Tokens != 0 {
		t.Errorf("stats %+v", stats)
	}
	var kinds []simulator.Kind
	if err := json.Unmarshal([]byte(control(http.MethodGet, "/kinds", "", 200)), &kinds); err != nil || len(kinds) != len(simulator.Kinds) {
		t.Errorf("%d kinds, %v", len(kinds), err)
	}
}
