package test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"alimtalk-syncer/internal/redistest"
)

// promised are figures that alerts and dashboard already ask for and that the binary does not
// have yet. One that has come must be taken out of here.
var promised []string

type rule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(read(t, "prometheus/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func TestAlertsFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	t.Log(ok(t, "promtool", "check", "rules", "--lint-fatal", filepath.Join(deploy, "prometheus/alerts.yaml")))
	t.Log(ok(t, "promtool", "test", "rules", filepath.Join(deploy, "prometheus/alerts_test.yaml")))
}

func TestEveryAlertIsSeenToFireAndToKeepQuiet(t *testing.T) {
	t.Parallel()
	var file struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []struct {
					ExpLabels map[string]string `json:"exp_labels"`
				} `json:"exp_alerts"`
			} `json:"alert_rule_test"`
			PromqlExprTest []struct{ Expr string } `json:"promql_expr_test"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "prometheus/alerts_test.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	fired, quiet := make(map[string]bool), make(map[string]bool)
	for _, test := range file.Tests {
		for _, a := range test.AlertRuleTest {
			quiet[a.Alertname] = quiet[a.Alertname] || len(a.ExpAlerts) == 0
			for _, e := range a.ExpAlerts {
				fired[a.Alertname+" "+e.ExpLabels["severity"]] = true
			}
		}
		for _, p := range test.PromqlExprTest {
			quiet[p.Expr] = true
		}
	}
	if !quiet["ALERTS"] {
		t.Error("no test of a system where all is well")
	}
	for _, r := range rules(t) {
		if !fired[r.Alert+" "+r.Labels["severity"]] {
			t.Errorf("%s (%s) is never seen to fire", r.Alert, r.Labels["severity"])
		}
	}
}

func TestRunbookHasASectionForEachAlert(t *testing.T) {
	t.Parallel()
	alerts := make(map[string]bool)
	for _, r := range rules(t) {
		alerts[r.Alert] = true
		if want := "deploy/runbook.md#" + strings.ToLower(r.Alert); r.Annotations["runbook"] != want {
			t.Errorf("%s leads to %s, want %s", r.Alert, r.Annotations["runbook"], want)
		}
		if s := r.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
	}
	sections := make(map[string]bool)
	for i, section := range strings.Split(read(t, "runbook.md"), "\n## ") {
		if i == 0 {
			continue
		}
		title, body, _ := strings.Cut(section, "\n")
		sections[title] = true
		for _, part := range []string{"- **Means**:", "- **Users notice**:", "- **Look at**:", "- **Do**:"} {
			if !strings.Contains(body, part) {
				t.Errorf("%s does not say %s", title, part)
			}
		}
		for _, r := range rules(t) {
			if r.Alert == title && !strings.Contains(body, "**"+r.Labels["severity"]) {
				t.Errorf("%s does not say that it is a %s", title, r.Labels["severity"])
			}
		}
	}
	if !maps.Equal(alerts, sections) {
		t.Errorf("alerts:   %v\nsections: %v", slices.Sorted(maps.Keys(alerts)), slices.Sorted(maps.Keys(sections)))
	}
}

// dashboard returns the queries of the dashboard, by panel, with Grafana's variables filled in.
func dashboard(t *testing.T) map[string][]string {
	t.Helper()
	var file struct {
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/dashboard.json")), &file); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$__range", "1h", "$__rate_interval", "5m", "$instance", ".*")
	queries, ids := make(map[string][]string), make(map[int]bool)
	taken := make(map[[2]int]string)
	for _, p := range file.Panels {
		if ids[p.ID] || (p.Type != "row" && len(p.Targets) == 0) {
			t.Errorf("panel %q: its id is used twice, or it shows nothing", p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, found := taken[at]; found || at[0] >= 24 {
					t.Errorf("panel %q lies over %q or outside", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
		for _, q := range p.Targets {
			queries[p.Title] = append(queries[p.Title], fill.Replace(q.Expr))
		}
	}
	for _, a := range file.Annotations.List {
		queries["annotations"] = append(queries["annotations"], a.Expr)
	}
	if first := file.Panels[1].Targets[0].Expr; !strings.Contains(first, "syncer_change_detection_seconds") {
		t.Errorf("the dashboard leads with %s", first)
	}
	return queries
}

func TestDashboardQueriesAreQueries(t *testing.T) {
	t.Parallel()
	type recording struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var all []recording
	for _, queries := range dashboard(t) {
		for _, q := range queries {
			all = append(all, recording{"query", q})
		}
	}
	group := map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": all}}}
	file, err := yaml.Marshal(group)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	ok(t, "promtool", "check", "rules", "--lint=none", path)
}

var (
	metricName = regexp.MustCompile(`\b(?:syncer|single_flight|process|go)_[a-z0-9_]+\b`)
	selector   = regexp.MustCompile(`\b((?:syncer|single_flight|process|go)_[a-z0-9_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"([^"]*)"`)
	sample     = regexp.MustCompile(`(?m)^([a-z0-9_]+)(\{[^}]*\})? `)
)

// TestEveryMetricNamedExists holds what dashboard, alerts and pages for people name against
// /metrics of the running binary: names, labels and, where one is asked for, their values.
func TestEveryMetricNamedExists(t *testing.T) {
	t.Parallel()
	_, suremURL := startSureM(t, "H001")
	text := get(t, startSyncer(t, suremURL, redistest.Start(t), []string{"H001"})+"/metrics")
	series := make(map[string][]string) // name -> label sets
	for _, m := range sample.FindAllStringSubmatch(text, -1) {
		series[m[1]] = append(series[m[1]], m[2])
		for _, suffix := range []string{"_bucket", "_count", "_sum"} { // a page may name the histogram
			if base, found := strings.CutSuffix(m[1], suffix); found {
				series[base] = append(series[base], m[2])
			}
		}
	}
	for _, name := range promised {
		if len(series[name]) > 0 {
			t.Errorf("%s has come: take it off the list of what was promised", name)
		}
		series[name] = []string{""}
	}

	sources := make(map[string]string)
	for _, r := range rules(t) {
		sources["alert "+r.Alert] += r.Expr + "\n"
	}
	for panel, queries := range dashboard(t) {
		sources["panel "+panel] = strings.Join(queries, "\n")
	}
	for _, page := range []string{"runbook.md", "operations.md"} {
		for _, m := range regexp.MustCompile("`[^`\n]+`").FindAllString(read(t, page), -1) {
			sources[page] += m + "\n"
		}
	}
	named := 0
	for source, text := range sources {
		for _, name := range metricName.FindAllString(text, -1) {
			named++
			if len(series[name]) == 0 {
				t.Errorf("%s: there is no metric %s", source, name)
			}
		}
		for _, m := range selector.FindAllStringSubmatch(text, -1) {
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if l[1] == "instance" || l[1] == "job" { // Prometheus' own
					continue
				}
				for value := range strings.SplitSeq(l[3], "|") {
					want := l[1] + `="` + value + `"`
					if !slices.ContainsFunc(series[m[1]], func(labels string) bool { return strings.Contains(labels, want) }) {
						t.Errorf("%s: no %s has %s", source, m[1], want)
					}
				}
			}
		}
	}
	if named < 80 {
		t.Errorf("only %d names found", named)
	}
}
