package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"alimtalk-syncer/internal/redistest"
)

// TestNode runs deploy/node's tests: the example for the hospital's own application and the
// real npm packages, against two daemons, a redis-server and a simulated SureM.
func TestNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() // a copy, so that the tree stays as it is
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(deploy, "node"))); err != nil {
		t.Fatal(err)
	}
	_ = os.RemoveAll(filepath.Join(dir, "node_modules"))
	install := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := run(t, install); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}

	hospitals := []string{"H001", "H002", "H003", "H004", "H005"}
	_, suremURL := startSureM(t, hospitals...)
	redis := redistest.Start(t)
	documents := startSyncer(t, suremURL, redis, hospitals)
	keyv := startSyncer(t, suremURL, redis, hospitals,
		"CACHE_VALUE_FORMAT=keyv", "CACHE_KEY_FORMAT=keyv::keyv:infotalk:template:{<hospitalId>}:<templateCode>")

	tests := exec.CommandContext(t.Context(), "node", "--test", "--test-concurrency=1", "--test-reporter=tap", "test/")
	tests.Dir = dir
	tests.Env = append(os.Environ(), "REDIS_URL=redis://"+redis.Addr, "SUREM_URL="+suremURL, "SYNCER_DOCUMENT_URL="+documents, "SYNCER_KEYV_URL="+keyv)
	out, err := run(t, tests)
	if err != nil || !regexp.MustCompile(`(?m)^# pass [1-9]\d*$`).MatchString(out) || !strings.Contains(out, "\n# skipped 0\n") {
		t.Fatalf("node --test: %v\n%s", err, out)
	}
	t.Log(strings.Join(regexp.MustCompile(`(?m)^# (?:tests|pass|fail) .*$`).FindAllString(out, -1), ", "))
}

func TestNodeExampleHasTheSyncersScripts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"look.lua", "store.lua"} {
		if read(t, "node/"+name) != read(t, "../internal/templates/lua/"+name) {
			t.Errorf("deploy/node/%s is not internal/templates/lua/%s", name, name)
		}
	}
}

func TestNodeLockFileNamesNoRegistry(t *testing.T) {
	t.Parallel()
	if lock := read(t, "node/package-lock.json"); strings.Contains(lock, `"resolved"`) {
		t.Error("package-lock.json says where the packages came from")
	}
}
