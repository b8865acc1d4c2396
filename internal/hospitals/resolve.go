package hospitals

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// list is what a snapshot is made of.
type list struct {
	hospitals []Hospital        // revisions not set
	secrets   map[string]Secret // by user code
}

// resolve gives every entry its account and finds all faults of the list. Faults name an
// entry by its label.
func (a account) resolve(entries []Entry, label func(place int, id string) string) (*list, error) {
	if len(entries) == 0 {
		return nil, errors.New("lists no hospital")
	}
	l := &list{secrets: map[string]Secret{}}
	if a.userCode != "" && a.secret != "" {
		l.secrets[a.userCode] = a.secret
	}
	for _, e := range entries {
		if e.UserCode != "" && e.SecretKey != "" && l.secrets[e.UserCode] == "" {
			l.secrets[e.UserCode] = e.SecretKey
		}
	}
	var errs []error
	var without []string
	place := map[string]int{} // of an id, from 1
	for i, e := range entries {
		code := cmp.Or(e.UserCode, a.userCode)
		faults := e.faults()
		if at, twice := place[e.ID]; twice {
			faults = append(faults, fmt.Sprintf("has the same id as entry %d", at))
		} else if e.ID != "" {
			place[e.ID] = i + 1
		}
		switch secret := l.secrets[code]; {
		case e.unread&(fieldUserCode|fieldSecretKey) != 0:
		case e.UserCode != "" && e.SecretKey != "" && e.SecretKey != secret:
			faults = append(faults, "has another secretKey for its userCode than was given before")
		case secret != "" || e.SecretKey != "":
		case code == a.userCode:
			without = append(without, label(i+1, e.ID))
		default:
			faults = append(faults, "has a userCode whose secretKey is given nowhere")
		}
		for _, fault := range faults {
			errs = append(errs, errors.New(label(i+1, e.ID)+" "+fault))
		}
		l.hospitals = append(l.hospitals, Hospital{ID: e.ID, SenderKey: e.SenderKey, UserCode: code})
	}
	if without != nil {
		errs = append(errs, &AccountError{Entries: without})
	}
	if len(errs) > 0 {
		return nil, join(errs)
	}
	return l, nil
}

// faults returns what is wrong with an entry by itself.
func (e Entry) faults() []string {
	faults := slices.Clone(e.told)
	if e.ID == "" && e.unread&fieldID == 0 {
		faults = append(faults, "has no id")
	} else if e.ID != "" && !ValidID(e.ID) {
		faults = append(faults, "has an id that is not [A-Za-z0-9_-]{1,64}")
	}
	if e.SenderKey == "" && e.unread&fieldSenderKey == 0 {
		faults = append(faults, "has no senderKey")
	}
	if e.SecretKey != "" && e.UserCode == "" && e.unread&fieldUserCode == 0 {
		faults = append(faults, "has a secretKey but no userCode")
	}
	for _, text := range []struct{ name, value string }{
		{"senderKey", e.SenderKey.Reveal()}, {"userCode", e.UserCode}, {"secretKey", e.SecretKey.Reveal()},
	} {
		if why := WrongText(text.value); why != "" {
			faults = append(faults, "has a "+text.name+" that "+why)
		}
	}
	return faults
}

// WrongText says what is wrong with s as a sender key, user code or secret ("holds a control
// character", …), or "".
func WrongText(s string) string {
	switch {
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "holds a control character"
	case strings.TrimSpace(s) != s:
		return "has blanks around it"
	}
	return ""
}

// byPlace labels an entry by its place in the list, from 1.
func byPlace(place int, _ string) string { return fmt.Sprintf("entry %d", place) }

// byID labels an entry by its place and, when it has a proper one, its id.
func byID(place int, id string) string {
	if !ValidID(id) {
		return byPlace(place, id)
	}
	return fmt.Sprintf("entry %d (%s)", place, id)
}
