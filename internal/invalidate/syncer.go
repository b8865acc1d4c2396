package invalidate

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/fleet"
	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/order"
	"alimtalk-syncer/internal/sureM"
	"alimtalk-syncer/internal/templates"
)

// What asks for a reading; the label of syncer_invalidations_total.
const (
	TriggerSchedule = "schedule"
	TriggerList     = "list"   // and a read that has its hit verified
	TriggerManual   = "manual" // POST …/sync and `syncer sync`
)

// The events this package logs, as messages.
const (
	EventPass            = "pass"
	EventInvalidated     = "invalidated"
	EventWouldInvalidate = "would invalidate"
	EventFailing         = "hospital failing"
	EventRecovered       = "hospital recovered"
	EventMassChange      = "mass change"
	EventHospitalsFile   = "hospitals file"
	EventPanic           = "panic"
	EventTickSkipped     = "tick skipped"
	EventHoldings        = "holdings" // which hospitals hold entries cannot be read or written
	EventClaims          = "claims"   // hospitals cannot be claimed in Redis
)

// Source is where summaries come from.
type Source interface {
	// Summaries reads a sender key's list. It returns what it has read with the error that
	// kept it from being complete.
	Summaries(ctx context.Context, h hospitals.Hospital, turn *surem.Turn) (templates.List, error)
}

// Options say what a Syncer stands on.
type Options struct {
	Hospitals   *hospitals.Directory
	Source      Source
	Cache       *templates.Cache
	Skip        map[templates.State]bool // SYNC_SKIP_STATUSES
	Fields      []string                 // SYNC_COMPARE_ALSO
	DryRun      bool                     // delete nothing and fence nothing; promises nothing
	Timeout     time.Duration            // of one hospital (SYNC_TIMEOUT)
	Concurrency int                      // sender keys at once in a pass
	Rate        float64                  // calls per second of an account (SUREM_RATE_LIMIT); 0 = no limit
	Burst       int                      // of them at once
	Shared      bool                     // others write entries too (CACHE_SHARED)

	Claims *fleet.Claims // the hospitals of a tick are shared with other replicas (FLEET); nil = all are ours

	VerifyAfter  time.Duration // age of a look past which a hit in a pending state waits for one (CACHE_VERIFY_AFTER); 0 = never
	VerifyWithin time.Duration // how long it waits at most
	Serving      func() bool   // false: SureM would not answer a look now; nil = it would
	Away         func() bool   // SureM does not answer this process at all; nil = it does

	Metrics   *metrics.Metrics
	Log       zerolog.Logger
	Succeeded func() // called after a pass that counts as a success; must return at once; nil = nobody
}

// Syncer reads hospitals and invalidates their entries, in scheduled passes and on demand.
type Syncer struct {
	Options
	life     context.Context // of every reading; ended by Close
	kill     context.CancelFunc
	running  sync.WaitGroup // readings
	progress progress
	began    time.Time // the process, as it were
	buffers  sync.Pool // of *bytes.Buffer, for a hospital's entries

	verifying *flight.Group[hospitals.Hospital, bool] // looks that readers wait for

	mu     sync.Mutex // guards what follows
	closed bool
	desk   map[hospitals.Sender]*reading
	past   history
	next   time.Time                // tick that comes next; zero before Schedule
	due    time.Time                // tick whose pass has not begun; zero: none
	known  map[string]order.Holding // by hospital id, as Redis said at the last tick
	found  map[string]order.Found   // by hospital id: looks since the last correction
	paces  map[string]order.Pace    // by account: of verifying looks

	looked map[string]time.Time // by fleet.Unit: last claims of all replicas, as Redis said at the last tick; nil: not known

	claimsFault   string // why a claim was not confirmed last; "" = it was
	holdingsFault string // why known could not be read or corrected last; "" = it could
}

// New returns a Syncer; Close ends it.
func New(o Options) *Syncer {
	life, kill := context.WithCancel(context.Background())
	return &Syncer{
		Options: o, life: life, kill: kill, began: time.Now(), buffers: sync.Pool{New: func() any { return new(bytes.Buffer) }},
		verifying: flight.New[hospitals.Hospital, bool](flight.Options{LoaderTimeout: o.VerifyWithin}),
		desk:      make(map[hospitals.Sender]*reading), past: history{standings: make(map[string]standing)},
		known: make(map[string]order.Holding), found: make(map[string]order.Found), paces: make(map[string]order.Pace),
	}
}

// Close refuses new readings and waits for those that run; when ctx ends first it cuts them
// and returns.
func (s *Syncer) Close(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { // ends with the last reading
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.kill()
	_ = s.verifying.Close(ctx) // what waits for a reading ends with it
}
