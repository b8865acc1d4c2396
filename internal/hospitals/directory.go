package hospitals

import (
	"crypto/sha256"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Directory is the list of hospitals as it stands now. Everything but Reload is lock-free
// and safe to call from anywhere at any time.
//
// What it remembers of earlier lists (which hospitals have moved, which were removed) lives
// in this process only: another replica, or a restart, starts with the list it finds.
type Directory struct {
	path    string // "" for a list that never changes
	account account

	now atomic.Pointer[snapshot]
	bad atomic.Bool

	mu    sync.Mutex // serialises Reload and guards what follows
	sum   [sha256.Size]byte
	fault error              // of the last Reload
	gone  map[string]*record // hospitals that were removed, as they were last
	known map[string]bool    // every secret and sender key there ever was, for Mask
}

// account is what a hospital without one of its own uses.
type account struct {
	userCode string
	secret   Secret
}

// snapshot is one list, never changed once it is published.
type snapshot struct {
	all     []Hospital
	records map[string]*record
	secrets map[string]Secret // by user code
	mask    func() *strings.Replacer
}

// record is a hospital in one revision. The lists of several reloads share it while sender
// key and account stay the same, and so does the removed hospital that comes back.
type record struct {
	hospital Hospital
	moved    atomic.Bool // set when it is made, cleared once by Settle
}

// New returns a Directory that never changes. Hospitals without an account of their own use
// userCode and secret, which may be empty when none does. The error holds every fault, as
// errors.Join does; among them may be one *AccountError. It names entries by their place only:
// in HOSPITALS, what stands where the id should be may be a key.
func New(entries []Entry, userCode string, secret Secret) (*Directory, error) {
	d := &Directory{account: account{userCode, secret}}
	list, err := d.account.resolve(entries, byPlace)
	if err != nil {
		return nil, err
	}
	d.take(list)
	return d, nil
}

// Open returns the Directory of a HOSPITALS_FILE, which Reload reads again. Its faults are
// those of New, and those of the file.
func Open(path, userCode string, secret Secret) (*Directory, error) {
	d := &Directory{path: path, account: account{userCode, secret}}
	if _, err := d.Reload(); err != nil {
		return nil, err
	}
	return d, nil
}

// Reload reads the file again and takes the new list when its content has changed. An error
// says that the file is missing, empty or bad: then nothing changes, and Bad is true until a
// good one is read. While the file stays bad in the same way the error is the same value, so
// that it can be reported once. A fixed list is never reloaded: false, nil.
func (d *Directory) Reload() (changed bool, err error) {
	if d.path == "" {
		return false, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	changed, err = d.reload()
	if err != nil && d.fault != nil && err.Error() == d.fault.Error() {
		err = d.fault
	}
	d.fault = err
	d.bad.Store(err != nil)
	return changed, err
}

func (d *Directory) reload() (changed bool, err error) {
	data, err := readFile(d.path)
	if err != nil {
		return false, err
	}
	sum := sha256.Sum256(data)
	if d.now.Load() != nil && sum == d.sum {
		return false, nil
	}
	entries, err := parseFile(data)
	if err != nil {
		return false, err
	}
	list, err := d.account.resolve(entries, byID)
	if err != nil {
		return false, err
	}
	d.take(list)
	d.sum = sum
	return true, nil
}

// Bad reports whether the last Reload failed.
func (d *Directory) Bad() bool { return d.bad.Load() }

// Get returns the hospital of an id.
func (d *Directory) Get(id string) (Hospital, bool) {
	r := d.now.Load().records[id]
	if r == nil {
		return Hospital{}, false
	}
	return r.hospital, true
}

// All returns the hospitals in the order of the list. The slice is shared: do not change it.
func (d *Directory) All() []Hospital { return d.now.Load().all }

// Current reports whether the hospital is still listed with the sender key and the account
// that h has. What was begun for an h that is not current stores and deletes nothing more.
func (d *Directory) Current(h Hospital) bool { return d.current(h) != nil }

// Moved reports whether a reload has given h's hospital the sender key or account that h
// has, and no pass of it has been settled since: its entries in Redis may be another
// sender's. A hospital that is new has not moved; one that was removed and comes back
// with another sender key or account has.
func (d *Directory) Moved(h Hospital) bool {
	r := d.current(h)
	return r != nil && r.moved.Load()
}

// Settle says that a pass of h was ok: the hospital has no longer moved. For an h that is
// not current it does nothing.
func (d *Directory) Settle(h Hospital) {
	if r := d.current(h); r != nil {
		r.moved.Store(false)
	}
}

func (d *Directory) current(h Hospital) *record {
	if r := d.now.Load().records[h.ID]; r != nil && r.hospital == h {
		return r
	}
	return nil
}

// Secret returns the newest secret of an account, and false for an account that no listed
// hospital has and that is not the one for all.
func (d *Directory) Secret(userCode string) (Secret, bool) {
	s, ok := d.now.Load().secrets[userCode]
	return s, ok
}

// Mask replaces every secret and sender key in s, as it is or escaped for a URL, by
// "[hidden]": those of the list and those of earlier lists, which calls begun before a
// reload may still quote.
func (d *Directory) Mask(s string) string { return d.now.Load().mask().Replace(s) }

// take publishes a list. The caller holds mu, or is the only one to know d.
func (d *Directory) take(l *list) {
	if d.gone == nil {
		d.gone, d.known = map[string]*record{}, map[string]bool{}
	}
	old := map[string]*record{}
	if now := d.now.Load(); now != nil {
		old = now.records
	}
	next := &snapshot{
		all: make([]Hospital, 0, len(l.hospitals)), records: make(map[string]*record, len(l.hospitals)), secrets: l.secrets,
	}
	for _, h := range l.hospitals {
		before := old[h.ID]
		if before == nil {
			before = d.gone[h.ID]
		}
		r := follow(before, h)
		next.records[h.ID] = r
		next.all = append(next.all, r.hospital)
		delete(d.gone, h.ID)
		d.known[h.SenderKey.Reveal()] = true
	}
	for id, r := range old {
		if next.records[id] == nil {
			d.gone[id] = r
		}
	}
	for _, s := range l.secrets {
		d.known[s.Reveal()] = true
	}
	next.mask = masker(d.known)
	d.now.Store(next)
}

// follow returns the record of h, which before (nil for a new hospital) was until now.
func follow(before *record, h Hospital) *record {
	h.revision = 1
	if before == nil {
		return &record{hospital: h}
	}
	if before.hospital.Sender() == h.Sender() {
		return before // also when it has moved and was not settled before it was removed
	}
	h.revision = before.hospital.revision + 1
	r := &record{hospital: h}
	r.moved.Store(true)
	return r
}

// masker makes the replacer of the secrets when it is first asked for: it is needed for
// errors only, and a long list takes a while.
func masker(known map[string]bool) func() *strings.Replacer {
	secrets := make([]string, 0, len(known))
	for s := range known {
		secrets = append(secrets, s)
	}
	return sync.OnceValue(func() *strings.Replacer {
		forms := map[string]bool{}
		for _, s := range secrets {
			query, quoted := url.QueryEscape(s), strconv.Quote(s)
			forms[s] = true
			forms[query] = true
			forms[strings.ReplaceAll(query, "+", "%20")] = true
			forms[url.PathEscape(s)] = true
			forms[quoted[1:len(quoted)-1]] = true
		}
		olds := make([]string, 0, len(forms))
		for s := range forms {
			olds = append(olds, s)
		}
		// The longest first: a key that begins another must not leave the other's rest to be seen.
		slices.SortFunc(olds, func(a, b string) int { return len(b) - len(a) })
		pairs := make([]string, 0, 2*len(olds))
		for _, s := range olds {
			pairs = append(pairs, s, hidden)
		}
		return strings.NewReplacer(pairs...)
	})
}
