package invalidate

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/sureM"
	"alimtalk-syncer/internal/templates"
)

// What asks for a reading; the label of syncer_invalidations_total.
const (
	TriggerSchedule = "schedule"
	TriggerList     = "list"
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
	Metrics     *metrics.Metrics
	Log         zerolog.Logger
	Succeeded   func() // called after a pass that counts as a success; must return at once; nil = nobody
}

// Syncer reads hospitals and invalidates their entries, in scheduled passes and on demand.
type Syncer struct {
	Options
	life     context.Context // of every reading; ended by Close
	kill     context.CancelFunc
	running  sync.WaitGroup // readings
	passing  sync.Mutex     // held by the pass that runs
	progress progress

	mu     sync.Mutex // guards what follows
	closed bool
	desk   map[hospitals.Sender]*reading
	past   history
	next   time.Time // tick that is due next; zero before Schedule
}

// New returns a Syncer; Close ends it.
func New(o Options) *Syncer {
	life, kill := context.WithCancel(context.Background())
	return &Syncer{
		Options: o, life: life, kill: kill,
		desk: make(map[hospitals.Sender]*reading), past: history{standings: make(map[string]standing)},
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
}
