package statuspage

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// browser is a headless Chromium, driven by the DevTools protocol over two pipes.
type browser struct {
	t       testing.TB
	in      *os.File
	session string // of the one page

	mu     sync.Mutex // guards what follows
	id     int
	wait   map[int]chan message
	events []message
	came   chan struct{} // closed, and made anew, when an event comes
}

// message is a command, its answer, or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// patience bounds every wait for the browser, on a busy machine.
const patience = 60 * time.Second

// newBrowser starts Chromium with an empty profile; it ends with its test.
func newBrowser(t testing.TB) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is needed (Debian: apt-get install chromium):", err)
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--no-proxy-server",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4 in the browser
	if err := cmd.Start(); err != nil {
		t.Fatal("chromium:", err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	b := &browser{t: t, in: in, wait: map[int]chan message{}, came: make(chan struct{})}
	read := make(chan struct{})
	go func() { // ends with the browser's end of the pipe
		defer close(read)
		b.receive(bufio.NewReader(out))
	}()
	t.Cleanup(func() {
		_ = b.try("Browser.close", nil, nil)
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-ended
		}
		_ = in.Close()
		<-read
		_ = out.Close()
	})
	var target struct{ TargetID string }
	b.do("Target.createTarget", args{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.do("Target.attachToTarget", args{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.do(domain+".enable", nil, nil)
	}
	return b
}

type args map[string]any

// receive hands answers to those who wait and keeps events, until the pipe ends.
func (b *browser) receive(out *bufio.Reader) {
	for {
		line, err := out.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(line[:len(line)-1], &m); err != nil {
			continue
		}
		b.mu.Lock()
		if answer := b.wait[m.ID]; m.ID != 0 && answer != nil {
			answer <- m
			delete(b.wait, m.ID)
		} else {
			b.events = append(b.events, m)
			close(b.came)
			b.came = make(chan struct{})
		}
		b.mu.Unlock()
	}
}

// try sends a command and decodes its answer into result, unless that is nil.
func (b *browser) try(method string, params args, result any) error {
	body, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer := make(chan message, 1)
	b.mu.Lock()
	b.id++
	m := message{ID: b.id, Session: b.session, Method: method, Params: body}
	b.wait[m.ID] = answer
	b.mu.Unlock()
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, err := b.in.Write(append(line, 0)); err != nil {
		return err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case m = <-answer:
	case <-timer.C:
		return fmt.Errorf("%s: no answer within %v", method, patience)
	}
	if m.Error != nil {
		return fmt.Errorf("%s: %s", method, m.Error.Message)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(m.Result, result)
}

func (b *browser) do(method string, params args, result any) {
	b.t.Helper()
	if err := b.try(method, params, result); err != nil {
		b.t.Fatal("chromium:", err)
	}
}

// loaded does what loads a page, and waits for that.
func (b *browser) loaded(load func()) {
	b.t.Helper()
	b.mu.Lock()
	seen := len(b.events)
	b.mu.Unlock()
	load()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		b.mu.Lock()
		came := b.came
		for ; seen < len(b.events); seen++ {
			if b.events[seen].Method == "Page.loadEventFired" {
				b.mu.Unlock()
				return
			}
		}
		b.mu.Unlock()
		select {
		case <-came:
		case <-timer.C:
			b.t.Fatalf("chromium: no page within %v", patience)
		}
	}
}

// open loads a page in a colour scheme, at a width in CSS pixels.
func (b *browser) open(url, scheme, language string, width int) {
	b.t.Helper()
	b.mu.Lock()
	b.events = nil
	b.mu.Unlock()
	b.do("Emulation.setDeviceMetricsOverride", args{"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.do("Emulation.setEmulatedMedia", args{"features": []args{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.do("Network.setExtraHTTPHeaders", args{"headers": args{"Accept-Language": language}}, nil)
	b.loaded(func() { b.do("Page.navigate", args{"url": url}, nil) })
}

// eval runs an expression in the page and decodes its value into result.
func (b *browser) eval(expression string, result any) {
	b.t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.do("Runtime.evaluate", args{"expression": expression, "returnByValue": true}, &answer)
	if answer.ExceptionDetails != nil {
		b.t.Fatalf("chromium: %s: %s", expression, answer.ExceptionDetails)
	}
	if err := json.Unmarshal(answer.Result.Value, result); err != nil {
		b.t.Fatalf("chromium: %s: %v", expression, err)
	}
}

// happened returns the events of a kind since the page was opened.
func (b *browser) happened(method string) (params []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if e.Method == method {
			params = append(params, string(e.Params))
		}
	}
	return params
}

// screenshot writes the whole page to a file.
func (b *browser) screenshot(file string) {
	b.t.Helper()
	var shot struct{ Data string }
	b.do("Page.captureScreenshot", args{"format": "png", "captureBeyondViewport": true}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(file, png, 0o600)
	}
	if err != nil {
		b.t.Fatal("chromium:", err)
	}
}
