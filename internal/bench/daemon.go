package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"alimtalk-syncer/internal/redistest"
)

const never = "0 0 1 1 *" // a schedule whose next tick nobody sees

// daemon is the built program, running.
type daemon struct {
	url   string
	pid   int
	ready time.Duration // from its start until it was
	stop  func()
}

// start starts the program for hospitals 0 to n-1 and waits until it is ready. It stops with
// the section at the latest.
func (b *bench) start(redis *redistest.Server, surem *sureM, n int, settings ...string) (*daemon, error) {
	file, err := b.hospitalsFile(n)
	if err != nil {
		return nil, err
	}
	addr := redistest.FreeAddr(b)
	cmd := exec.Command(b.binary)
	cmd.Env = append([]string{
		"SUREM_BASE_URL=" + surem.url, "SUREM_USER_CODE=clinic", "SUREM_SECRET_KEY=secret", "SUREM_RATE_LIMIT=10000", "SUREM_RATE_BURST=10000",
		"REDIS_URL=redis://" + redis.Addr + "/0", "HOSPITALS_FILE=" + file, "HTTP_ADDR=" + addr,
		"SYNC_ON_START=false", "SYNC_SCHEDULE=" + never,
	}, settings...)
	var said bytes.Buffer
	cmd.Stderr = &said
	d := &daemon{url: "http://" + addr}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the program: %w", err)
	}
	d.pid = cmd.Process.Pid
	stopped := false
	d.stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		}
	}
	b.Cleanup(d.stop)
	for {
		answer, err := http.Get(d.url + "/readyz")
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				d.ready = time.Since(began)
				return d, nil
			}
		}
		if time.Since(began) > 10*time.Second {
			d.stop()
			return nil, fmt.Errorf("the program did not become ready:\n%s", said.String())
		}
		time.Sleep(200 * time.Microsecond)
	}
}

func (b *bench) hospitalsFile(n int) (string, error) {
	type entry struct {
		ID        string `json:"id"`
		SenderKey string `json:"senderKey"`
	}
	list := make([]entry, n)
	for i := range list {
		list[i] = entry{hospitalID(i), "sender-key-" + hospitalID(i)}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	file := filepath.Join(b.TempDir(), "hospitals.json")
	return file, os.WriteFile(file, text, 0o600)
}

// processCPU is what a process has used so far, to 10 ms.
func processCPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	ticks := 0
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
