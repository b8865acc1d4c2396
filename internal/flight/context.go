package flight

import (
	"context"
	"sync"
	"time"
)

// loadContext is a loader's context: the values of the run's starter, a deadline, an end of
// its own, and the loads of this group that it runs inside of.
//
// context.WithTimeoutCause would do, but costs as much as the rest of a run, and the group,
// which has to hear of the deadline too, keeps a clock of its own: it tells the context
// (finish). AfterFunc and Value see to it that package context finds in this one what it
// finds in its own: derived contexts end with it, without a goroutine each, and
// context.Cause tells ErrDeadline from ErrClosed.
type loadContext[K comparable, V any] struct {
	values   context.Context // the starter's; its end is not ours
	group    *Group[K, V]
	key      K
	outer    *loadContext[K, V]
	deadline time.Time // zero = none

	mu     sync.Mutex // guards what follows
	end    context.Context
	done   chan struct{}      // made when somebody asks for it
	kids   context.Context    // likewise; ends right after done
	cancel context.CancelFunc // ends kids
}

// The ends that a loadContext comes to: ended contexts, whose Err and Cause become its own.
var (
	endDeadline, _ = context.WithDeadlineCause(context.Background(), time.Unix(0, 0), ErrDeadline)
	endClosed      = cancelled(ErrClosed)
	endReturned    = cancelled(nil)
)

func cancelled(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

// finish ends the context; the first end counts.
func (c *loadContext[K, V]) finish(end context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		return
	}
	c.end = end
	if c.done != nil {
		close(c.done)
	}
	if c.cancel != nil {
		c.cancel()
	}
}

// Deadline implements context.Context.
func (c *loadContext[K, V]) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done implements context.Context.
func (c *loadContext[K, V]) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.end != nil {
			close(c.done)
		}
	}
	return c.done
}

// Err implements context.Context.
func (c *loadContext[K, V]) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil {
		return nil
	}
	return c.end.Err()
}

// Value implements context.Context. The group itself is the key of the innermost load. The
// end comes before the starter's values, because context.Cause looks here.
func (c *loadContext[K, V]) Value(key any) any {
	if key == any(c.group) {
		return c
	}
	c.mu.Lock()
	end := c.end
	c.mu.Unlock()
	if end != nil {
		if v := end.Value(key); v != nil {
			return v
		}
	}
	return c.values.Value(key)
}

// AfterFunc is what package context looks for in a context of another make.
func (c *loadContext[K, V]) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kids == nil {
		c.kids, c.cancel = context.WithCancel(context.Background())
		if c.end != nil {
			c.cancel()
		}
	}
	return context.AfterFunc(c.kids, f)
}

// loads reports whether ctx belongs to a running loader of key, or to one inside of it.
func (g *Group[K, V]) loads(ctx context.Context, key K) bool {
	inner, _ := ctx.Value(g).(*loadContext[K, V])
	for ; inner != nil; inner = inner.outer {
		if inner.key == key && inner.Err() == nil {
			return true
		}
	}
	return false
}
