package templates

import (
	"container/list"
	"sync"
	"time"
)

// CoolingError is a load's failure, told during the cool-down that follows it. It is the
// failure (Unwrap) and says when another load will be tried.
type CoolingError struct {
	Err        error
	RetryAfter time.Duration
}

// Error is the failure's own text.
func (e *CoolingError) Error() string { return e.Err.Error() }

// Unwrap returns the failure.
func (e *CoolingError) Unwrap() error { return e.Err }

// coolDown remembers failures for a while, so that those who retry at once do not load at
// once. Single-flight forgets a failure as it ends; this is the policy above it.
type coolDown struct {
	length time.Duration // 0 = off
	most   int           // keys; past it the oldest is forgotten first

	mu     sync.Mutex // guards what follows
	byKey  map[Key]*list.Element
	oldest *list.List // of cooling; as all cool equally long, also by end
}

type cooling struct {
	key   Key
	err   error
	until time.Time
}

func newCoolDown(length time.Duration, most int) *coolDown {
	return &coolDown{length: length, most: most, byKey: make(map[Key]*list.Element), oldest: list.New()}
}

// begin remembers a failure from now on.
func (c *coolDown) begin(key Key, err error) {
	if c.length <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.drop(c.byKey[key])
	for e := c.oldest.Front(); e != nil && (!now.Before(e.Value.(cooling).until) || c.oldest.Len() >= c.most); e = c.oldest.Front() {
		c.drop(e)
	}
	c.byKey[key] = c.oldest.PushBack(cooling{key: key, err: err, until: now.Add(c.length)})
}

// failure returns what the key is cooling from, or nil.
func (c *coolDown) failure(key Key) *CoolingError {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[key]
	if e == nil {
		return nil
	}
	f := e.Value.(cooling)
	left := time.Until(f.until)
	if left <= 0 {
		c.drop(e)
		return nil
	}
	return &CoolingError{Err: f.err, RetryAfter: left}
}

// end forgets the key's failure.
func (c *coolDown) end(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(c.byKey[key])
}

func (c *coolDown) drop(e *list.Element) {
	if e != nil {
		delete(c.byKey, e.Value.(cooling).key)
		c.oldest.Remove(e)
	}
}
