package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"alimtalk-syncer/internal/invalidate"
)

// childVariable has this program do one part in a process of its own; argsVariable holds what
// that part is told.
const (
	childVariable = "BENCH_CHILD"
	argsVariable  = "BENCH_ARGS"
)

var children = map[string]func() error{"large": largeChild, "bare": bareChild}

type childArgs struct {
	Redis     string
	Hospitals int
	Size      int
	Listen    string
}

func child(name string, args childArgs) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("looking for this program: %w", err)
	}
	text, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"="+name, argsVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

func readArgs() (a childArgs, err error) {
	return a, json.Unmarshal([]byte(os.Getenv(argsVariable)), &a)
}

// largeFigures are what largeChild prints.
type largeFigures struct {
	Seconds, CPU float64
	Trips        int64
	PeakMB       float64
}

// largeChild passes twice over many hospitals in a process that does nothing else, and tells
// of the second time.
func largeChild() error {
	args, err := readArgs()
	if err != nil {
		return err
	}
	ctx := context.Background()
	rdb, trips := client(args.Redis)
	defer func() { _ = rdb.Close() }()
	syncer, hs, err := newSyncer(newEntries(args.Hospitals, args.Size), rdb)
	if err != nil {
		return err
	}
	defer syncer.Close(ctx)
	var u turn
	for range 2 {
		trips.Store(0)
		if u, err = measured(func() error {
			if len(syncer.Pass(ctx, invalidate.TriggerSchedule, hs)) != len(hs) {
				return errors.New("a pass did not come round")
			}
			return nil
		}); err != nil {
			return err
		}
	}
	peak, err := memory(os.Getpid(), "VmHWM")
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(largeFigures{u.wall.Seconds(), u.cpu.Seconds(), trips.Load(), peak})
}

func largePass(args childArgs) (f largeFigures, err error) {
	cmd, err := child("large", args)
	if err != nil {
		return f, err
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return f, fmt.Errorf("a pass of %d hospitals: %w", args.Hospitals, err)
	}
	return f, json.Unmarshal(out.Bytes(), &f)
}

// bareChild is the least that can answer a cached template over HTTP: one GET, written.
func bareChild() error {
	args, err := readArgs()
	if err != nil {
		return err
	}
	server := &http.Server{Addr: args.Listen, Handler: bare(args.Redis), ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

func bare(addr string) http.Handler {
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part := strings.Split(r.URL.Path, "/") // "", "v1", "hospitals", id, "templates", code
		if len(part) != 6 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		value, err := rdb.Get(r.Context(), "infotalk:template:{"+part[3]+"}:"+part[5]).Bytes()
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(value)
	})
}
