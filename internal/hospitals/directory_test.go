package hospitals

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// file is a hospitals file of one test.
type file struct {
	t    *testing.T
	path string
}

func newFile(t *testing.T, content string) file {
	f := file{t, filepath.Join(t.TempDir(), "hospitals.json")}
	f.write(content)
	return f
}

// write replaces the file as an operator's tool should: in one step.
func (f file) write(content string) {
	f.t.Helper()
	next := f.path + ".next"
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(next, f.path); err != nil {
		f.t.Fatal(err)
	}
}

func (f file) open() *Directory {
	f.t.Helper()
	d, err := Open(f.path, "CLINICS", "hush-all")
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

// reload writes the content and has d take it.
func (f file) reload(d *Directory, content string) {
	f.t.Helper()
	f.write(content)
	if changed, err := d.Reload(); err != nil || !changed {
		f.t.Fatalf("Reload = %v, %v; want the new list taken", changed, err)
	}
}

func get(t *testing.T, d *Directory, id string) Hospital {
	t.Helper()
	h, ok := d.Get(id)
	if !ok {
		t.Fatalf("%s is not listed", id)
	}
	return h
}

func TestAFixedListIsWhatItWasMadeFrom(t *testing.T) {
	d, err := New(ParseList("H002=hush-2, H001 = hush=1"), "CLINICS", "hush-all")
	if err != nil {
		t.Fatal(err)
	}
	if all := d.All(); len(all) != 2 || all[0].ID != "H002" || all[1].ID != "H001" {
		t.Errorf("All = %v, want H002 and H001, as listed", all)
	}
	h := get(t, d, "H001")
	if h.SenderKey.Reveal() != "hush=1" || h.UserCode != "CLINICS" {
		t.Errorf("H001 has key %q, account %q", h.SenderKey.Reveal(), h.UserCode)
	}
	if _, ok := d.Get("H003"); ok {
		t.Error("H003 is listed")
	}
	if s, ok := d.Secret("CLINICS"); !ok || s.Reveal() != "hush-all" {
		t.Errorf("Secret = %q, %v", s.Reveal(), ok)
	}
	if _, ok := d.Secret("OTHER"); ok {
		t.Error("an account nobody has has a secret")
	}
	if changed, err := d.Reload(); changed || err != nil || d.Bad() || !d.Current(h) || d.Moved(h) {
		t.Error("a fixed list has changed")
	}
}

func TestHospitalsMayBringTheirOwnAccounts(t *testing.T) {
	f := newFile(t, `[
		{"id":"H001","senderKey":"hush-1"},
		{"id":"H002","senderKey":"hush-2","userCode":"OWN"},
		{"id":"H003","senderKey":"hush-3","userCode":"OWN","secretKey":"hush-own"},
		{"id":"H004","senderKey":"hush-4","userCode":null,"secretKey":""},
		{"id":"H005","senderKey":"hush-4","userCode":"CLINICS","secretKey":"hush-all"}]`)
	d := f.open()
	for id, code := range map[string]string{"H001": "CLINICS", "H002": "OWN", "H003": "OWN", "H004": "CLINICS", "H005": "CLINICS"} {
		if got := get(t, d, id).UserCode; got != code {
			t.Errorf("%s has account %q, want %q", id, got, code)
		}
	}
	if s, _ := d.Secret("OWN"); s.Reveal() != "hush-own" {
		t.Errorf("Secret(OWN) = %q", s.Reveal())
	}
	if get(t, d, "H004").Sender() != get(t, d, "H005").Sender() {
		t.Error("the same sender key in the same account is not the same sender")
	}
}

func TestReloadTakesANewListOnlyWhenTheContentHasChanged(t *testing.T) {
	f := newFile(t, `[{"id":"H001","senderKey":"hush-1"}]`)
	d := f.open()
	h := get(t, d, "H001")
	f.write(`[{"id":"H001","senderKey":"hush-1"}]`)
	if changed, err := d.Reload(); changed || err != nil {
		t.Fatalf("Reload of the same content = %v, %v", changed, err)
	}
	f.reload(d, `[{"id":"H002","senderKey":"hush-2"}, {"id":"H001","senderKey":"hush-1"}]`)
	if all := d.All(); len(all) != 2 || all[0].ID != "H002" {
		t.Errorf("All = %v", all)
	}
	if !d.Current(h) || d.Moved(h) {
		t.Error("H001 has moved though nothing of it changed")
	}
	if d.Moved(get(t, d, "H002")) {
		t.Error("a new hospital has moved")
	}
}

func TestABadNewFileChangesNothingUntilAGoodOneComes(t *testing.T) {
	good := `[{"id":"H001","senderKey":"hush-1"}]`
	f := newFile(t, good)
	d := f.open()
	h := get(t, d, "H001")
	for name, bad := range map[string]string{
		"empty": "", "empty list": "[]", "cut": good[:20], "one bad entry": `[{"id":"H002","senderKey":"hush-2"},{"id":"H001"}]`,
	} {
		f.write(bad)
		changed, err := d.Reload()
		if changed || err == nil || !d.Bad() {
			t.Errorf("%s: Reload = %v, %v, Bad = %v", name, changed, err, d.Bad())
		}
		if all := d.All(); len(all) != 1 || !d.Current(h) || d.Moved(h) {
			t.Errorf("%s: the list has changed: %v", name, all)
		}
		if _, again := d.Reload(); again != err { // the promise is about the value
			t.Errorf("%s: the same fault came as another error", name)
		}
	}
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Reload(); !errors.Is(err, os.ErrNotExist) || !d.Bad() {
		t.Errorf("missing file: %v, Bad = %v", err, d.Bad())
	}
	f.write(good)
	if changed, err := d.Reload(); changed || err != nil || d.Bad() {
		t.Errorf("the file is as it was: Reload = %v, %v, Bad = %v", changed, err, d.Bad())
	}
}

func TestANewSenderKeyOrAccountMovesAHospitalUntilItIsSettled(t *testing.T) {
	f := newFile(t, `[{"id":"H001","senderKey":"hush-1"},{"id":"H002","senderKey":"hush-2"}]`)
	d := f.open()
	old1, old2 := get(t, d, "H001"), get(t, d, "H002")
	f.reload(d, `[{"id":"H001","senderKey":"hush-9"},{"id":"H002","senderKey":"hush-2","userCode":"OWN","secretKey":"hush-own"}]`)
	for _, old := range []Hospital{old1, old2} {
		h := get(t, d, old.ID)
		if d.Current(old) || d.Moved(old) || !d.Current(h) || !d.Moved(h) {
			t.Errorf("%s: old current %v, moved %v; new current %v, moved %v", h, d.Current(old), d.Moved(old), d.Current(h), d.Moved(h))
		}
		d.Settle(old)
		if !d.Moved(h) {
			t.Errorf("%s: settled by a pass of the old sender", h)
		}
		d.Settle(h)
		if d.Moved(h) || !d.Current(h) {
			t.Errorf("%s: not settled", h)
		}
	}
	h := get(t, d, "H001")
	f.reload(d, `[{"id":"H001","senderKey":"hush-1"}]`)
	back := get(t, d, "H001")
	if d.Current(h) || d.Current(old1) || !d.Moved(back) {
		t.Error("back to the first sender key: that is another move, and its first loads are as old as before")
	}
}

func TestANewSecretForAnAccountIsNoChange(t *testing.T) {
	const form = `[{"id":"H001","senderKey":"hush-1","userCode":"OWN","secretKey":"%s"}]`
	f := newFile(t, fmt.Sprintf(form, "hush-old"))
	d := f.open()
	h := get(t, d, "H001")
	f.reload(d, fmt.Sprintf(form, "hush-new"))
	if s, _ := d.Secret("OWN"); s.Reveal() != "hush-new" {
		t.Errorf("Secret = %q, want the newest", s.Reveal())
	}
	if !d.Current(h) || d.Moved(h) {
		t.Error("the hospital has moved")
	}
}

func TestARemovedHospitalIsRememberedWhenItComesBack(t *testing.T) {
	const rest = `{"id":"H009","senderKey":"hush-9"}`
	with := func(key string) string { return fmt.Sprintf(`[{"id":"H001","senderKey":"%s"},%s]`, key, rest) }
	f := newFile(t, with("hush-1"))
	d := f.open()
	first := get(t, d, "H001")

	f.reload(d, "["+rest+"]")
	if _, ok := d.Get("H001"); ok || d.Current(first) || d.Moved(first) {
		t.Error("a removed hospital is still there")
	}
	f.reload(d, with("hush-1"))
	if h := get(t, d, "H001"); d.Moved(h) || !d.Current(first) {
		t.Error("back as it was: it has not moved")
	}

	f.reload(d, "["+rest+"]")
	f.reload(d, with("hush-2"))
	if h := get(t, d, "H001"); !d.Moved(h) || d.Current(first) {
		t.Error("back with another sender key: it has moved")
	}

	f.reload(d, "["+rest+"]")
	f.reload(d, with("hush-2"))
	h := get(t, d, "H001")
	if !d.Moved(h) {
		t.Error("nobody has settled it, and it still counts as moved after being away")
	}
	d.Settle(h)
	f.reload(d, "["+rest+"]")
	f.reload(d, with("hush-2"))
	if d.Moved(get(t, d, "H001")) {
		t.Error("settled before it was removed, and moved again without a change")
	}
}

func TestMaskHidesEverySecretThereEverWas(t *testing.T) {
	f := newFile(t, `[{"id":"H001","senderKey":"hush 1/한+"},{"id":"H002","senderKey":"hush 1/한+longer"},
		{"id":"H003","senderKey":"hush\"3","userCode":"OWN","secretKey":"hush-own"}]`)
	d := f.open()
	f.reload(d, `[{"id":"H001","senderKey":"new-1"}]`)
	for s, want := range map[string]string{
		"key hush 1/한+longer refused":                   "key [hidden] refused",
		"?senderKey=hush+1%2F%ED%95%9C%2B&page=1":       "?senderKey=[hidden]&page=1",
		"?senderKey=hush%201%2F%ED%95%9C%2B&page=1":     "?senderKey=[hidden]&page=1",
		"/hush%201%2F%ED%95%9C+longer/x":                "/[hidden]/x",
		`dial: "hush\"3"`:                               `dial: "[hidden]"`,
		"hush-own, hush-all, new-1, OWN, CLINICS, H001": "[hidden], [hidden], [hidden], OWN, CLINICS, H001",
		"nothing to hide":                               "nothing to hide",
	} {
		if got := d.Mask(s); got != want {
			t.Errorf("Mask(%q) = %q, want %q", s, got, want)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	h := Hospital{ID: "H001", SenderKey: "hush-1"}
	e := Entry{ID: "H001", SenderKey: "hush-1", SecretKey: "hush-2"}
	if s := fmt.Sprintf("%v %+v %#v %s %q %+v %#v", h, h, h, h.SenderKey, h.SenderKey, e, e); strings.Contains(s, "hush") {
		t.Error(s)
	}
}

func TestReadersNeverWaitForAReload(t *testing.T) {
	one, two := `[{"id":"H001","senderKey":"hush-1"}]`, `[{"id":"H001","senderKey":"hush-2"},{"id":"H002","senderKey":"hush-2"}]`
	f := newFile(t, one)
	d := f.open()
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				h, ok := d.Get("H001")
				if n := len(d.All()); !ok || n < 1 || n > 2 {
					t.Errorf("H001 listed: %v, hospitals: %d", ok, n)
					return
				}
				if d.Moved(h) {
					d.Settle(h)
				}
				_ = d.Mask("hush-1")
			}
		})
	}
	for i := range 100 {
		f.reload(d, []string{two, one}[i%2])
	}
	close(done)
	readers.Wait()
}
