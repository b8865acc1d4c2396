package hospitals

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// openText opens a file of that content, with no account for all.
func openText(t *testing.T, content string) (*Directory, error) {
	t.Helper()
	return Open(newFile(t, content).path, "", "")
}

func TestABadFileIsToldWithEveryFaultAndNoKey(t *testing.T) {
	long := strings.Repeat("x", 65)
	for name, c := range map[string]struct{ content, want string }{
		"empty":       {"", "is empty"},
		"blank":       {" \n\t\n", "is empty"},
		"only a BOM":  {"\ufeff", "is empty"},
		"UTF-16":      {"\xff\xfe[\x00]\x00", "is UTF-16; it must be UTF-8"},
		"EUC-KR":      {"[{\"id\":\"\xc7\xd1\"}]", "is not UTF-8"},
		"not JSON":    {"H001=hush", "is not JSON: line 1, column 1"},
		"cut":         {"[\n {\"id\":\"H001\",\n  \"senderKey\":hush}]", "is not JSON: line 3, column 15"},
		"unfinished":  {"[{\"id\":\"H001\"", "is not JSON: line 1, column 13"},
		"after a 한":   {"[\"한\" hush]", "is not JSON: line 1, column 6"},
		"garbage":     {"[] hush", "is not JSON: line 1, column 4"},
		"two lists":   {"[] []", "is not JSON: line 1, column 4"},
		"an object":   {`{"H001":"hush"}`, "must be a JSON list of hospitals"},
		"a string":    {`"hush"`, "must be a JSON list of hospitals"},
		"null":        {"null", "must be a JSON list of hospitals"},
		"too deep":    {strings.Repeat("[", 20000) + strings.Repeat("]", 20000), "is not JSON: line 1, column 10001"},
		"empty list":  {"[]", "lists no hospital"},
		"no object":   {`["hush"]`, "entry 1 is not an object"},
		"nothing":     {`[{}]`, "entry 1 has no id\nentry 1 has no senderKey\nentry 1 brings no account of its own, and there is no account for all"},
		"wrong types": {`[{"id":1,"senderKey":["hush"],"userCode":true,"secretKey":{}}]`, "entry 1 must have a string as id\nentry 1 must have a string as senderKey\nentry 1 must have a string as userCode\nentry 1 must have a string as secretKey"},
		"null key":    {`[{"id":"H001","senderKey":null,"userCode":"U","secretKey":"hush"}]`, "entry 1 (H001) must have a string as senderKey"},
		"unknown field": {
			`[{"id":"H001","sender_key":"hush","userCode":"U","secretKey":"hush"}]`,
			"entry 1 (H001) has an unknown field \"sender_key\" (known are id, senderKey, userCode, secretKey)\nentry 1 (H001) has no senderKey",
		},
		"key as a name": {
			`[{"id":"H001","senderKey":"hush","hush-hush-1":"","userCode":"U","secretKey":"hush"}]`,
			"entry 1 (H001) has a field with an unknown name (known are id, senderKey, userCode, secretKey)",
		},
		"another case": {
			`[{"ID":"H001","senderKey":"hush","userCode":"U","secretKey":"hush"}]`,
			"entry 1 has an unknown field \"ID\" (known are id, senderKey, userCode, secretKey)\nentry 1 has no id",
		},
		"a name twice": {
			`[{"id":"H001","senderKey":"hush","sender\u004bey":"hush2","userCode":"U","secretKey":"hush"}]`,
			"entry 1 (H001) has senderKey twice",
		},
		"same id": {
			`[{"id":"H001","senderKey":"hush","userCode":"U","secretKey":"hush"},{"id":"H001","senderKey":"hush","userCode":"U"}]`,
			"entry 2 (H001) has the same id as entry 1",
		},
		"bad ids": {
			`[{"id":"H 1","senderKey":"hush","userCode":"U","secretKey":"hush"},{"id":"` + long + `","senderKey":"hush","userCode":"U"},{"id":"병원","senderKey":"hush","userCode":"U"}]`,
			"entry 1 has an id that is not [A-Za-z0-9_-]{1,64}\nentry 2 has an id that is not [A-Za-z0-9_-]{1,64}\nentry 3 has an id that is not [A-Za-z0-9_-]{1,64}",
		},
		"bad texts": {
			`[{"id":"H001","senderKey":" hush","userCode":"U\u0000","secretKey":"hush\n"}]`,
			"entry 1 (H001) has a senderKey that has blanks around it\nentry 1 (H001) has a userCode that holds a control character\nentry 1 (H001) has a secretKey that holds a control character",
		},
		"secret without account": {
			`[{"id":"H001","senderKey":"hush","secretKey":"hush"}]`, "entry 1 (H001) has a secretKey but no userCode",
		},
		"account without secret": {
			`[{"id":"H001","senderKey":"hush","userCode":"U"}]`, "entry 1 (H001) has a userCode whose secretKey is given nowhere",
		},
		"two secrets for one account": {
			`[{"id":"H001","senderKey":"hush","userCode":"U","secretKey":"hush"},{"id":"H002","senderKey":"hush","userCode":"U","secretKey":"hush2"}]`,
			"entry 2 (H002) has another secretKey for its userCode than was given before",
		},
		"no account": {
			`[{"id":"H001","senderKey":"hush"},{"id":"H002","senderKey":"hush","userCode":"U","secretKey":"hush"},{"id":"H003","senderKey":"hush"}]`,
			"entry 1 (H001) brings no account of its own, and there is no account for all (so it is with 1 more)",
		},
	} {
		_, err := openText(t, c.content)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if err.Error() != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, err, c.want)
		}
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the message shows a key: %s", name, err)
		}
	}
}

func TestTheAccountForAllIsOneOfTheAccounts(t *testing.T) {
	f := newFile(t, `[{"id":"H001","senderKey":"hush-1","userCode":"CLINICS","secretKey":"hush-other"}]`)
	_, err := Open(f.path, "CLINICS", "hush-all")
	if want := "entry 1 (H001) has another secretKey for its userCode than was given before"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	f.write(`[{"id":"H001","senderKey":"hush-1","userCode":"CLINICS"},{"id":"H002","senderKey":"hush-2"}]`)
	if _, err := Open(f.path, "CLINICS", "hush-all"); err != nil {
		t.Error(err)
	}
	var missing *AccountError
	if _, err := Open(f.path, "CLINICS", ""); !errors.As(err, &missing) || len(missing.Entries) != 2 {
		t.Errorf("an account without its secret: %v, want an AccountError for both", err)
	}
}

func TestABOMIsTolerated(t *testing.T) {
	if _, err := openText(t, "\ufeff"+`[{"id":"H001","senderKey":"hush","userCode":"U","secretKey":"hush"}]`+"\r\n"); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoReadableFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, "U", "hush"); err == nil || err.Error() != "is not a regular file" {
		t.Errorf("a folder: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "none"), "U", "hush"); err == nil || err.Error() != "cannot be read: no such file or directory" {
		t.Errorf("a missing file: %v", err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, MaxFileSize+1); err != nil { // a hole: it takes no room on the disk
		t.Fatal(err)
	}
	if _, err := Open(large, "U", "hush"); err == nil || err.Error() != "is larger than 64 MiB" {
		t.Errorf("a large file: %v", err)
	}
}

func TestTheFaultsOfAFileHaveABound(t *testing.T) {
	_, err := openText(t, "[1"+strings.Repeat(",1", 5000)+"]")
	if n := strings.Count(err.Error(), "\n") + 1; n > maxFaults+2 {
		t.Errorf("%d lines", n)
	}
}

func TestABadListIsToldByPlace(t *testing.T) {
	for s, want := range map[string]string{
		"":                    "entry 1 is empty",
		"H001=hush,":          "entry 2 is empty",
		"H001=hush,,hush":     "entry 2 is empty\nentry 3 has no \"=\" between id and sender key",
		"H001:hush":           "entry 1 has no \"=\" between id and sender key",
		"hushbase64==":        "entry 1 has no senderKey",
		"hushbase64=":         "entry 1 has no senderKey",
		"=hush":               "entry 1 has no id",
		"hush!=H001":          "entry 1 has an id that is not [A-Za-z0-9_-]{1,64}",
		"hush=H001,hush=H002": "entry 2 has the same id as entry 1",
		"H001=hu\x00sh":       "entry 1 has a senderKey that holds a control character",
		"H001=hush\xff":       "entry 1 has a senderKey that is not UTF-8",
	} {
		_, err := New(ParseList(s), "U", "hush")
		if err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", s, err, want)
		}
	}
}

// FuzzParseFile checks that a file is either refused without quoting it, or gives a list
// that holds the rules and reads as the same one when it is written out again.
func FuzzParseFile(f *testing.F) {
	f.Add([]byte(`[{"id":"H001","senderKey":"hush-1"},{"id":"H002","senderKey":"hush-2","userCode":"U","secretKey":"hush-3"}]`))
	f.Add([]byte("\ufeff" + `[{"id":"H001","senderKey":"열쇠","userCode":null}]`))
	f.Add([]byte(`[{"id":"H001","id":"H002","senderkey":"hush"}] x`))
	f.Add([]byte(`[{"id":"\u0000","senderKey":"\ud800","secretKey":"s"},1,null,[]]`))
	f.Add([]byte("\xff\xfe[\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, fileErr := parseFile(data)
		all := account{"CLINICS", "hush-all"}
		l, err := all.resolve(entries, byID)
		for _, e := range []error{fileErr, err} {
			if e == nil {
				continue
			}
			if !utf8.ValidString(e.Error()) || bytes.ContainsAny([]byte(e.Error()), "\x00\r\x1b") {
				t.Fatalf("not fit for a terminal: %q", e)
			}
			for _, entry := range entries {
				if key := entry.SenderKey.Reveal(); len(key) > 12 && !ValidID(key) && strings.Contains(e.Error(), key) {
					t.Fatalf("the message quotes a key: %q", e)
				}
			}
		}
		if fileErr != nil || err != nil {
			return
		}
		seen := map[string]bool{}
		var again []map[string]string
		for i, h := range l.hospitals {
			if !ValidID(h.ID) || seen[h.ID] || h.SenderKey == "" || l.secrets[h.UserCode] == "" {
				t.Fatalf("hospital %d breaks the rules: %q", i, h.ID)
			}
			seen[h.ID] = true
			again = append(again, map[string]string{
				"id": h.ID, "senderKey": h.SenderKey.Reveal(), "userCode": h.UserCode, "secretKey": l.secrets[h.UserCode].Reveal(),
			})
		}
		text, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		entries, fileErr = parseFile(text)
		l2, err := all.resolve(entries, byID)
		if fileErr != nil || err != nil {
			t.Fatalf("written out again it is refused: %v, %v", fileErr, err)
		}
		for i, h := range l2.hospitals {
			if h != l.hospitals[i] {
				t.Fatalf("hospital %d reads differently when written out again", i)
			}
		}
	})
}
