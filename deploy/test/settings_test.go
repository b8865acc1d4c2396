package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var settingName = regexp.MustCompile("(?m)^\\| `([A-Z_]+)`|`([A-Z_]+_FILE)`")

// settings returns the names of all settings, as the binary tells them.
func settings(t testing.TB) []string {
	t.Helper()
	var known []string
	for _, m := range settingName.FindAllStringSubmatch(ok(t, binary, "config", "--markdown"), -1) {
		known = append(known, m[1]+m[2])
	}
	if len(known) < 30 {
		t.Fatalf("only %d settings found: %v", len(known), known)
	}
	return known
}

// checkSettings fails the test for every name that is no setting, and unless the binary finds
// nothing wrong with the settings as a whole. Paths that begin as a key of files does are
// looked for in the folder that it names instead.
func checkSettings(t *testing.T, env map[string]string, files map[string]string) {
	t.Helper()
	known := settings(t)
	cmd := exec.CommandContext(t.Context(), binary, "config")
	for name, value := range env {
		if !slices.Contains(known, name) {
			t.Errorf("%s is no setting", name)
		}
		for path, dir := range files {
			if rest, found := strings.CutPrefix(value, path); found {
				value = dir + rest
			}
		}
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if out, err := run(t, cmd); err != nil {
		t.Errorf("syncer config: %v\n%s", err, out)
	}
}

// write puts files into a new folder.
func write(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// exampleFiles are the secrets and the list that every deployment mounts.
var exampleFiles = map[string]string{
	"surem_secret_key": "secret", "api_tokens": "token", "redis_url": "redis://redis:6379/0\n",
	"hospitals.json": `[{"id":"H001","senderKey":"key"}]`,
}

// commented are the settings that a file of settings offers: NAME=value lines, those that are
// commented out included.
func commented(t *testing.T, path string) map[string]string {
	t.Helper()
	env := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^#?([A-Z_]+)=(.*)$`).FindAllStringSubmatch(read(t, path), -1) {
		env[m[1]] = m[2]
	}
	return env
}

func TestSettingsFilesOfferSettingsThatExist(t *testing.T) {
	t.Parallel()
	for _, path := range []string{".env.example", "systemd/alimtalk-syncer.env", "kubernetes/example/settings.env"} {
		env := commented(t, path)
		if len(env) < 5 {
			t.Errorf("%s: only %d settings found", path, len(env))
		}
		env["SUREM_USER_CODE"], env["SUREM_SECRET_KEY"], env["HOSPITALS"] = "clinic", "secret", "H001=key"
		checkSettings(t, env, nil)
	}
}
