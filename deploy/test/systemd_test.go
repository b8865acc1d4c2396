package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const unit = "systemd/alimtalk-syncer.service"

// unitFile writes the unit with the built binary as what it starts, and returns its path.
func unitFile(t *testing.T) string {
	t.Helper()
	text := read(t, unit)
	const start = "ExecStart=/usr/local/bin/syncer "
	if !strings.Contains(text, start) {
		t.Fatalf("the unit does not say %s", start)
	}
	path := filepath.Join(t.TempDir(), filepath.Base(unit))
	if err := os.WriteFile(path, []byte(strings.Replace(text, start, "ExecStart="+binary+" ", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUnitIsWhatSystemdTakes(t *testing.T) {
	t.Parallel()
	if out := ok(t, "systemd-analyze", "verify", "--man=no", unitFile(t)); out != "" {
		t.Error(out)
	}
}

func TestUnitIsLockedDown(t *testing.T) {
	t.Parallel()
	out := ok(t, "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=12", unitFile(t)) // tenths
	score := regexp.MustCompile(`Overall exposure level.*`).FindString(out)
	if score == "" {
		t.Fatal(out)
	}
	t.Log(score)
}

func TestUnitHandsOverItsSettings(t *testing.T) {
	t.Parallel()
	text := read(t, unit)
	env := commented(t, "systemd/alimtalk-syncer.env")
	for _, m := range regexp.MustCompile(`(?m)^Environment=([A-Z_]+)=(.*)$`).FindAllStringSubmatch(text, -1) {
		env[m[1]] = m[2]
	}
	dir := write(t, exampleFiles) + "/"
	checkSettings(t, env, map[string]string{"%d/": dir, "/etc/alimtalk-syncer/hospitals/": dir})
	credentials := regexp.MustCompile(`(?m)^LoadCredential=(\w+):/etc/alimtalk-syncer/secrets/(\w+)$`).FindAllStringSubmatch(text, -1)
	if len(credentials) != 3 {
		t.Errorf("%d credentials found", len(credentials))
	}
	for _, c := range credentials {
		if !strings.Contains(text, "_FILE=%d/"+c[1]+"\n") {
			t.Errorf("nobody reads credential %s", c[1])
		}
	}
}
