// Package hospitals knows whose templates are read: each hospital's id, its Alimtalk
// sender key and the SureM account that answers for it. The list comes from one setting
// or from a file that may change while the daemon runs.
package hospitals

// Secret is a string that must never be seen: a sender key, an account's secret, a token.
// Every way of printing it shows "[hidden]"; only Reveal gives it away.
type Secret string

const hidden = "[hidden]"

// Reveal returns the secret itself, for a request to the vendor and nothing else.
func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer.
func (Secret) String() string { return hidden }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return hidden }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Hospital is one clinic as it stood when the list was last read. It is a value: what was
// begun for it goes on with it, and asks Directory.Current whether it still holds.
type Hospital struct {
	ID        string // [A-Za-z0-9_-]{1,64}
	SenderKey Secret // owns the template codes: two sender keys may both have a "T1"
	UserCode  string // the SureM account; its secret is Directory.Secret(UserCode)

	// revision grows when a reload gives the id another sender key or account.
	revision uint64
}

// String implements fmt.Stringer with the id, the only part that may be printed.
func (h Hospital) String() string { return h.ID }

// Sender is what one summary call is made for: a sender key in an account. Hospitals with
// the same Sender share that call.
type Sender struct {
	UserCode string
	Key      Secret
}

// Sender returns the hospital's sender key in its account.
func (h Hospital) Sender() Sender { return Sender{UserCode: h.UserCode, Key: h.SenderKey} }

// ValidID reports whether id is a hospital id: [A-Za-z0-9_-]{1,64} (the single-flight
// seed document's rule for ids).
func ValidID(id string) bool {
	if len(id) < 1 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		if !IDByte(id[i]) {
			return false
		}
	}
	return true
}

// IDByte reports whether c may stand in a hospital id.
func IDByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' || c == '-'
}
