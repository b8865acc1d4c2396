// Package openapi holds deploy/openapi.yaml against the daemon's real answers. It is a
// module of its own, so that what it needs is no dependency of the program.
package openapi

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"alimtalk-syncer/internal/sureM/simulator"
)

const document = "../../../deploy/openapi.yaml"

// unseen are documented answers that take minutes to provoke.
var unseen = []string{
	"GET /healthz 503", // a pass that is stuck
	"GET /v1/hospitals/{hospitalId}/templates 504", // a reading that follows another which took all its time
	"POST /v1/hospitals/{hospitalId}/sync 504",
}

// spec is the document, and which of its answers have been seen.
type spec struct {
	t         *testing.T
	validator validator.Validator
	model     v3.Document

	mu   sync.Mutex // guards what follows
	seen map[string]bool
}

func newSpec(t *testing.T) *spec {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := libopenapi.NewDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	model, err := doc.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return &spec{t: t, validator: v, model: model.Model, seen: map[string]bool{}}
}

func TestTheDocumentIsValid(t *testing.T) {
	if valid, errs := newSpec(t).validator.ValidateDocument(); !valid {
		for _, e := range errs {
			t.Error(e)
			for _, s := range e.SchemaValidationErrors {
				t.Errorf("  %s at %s", s.Reason, s.KeywordLocation)
			}
		}
	}
}

// operation finds the path of the document that a request is for.
func (s *spec) operation(r *http.Request) string {
	got := strings.Split(r.URL.EscapedPath(), "/")
	for path := range s.model.Paths.PathItems.KeysFromOldest() {
		want := strings.Split(path, "/")
		if slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") }) && len(want) == len(got) {
			return r.Method + " " + path
		}
	}
	s.t.Errorf("the document has no path for %s", r.URL)
	return ""
}

// check holds one answer against the document.
func (s *spec) check(r *http.Request, response *http.Response) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := fmt.Sprintf("%s %d", s.operation(r), response.StatusCode)
	s.seen[answer] = true
	if valid, errs := s.validator.ValidateHttpResponse(r, response); !valid {
		for _, e := range errs {
			s.t.Errorf("%s: %s: %s", answer, e.Message, e.Reason)
			for _, v := range e.SchemaValidationErrors {
				s.t.Errorf("  %s at %s", v.Reason, v.KeywordLocation)
			}
		}
	}
}

// complete fails the test for documented answers that have not been seen.
func (s *spec) complete() {
	for path, item := range s.model.Paths.PathItems.FromOldest() {
		for method, operation := range item.GetOperations().FromOldest() {
			for status := range operation.Responses.Codes.KeysFromOldest() {
				answer := fmt.Sprintf("%s %s %s", strings.ToUpper(method), path, status)
				if s.seen[answer] == slices.Contains(unseen, answer) {
					s.t.Errorf("%s: seen %t", answer, s.seen[answer])
				}
			}
		}
	}
}

func TestEveryAnswerIsAsDocumented(t *testing.T) {
	s := newSpec(t)
	w := newWorld(t)

	d := w.start(s)
	t1, list, sync := "/v1/hospitals/H001/templates/T1", "/v1/hospitals/H001/templates", "/v1/hospitals/H001/sync"
	for _, ask := range []struct {
		method, path string
		status       int
		header       []string
	}{
		{"GET", t1, 200, nil}, {"GET", t1, 200, nil}, {"GET", "/v1/hospitals/H001/templates/%EC%98%88%EC%95%BD", 200, nil},
		{"GET", "/v1/hospitals/H%20001/templates/T1", 400, nil}, {"GET", "/v1/hospitals/H001/templates/%00", 400, nil},
		{"GET", "/v1/hospitals/H404/templates/T1", 404, nil}, {"GET", "/v1/hospitals/H001/templates/NONE", 404, nil},
		{"GET", list, 200, nil}, {"GET", list + "?name=none", 200, nil}, {"GET", list + "?name=%zz", 400, nil}, {"GET", "/v1/hospitals/H404/templates", 404, nil},
		{"POST", sync, 200, nil}, {"POST", "/v1/hospitals/H%20001/sync", 400, nil}, {"POST", "/v1/hospitals/H404/sync", 404, nil},
		{"DELETE", t1, 204, nil}, {"DELETE", "/v1/hospitals/H%20001/templates/T1", 400, nil}, {"DELETE", "/v1/hospitals/H404/templates/T1", 404, nil},
		{"DELETE", t1, 403, []string{"Origin", "http://evil.example"}}, {"POST", sync, 403, []string{"Origin", "http://evil.example"}},
		{"GET", "/", 200, nil}, {"GET", "/v1/status", 200, nil}, {"GET", "/healthz", 200, nil}, {"GET", "/readyz", 200, nil}, {"GET", "/metrics", 200, nil},
	} {
		d.ask(ask.method, ask.path, ask.status, ask.header...)
	}
	for method, paths := range map[string][]string{"GET": {t1, list, "/", "/v1/status"}, "POST": {sync}, "DELETE": {t1}} {
		for _, path := range paths {
			d.ask(method, path, 421, "Host", "evil.example")
		}
	}

	// Something changed, something failed, something was over the limits.
	w.setStatus("T1", "APPROVED")
	d.ask("GET", t1, 200)
	w.setStatus("T1", "REJECTED")
	w.setStatus("T1", "REQUESTED")
	d.ask("POST", sync, 200)
	w.redis.HSet(key("T2"), "f", "v")
	d.ask("DELETE", "/v1/hospitals/H001/templates/T2", 409)
	d.ask("GET", "/v1/hospitals/H001/templates/T2", 200)
	w.fault(simulator.Fault{Name: "status-500"})
	d.ask("GET", "/v1/hospitals/H001/templates/T3", 502)
	d.ask("GET", list, 502)
	d.ask("POST", sync, 502)
	d.ask("GET", "/v1/status", 200)
	w.fault()
	d.ask("POST", sync, 200)
	d.ask("GET", "/v1/status", 200)
	release := w.surem.HoldDetail(senderKey, "T3")
	first := d.inBackground("GET", "/v1/hospitals/H001/templates/T3", 504)
	w.until(func() bool { return w.surem.Waiting(senderKey, "T3") == 1 })
	d.ask("GET", "/v1/hospitals/H001/templates/T3", 429)
	first()
	release()
	w.redis.SetError("LOADING Redis is loading the dataset in memory")
	d.ask("GET", "/v1/hospitals/H001/templates/T3", 200)
	d.ask("GET", list, 200)
	d.ask("DELETE", t1, 503)
	d.ask("POST", sync, 503)
	d.ask("GET", "/readyz", 200)
	d.ask("GET", "/v1/status", 200)
	d.ask("GET", "/", 200)
	w.redis.SetError("")

	slow := w.start(s, "SUREM_RATE_LIMIT=0.01", "SUREM_RATE_BURST=2", "SYNC_TIMEOUT=2s")
	slow.ask("GET", list, 200)
	slow.ask("GET", list, 429)
	slow.ask("POST", sync, 429)

	guarded := w.start(s, "API_TOKENS=token-1111")
	for method, paths := range map[string][]string{"GET": {t1, list, "/", "/v1/status"}, "POST": {sync}, "DELETE": {t1}} {
		for _, path := range paths {
			guarded.ask(method, path, 401)
		}
	}
	guarded.ask("GET", "/v1/status", 200, "Authorization", "Bearer token-1111")

	ending := w.start(s, "SHUTDOWN_DELAY=2s", "SHUTDOWN_GRACE=100ms", "SYNC_TIMEOUT=1m", "FLIGHT_LOADER_TIMEOUT=1m", "SUREM_TIMEOUT=1m")
	w.fault(simulator.Fault{Name: "silent", Operation: simulator.Summaries}, simulator.Fault{Name: "silent", Operation: simulator.Detail})
	before := w.surem.Calls(simulator.Summaries, "", "")
	gone := []func(){
		ending.inBackground("GET", "/v1/hospitals/H001/templates/T4", 503),
		ending.inBackground("GET", list, 503), ending.inBackground("POST", sync, 503),
	}
	w.until(func() bool { return w.surem.Calls(simulator.Summaries, "", "") > before })
	ending.terminate()
	w.until(func() bool { return ending.status("/readyz") == 503 })
	ending.ask("GET", "/readyz", 503)
	ending.ask("GET", "/v1/status", 200)
	for _, wait := range gone {
		wait()
	}
	s.complete()
}
