package templates_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"reflect"
	"strings"

	"github.com/redis/go-redis/v9"
)

// DialHook implements redis.Hook.
func (p *process) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook: it notes looks, and which documents they find. Some
// commands leave late and some replies are held back.
func (p *process) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h, at := p.history, p.history.clock.now()
		p.dawdle(ctx)
		defer p.dawdle(ctx)
		err := next(ctx, cmd)
		script, ok := cmd.(*redis.Cmd)
		if !ok {
			return err
		}
		args := script.Args()
		if args[1] == h.lookHash {
			key, _ := args[3].(string)
			code := strings.TrimPrefix(key, h.keys.Key(h.hospital.ID, ""))
			h.note(func() {
				if h.fleet {
					load := args[8] // entry, fence, claim, the fence's token and life, load
					if h.loads[load] {
						return // it looks again, no run begins
					}
					h.loads[load] = true
				}
				h.looks = append(h.looks, lookOf{p.number, code, at})
			})
		}
		if answer, ok := script.Val().([]any); ok && len(answer) == 2 && answer[0] == "entry" { // look
			value, _ := answer[1].(string)
			h.stands(value)
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook: it notes what readers find, what a pass reads after
// its fence, and what a load has stored. Reads and stores leave late, and their replies are held
// back, now and then.
func (p *process) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if _, ok := cmds[0].(*redis.StringCmd); ok { // gets
			p.dawdle(ctx)
			defer p.dawdle(ctx)
			err := next(ctx, cmds)
			for _, cmd := range cmds {
				if get, ok := cmd.(*redis.StringCmd); ok {
					p.history.stands(get.Val())
				}
			}
			return err
		}
		if store, ok := cmds[0].(*redis.Cmd); ok {
			p.dawdle(ctx)
			defer p.dawdle(ctx)
			err := next(ctx, cmds)
			args := store.Args() // the last ones: token, entry, life
			if value, ok := args[len(args)-2].(string); ok && store.Val() == int64(1) {
				p.history.stands(value)
			}
			return err
		}
		err := next(ctx, cmds)
		var replies []byte
		for _, cmd := range cmds {
			get, ok := cmd.(*redis.RawWriteToCmd)
			if !ok || get.Err() != nil {
				continue
			}
			if replies == nil {
				replies = bufferOf(get).Bytes()
			}
			header, value, _ := bytes.Cut(replies[:get.Val()], []byte("\r\n"))
			replies = replies[get.Val():]
			if header[0] == '$' && header[1] != '-' {
				key, _ := get.Args()[1].(string)
				code := strings.TrimPrefix(key, p.history.keys.Key(p.history.hospital.ID, ""))
				p.history.note(func() { p.passing.Load().saw[code] = strings.TrimSuffix(string(value), "\r\n") })
			}
		}
		return err
	}
}

// bufferOf is where a command's reply goes, which go-redis does not show.
func bufferOf(cmd *redis.RawWriteToCmd) *bytes.Buffer {
	field := reflect.ValueOf(cmd).Elem().FieldByName("w")
	return (*(*io.Writer)(field.Addr().UnsafePointer())).(*bytes.Buffer)
}

// stands notes that a document stands in Redis, if value is one.
func (h *history) stands(value string) {
	h.mu.Lock()
	doc := h.documents[value]
	h.mu.Unlock()
	if doc == nil {
		return
	}
	for now, before := h.clock.now(), doc.stood.Load(); before < now; before = doc.stood.Load() {
		if doc.stood.CompareAndSwap(before, now) {
			return
		}
	}
}
