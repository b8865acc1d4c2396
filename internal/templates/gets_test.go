package templates

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// line is a hook that stands for the network: each pipeline goes to sent, and is answered, or
// not, by what comes from answer.
type line struct {
	sent   chan []string
	answer chan error
}

func (l line) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody dials here") }
}

func (l line) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (l line) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var keys []string
		for _, cmd := range cmds {
			keys = append(keys, fmt.Sprint(cmd.Args()...))
		}
		l.sent <- keys
		var err error
		select {
		case err = <-l.answer:
		case <-ctx.Done():
			err = ctx.Err()
		}
		for _, cmd := range cmds {
			if get, ok := cmd.(*redis.StringCmd); ok && err == nil {
				get.SetVal("value of " + cmd.Args()[1].(string))
			}
			cmd.SetErr(err)
		}
		return err
	}
}

func newLine(t *testing.T) (*gets, line) {
	l := line{make(chan []string, 10), make(chan error)}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DisableIdentity: true, MaxRetries: -1, PipelinePoolSize: -1})
	rdb.AddHook(l)
	t.Cleanup(func() { _ = rdb.Close() })
	return &gets{rdb: rdb}, l
}

// TestReadersShareAPipeline: who comes while one is on its way travels with the next.
func TestReadersShareAPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, l := newLine(t)
		const readers = 50
		var all sync.WaitGroup
		read := func(n int) {
			all.Go(func() {
				key := fmt.Sprint("k", n)
				if cmd, err := g.get(t.Context(), key); err != nil || cmd.Val() != "value of "+key {
					t.Errorf("%s: %q, %v", key, cmd.Val(), err)
				}
			})
		}
		read(0)
		synctest.Wait()
		for n := 1; n < readers; n++ {
			read(n)
		}
		synctest.Wait()
		l.answer <- nil
		l.answer <- nil
		all.Wait()
		if first, second := <-l.sent, <-l.sent; len(first) != 1 || len(second) != readers-1 || len(l.sent) > 0 {
			t.Errorf("pipelines of %d and %d GETs, and %d more", len(first), len(second), len(l.sent))
		}
		synctest.Wait()
		if g.serving {
			t.Error("it still serves, and nobody waits")
		}
	})
}

// TestAGetIsBoundedBehindAPipelineThatHangs: nobody waits for readTimeout twice, and who leaves
// leaves alone.
func TestAGetIsBoundedBehindAPipelineThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := newLine(t)
		var all sync.WaitGroup
		for n := range 3 {
			all.Go(func() {
				time.Sleep(time.Duration(n) * readTimeout / 3) // on the bubble's clock
				came := time.Now()
				cmd, err := g.get(t.Context(), "k")
				if err == nil {
					err = cmd.Err()
				}
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(came) > readTimeout {
					t.Errorf("number %d: %v after %v", n, err, time.Since(came))
				}
			})
		}
		ctx, leave := context.WithTimeoutCause(t.Context(), readTimeout/10, errors.New("left"))
		defer leave()
		came := time.Now()
		if _, err := g.get(ctx, "k"); err == nil || err.Error() != "left" || time.Since(came) != readTimeout/10 {
			t.Errorf("who left: %v after %v", err, time.Since(came))
		}
		all.Wait()
	})
}
