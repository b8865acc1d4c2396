package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// answer is what a request to the daemon came to; err is set when none came.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
	err    error
}

func detailPath(hospital, code string) string {
	return listPath(hospital) + "/" + url.PathEscape(code)
}

func listPath(hospital string) string { return "/v1/hospitals/" + hospital + "/templates" }
func syncPath(hospital string) string { return "/v1/hospitals/" + hospital + "/sync" }

func (d *daemon) get(path string, header ...string) answer {
	return d.do(context.Background(), http.MethodGet, path, header...)
}

func (d *daemon) read(hospital, code string) answer { return d.get(detailPath(hospital, code)) }

func (d *daemon) delete(hospital, code string) answer {
	return d.do(context.Background(), http.MethodDelete, detailPath(hospital, code))
}

func (d *daemon) sync(hospital string) answer {
	return d.do(context.Background(), http.MethodPost, syncPath(hospital))
}

// do sends one request; headers are "Name: value", Host among them.
func (d *daemon) do(ctx context.Context, method, path string, header ...string) answer {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+d.addr+path, nil)
	if err != nil {
		return answer{err: err}
	}
	for _, h := range header {
		k, v, _ := strings.Cut(h, ": ")
		if r.Header.Add(k, v); k == "Host" {
			r.Host = v
		}
	}
	start := time.Now()
	resp, err := d.client.Do(r)
	if err != nil {
		return answer{err: err, took: time.Since(start)}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body), time.Since(start), err}
}

// asked sends a request in the background and returns when the daemon has surely begun to
// work on it: when it has been written, and a number of later ones have been answered.
func (d *daemon) asked(method, path string) <-chan answer {
	d.w.t.Helper()
	written := make(chan struct{})
	once := sync.OnceFunc(func() { close(written) })
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { once() },
	})
	c := inBackground(func() answer { return d.do(ctx, method, path) })
	receive(d.w.t, soon, "a request is written", written)
	for range 20 {
		d.get("/healthz").want(d.w.t, http.StatusOK)
	}
	return c
}

// inBackground does something of which the answer comes on the channel.
func inBackground(f func() answer) <-chan answer {
	c := make(chan answer, 1)
	go func() { c <- f() }()
	return c
}

// together runs f n times at once and returns all answers.
func together(n int, f func(i int) answer) []answer {
	all := make([]answer, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { all[i] = f(i) })
	}
	wg.Wait()
	return all
}

// raw sends request as it is, on a connection of its own, and returns the answer.
func (d *daemon) raw(request string) answer {
	conn, err := net.DialTimeout("tcp", d.addr, soon)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(soon))
	if _, err := io.WriteString(conn, request); err != nil {
		return answer{err: err}
	}
	return readAnswer(conn)
}

func readAnswer(r io.Reader) answer {
	resp, err := http.ReadResponse(bufio.NewReader(r), nil)
	if err != nil {
		return answer{err: err}
	}
	body, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(body), err: err}
}

func (a answer) ok() bool { return a.err == nil && a.status == http.StatusOK }

// want fails the test unless the answer has this status.
func (a answer) want(t testing.TB, status int) answer {
	t.Helper()
	if a.err != nil {
		t.Fatalf("no answer: %v", a.err)
	}
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// via fails the test unless Cache-Status says exactly this of the daemon's cache.
func (a answer) via(t testing.TB, rest string) answer {
	t.Helper()
	if got, want := a.header.Get("Cache-Status"), "alimtalk-syncer; "+rest; got != want {
		t.Fatalf("Cache-Status %q, want %q", got, want)
	}
	return a
}

// document fails the test unless the answer is 200 with exactly this document.
func (a answer) document(t testing.TB, want template) answer {
	t.Helper()
	a.want(t, http.StatusOK)
	if a.body != want.document() {
		t.Fatalf("document\n%q, want\n%q", a.body, want.document())
	}
	return a
}

// problem is an RFC 9457 answer, with the report that a failed pass adds.
type problem struct {
	Type, Title, Detail string
	Status              int
	Report              *report
}

// problem fails the test unless the answer is a problem of this status in its right form.
func (a answer) problem(t testing.TB, status int) problem {
	t.Helper()
	a.want(t, status)
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("Content-Type %q, want application/problem+json: %s", got, a.body)
	}
	var p problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("problem %q: %v", a.body, err)
	}
	if p.Status != status || p.Title == "" {
		t.Fatalf("problem without its status or a title: %s", a.body)
	}
	return p
}

// retryAfter fails the test unless the answer says when to come back, in whole seconds.
func (a answer) retryAfter(t testing.TB) time.Duration {
	t.Helper()
	n, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil || n < 1 {
		t.Fatalf("Retry-After %q: want at least one second (status %d)", a.header.Get("Retry-After"), a.status)
	}
	return time.Duration(n) * time.Second
}

// report is what a pass did, by the contract's names.
type report struct {
	HospitalID                                    string
	OK, Complete, DryRun                          bool
	Error                                         string
	Listed, Compared, Skipped, BadRows, WrongType int
	DurationMs                                    float64
	Invalidated                                   []invalidation
}

type invalidation struct{ TemplateCode, From, To, Reason string }

// report fails the test unless the answer is 200 with a report of exactly the contract's fields.
func (a answer) report(t testing.TB) report {
	t.Helper()
	a.want(t, http.StatusOK)
	r := parse[report](t, a.body)
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(a.body)); err != nil || compact.String() != strings.TrimSuffix(a.body, "\n") {
		t.Errorf("JSON that is not compact: %s", a.body)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(a.body), &fields); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"hospitalId", "ok", "complete", "listed", "compared", "skipped", "badRows", "wrongType", "dryRun", "durationMs", "invalidated"} {
		if _, ok := fields[f]; !ok {
			t.Errorf("report without %s: %s", f, a.body)
		}
	}
	return r
}

// parse decodes JSON that holds no other fields than T's.
func parse[T any](t testing.TB, s string) (v T) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(s))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	if d.More() {
		t.Fatalf("more than one JSON value in %s", s)
	}
	return v
}

// metrics returns every series of /metrics by its full name.
func (d *daemon) metrics() map[string]float64 {
	d.w.t.Helper()
	a := d.get("/metrics").want(d.w.t, http.StatusOK)
	all := map[string]float64{}
	for line := range strings.Lines(a.body) {
		line = strings.TrimSpace(line)
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			v, err := strconv.ParseFloat(line[i+1:], 64)
			if err != nil {
				d.w.t.Fatalf("metric %q: %v", line, err)
			}
			all[line[:i]] = v
		}
	}
	return all
}

// metric returns one series, which must exist.
func (d *daemon) metric(name string) float64 {
	d.w.t.Helper()
	v, ok := d.metrics()[name]
	if !ok {
		d.w.t.Fatalf("no metric %s", name)
	}
	return v
}

// awaitWaiters waits until exactly n readers wait for loads.
func (d *daemon) awaitWaiters(n int) {
	d.w.t.Helper()
	eventually(d.w.t, soon, strconv.Itoa(n)+" waiters", func() bool { return d.metric("single_flight_waiters") == float64(n) })
}
