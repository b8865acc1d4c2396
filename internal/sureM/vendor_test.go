package surem

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testSecret = hospitals.Secret("secret+key/of=A")
	testSender = hospitals.Secret("sender+key/of=H001")
	okEnvelope = `{"code":"A0000","message":"ok","data":%s}`
	testDetail = `{"templateCode":"T1","inspectionStatus":"APR","templateContent":"검진 결과\r\n \u00a0<&> "}`
)

var h001 = hospitals.Hospital{ID: "H001", SenderKey: testSender, UserCode: "clinic"}

// vendor is a SureM whose every answer the test decides. Its logins bring tok-1, tok-2, …
type vendor struct {
	*httptest.Server
	login, list, detail http.HandlerFunc // replaceable before the first call
	open                atomic.Int32     // connections

	mu      sync.Mutex
	logins  int
	revoked map[string]bool
	seen    []string // method and request URI of all calls but logins
	bodies  []string // of logins
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func data(json string) http.HandlerFunc { return answer(200, fmt.Sprintf(okEnvelope, json)) }

// inTurn answers with each handler once, and with the last for ever.
func inTurn(handlers ...http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := handlers[0]
		if len(handlers) > 1 {
			handlers = handlers[1:]
		}
		mu.Unlock()
		h(w, r)
	}
}

func newVendor(t *testing.T) *vendor {
	v := &vendor{revoked: map[string]bool{}, list: data(`[]`), detail: data(testDetail)}
	v.login = func(w http.ResponseWriter, _ *http.Request) {
		v.mu.Lock()
		n := v.logins
		v.mu.Unlock()
		data(fmt.Sprintf(`{"accessToken":"tok-%d","expiresIn":3600}`, n))(w, nil)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		v.mu.Lock()
		v.logins++
		v.bodies = append(v.bodies, body.String())
		v.mu.Unlock()
		v.login(w, r)
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		v.mu.Lock()
		v.seen = append(v.seen, r.Method+" "+r.RequestURI)
		revoked := token == "" || v.revoked[token]
		v.mu.Unlock()
		switch {
		case revoked:
			answer(401, `{"code":"A1006","message":"token"}`)(w, r)
		case strings.HasPrefix(r.URL.Path, "/list"):
			v.list(w, r)
		default:
			v.detail(w, r)
		}
	})
	v.Server = httptest.NewUnstartedServer(mux)
	v.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			v.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			v.open.Add(-1)
		}
	}
	v.Start()
	t.Cleanup(v.Close)
	return v
}

func (v *vendor) loginCount() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.logins
}

func (v *vendor) calls() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.seen...)
}

// safeLog is a log that may be read while it is written.
type safeLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func mask(s string) string {
	for _, secret := range []hospitals.Secret{testSecret, testSender} {
		s = strings.ReplaceAll(s, secret.Reveal(), "[hidden]")
		s = strings.ReplaceAll(s, url.QueryEscape(secret.Reveal()), "[hidden]")
	}
	return s
}

func (v *vendor) client(t *testing.T, adjust func(*Options)) (*Client, *safeLog) {
	t.Helper()
	base, err := url.Parse(v.URL)
	if err != nil {
		t.Fatal(err)
	}
	summaries, err := ParsePath("/list{?senderKey,page,size}", []string{"senderKey"}, summaryVars)
	if err != nil {
		t.Fatal(err)
	}
	detail, err := ParsePath("/detail/{templateCode}{?senderKey}", detailVars, detailVars)
	if err != nil {
		t.Fatal(err)
	}
	out := &safeLog{}
	o := Options{
		BaseURL: base, TokenPath: "/token", SummaryPath: summaries, DetailPath: detail,
		PageSize: 3, FirstPage: 1, Timeout: 5 * time.Second, RateLimit: 1e5, RateBurst: 1000, MaxRetries: 0,
		ReloginCodes: []string{"A1001", "A1006"}, NotFoundCodes: []string{"A4040"},
		Secret:  func(string) (hospitals.Secret, bool) { return testSecret, true },
		Mask:    mask,
		Metrics: metrics.New("", "", ""),
		Log:     zerolog.New(out),
	}
	if adjust != nil {
		adjust(&o)
	}
	c := New(o)
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		eventually(t, "no connection is left", func() bool { return v.open.Load() == 0 })
		noSecrets(t, out.String())
	})
	return c, out
}

func noSecrets(t *testing.T, s string) {
	t.Helper()
	for _, secret := range []string{testSecret.Reveal(), testSender.Reveal(), url.QueryEscape(testSender.Reveal()), "secret+k", "sender+k", "sender%2Bk", "tok-1", "tok-2", "검진 결과"} {
		if strings.Contains(s, secret) {
			t.Errorf("%q shows in: %s", secret, s)
		}
	}
}

func counted(c *Client, op, outcome string) int {
	var m dto.Metric
	_ = c.o.Metrics.SureMRequests.WithLabelValues(op, outcome).Write(&m)
	return int(m.GetCounter().GetValue())
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
