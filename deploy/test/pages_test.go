package test

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are what people read, as paths from deploy/.
func pages(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(deploy + "/*.md")
	if err != nil || len(all) < 3 {
		t.Fatal(all, err)
	}
	for i, p := range all {
		all[i] = filepath.Base(p)
	}
	return append(all, "../README.md", "../README.ko.md")
}

func TestPagesLeadSomewhere(t *testing.T) {
	t.Parallel()
	anchor := regexp.MustCompile(`(?m)^#+ (.*)$`)
	for _, page := range pages(t) {
		for _, m := range regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`).FindAllStringSubmatch(read(t, page), -1) {
			target := path.Join(path.Dir(page), m[1])
			if m[1] == "" {
				target = page
			}
			if _, err := os.Stat(filepath.Join(deploy, target)); err != nil {
				t.Errorf("%s leads to %s: %v", page, m[1], err)
				continue
			}
			if m[2] == "" {
				continue
			}
			found := slices.ContainsFunc(anchor.FindAllStringSubmatch(read(t, target), -1), func(h []string) bool {
				return "#"+strings.ReplaceAll(strings.ToLower(h[1]), " ", "-") == m[2]
			})
			if !found {
				t.Errorf("%s leads to %s%s: no such heading", page, m[1], m[2])
			}
		}
	}
}

func TestPagesNameSettingsThatExist(t *testing.T) {
	t.Parallel()
	known := settings(t)
	name := regexp.MustCompile(`\b(?:SUREM|CACHE|SYNC|FLIGHT|SHUTDOWN|HOSPITALS|API|HTTP|LOG|REDIS|DEBUG)_[A-Z_]+[A-Z]\b`)
	for _, page := range pages(t) {
		for _, n := range name.FindAllString(read(t, page), -1) {
			if !slices.Contains(known, n) && n != "SUREM_SECRET" { // a shell variable of the examples
				t.Errorf("%s names %s, which is no setting", page, n)
			}
		}
	}
}

func TestSharingPageNamesTheVersionsThatAreTried(t *testing.T) {
	t.Parallel()
	var p struct{ DevDependencies map[string]string }
	if err := json.Unmarshal([]byte(read(t, "node/package.json")), &p); err != nil {
		t.Fatal(err)
	}
	page := read(t, "sharing-the-cache.md")
	for name, version := range p.DevDependencies {
		if !strings.Contains(page, name+" "+version) {
			t.Errorf("%s %s is tried, and the page does not say so", name, version)
		}
	}
}
