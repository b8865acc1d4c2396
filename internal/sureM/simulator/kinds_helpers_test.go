package simulator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"alimtalk-syncer/internal/sureM/simulator"
)

// spoilt is what a caller saw of a kind: one call, and what followed from it.
type spoilt struct {
	got
	v    *vendor
	op   string
	took time.Duration
}

// page reads a page of summaries.
func (s spoilt) page(t *testing.T) (rows []map[string]any, total any) {
	t.Helper()
	var data struct {
		List  []map[string]any
		Total any
	}
	s.success(t, &data)
	return data.List, data.Total
}

func (s spoilt) template(t *testing.T) (members map[string]any) {
	t.Helper()
	s.success(t, &members)
	return members
}

func (s spoilt) failed(t *testing.T, word string) {
	t.Helper()
	if s.err == nil || !strings.Contains(s.err.Error(), word) {
		t.Errorf("error %v, want one with %q", s.err, word)
	}
}

func (s spoilt) plain(t *testing.T, status int, part string) {
	t.Helper()
	if s.err != nil || s.status != status || !bytes.Contains(s.body, []byte(part)) || json.Valid(s.body) {
		t.Errorf("status %d, error %v, body %.100q, want %d and no JSON", s.status, s.err, s.body, status)
	}
}

type check = func(t *testing.T, s spoilt)

func plain(status int, part string) check {
	return func(t *testing.T, s spoilt) { s.plain(t, status, part) }
}

func refusal(status int, code string) check {
	return func(t *testing.T, s spoilt) { s.refusal(t, status, code) }
}

func failed(word string) check { return func(t *testing.T, s spoilt) { s.failed(t, word) } }

// data checks the raw data member of a success.
func data(want string) check {
	return func(t *testing.T, s spoilt) {
		if e := s.envelope(t); s.status != 200 || e.Code != "A0000" || !strings.HasPrefix(string(e.Data), want) {
			t.Errorf("status %d, code %v, data %.100q, want %q…", s.status, e.Code, e.Data, want)
		}
	}
}

func limited(status int, ok func(retryAfter string) bool) check {
	return func(t *testing.T, s spoilt) {
		s.refusal(t, status, "A4290")
		if after := s.header.Get("Retry-After"); !ok(after) {
			t.Errorf("Retry-After %q", after)
		}
	}
}

func is(want string) func(string) bool { return func(s string) bool { return s == want } }

func soon(s string) bool {
	at, err := http.ParseTime(s)
	return err == nil && time.Until(at) > 0 && time.Until(at) <= 2*time.Second
}

// good checks an answer that must be as if nothing had befallen it.
func good(t *testing.T, s spoilt) {
	t.Helper()
	switch s.op {
	case simulator.Summaries:
		if rows, total := s.page(t); len(rows) != 3 || total != 7.0 {
			t.Errorf("%d rows of %v", len(rows), total)
		}
	case simulator.Detail:
		if e := s.envelope(t); string(e.Data) != s.v.Document(senderA, "T1") {
			t.Errorf("document %s", e.Data)
		}
	default:
		s.success(t, new(struct{ AccessToken string }))
	}
}

// total checks a page's rows and what it says of all.
func total(rows int, total any) check {
	return func(t *testing.T, s spoilt) {
		if list, said := s.page(t); len(list) != rows || said != total {
			t.Errorf("%d rows of %v, want %d of %v", len(list), said, rows, total)
		}
	}
}

// row checks one row of the page.
func row(i int, ok func(map[string]any) bool) check {
	return func(t *testing.T, s spoilt) {
		list, _ := s.page(t)
		if len(list) <= i || !ok(list[i]) {
			t.Errorf("rows %v", list)
		}
	}
}

func without(name string) func(map[string]any) bool {
	return func(m map[string]any) bool { _, ok := m[name]; return !ok && len(m) > 3 }
}

func with(name string, value any) func(map[string]any) bool {
	return func(m map[string]any) bool { got, ok := m[name]; return ok && got == value && len(m) > 3 }
}

func template(ok func(map[string]any) bool) check {
	return func(t *testing.T, s spoilt) {
		if m := s.template(t); !ok(m) {
			t.Errorf("data %v", m)
		}
	}
}

// login checks the data of a login, and whether its token is good for calls.
func login(ok func(map[string]any) bool, calls ...int) check {
	return func(t *testing.T, s spoilt) {
		m := s.template(t)
		if !ok(m) {
			t.Errorf("data %v", m)
		}
		token, _ := m["accessToken"].(string)
		for i, status := range calls {
			if g := s.v.do(t.Context(), http.MethodGet, summariesPath(senderA, 1, 3), token, ""); g.status != status {
				t.Errorf("call %d: status %d, want %d", i+1, g.status, status)
			}
		}
	}
}

func lasts(value any) func(map[string]any) bool {
	return func(m map[string]any) bool {
		got, ok := m["expiresIn"]
		return ok && got == value && m["accessToken"] != ""
	}
}

// call makes one call of an operation, the second page when page says so.
func (v *vendor) call(ctx context.Context, op, token string, page int) got {
	switch op {
	case simulator.Login:
		return v.logIn(ctx)
	case simulator.Summaries:
		return v.do(ctx, http.MethodGet, summariesPath(senderA, page, 3), token, "")
	default:
		return v.do(ctx, http.MethodGet, detailPath(senderA, "T1"), token, "")
	}
}

func both(checks ...check) check {
	return func(t *testing.T, s spoilt) {
		for _, c := range checks {
			c(t, s)
		}
	}
}

func exactly(t *testing.T, s spoilt, begin string) {
	t.Helper()
	if s.status != 200 || !bytes.HasPrefix(s.body, []byte(begin)) {
		t.Errorf("status %d, body %.100q, want %q…", s.status, s.body, begin)
	}
}

func contains(t *testing.T, s spoilt, part string) {
	t.Helper()
	if !bytes.Contains(s.body, []byte(part)) {
		t.Errorf("no %q in %.300q", part, s.body)
	}
}

// refusalAny checks a code under HTTP 200, whatever its type.
func (s spoilt) refusalAny(t *testing.T, code any) {
	t.Helper()
	var e struct{ Code any }
	if err := json.Unmarshal(s.body, &e); err != nil || s.status != 200 || e.Code != code {
		t.Errorf("status %d, code %v (%v), want 200 and %v", s.status, e.Code, err, code)
	}
}

func redirected(status int) check {
	return func(t *testing.T, s spoilt) {
		if s.status != status || s.header.Get("Location") == "" {
			t.Fatalf("status %d, Location %q", s.status, s.header.Get("Location"))
		}
		s.v.do(t.Context(), http.MethodGet, s.header.Get("Location"), "", "")
		if n := s.v.Stats().Trapped; n != 1 {
			t.Errorf("%s followers, want 1", strconv.Itoa(n))
		}
	}
}
