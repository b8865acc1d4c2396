package test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"alimtalk-syncer/internal/redistest"
)

// buildah runs buildah on a storage of the test's own. It needs no daemon; chroot isolation
// works inside of containers too.
type buildah struct {
	t   *testing.T
	dir string
}

func newBuildah(t *testing.T) buildah {
	t.Helper()
	return buildah{t, t.TempDir()}
}

func (b buildah) command(args ...string) *exec.Cmd {
	args = append([]string{"--root", b.dir + "/root", "--runroot", b.dir + "/run", "--storage-driver", "vfs"}, args...)
	cmd := exec.CommandContext(b.t.Context(), "buildah", args...)
	cmd.Env = append(os.Environ(), "BUILDAH_ISOLATION=chroot")
	return cmd
}

func (b buildah) ok(args ...string) string {
	b.t.Helper()
	out, err := run(b.t, b.command(args...))
	if err != nil {
		b.t.Fatalf("buildah %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// TestImage builds deploy/Dockerfile as it stands, but for its build stage: what that makes
// was made here, and stands in for it.
func TestImage(t *testing.T) {
	t.Parallel()
	stage := t.TempDir()
	for from, to := range map[string]string{binary: "out/syncer", "/etc/ssl/certs/ca-certificates.crt": "etc/ssl/certs/ca-certificates.crt"} {
		copyFile(t, from, filepath.Join(stage, to))
	}
	b := newBuildah(t)
	const image = "localhost/alimtalk-syncer"
	b.ok("build", "--format", "docker", "--pull-never", "--build-arg", "TARGETOS=linux", "--build-arg", "TARGETARCH="+runtime.GOARCH,
		"--build-context", "build="+stage, "-f", filepath.Join(deploy, "Dockerfile"), "-t", image, t.TempDir())

	var inspected struct {
		Docker struct {
			Config struct {
				User        string
				Entrypoint  []string
				Healthcheck struct{ Test []string }
			}
		}
	}
	if err := json.Unmarshal([]byte(b.ok("inspect", "--type", "image", image)), &inspected); err != nil {
		t.Fatal(err)
	}
	config := inspected.Docker.Config
	if config.User != "65532:65532" || strings.Join(config.Entrypoint, " ") != "/syncer" || strings.Join(config.Healthcheck.Test, " ") != "CMD /syncer health" {
		t.Errorf("%+v", config)
	}

	container := b.ok("from", "--pull-never", image)
	if files, want := regularFiles(t, b.ok("mount", container)), []string{"/etc/ssl/certs/ca-certificates.crt", "/syncer"}; !slices.Equal(files, want) {
		t.Errorf("it holds %v, want %v", files, want)
	}
	if out := b.ok("run", container, "--", "/syncer", "version"); !strings.HasPrefix(out, "syncer v9.8.7,") {
		t.Errorf("version says %q", out)
	}
	if out := b.ok("run", container, "--", "/syncer", "demo", "--for", "1s"); !strings.Contains(out, "stale reads") {
		t.Errorf("the demo says %q", out)
	}
	if out, err := run(t, b.command("run", container, "--", "/bin/sh", "-c", "true")); err == nil {
		t.Errorf("it has a shell: %s", out)
	}
	b.checkDaemon(container)
}

// checkDaemon runs the daemon in the image, looks at who it is, asks for its health as the
// image's HEALTHCHECK does, and stops it.
func (b buildah) checkDaemon(container string) {
	t := b.t
	addr := "HTTP_ADDR=" + redistest.FreeAddr(t)
	var log bytes.Buffer
	daemon := b.command("run", "--env", addr, "--env", "SUREM_USER_CODE=clinic", "--env", "SUREM_SECRET_KEY=secret", "--env", "HOSPITALS=H001=key",
		"--env", "SUREM_BASE_URL=http://127.0.0.1:1", "--env", "REDIS_URL=redis://127.0.0.1:1", container, "--", "/syncer", "run")
	daemon.Stdout, daemon.Stderr = &log, &log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, strings.TrimPrefix(addr, "HTTP_ADDR="))
	pid, status := processOf(t, addr)
	if !strings.Contains(status, "\nUid:\t65532\t65532\t65532\t65532\nGid:\t65532\t65532\t65532\t65532\n") {
		t.Errorf("it runs as somebody else:\n%s", status)
	}
	if out := b.ok("run", "--env", addr, container, "--", "/syncer", "health"); out != "ok" {
		t.Errorf("its health: %q", out)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Wait(); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, log.String())
	}
	if out, err := run(t, b.command("run", "--env", addr, container, "--", "/syncer", "health")); err == nil {
		t.Errorf("the health of none: %q", out)
	}
}

// processOf finds the daemon that was given this HTTP_ADDR.
func processOf(t *testing.T, addr string) (pid int, status string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		command, _ := os.ReadFile(p + "/cmdline") // processes come and go
		environ, _ := os.ReadFile(p + "/environ")
		if string(command) == "/syncer\x00run\x00" && slices.Contains(strings.Split(string(environ), "\x00"), addr) {
			status, _ := os.ReadFile(p + "/status")
			pid, err := strconv.Atoi(filepath.Base(p))
			if err != nil {
				t.Fatal(err)
			}
			return pid, string(status)
		}
	}
	t.Fatal("the daemon's process is not to be found")
	return 0, ""
}

func regularFiles(t *testing.T, root string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files = append(files, strings.TrimPrefix(path, root))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
}
