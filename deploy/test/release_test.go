package test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestRelease makes a release, and the binary of this machine once more: in another folder,
// from a build cache that knows nothing, so that what is compared was compiled twice.
func TestRelease(t *testing.T) { // alone, since it takes the whole machine
	root, dist, again := filepath.Join(deploy, ".."), t.TempDir(), t.TempDir()
	version := []string{"VERSION=v9.8.7", "COMMIT=0123456789ab"}
	ok(t, "make", append(version, "-C", root, "release", "DIST="+dist)...)

	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		file, err := elf.Open(filepath.Join(dist, "syncer-linux-"+arch))
		if err != nil {
			t.Fatal(err)
		}
		libraries, err := file.ImportedLibraries()
		if err != nil || len(libraries) > 0 || file.Section(".interp") != nil {
			t.Errorf("%s is not static: %v %v", arch, libraries, err)
		}
		if file.Machine != machine {
			t.Errorf("%s is for %s", arch, file.Machine)
		}
		_ = file.Close()
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--strict", "-c", "SHA256SUMS")
	check.Dir = dist
	if out, err := run(t, check); err != nil || strings.Count(out, ": OK") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
	native := "syncer-linux-" + runtime.GOARCH
	if out := ok(t, filepath.Join(dist, native), "version"); !strings.HasPrefix(out, "syncer v9.8.7, commit 0123456789ab, ") {
		t.Errorf("version says %q", out)
	}

	for _, name := range []string{"cmd", "internal"} {
		if err := os.CopyFS(filepath.Join(again, name), os.DirFS(filepath.Join(root, name))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum", "Makefile"} {
		copyFile(t, filepath.Join(root, name), filepath.Join(again, name))
	}
	second := exec.CommandContext(t.Context(), "make", append(version, "release", "ARCHS="+runtime.GOARCH)...)
	second.Dir = again
	second.Env = append(os.Environ(), "GOCACHE="+t.TempDir())
	if out, err := run(t, second); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	line := regexp.MustCompile(`(?m)^[0-9a-f]{64}  ` + native + `$`)
	one, two := line.FindString(sums(t, dist)), line.FindString(sums(t, filepath.Join(again, "dist")))
	if one == "" || one != two {
		t.Errorf("two builds differ:\n%s\n%s", one, two)
	}
}

func sums(t *testing.T, dist string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
