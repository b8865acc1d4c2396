package templates

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"alimtalk-syncer/internal/hospitals"
)

// OwnPrefix begins every key that is the daemon's alone.
const OwnPrefix = "alimtalk-syncer:"

const (
	hospitalMark = "<hospitalId>"
	codeMark     = "<templateCode>"
)

// KeyFormat makes the Redis key of an entry. No two (hospital, code) pairs share a key:
// the code stands last, and what follows the hospital id can be no part of one.
type KeyFormat struct {
	before, between string
}

// ParseKeyFormat reads a CACHE_KEY_FORMAT such as
// "infotalk:template:{<hospitalId>}:<templateCode>".
func ParseKeyFormat(s string) (KeyFormat, error) {
	if strings.Count(s, hospitalMark) != 1 || strings.Count(s, codeMark) != 1 {
		return KeyFormat{}, errors.New("must hold <hospitalId> and <templateCode> once each")
	}
	before, rest, _ := strings.Cut(s, hospitalMark)
	between, last := strings.CutSuffix(rest, codeMark)
	switch {
	case !last:
		return KeyFormat{}, errors.New("must end with <templateCode>")
	case between == "" || hospitals.IDByte(between[0]):
		return KeyFormat{}, errors.New("the character after <hospitalId> must be one that no id may hold ([A-Za-z0-9_-] may)")
	case strings.HasPrefix(s, OwnPrefix):
		return KeyFormat{}, errors.New("must not begin with " + OwnPrefix)
	}
	return KeyFormat{before: before, between: between}, nil
}

// CheckCluster reports why a Redis Cluster cannot hold keys of this format: an entry and its
// hospital's fence must be in one slot, and not all hospitals in the same. A slot is made of
// what stands between a key's first { and the next }, if anything does.
func (f KeyFormat) CheckCluster() error {
	_, rest, _ := strings.Cut(f.String(), "{")
	tag, _, closed := strings.Cut(rest, "}")
	if !closed || !strings.Contains(tag, hospitalMark) {
		return errors.New("must have <hospitalId> between its first { and the next }, since in a Redis Cluster a hospital's keys must share a slot (its hash tag)")
	}
	return nil
}

// Key returns the key of a hospital's entry.
func (f KeyFormat) Key(hospitalID, code string) string {
	return f.before + hospitalID + f.between + code
}

// FenceKey returns the key of a hospital's fence. It repeats the beginning of the entries'
// keys, so that it has their hash tag and that deployments with other formats do not meet.
func (f KeyFormat) FenceKey(hospitalID string) string {
	return OwnPrefix + "fence:" + f.before + hospitalID + f.between
}

// LoadKey returns the key of the claim of a load: of everything that its answer depends on, as
// single-flight merges by. It ends with the entry's key, so that it has the same hash tag.
func (f KeyFormat) LoadKey(h hospitals.Hospital, code string) string {
	sum := sha256.Sum256([]byte(h.UserCode + "\x00" + h.SenderKey.Reveal()))
	return OwnPrefix + "load:" + hex.EncodeToString(sum[:16]) + ":" + f.Key(h.ID, code)
}

// String returns the format as it was given.
func (f KeyFormat) String() string { return f.before + hospitalMark + f.between + codeMark }

// Hash tells formats apart in the keys of what is kept for all hospitals together.
func (f KeyFormat) Hash() string {
	sum := sha256.Sum256([]byte(f.String()))
	return hex.EncodeToString(sum[:8])
}
