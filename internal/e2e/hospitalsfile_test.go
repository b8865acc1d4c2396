package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hospitalsFile writes a HOSPITALS_FILE and returns its path.
func (w *world) hospitalsFile(content string) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "hospitals.json")
	w.rewrite(path, content)
	return path
}

// rewrite replaces the file in one step, as an operator's tool does.
func (w *world) rewrite(path, content string) {
	w.t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		w.t.Fatal(err)
	}
}

func entry(id, sender string) string { return fmt.Sprintf(`{"id":%q,"senderKey":%q}`, id, sender) }

func TestTheHospitalsFileIsReadAgainWhenItHasChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := template{code: "T1", status: "APPROVED"}
	for _, h := range []string{"H001", "H002", "H003"} {
		w.offer(h, one)
	}
	file := w.hospitalsFile("[" + entry("H001", senderKey("H001")) + "," + entry("H002", senderKey("H002")) + "]")
	d := w.start("HOSPITALS=", "HOSPITALS_FILE="+file)
	eventually(t, soon, "both are cached, whatever the pass at start fences", func() bool {
		d.read("H001", "T1").document(t, one)
		d.read("H002", "T1").document(t, one)
		return w.cached("H001", "T1") && w.cached("H002", "T1")
	})
	d.read("H003", "T1").problem(t, http.StatusNotFound)
	if n := d.metric("syncer_hospitals"); n != 2 {
		t.Errorf("syncer_hospitals %v, want 2", n)
	}

	w.rewrite(file, "["+entry("H001", senderKey("H001"))+","+entry("H003", senderKey("H003"))+"]")
	eventually(t, soon, "the new hospital is served", func() bool { return d.read("H003", "T1").status == http.StatusOK })
	d.read("H002", "T1").problem(t, http.StatusNotFound)
	d.get(listPath("H002")).problem(t, http.StatusNotFound)
	d.sync("H002").problem(t, http.StatusNotFound)
	d.delete("H002", "T1").problem(t, http.StatusNotFound)
	d.read("H001", "T1").document(t, one).via(t, "hit")

	// A removed hospital is read no more, and its entries are nobody's business.
	w.surem.setStatus(senderKey("H002"), "T1", "REQUESTED")
	w.surem.awaitReadings(senderKey("H001"), 1)
	before := w.surem.summaries(senderKey("H002"))
	w.surem.awaitReadings(senderKey("H001"), 2)
	if n := w.surem.summaries(senderKey("H002")); n != before {
		t.Errorf("a removed hospital is still read: %d calls more", n-before)
	}
	if !w.cached("H002", "T1") {
		t.Error("a removed hospital's entry is gone")
	}
}

func TestABadNewHospitalsFileChangesNothingAndIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := template{code: "T1", status: "APPROVED"}
	w.offer("H001", one)
	w.offer("H002", one)
	good := "[" + entry("H001", senderKey("H001")) + "]"
	file := w.hospitalsFile(good)
	d := w.start("HOSPITALS=", "HOSPITALS_FILE="+file)
	w.surem.awaitReadings(senderKey("H001"), 1)
	for _, bad := range []string{
		"", "[]", "not JSON " + senderKey("H001"),
		"[" + entry("H002", senderKey("H002")) + "," + entry("H001", "sk-one-9f2c") + "," + entry("H001", "sk-two-9f2c") + "]",
	} {
		w.rewrite(file, bad)
		d.awaitReady(http.StatusOK, "hospitals file: bad", true)
		w.surem.awaitReadings(senderKey("H001"), 1) // the old list is still read
		d.read("H001", "T1").document(t, one)
		d.read("H002", "T1").problem(t, http.StatusNotFound)
		w.rewrite(file, good)
		d.awaitReady(http.StatusOK, "hospitals file: bad", false)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	d.awaitReady(http.StatusOK, "hospitals file: bad", true)
	d.read("H001", "T1").document(t, one)
	if body := d.get("/readyz").body; strings.Contains(body, file) || strings.Contains(body, "H001") {
		t.Errorf("/readyz names more than the part: %s", body)
	}
}

func TestAChangedSenderKeyOutdatesEveryListedEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, code := range []string{"AGREES", "SKIPPED"} {
		w.cache("H001", template{code: code, status: "APPROVED"})
	}
	w.cache("H001", template{code: "UNLISTED", status: "APPROVED"})
	w.cache("H002", template{code: "AGREES", status: "APPROVED"})
	for _, sender := range []string{"sk-old-9f2c", "sk-new-9f2c", senderKey("H002")} {
		w.surem.put(sender, template{code: "AGREES", status: "APPROVED", version: sender[:6]})
	}
	w.surem.put("sk-new-9f2c", template{code: "SKIPPED", status: "REJECTED"})
	kept := w.redis.standings(key("H001", "UNLISTED"), key("H002", "AGREES"))
	others := "," + entry("H002", senderKey("H002")) + "]"
	file := w.hospitalsFile("[" + entry("H001", "sk-old-9f2c") + others)
	d := w.start("HOSPITALS=", "HOSPITALS_FILE="+file)
	w.surem.awaitReadings("sk-old-9f2c", 1)
	if !w.cached("H001", "AGREES") {
		t.Fatal("an entry that agrees is gone")
	}
	gate := w.surem.hold(detail, "sk-old-9f2c", 0) // a load that began before the reload
	w.surem.put("sk-old-9f2c", template{code: "LOADING", status: "APPROVED"})
	old := inBackground(func() answer { return d.read("H001", "LOADING") })
	gate.await(1)

	w.rewrite(file, "["+entry("H001", "sk-new-9f2c")+others)
	eventually(t, soon, "the listed entries are gone", func() bool { return !w.cached("H001", "AGREES") && !w.cached("H001", "SKIPPED") })
	gate.release()
	receive(t, soon, "the load of the old sender", old)
	w.wantLogged(d, "AGREES", map[string]string{"hospital": "H001", "reason": "sender"})
	w.wantLogged(d, "SKIPPED", map[string]string{"hospital": "H001", "reason": "sender"})
	w.surem.awaitReadings("sk-new-9f2c", 1)
	if w.cached("H001", "LOADING") {
		t.Error("a load that began before the reload has stored")
	}
	w.redis.stillStand(kept)
	a := d.read("H001", "AGREES").want(t, http.StatusOK).via(t, "fwd=miss; stored")
	if !strings.Contains(a.body, "sk-new") {
		t.Errorf("the new sender's document is wanted: %s", a.body)
	}
	w.surem.awaitReadings("sk-new-9f2c", 2)
	if !w.cached("H001", "AGREES") {
		t.Error("after an ok pass an entry that agrees stays")
	}
}

func TestWhatBeganBeforeASenderChangedStoresAndDeletesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const former, latter = "sk-former-9f2c", "sk-latter-9f2c"
	w.surem.put(former, template{code: "LOADING", status: "APPROVED"}, template{code: "CHANGED", status: "REQUESTED"})
	w.cache("H001", template{code: "CHANGED", status: "REQUESTED"})
	kept := w.redis.standings(key("H001", "CHANGED"))
	file := w.hospitalsFile("[" + entry("H001", former) + "]")
	d := w.start("HOSPITALS=", "HOSPITALS_FILE="+file, "SYNC_SCHEDULE=@every 3s")
	w.surem.awaitReadings(former, 1) // the next tick is three seconds away
	load := w.surem.hold(detail, former, 0)
	read := inBackground(func() answer { return d.read("H001", "LOADING") })
	load.await(1)
	w.surem.setStatus(former, "CHANGED", "APPROVED")
	pass := w.surem.hold(summaries, former, 0) // it will have seen a change
	post := inBackground(func() answer { return d.sync("H001") })
	pass.await(1)
	next := w.surem.hold(summaries, latter, 0)

	w.rewrite(file, "["+entry("H001", latter)+","+entry("H002", senderKey("H002"))+"]")
	d.reload(2)
	load.release()
	receive(t, soon, "the load of the former sender", read)
	if w.cached("H001", "LOADING") {
		t.Error("a load that began before the reload has stored")
	}
	pass.release()
	if a := receive(t, soon, "the pass of the former sender", post); a.err != nil || strings.Contains(a.body, "CHANGED") {
		t.Errorf("a pass that began before the reload has deleted: %s %v", a.body, a.err)
	}
	next.await(1)
	w.redis.stillStand(kept)
	next.release()
	w.surem.awaitReadings(latter, 1)
	w.redis.stillStand(kept) // the new sender does not list it
}

// reload waits until the hospitals file with this many hospitals is in use.
func (d *daemon) reload(hospitals float64) {
	d.w.t.Helper()
	eventually(d.w.t, soon, "the hospitals file is read again", func() bool { return d.metric("syncer_hospitals") == hospitals })
}

func TestAHospitalMayBringItsOwnAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.quiet()
	w.surem.account("own", "surem-secret-own-77")
	w.offer("H001", template{code: "T1", status: "APPROVED"})
	w.offer("H002", template{code: "T1", status: "APPROVED"})
	file := w.hospitalsFile("[" + entry("H001", senderKey("H001")) + `,{"id":"H002","senderKey":"sk-H002-9f2c","userCode":"own","secretKey":"surem-secret-own-77"}]`)
	d := w.start("HOSPITALS=", "HOSPITALS_FILE="+file)
	d.read("H001", "T1").want(t, http.StatusOK)
	d.read("H002", "T1").want(t, http.StatusOK)
	for _, c := range w.surem.calls(func(c call) bool { return c.op == detail }) {
		if want := map[string]string{senderKey("H001"): "clinic", senderKey("H002"): "own"}[c.sender]; c.user != want {
			t.Errorf("a call for %s came with %s's token", c.sender, c.user)
		}
	}
}

func TestABadHospitalsFileAtTheStartIsABadSetting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.hospitalsFile(`[{"id":"H 1","senderKey":"sk-one-9f2c"},{"id":"H002"},{"id":"H003","senderKey":"sk-three-9f2c","userCode":"nobody"}]`)
	r := w.command([]string{"run"}, "HOSPITALS=", "HOSPITALS_FILE="+file).want(t, 2)
	for _, s := range []string{"HOSPITALS_FILE", "H002", "H003"} {
		if !strings.Contains(r.stderr, s) {
			t.Errorf("no word about %s: %s", s, r.stderr)
		}
	}
	for _, changes := range [][]string{
		{"HOSPITALS=", "HOSPITALS_FILE=" + file + ".missing"},
		{"HOSPITALS=H001=sk-one-9f2c", "HOSPITALS_FILE=" + w.hospitalsFile("["+entry("H001", senderKey("H001"))+"]")}, // exactly one of the two
		{"HOSPITALS="},
	} {
		if r := w.command([]string{"config"}, changes...).want(t, 2); !strings.Contains(r.stderr, "HOSPITALS") {
			t.Errorf("%v: %s", changes, r)
		}
	}
}

func TestANewSecretForAnAccountIsNoChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own := func(secret string) string {
		return `[{"id":"H001","senderKey":"sk-H001-9f2c","userCode":"own","secretKey":"` + secret + `"}]`
	}
	w.surem.account("own", "surem-secret-old-77")
	w.offer("H001", template{code: "T1", status: "APPROVED"}, template{code: "T2", status: "APPROVED"})
	w.cache("H001", template{code: "T1", status: "APPROVED"})
	kept := w.redis.standings(key("H001", "T1"))
	file := w.hospitalsFile(own("surem-secret-old-77"))
	d := w.start("HOSPITALS=", "HOSPITALS_FILE="+file, "SUREM_USER_CODE=", "SUREM_SECRET_KEY=")
	w.surem.awaitReadings(senderKey("H001"), 1)
	w.surem.account("own", "surem-secret-new-77")
	w.rewrite(file, own("surem-secret-new-77"))
	w.surem.awaitReadings(senderKey("H001"), 1)
	w.surem.revokeTokens()
	d.read("H001", "T2").want(t, http.StatusOK)
	w.surem.awaitReadings(senderKey("H001"), 1)
	w.redis.stillStand(kept)
	if n := w.surem.logins(); n != 2 {
		t.Errorf("%d logins, want one with each secret", n)
	}
}

func TestAChangedAccountAndAReturnWithAnotherSenderOutdateToo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, between, after string }{
		{"account", "", `[{"id":"H001","senderKey":"sk-H001-9f2c","userCode":"own","secretKey":"surem-secret-own-77"},{"id":"H002","senderKey":"sk-H002-9f2c"}]`},
		{"return", "[" + entry("H002", senderKey("H002")) + "]", "[" + entry("H002", senderKey("H002")) + "," + entry("H001", "sk-new-9f2c") + "]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.surem.account("own", "surem-secret-own-77")
			one := template{code: "T1", status: "APPROVED"}
			w.offer("H001", one)
			w.surem.put("sk-new-9f2c", one)
			w.cache("H001", one)
			w.cache("H002", one)
			w.offer("H002", one)
			file := w.hospitalsFile("[" + entry("H001", senderKey("H001")) + "," + entry("H002", senderKey("H002")) + "]")
			d := w.start("HOSPITALS=", "HOSPITALS_FILE="+file)
			w.surem.awaitReadings(senderKey("H001"), 1)
			if c.between != "" {
				w.rewrite(file, c.between)
				d.reload(1)
			}
			w.rewrite(file, c.after)
			eventually(t, soon, "its entry counts as changed", func() bool { return !w.cached("H001", "T1") })
			w.wantLogged(d, "T1", map[string]string{"hospital": "H001", "reason": "sender"})
			if !w.cached("H002", "T1") {
				t.Error("another hospital's entry is gone")
			}
		})
	}
}
