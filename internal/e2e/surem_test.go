package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"alimtalk-syncer/internal/redistest"
)

// The operations of SureM's API.
const (
	login     = "login"
	summaries = "summaries"
	detail    = "detail"
)

const (
	tokenPath    = "/api/v1/auth/token"
	templatePath = "/api/v1/alimtalk/templates"
)

// call is one HTTP request that came to SureM.
type call struct {
	op, sender, code string
	page             int
	uri              string // as it stood in the request line
	user             string // of a login, or of the token
	refused          bool   // the token is not one that lives
	replica          string // whose base URL it came to; "" but in a fleet
	at               time.Time
}

// reply is an answer of SureM's. The zero status means 200.
type reply struct {
	status int
	header map[string]string
	body   string
}

// failure is a SureM that is broken.
var failure = &reply{status: http.StatusInternalServerError, body: `{"code":"E9999","message":"boom","data":null}`}

func envelope(data string) *reply {
	return &reply{body: `{"code":"A0000","message":"성공","data":` + data + `}`}
}

func errorCode(status int, code string) *reply {
	return &reply{status: status, body: `{"code":` + quote(code) + `,"message":"오류","data":null}`}
}

// sureM is the vendor: accounts, tokens, and templates by sender key.
type sureM struct {
	t    testing.TB
	addr string

	mu        sync.Mutex
	server    *http.Server
	secrets   map[string]string // of the accounts
	tokens    map[string]string // living token -> account
	issued    []string
	refusal   *reply // what a dead token gets
	senders   map[string][]template
	log       []call
	intercept func(call) *reply
	slowness  func(call) time.Duration
	gates     []*gate
}

func newSureM(t testing.TB) *sureM {
	t.Helper()
	s := &sureM{
		t: t, addr: redistest.FreeAddr(t),
		secrets: map[string]string{}, tokens: map[string]string{}, senders: map[string][]template{},
		refusal: errorCode(http.StatusUnauthorized, "A1001"),
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *sureM) url() string { return "http://" + s.addr }

// urlOf returns a base URL by whose calls a replica is known.
func (s *sureM) urlOf(replica string) string { return s.url() + replicaPrefix + replica }

const replicaPrefix = "/replica-"

// start begins to answer, on the same address as before.
func (s *sureM) start() {
	s.t.Helper()
	var l net.Listener
	eventually(s.t, soon, "SureM listens", func() bool {
		var err error
		l, err = net.Listen("tcp", s.addr)
		return err == nil
	})
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	s.mu.Lock()
	s.server = server
	s.mu.Unlock()
	go func() { _ = server.Serve(l) }()
}

// kill closes the listener and cuts every connection.
func (s *sureM) kill() {
	s.mu.Lock()
	server := s.server
	s.mu.Unlock()
	_ = server.Close()
}

func (s *sureM) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := call{uri: r.RequestURI, sender: r.URL.Query().Get("senderKey")}
	c.page, _ = strconv.Atoi(r.URL.Query().Get("page"))
	if rest, ok := strings.CutPrefix(c.uri, replicaPrefix); ok {
		c.replica, c.uri, _ = strings.Cut(rest, "/")
		c.uri = "/" + c.uri
	}
	path, _, _ := strings.Cut(c.uri, "?")
	switch code, isDetail := strings.CutPrefix(path, templatePath+"/"); {
	case path == tokenPath && r.Method == http.MethodPost:
		c.op = login
	case path == templatePath && r.Method == http.MethodGet:
		c.op = summaries
	case isDetail && r.Method == http.MethodGet:
		c.op, c.code = detail, code
		if decoded, err := url.PathUnescape(code); err == nil && !strings.Contains(code, "/") {
			c.code = decoded
		}
	}
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	answer, held := s.answer(&c, r, body)
	for _, g := range held {
		g.wait(r)
	}
	s.dawdle(c, r)
	for k, v := range answer.header {
		w.Header().Set(k, v)
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	}
	if answer.status != 0 {
		w.WriteHeader(answer.status)
	}
	_, _ = io.WriteString(w, answer.body)
}

// answer decides what a call gets from how things stand when it arrives.
func (s *sureM) answer(c *call, r *http.Request, body []byte) (*reply, []*gate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	c.user = s.tokens[token]
	c.refused = c.op != login && c.user == ""
	var in struct{ UserCode, SecretKey string }
	if c.op == login {
		_ = json.Unmarshal(body, &in)
		c.user = in.UserCode
	}
	c.at = time.Now()
	s.log = append(s.log, *c)
	var held []*gate
	for _, g := range s.gates {
		if g.takes(c) {
			held = append(held, g)
		}
	}
	if s.intercept != nil {
		if answer := s.intercept(*c); answer != nil {
			return answer, held
		}
	}
	switch {
	case c.op == "":
		return &reply{status: http.StatusNotFound, body: "<html>no such page</html>"}, held
	case c.op == login:
		return s.login(in.UserCode, in.SecretKey), held
	case c.refused:
		return s.refusal, held
	case c.op == summaries:
		return s.page(c, r.URL.Query().Get("size")), held
	}
	for _, t := range s.senders[c.sender] {
		if t.code == c.code {
			return envelope(t.document()), held
		}
	}
	return errorCode(http.StatusNotFound, "T4040"), held
}

func (s *sureM) login(user, secret string) *reply {
	if want, ok := s.secrets[user]; !ok || want != secret {
		return &reply{status: http.StatusForbidden, body: "<html>forbidden</html>"}
	}
	token := fmt.Sprintf("access-token-%d-%s-6b1f", len(s.issued)+1, user)
	s.issued = append(s.issued, token)
	s.tokens[token] = user
	return envelope(`{"accessToken":` + quote(token) + `,"expiresIn":3600}`)
}

func (s *sureM) page(c *call, size string) *reply {
	all := s.senders[c.sender]
	n, _ := strconv.Atoi(size)
	first := min(max(c.page-1, 0)*n, len(all))
	rows := make([]string, 0, n)
	for _, t := range all[first:min(first+n, len(all))] {
		rows = append(rows, t.summary())
	}
	return envelope(fmt.Sprintf(`{"list":[%s],"total":%d}`, strings.Join(rows, ","), len(all)))
}

// put adds templates to a sender key, or replaces those of the same code.
func (s *sureM) put(sender string, templates ...template) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range templates {
		list := s.senders[sender]
		i := 0
		for i < len(list) && list[i].code != t.code {
			i++
		}
		if i == len(list) {
			s.senders[sender] = append(list, t)
		} else {
			list[i] = t
		}
	}
}

// setStatus is a reviewer's decision.
func (s *sureM) setStatus(sender, code, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.senders[sender] {
		if s.senders[sender][i].code == code {
			s.senders[sender][i].status = status
		}
	}
}

// account makes this the account's secret, and its only one.
func (s *sureM) account(user, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[user] = secret
}

// refuseWith sets the answer to a call with a dead token.
func (s *sureM) refuseWith(r *reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = r
}

func (s *sureM) revokeTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// each sets what decides over every call before the ordinary answer; nil lets it pass. It runs
// under SureM's lock.
func (s *sureM) each(f func(call) *reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

// slow sets how long each answer, decided when its call came, takes to leave.
func (s *sureM) slow(f func(call) time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slowness = f
}

func (s *sureM) dawdle(c call, r *http.Request) {
	s.mu.Lock()
	slowness := s.slowness
	s.mu.Unlock()
	if slowness == nil {
		return
	}
	timer := time.NewTimer(slowness(c))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// calls returns the calls so far that match.
func (s *sureM) calls(match func(call) bool) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []call
	for _, c := range s.log {
		if match(c) {
			found = append(found, c)
		}
	}
	return found
}

func (s *sureM) logins() int { return len(s.calls(func(c call) bool { return c.op == login })) }

func (s *sureM) details(sender, code string) int {
	return len(s.calls(func(c call) bool { return c.op == detail && c.sender == sender && c.code == code }))
}

func (s *sureM) anyDetails() int {
	return len(s.calls(func(c call) bool { return c.op == detail }))
}

func (s *sureM) summaries(sender string) int {
	return len(s.calls(func(c call) bool { return c.op == summaries && c.sender == sender }))
}

// awaitReadings waits until n readings of a sender key that began after now have ended: a
// reading has ended when the next one's first call comes, since there is one at a time.
func (s *sureM) awaitReadings(sender string, n int) {
	s.t.Helper()
	before := s.summaries(sender)
	eventually(s.t, soon, "more passes", func() bool { return s.summaries(sender) >= before+n+1 })
}
