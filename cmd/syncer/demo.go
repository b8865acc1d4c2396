package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"alimtalk-syncer/internal/config"
)

// demoOptions are what `syncer demo` can be told.
type demoOptions struct {
	For   time.Duration // 0 = until ctx ends
	Chaos bool          // SureM misbehaves at random
}

func demoCommand(ctx context.Context, args []string, stdout, _ io.Writer) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	var o demoOptions
	flags.DurationVar(&o.For, "for", 0, "end by itself after this `DURATION`, such as 20s (0: not before Ctrl-C)")
	flags.BoolVar(&o.Chaos, "chaos", false, "let SureM misbehave at random")
	if err := parse(flags, args, stdout, "demo [--for DURATION] [--chaos]: the daemon on an embedded Redis and a simulated SureM", 0); err != nil {
		return err
	}
	if o.For < 0 {
		return &usageError{"syncer demo: --for must not be negative"}
	}
	return demo(ctx, o, stdout)
}

// demo runs the daemon on an embedded Redis and a simulated SureM whose reviewers approve
// and reject, and tells on out what happens. It ends without an error after o.For or with ctx.
func demo(ctx context.Context, o demoOptions, out io.Writer) error {
	w, err := newDemoWorld()
	if err != nil {
		return err
	}
	defer w.close()
	tell := newNarrator(out, w)
	err = w.run(ctx, o, tell, "127.0.0.1:8080")
	if errors.Is(err, syscall.EADDRINUSE) {
		fmt.Fprintln(out, "Port 8080 is taken; the daemon takes a free one.")
		err = w.run(ctx, o, tell, "127.0.0.1:0")
	}
	return err
}

// run runs the daemon at an address. Where that is taken, nothing has happened.
func (w *demoWorld) run(ctx context.Context, o demoOptions, tell *narrator, httpAddr string) error {
	life, stopDaemon := context.WithCancel(ctx)
	defer stopDaemon()
	cfg, _, err := config.Load(w.settings(httpAddr))
	if err != nil {
		return fmt.Errorf("settings of the demo: %w", err)
	}
	ready, ended := make(chan string, 1), make(chan struct{})
	go func() {
		err = daemon(life, cfg, newLog(cfg, tell), func(addr string) { ready <- addr })
		close(ended)
	}()
	select {
	case addr := <-ready:
		tell.welcome(o, addr, w.suremURL)
		r := newReaders(addr, tell, w)
		w.live(ctx, o, r, ended)
		figures := r.figures(ctx)
		r.client.CloseIdleConnections()
		stopDaemon()
		<-ended
		tell.close(figures)
	case <-ended:
	}
	return err
}

// live lets reviewers, readers and, if asked for, chaos have their way until o.For is over,
// ctx ends or the daemon has ended. Reviewers and chaos stop a little earlier, so that the
// daemon has come after them at the end.
func (w *demoWorld) live(ctx context.Context, o demoOptions, r *readers, ended <-chan struct{}) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	reading, reviewing := ctx, ctx
	if o.For > 0 {
		var cancel context.CancelFunc
		reading, cancel = context.WithTimeout(ctx, o.For)
		defer cancel()
		reviewing, cancel = context.WithTimeout(ctx, o.For-min(o.For/4, 2*time.Second))
		defer cancel()
	}
	r.fill(reading)
	var all sync.WaitGroup
	for _, c := range clinics {
		all.Go(func() { w.review(reviewing, c, newRand()) })
	}
	if o.Chaos {
		all.Go(func() { w.misbehave(reviewing, newRand(), r.tell.misbehaves) })
	}
	all.Go(func() { r.run(reading, newRand()) })
	select {
	case <-reading.Done():
	case <-ended:
		end()
	}
	all.Wait()
}

func newRand() *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) }
