package e2e

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// twoHospitals has one changed entry in each of H001 and H002.
func twoHospitals(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "H001", "H002").quiet()
	for _, h := range []string{"H001", "H002"} {
		w.offer(h, template{code: "T1", status: "APPROVED"}, template{code: "T2", status: "APPROVED"}, template{code: "T3", status: "REJECTED"})
		w.cache(h, template{code: "T1", status: "REQ"})
		w.cache(h, template{code: "T2", status: "APPROVED"})
		w.cache(h, template{code: "T3", status: "REQUESTED"})
	}
	return w
}

func reports(t *testing.T, r result) []report {
	t.Helper()
	if strings.Count(strings.TrimSpace(r.stdout), "\n") != 0 {
		t.Errorf("more on stdout than one line of JSON: %s", r.stdout)
	}
	return parse[struct{ Hospitals []report }](t, r.stdout).Hospitals
}

func TestSyncAsJSONReportsEveryHospital(t *testing.T) {
	t.Parallel()
	w := twoHospitals(t)
	all := reports(t, w.command([]string{"sync", "--json"}).want(t, 0))
	if len(all) != 2 || all[0].HospitalID != "H001" || all[1].HospitalID != "H002" {
		t.Fatalf("reports of %+v, want H001 and H002", all)
	}
	for _, r := range all {
		if !r.OK || !r.Complete || r.DryRun || r.Error != "" || r.Listed != 3 || r.Compared != 2 || r.Skipped != 1 || r.BadRows != 0 || r.WrongType != 0 || r.DurationMs < 0 {
			t.Errorf("%+v", r)
		}
		if want := []invalidation{{"T1", "REQ", "APPROVED", "status"}}; !slices.Equal(r.Invalidated, want) {
			t.Errorf("invalidated %+v, want %+v", r.Invalidated, want)
		}
		if w.cached(r.HospitalID, "T1") || !w.cached(r.HospitalID, "T2") || !w.cached(r.HospitalID, "T3") {
			t.Errorf("%s: T1 should be gone, and nothing else", r.HospitalID)
		}
	}
}

func TestSyncPrintsATable(t *testing.T) {
	t.Parallel()
	w := twoHospitals(t)
	r := w.command([]string{"sync"}).want(t, 0)
	for _, s := range []string{"H001", "H002", "T1", "REQ", "APPROVED"} {
		if !strings.Contains(r.stdout, s) {
			t.Errorf("the table lacks %s:\n%s", s, r.stdout)
		}
	}
	if strings.Contains(r.stdout, "{") {
		t.Errorf("logs on stdout:\n%s", r.stdout)
	}
}

func TestSyncAsADryRunDeletesNothing(t *testing.T) {
	t.Parallel()
	w := twoHospitals(t)
	for _, r := range reports(t, w.command([]string{"sync", "--json", "--dry-run"}).want(t, 0)) {
		if !r.DryRun || !r.OK || len(r.Invalidated) != 1 || r.Invalidated[0].TemplateCode != "T1" {
			t.Errorf("%+v", r)
		}
		if !w.cached(r.HospitalID, "T1") {
			t.Errorf("%s: a dry run has deleted", r.HospitalID)
		}
	}
	for _, r := range reports(t, w.command([]string{"sync", "--json"}, "SYNC_DRY_RUN=true").want(t, 0)) {
		if !r.DryRun || !w.cached(r.HospitalID, "T1") {
			t.Errorf("SYNC_DRY_RUN=true: %+v", r)
		}
	}
}

func TestSyncOfNamedHospitalsReadsNoOthers(t *testing.T) {
	t.Parallel()
	w := twoHospitals(t)
	all := reports(t, w.command([]string{"sync", "--json", "--hospital", "H002"}).want(t, 0))
	if len(all) != 1 || all[0].HospitalID != "H002" || w.cached("H002", "T1") || !w.cached("H001", "T1") {
		t.Errorf("%+v", all)
	}
	if n := w.surem.summaries(senderKey("H001")); n != 0 {
		t.Errorf("%d summary calls for H001", n)
	}
	if all := reports(t, w.command([]string{"sync", "--json", "--hospital=H001", "--hospital=H002"}).want(t, 0)); len(all) != 2 {
		t.Errorf("%+v", all)
	}
	r := w.command([]string{"sync", "--hospital", "H001", "--hospital", "H404"}).want(t, 2)
	if !strings.Contains(r.stderr, "H404") || r.stdout != "" {
		t.Errorf("an unknown hospital: %s", r)
	}
}

func TestSyncEndsWithOneWhenAHospitalFailed(t *testing.T) {
	t.Parallel()
	w := twoHospitals(t)
	w.surem.each(func(c call) *reply {
		if c.sender == senderKey("H001") {
			return failure
		}
		return nil
	})
	all := reports(t, w.command([]string{"sync", "--json"}, "SUREM_MAX_RETRIES=0").want(t, 1))
	if len(all) != 2 || all[0].OK || all[0].Error == "" || !all[1].OK || w.cached("H002", "T1") {
		t.Errorf("%+v", all)
	}
	w.redis.Kill()
	w.surem.each(nil)
	for _, r := range reports(t, w.command([]string{"sync", "--json"}).want(t, 1)) {
		if r.OK || r.Error == "" || len(r.Invalidated) != 0 {
			t.Errorf("with Redis away: %+v", r)
		}
	}
}

func TestGetReadsThroughTheCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	one := template{code: "예약 확정/1", status: "APPROVED"}
	w.offer("H001", one)
	for range 2 {
		r := w.command([]string{"get", "H001", one.code}).want(t, 0)
		if strings.TrimSuffix(r.stdout, "\n") != one.document() {
			t.Errorf("stdout %q, want %q", r.stdout, one.document())
		}
	}
	if n := w.surem.details(senderKey("H001"), one.code); n != 1 {
		t.Errorf("%d detail calls for two reads, want one", n)
	}
	if v, _ := w.redis.get(key("H001", one.code)); v != one.document() {
		t.Errorf("stored %q", v)
	}
	if r := w.command([]string{"get", "H001", "NONE"}).want(t, 1); r.stdout != "" || r.stderr == "" {
		t.Errorf("not found: %s", r)
	}
	w.surem.kill()
	if r := w.command([]string{"get", "H001", "T2"}, "SUREM_MAX_RETRIES=0").want(t, 1); r.stdout != "" || r.stderr == "" {
		t.Errorf("SureM away: %s", r)
	}
	w.redis.Kill()
	w.surem.start()
	if r := w.command([]string{"get", "H001", one.code}).want(t, 0); strings.TrimSuffix(r.stdout, "\n") != one.document() {
		t.Errorf("Redis away: %s", r)
	}
}

func TestUsageErrorsEndWithTwo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001").quiet()
	for _, args := range [][]string{
		{"nonsense"}, {"run", "more"}, {"sync", "more"}, {"sync", "--nonsense"}, {"sync", "--hospital"},
		{"get"}, {"get", "H001"}, {"get", "H001", "T1", "more"}, {"get", "H404", "T1"}, {"get", "H001", ".."}, {"get", "{H001}", "T1"},
		{"config", "more"}, {"version", "more"}, {"demo", "--for", "soon"}, {"--nonsense"},
	} {
		r := w.command(args)
		if r.code != 2 || r.stdout != "" || r.stderr == "" {
			t.Errorf("syncer %s: %s", strings.Join(args, " "), r)
		}
	}
	if n := len(w.surem.calls(func(call) bool { return true })); n != 0 {
		t.Errorf("%d calls to SureM", n)
	}
}

func TestHelpIsNoError(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-h"}, {"run", "-h"}, {"sync", "-h"}, {"get", "-h"}, {"config", "-h"}, {"demo", "-h"}, {"version", "-h"}, {"sync", "--help"}} {
		if r := run(t, nil, args...); r.code != 0 || !strings.Contains(r.stdout, "syncer") || r.stderr != "" {
			t.Errorf("syncer %s: %s", strings.Join(args, " "), r)
		}
	}
}

func TestVersionNamesTheGoVersion(t *testing.T) {
	t.Parallel()
	if r := run(t, nil, "version").want(t, 0); !strings.Contains(r.stdout, runtime.Version()) {
		t.Errorf("%s", r)
	}
}

func TestConfigPrintsTheEffectiveSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	r := w.command([]string{"config"}, "CACHE_TTL=90m", "API_TOKENS=token-of-the-crm", "REDIS_URL=redis://user:hunter2secret@127.0.0.1:1/3").want(t, 0)
	for _, s := range []string{"CACHE_TTL", "90m", "SYNC_TIMEZONE", "Asia/Seoul", "SUREM_SECRET_KEY", "API_TOKENS"} {
		if !strings.Contains(r.stdout, s) {
			t.Errorf("stdout lacks %s:\n%s", s, r.stdout)
		}
	}
	for _, s := range []string{"token-of-the-crm", "hunter2secret", secretKey, senderKey("H001")} {
		if strings.Contains(r.stdout+r.stderr, s) {
			t.Errorf("%q is shown:\n%s", s, r)
		}
	}
	if n := len(w.surem.calls(func(call) bool { return true })); n != 0 {
		t.Errorf("%d calls to SureM", n)
	}
	table := run(t, nil, "config", "--markdown").want(t, 0).stdout
	for _, s := range []string{"| variable", "SUREM_BASE_URL", "https://rest.surem.com", "FLIGHT_FAILURE_COOLDOWN", "LOG_FORMAT"} {
		if !strings.Contains(table, s) {
			t.Errorf("the table lacks %s:\n%s", s, table)
		}
	}
}

func TestEveryBadSettingIsToldAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	bad := []string{
		"SUREM_BASE_URL=ftp://rest.surem.com", "SUREM_SECRET_KEY=", "SYNC_SCHEDULE=@every 10ms", "SYNC_TIMEZONE=Asia/Soul",
		"CACHE_TTL=48h", "SYNC_CONCURRENCY=0", "CACHE_KEY_FORMAT=<templateCode>:<hospitalId>", "HOSPITALS=H001=sk-leak-9f2c,H001=sk-leak-9f2c",
		"HTTP_ADDR=:8080", "SYNC_SHEDULE=@every 1m", "SUREM_DETAIL_PATH=/x/{templateCode}", "REDIS_URL=http://user:hunter2secret@x",
	}
	for _, args := range [][]string{{"run"}, {"config"}, {"sync"}, {"get", "H001", "T1"}} {
		r := w.command(args, bad...).want(t, 2)
		for _, b := range bad {
			name, value, _ := strings.Cut(b, "=")
			if !strings.Contains(r.stderr, name) {
				t.Errorf("%s: no word about %s:\n%s", args[0], name, r.stderr)
			}
			if secret := name == "HOSPITALS" || name == "REDIS_URL"; secret && strings.Contains(r.stderr, value) {
				t.Errorf("%s: shows %s:\n%s", args[0], name, r.stderr)
			}
		}
		if strings.Contains(r.stderr, "hunter2secret") || r.stdout != "" {
			t.Errorf("%s: %s", args[0], r)
		}
	}
	if r := run(t, nil, "run").want(t, 2); !strings.Contains(r.stderr, "SUREM_USER_CODE") || !strings.Contains(r.stderr, "SUREM_SECRET_KEY") || !strings.Contains(r.stderr, "HOSPITALS") {
		t.Errorf("an empty environment: %s", r)
	}
}

func TestTheDemoNeedsNothingAndEndsByItself(t *testing.T) {
	t.Parallel()
	r := run(t, []string{"SUREM_BASE_URL=nonsense", "SYNC_NONSENSE=1"}, "demo", "--for", "4s").want(t, 0)
	if n := strings.Count(r.stdout, "curl "); n != 2 {
		t.Errorf("%d curl lines, want two:\n%s", n, r.stdout)
	}
	if !strings.Contains(r.stdout, "→") {
		t.Errorf("no change is told:\n%s", r.stdout)
	}
	if strings.Contains(r.stdout+r.stderr, "DATA RACE") {
		t.Errorf("%s", r)
	}
}

func TestTheDemoTakesAFreePortWhenItsOwnIsTaken(t *testing.T) {
	t.Parallel()
	if l, err := net.Listen("tcp", "127.0.0.1:8080"); err == nil { // else it is taken already
		defer func() { _ = l.Close() }()
	}
	r := run(t, nil, "demo", "--for", "2s").want(t, 0)
	if !strings.Contains(r.stdout, "8080") || strings.Contains(r.stdout, "curl http://127.0.0.1:8080") {
		t.Errorf("it does not say that it listens elsewhere:\n%s", r.stdout)
	}
}

// TestDemosThatStartTogetherTakePortsOfTheirOwn: none finds a port free that another then takes.
func TestDemosThatStartTogetherTakePortsOfTheirOwn(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if r := run(t, nil, "demo", "--for", "2s"); r.code != 0 || !strings.Contains(r.stdout, "curl ") {
				t.Errorf("%s", r)
			}
		})
	}
	all.Wait()
}

func TestTheDemoEndsLikeTheDaemon(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(binary, "demo")
	var out output
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = []string{}, &out, &out, ownProcess()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	eventually(t, soon, "the demo tells what to try", func() bool { return strings.Contains(out.String(), "curl ") })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 1)
	go func() { _ = cmd.Wait(); ended <- cmd.ProcessState.ExitCode() }()
	if code := receive(t, soon, "the demo ends", ended); code != 0 {
		t.Errorf("exit code %d:\n%s", code, out.String())
	}
}
