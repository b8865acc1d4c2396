package simulator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"alimtalk-syncer/internal/sureM/simulator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	userCode = "clinic"
	secret   = "s3cret"
	senderA  = "key-A"
	senderB  = "key-B"
)

// vendor is a Simulator that serves, and what a client of it needs.
type vendor struct {
	*simulator.Simulator
	t      *testing.T
	base   string
	client *http.Client
}

// newVendor starts a SureM with two senders that both own T1; senderA has seven templates.
func newVendor(t *testing.T) *vendor {
	t.Helper()
	v := &vendor{Simulator: simulator.New(), t: t}
	v.AddAccount(userCode, secret)
	for _, sender := range []string{senderA, senderB} {
		v.AddSender(userCode, sender)
	}
	for i := 1; i <= 7; i++ {
		v.put(senderA, fmt.Sprintf("T%d", i), "REQUESTED")
	}
	v.put(senderB, "T1", "APPROVED")
	base, stop, err := v.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	v.base, v.client = base, &http.Client{
		// On a used connection net/http would repeat a GET by itself when the server hangs up.
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return v
}

func (v *vendor) put(sender, code, status string) {
	v.t.Helper()
	err := v.Put(sender, simulator.Template{Code: code, Name: "예약 안내 " + code, InspectionStatus: status, Status: "R", Content: "안녕하세요,\r\n#{고객명}님 <예약> & 안내\u00a0"})
	if err != nil {
		v.t.Fatal(err)
	}
}

// got is an answer as it came.
type got struct {
	status int
	header http.Header
	body   []byte
	err    error // of the call, or of reading its body
}

func (v *vendor) do(ctx context.Context, method, path, token, body string) got {
	r, err := http.NewRequestWithContext(ctx, method, v.base+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := v.client.Do(r)
	if err != nil {
		return got{err: err}
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(io.LimitReader(resp.Body, 12<<20))
	return got{resp.StatusCode, resp.Header, all, err}
}

func (v *vendor) logIn(ctx context.Context) got {
	return v.do(ctx, http.MethodPost, simulator.LoginPath, "", `{"userCode":"`+userCode+`","secretKey":"`+secret+`"}`)
}

func (v *vendor) token() string {
	v.t.Helper()
	var data struct {
		AccessToken string
		ExpiresIn   int
	}
	if v.logIn(v.t.Context()).success(v.t, &data); data.AccessToken == "" || data.ExpiresIn < 1 {
		v.t.Fatalf("login: %+v", data)
	}
	return data.AccessToken
}

func summariesPath(sender string, page, size int) string {
	return fmt.Sprintf("%s?senderKey=%s&page=%d&size=%d", simulator.TemplatesPath, url.QueryEscape(sender), page, size)
}

func detailPath(sender, code string) string {
	return simulator.TemplatesPath + "/" + url.PathEscape(code) + "?senderKey=" + url.QueryEscape(sender)
}

// envelope is a SureM answer.
type envelope struct {
	Code, Message any
	Data          json.RawMessage
}

func (g got) envelope(t *testing.T) envelope {
	t.Helper()
	var e envelope
	if g.err != nil {
		t.Fatal(g.err)
	}
	if err := json.Unmarshal(g.body, &e); err != nil {
		t.Fatalf("%v in %.200q", err, g.body)
	}
	return e
}

// success reads the data of a good answer.
func (g got) success(t *testing.T, data any) {
	t.Helper()
	e := g.envelope(t)
	if g.status != http.StatusOK || e.Code != "A0000" {
		t.Fatalf("status %d, code %v, want a success: %.200q", g.status, e.Code, g.body)
	}
	if err := json.Unmarshal(e.Data, data); err != nil {
		t.Fatalf("data: %v in %.200q", err, e.Data)
	}
}

// refusal checks an error answer.
func (g got) refusal(t *testing.T, status int, code string) {
	t.Helper()
	if e := g.envelope(t); g.status != status || e.Code != code {
		t.Errorf("status %d, code %v, want %d and %s", g.status, e.Code, status, code)
	}
}

func TestLoginNeedsTheAccountsSecret(t *testing.T) {
	v := newVendor(t)
	v.token()
	g := v.do(t.Context(), http.MethodPost, simulator.LoginPath, "", `{"userCode":"clinic","secretKey":"wrong"}`)
	if g.status != http.StatusForbidden || !bytes.Contains(g.body, []byte("<html>")) {
		t.Errorf("a wrong secret: status %d, %q", g.status, g.body)
	}
	v.do(t.Context(), http.MethodPost, simulator.LoginPath, "", `{`).refusal(t, http.StatusBadRequest, "A4000")
	if n := v.Calls(simulator.Login, "", ""); n != 3 {
		t.Errorf("%d logins counted, want 3", n)
	}
}

func TestTokensEnd(t *testing.T) {
	v := newVendor(t)
	call := func(token string) got {
		return v.do(t.Context(), http.MethodGet, summariesPath(senderA, 1, 10), token, "")
	}
	call("").refusal(t, http.StatusUnauthorized, "A1001")
	call("made-up").refusal(t, http.StatusUnauthorized, "A1001")

	token := v.token()
	var page struct{ Total int }
	call(token).success(t, &page)
	v.RevokeTokens(userCode)
	call(token).refusal(t, http.StatusUnauthorized, "A1001")

	v.SetTokenLife(-time.Second)
	call(v.token()).refusal(t, http.StatusUnauthorized, "A1006")
}

func TestAnotherAccountsSenderIsRefused(t *testing.T) {
	v := newVendor(t)
	v.AddAccount("other", "other")
	v.AddSender("other", "key-C")
	token := v.token()
	v.do(t.Context(), http.MethodGet, summariesPath("key-C", 1, 10), token, "").refusal(t, http.StatusOK, "A2001")
	v.do(t.Context(), http.MethodGet, detailPath("nobody's", "T1"), token, "").refusal(t, http.StatusOK, "A2001")
}

func TestSummariesComeInPages(t *testing.T) {
	v := newVendor(t)
	token := v.token()
	for page, want := range map[int][]string{1: {"T1", "T2", "T3"}, 2: {"T4", "T5", "T6"}, 3: {"T7"}, 4: {}} {
		var data struct {
			List  []simulator.Template
			Total int
		}
		v.do(t.Context(), http.MethodGet, summariesPath(senderA, page, 3), token, "").success(t, &data)
		codes := []string{}
		for _, row := range data.List {
			codes = append(codes, row.Code)
			if row.InspectionStatus != "REQUESTED" || row.Name == "" || row.SenderKey != senderA || row.Content != "" {
				t.Errorf("row %+v", row)
			}
		}
		if data.Total != 7 || !reflect.DeepEqual(codes, want) {
			t.Errorf("page %d: %v of %d, want %v of 7", page, codes, data.Total, want)
		}
	}
}

func TestDetailIsTheDocument(t *testing.T) {
	v := newVendor(t)
	token := v.token()
	v.put(senderA, "예약/1 ", "APPROVED")
	for _, at := range [][2]string{{senderA, "T1"}, {senderB, "T1"}, {senderA, "예약/1 "}} {
		g := v.do(t.Context(), http.MethodGet, detailPath(at[0], at[1]), token, "")
		var shown simulator.Template
		g.success(t, &shown)
		if string(g.envelope(t).Data) != v.Document(at[0], at[1]) || shown.Code != at[1] || shown.SenderKey != at[0] {
			t.Errorf("%s: %s", at, g.body)
		}
		if !strings.Contains(v.Document(at[0], at[1]), "<예약> &") {
			t.Error("the document escapes what needs no escape")
		}
	}
	v.do(t.Context(), http.MethodGet, detailPath(senderA, "T99"), token, "").refusal(t, http.StatusNotFound, "A4040")
	if n := v.Calls(simulator.Detail, senderA, "T1"); n != 1 {
		t.Errorf("%d calls of T1 counted, want 1", n)
	}
}

func TestChangesShowAtOnceAndAreWatched(t *testing.T) {
	v := newVendor(t)
	var seen []string
	v.Watch(func(c simulator.Change) { seen = append(seen, c.Code+" "+c.From+">"+c.To) })
	for _, err := range []error{
		v.SetStatus(senderA, "T1", "APPROVED"),
		v.SetStatus(senderA, "T1", "APPROVED"), // no change
		v.Edit(senderA, "T2", func(t *simulator.Template) { t.Dormant, t.Code = true, "no" }),
		v.Put(senderA, simulator.Template{Code: "T8", InspectionStatus: "REGISTERED"}),
		v.Remove(senderA, "T3"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if want := []string{"T1 REQUESTED>APPROVED", "T8 >REGISTERED", "T3 REQUESTED>"}; !reflect.DeepEqual(seen, want) {
		t.Errorf("watched %q, want %q", seen, want)
	}
	if one, _ := v.Template(senderA, "T2"); !one.Dormant {
		t.Error("T2 is not dormant")
	}
	for _, err := range []error{v.SetStatus(senderA, "T3", "x"), v.Remove("no", "T1"), v.Put("no", simulator.Template{})} {
		if err == nil {
			t.Error("an unknown template was changed")
		}
	}
	v.do(t.Context(), http.MethodGet, detailPath(senderA, "T3"), v.token(), "").refusal(t, http.StatusNotFound, "A4040")
}

func TestHeldDetailShowsWhatWasTrueWhenItCame(t *testing.T) {
	v := newVendor(t)
	token := v.token()
	release := v.HoldDetail(senderA, "T1")
	before := v.Document(senderA, "T1")
	answers := make(chan got, 2)
	for range cap(answers) {
		go func() { answers <- v.do(t.Context(), http.MethodGet, detailPath(senderA, "T1"), token, "") }()
	}
	waitFor(t, func() bool { return v.Waiting(senderA, "T1") == 2 })
	if err := v.SetStatus(senderA, "T1", "APPROVED"); err != nil {
		t.Fatal(err)
	}
	v.do(t.Context(), http.MethodGet, detailPath(senderA, "T2"), token, "").success(t, new(simulator.Template))
	release()
	release()
	for range cap(answers) {
		if g := <-answers; string(g.envelope(t).Data) != before {
			t.Errorf("a held answer shows %s", g.body)
		}
	}
	if g := v.do(t.Context(), http.MethodGet, detailPath(senderA, "T1"), token, ""); !bytes.Contains(g.body, []byte("APPROVED")) {
		t.Errorf("after the release: %s", g.body)
	}
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulator.New()
		s.SetLatency(3 * time.Second)
		start := time.Now()
		s.ServeHTTP(discard{}, request(t, http.MethodGet, summariesPath(senderA, 1, 1)))
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %v, want 3s", took)
		}
	})
}

func TestStopEndsWhatIsHeld(t *testing.T) {
	s := simulator.New()
	s.AddAccount(userCode, secret)
	if err := s.SetFaults(simulator.Fault{Name: "silent"}); err != nil {
		t.Fatal(err)
	}
	base, stop, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Post(base+simulator.LoginPath, "application/json", strings.NewReader(`{"userCode":"clinic","secretKey":"s3cret"}`))
		if err == nil {
			resp.Body.Close()
			t.Errorf("a silent login was answered with %d", resp.StatusCode)
		}
	})
	waitFor(t, func() bool { st := s.Stats(); return len(st.Counts) == 1 && st.Counts[0].Faulty == 1 })
	stop()
	wg.Wait()
}

// waitFor polls until ok, for at most ten seconds.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
	}
}

func request(t *testing.T, method, path string) *http.Request {
	r, err := http.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// discard is a ResponseWriter that nobody reads.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}
