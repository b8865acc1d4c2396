// Package templates is the domain: Alimtalk templates, their inspection states, their
// entries in Redis, and the cache-aside Reader of their details.
//
// What is cached can be wrong for as long as nobody looks: SureM changes a template's state
// whenever it likes. This package promises that no fill stores what a pass has found stale
// (Cache, the fence) and that no reader is answered from a load older than its question
// (Reader, the marks of single-flight); to find what is stale is package invalidate's work.
package templates

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/metrics"
)

// Source is where documents come from.
type Source interface {
	// Detail fetches one template. It is sent after the call and answers in the document's
	// state of then or later.
	Detail(ctx context.Context, h hospitals.Hospital, code string) (Document, error)
}

// Key is what single-flight merges by: everything that the answer depends on.
type Key struct {
	Hospital string
	Sender   hospitals.Sender
	Code     string
}

// Via says how a reader came by its document.
type Via uint8

// How a document was come by.
const (
	Hit       Via = iota // it stood in Redis
	Stored               // loaded, and stored
	Missed               // loaded; the store was refused or failed
	Collapsed            // loaded by somebody else meanwhile
	Bypass               // loaded past a Redis that is away or holds something unreadable
)

// Answer is a detail read's result.
type Answer struct {
	Document string // byte for byte as SureM sent it
	Via      Via
}

// ReaderOptions say what a Reader stands on.
type ReaderOptions struct {
	Cache      *Cache
	Source     Source
	Flight     flight.Options
	CoolDown   time.Duration // how long a failed load answers for its key; 0 = off
	Metrics    *metrics.Metrics
	Log        zerolog.Logger
	CoolingMax int // keys that cool at a time, the oldest forgotten first; at least 1
	// Verify has the hospital looked at if that was not done lately, and waits for it: a hit in
	// a pending state may be wrong by now. True: there was a look, so what Redis holds may be
	// another than before. nil = hits are served as they are.
	Verify func(ctx context.Context, h hospitals.Hospital) bool
}

// Reader reads template details through the cache: cache → single-flight → cache again →
// SureM → store if the fence stands → answer.
type Reader struct {
	verify   func(context.Context, hospitals.Hospital) bool
	cache    *Cache
	source   Source
	flights  *flight.Group[Key, Answer]
	cooling  *coolDown
	metrics  *metrics.Metrics
	log      zerolog.Logger
	lastFill atomic.Pointer[string] // how the last fill failed, "" when it did not
	claims   sync.WaitGroup         // goroutines that hold or release one
}

// NewReader returns a Reader; Close ends it.
func NewReader(o ReaderOptions) *Reader {
	return &Reader{
		verify:  o.Verify,
		cache:   o.Cache,
		source:  o.Source,
		flights: flight.New[Key, Answer](o.Flight),
		cooling: newCoolDown(o.CoolDown, o.CoolingMax),
		metrics: o.Metrics,
		log:     o.Log,
	}
}

// errUnfinished is what a key cools from when its loader panicked or left its goroutine.
var errUnfinished = errors.New("the load broke off")

// Read returns a template's document. Errors are those of Source, of single-flight and of
// ctx; during a cool-down they come as *CoolingError.
func (r *Reader) Read(ctx context.Context, h hospitals.Hospital, code string) (Answer, error) {
	entry, err := r.cache.Get(ctx, h, code)
	switch {
	case ctx.Err() != nil:
		return Answer{}, context.Cause(ctx)
	case err != nil:
		r.metrics.CacheReads.WithLabelValues("error").Inc()
	case entry.Kind == Readable:
		r.metrics.CacheReads.WithLabelValues("hit").Inc()
		if entry = r.verified(ctx, h, code, entry); entry.Kind == Readable {
			return Answer{Document: entry.Doc.Raw, Via: Hit}, nil
		}
		if ctx.Err() != nil {
			return Answer{}, context.Cause(ctx)
		}
	default:
		r.metrics.CacheReads.WithLabelValues("miss").Inc()
	}

	key := Key{Hospital: h.ID, Sender: h.Sender(), Code: code}
	if failure := r.cooling.failure(key); failure != nil {
		return Answer{}, failure
	}
	answer, shared, err := r.flights.Do(ctx, key, func(ctx context.Context, run *flight.Run) (answer Answer, err error) {
		if failure := r.cooling.failure(key); failure != nil {
			return Answer{}, failure.Err // it began to cool between the caller's look and this run
		}
		err = errUnfinished
		defer func() {
			if err != nil {
				r.cooling.begin(key, err)
			}
		}()
		return r.load(ctx, run, h, code)
	})
	if err != nil {
		if failure := r.cooling.failure(key); failure != nil && errors.Is(err, failure.Err) {
			return Answer{}, failure
		}
		return Answer{}, err
	}
	if shared {
		answer.Via = Collapsed
	}
	return answer, nil
}

// verified returns the entry of a hit once its hospital has been looked at, where its state
// asks for that: as it was, or what stands there after the look. When Redis does not say, that
// is nothing, and the read goes on as a miss.
func (r *Reader) verified(ctx context.Context, h hospitals.Hospital, code string, entry Entry) Entry {
	if r.verify == nil || !entry.Doc.Status.State().Pending() || !r.verify(ctx, h) {
		return entry
	}
	entry, _ = r.cache.Get(ctx, h, code)
	return entry
}

// load is one run: it looks again, asks SureM and fills the cache. Its result goes to those
// who came before it was last known to be good (the marks of the fence protocol).
func (r *Reader) load(ctx context.Context, run *flight.Run, h hospitals.Hospital, code string) (Answer, error) {
	look, err := r.takeTurn(ctx, run, h, code)
	defer look.end()
	switch {
	case ctx.Err() != nil:
		return Answer{}, context.Cause(ctx)
	case err == nil && look.Kind == Readable:
		run.Seal(look.good)
		return Answer{Document: look.Doc.Raw, Via: look.via}, nil
	}
	via, noFill := Missed, look.NoToken
	switch {
	case err != nil && notServing(err):
		via = Bypass
	case err != nil:
		noFill = err
	case look.Kind != Missing:
		via = Bypass // and nothing to fill
	}

	good := run.Mark() // before the detail read
	doc, err := r.source.Detail(ctx, h, code)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Answer{}, err
	}

	switch {
	case noFill != nil:
		r.filled(h, code, false, noFill)
	case look.Token != "":
		beforeStore := run.Mark()
		stored, err := r.cache.Store(ctx, h, code, look.Token, doc)
		r.filled(h, code, stored, err)
		if stored {
			good, via = beforeStore, Stored
		}
	}
	run.Seal(good)
	return Answer{Document: doc.Raw, Via: via}, nil
}

// filled counts a fill, which may fail without failing the read, and logs a failure when it
// is another one than before.
func (r *Reader) filled(h hospitals.Hospital, code string, stored bool, err error) {
	result, failure := "refused", ""
	if err != nil && !errors.Is(err, ErrMoved) {
		result, failure = "error", failureClass(err)
	}
	if stored {
		result = "stored" // with an error: it was not noted
	}
	r.metrics.CacheWrites.WithLabelValues(result).Inc()
	if last := r.lastFill.Swap(&failure); failure != "" && (last == nil || *last != failure) {
		r.log.Warn().Str("hospital", h.ID).Str("code", code).Str("error", plain(err)).Msg("fill failed")
	}
}

// failureClass is the part of a Redis error that stays the same from one to the next: OOM,
// READONLY, NOPERM, …, or "network".
func failureClass(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		if word, _, ok := strings.Cut(err.Error(), " "); ok && word == strings.ToUpper(word) {
			return word
		}
	}
	return "network"
}

// Forget deletes a template's entry after a write that the caller made at SureM: it fences,
// deletes whatever string is there and ends the key's cool-down, so that a load that is
// running stores nothing. ErrWrongType when the key holds another type; any other error
// means that Redis did not confirm.
func (r *Reader) Forget(ctx context.Context, h hospitals.Hospital, code string) error {
	r.cooling.end(Key{Hospital: h.ID, Sender: h.Sender(), Code: code})
	return r.cache.Forget(ctx, h, code)
}

// Stats is the present load of single-flight.
func (r *Reader) Stats() flight.Stats { return r.flights.Stats() }
