package templates

import (
	"strings"
	"testing"

	"alimtalk-syncer/internal/hospitals"
)

// FuzzKeyFormat: whatever format is accepted, no two (hospital, code) pairs share a key, no
// two hospitals a fence, and no entry stands where a fence does; the claim of a load stands alone,
// and in its entry's slot.
func FuzzKeyFormat(f *testing.F) {
	const usual = "infotalk:template:{<hospitalId>}:<templateCode>"
	f.Add(usual, "H001", "APPT_CONFIRM", "H001", "APPT_CONFIRM ")
	f.Add(usual, "H001", "예약 확정", "H00", "1}:예약 확정")
	f.Add("keyv::keyv:<hospitalId>:<templateCode>", "A", "B:C", "A-B", "C")
	f.Add("<hospitalId>.<templateCode>", "alimtalk-syncer", "fence:H001.", "H001", "T1")
	f.Add("<hospitalId>:<templateCode>", "alimtalk-syncer", "fence:H001:", "H001", "T1")
	f.Add("a<templateCode><hospitalId>", "H1", "T1", "H2", "T2")
	f.Add("<hospitalId>_<templateCode>", "H1", "T1", "H1_T1", "T1")
	f.Add("\xff<hospitalId>\x00<templateCode>", "_", "-", "-", "_")
	f.Fuzz(func(t *testing.T, format, h1, c1, h2, c2 string) {
		k, err := ParseKeyFormat(format)
		if err != nil || !hospitals.ValidID(h1) || !hospitals.ValidID(h2) || CheckCode(c1) != nil || CheckCode(c2) != nil {
			return
		}
		if k.String() != format {
			t.Fatalf("%q became %q", format, k)
		}
		if k.Key(h1, c1) == k.Key(h2, c2) && (h1 != h2 || c1 != c2) {
			t.Fatalf("%q: (%q, %q) and (%q, %q) share the key %q", format, h1, c1, h2, c2, k.Key(h1, c1))
		}
		if h1 != h2 && k.FenceKey(h1) == k.FenceKey(h2) {
			t.Fatalf("%q: %q and %q share a fence", format, h1, h2)
		}
		if strings.HasPrefix(k.Key(h1, ""), OwnPrefix) || strings.HasPrefix(k.Key(h2, ""), OwnPrefix) {
			return // which package config refuses for the hospitals there are
		}
		load := k.LoadKey(hospitals.Hospital{ID: h2}, c2)
		if k.Key(h1, c1) == load || k.FenceKey(h1) == load || k.FenceKey(h2) == load {
			t.Fatalf("%q: the claim of a load of (%q, %q) stands where an entry or a fence does", format, h2, c2)
		}
		if tag := hashTag(k.Key(h2, c2)); tag != "" && hashTag(load) != tag {
			t.Fatalf("%q: the entry of (%q, %q) has the hash tag %q, the claim of its load %q", format, h2, c2, tag, hashTag(load))
		}
		if k.Key(h1, c1) == k.FenceKey(h2) {
			t.Fatalf("%q: the entry of (%q, %q) stands where the fence of %q does", format, h1, c1, h2)
		}
	})
}

// hashTag is what a cluster's slot is made of, where that is not the whole key.
func hashTag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	if !closed {
		return ""
	}
	return tag
}

// Whatever an answer depends on has a claim of its own: no load waits for one of another key.
func TestLoadsOfDifferentKeysHaveDifferentClaims(t *testing.T) {
	k, err := ParseKeyFormat("infotalk:template:{<hospitalId>}:<templateCode>")
	if err != nil {
		t.Fatal(err)
	}
	of := make(map[string]Key)
	for _, h := range []hospitals.Hospital{
		{ID: "H001", UserCode: "user", SenderKey: "key"}, {ID: "H002", UserCode: "user", SenderKey: "key"},
		{ID: "H001", UserCode: "user", SenderKey: "key-2"}, {ID: "H001", UserCode: "user-2", SenderKey: "key"},
		{ID: "H001", UserCode: "userk", SenderKey: "ey"},
	} {
		for _, code := range []string{"T1", "T1 ", "T2"} {
			claim, key := k.LoadKey(h, code), Key{Hospital: h.ID, Sender: h.Sender(), Code: code}
			if other, taken := of[claim]; taken {
				t.Errorf("%v and %v share the claim %s", other, key, claim)
			}
			of[claim] = key
			if strings.Contains(claim, h.SenderKey.Reveal()+":") {
				t.Errorf("%s shows the sender key", claim)
			}
		}
	}
}
