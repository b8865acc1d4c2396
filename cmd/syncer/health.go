package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"alimtalk-syncer/internal/config"
)

// healthTimeout bounds `syncer health`.
const healthTimeout = 3 * time.Second

// healthCommand asks the daemon that HTTP_ADDR names for /healthz: a health check for an
// image that has no shell and no client. It is about progress, not about Redis or SureM, so
// that a blink of theirs restarts nothing.
func healthCommand(ctx context.Context, args []string, stdout, _ io.Writer) error {
	flags := flag.NewFlagSet("health", flag.ContinueOnError)
	if err := parse(flags, args, stdout, "health: ask the daemon at HTTP_ADDR for /healthz; 0 when it makes progress", 0); err != nil {
		return err
	}
	addr, err := config.HTTPAddr(os.Environ())
	if err != nil {
		return &usageError{err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+dialable(addr)+"/healthz", nil)
	if err != nil {
		return fmt.Errorf("asking the daemon: %w", err)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request) // no proxy stands between
	if err != nil {
		return fmt.Errorf("asking the daemon: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err != nil {
		return fmt.Errorf("asking the daemon: %w", err)
	}
	fmt.Fprintf(stdout, "%s", text)
	if response.StatusCode != http.StatusOK {
		return errSaid
	}
	return nil
}

// dialable is where a daemon that listens at addr can be reached from its own machine: one
// that listens on every interface, at loopback.
func dialable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if host == "" {
		host = "127.0.0.1"
	} else if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}
