package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/templates"
)

const (
	takeTimeout = 300 * time.Millisecond // of all that one slot asks of Redis
	alonePause  = time.Second            // without a question to a Redis that has not answered one
	clockSlack  = 100 * time.Millisecond // that the wait for a slot may exceed its period
)

// Limit is the limit of calls per second and account that all replicas keep together. An
// account has two buckets in Redis: one for all calls, and one with four fifths of it that a
// pass's calls take from first, so that passes alone never use all of it up.
//
// While Redis does not answer, or when its clock has gone back, each replica keeps the limit
// alone: Limit then lets everything through, and asks again after a second.
type Limit struct {
	LimitOptions
	buckets *redis_rate.Limiter
	timeout time.Duration // takeTimeout

	mu      sync.Mutex      // guards what follows
	alone   time.Time       // Redis is not asked before
	away    bool            // the last question to it failed
	counted map[string]bool // accounts for one of whose calls the passes' bucket has given a slot already
}

// LimitOptions say what the limit is.
type LimitOptions struct {
	Keys    templates.KeyFormat // of the deployment's entries: others do not meet it
	Rate    float64             // calls per second and account, above 0
	Burst   int                 // of them at once, at least 1
	Metrics *metrics.Metrics
	Log     zerolog.Logger
}

// NewLimit returns the limit on rdb.
func NewLimit(rdb redis.UniversalClient, o LimitOptions) *Limit {
	return &Limit{LimitOptions: o, buckets: redis_rate.NewLimiter(ownKeys{rdb}), timeout: takeTimeout, counted: make(map[string]bool)}
}

// Take takes a slot of an account's for a call of a pass, or of somebody who waits for it. It
// returns 0, or how long there is none at least; it does so within takeTimeout. It is called
// for one call of an account at a time, and again until it returns 0.
func (l *Limit) Take(account string, pass bool) (wait time.Duration) {
	l.mu.Lock()
	alone, counted := time.Now().Before(l.alone), l.counted[account]
	l.mu.Unlock()
	if alone {
		l.Metrics.FleetSlots.WithLabelValues("alone").Inc()
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	defer cancel()
	var err error
	if pass && !counted {
		wait, err = l.take(ctx, account, "passes", l.Rate*PassShare, max(1, int(float64(l.Burst)*PassShare)))
		counted = wait == 0 && err == nil
	}
	if wait == 0 && err == nil {
		wait, err = l.take(ctx, account, "all", l.Rate, l.Burst)
		counted = counted && !(pass && wait == 0 && err == nil)
	}
	l.note(account, counted, err)
	switch {
	case err != nil:
		l.Metrics.FleetSlots.WithLabelValues("alone").Inc()
		return 0
	case wait == 0:
		l.Metrics.FleetSlots.WithLabelValues("shared").Inc()
	}
	return wait
}

// take takes a slot of one bucket, or says how long there is none. The limit is part of the
// key: a bucket outlives a change of it.
func (l *Limit) take(ctx context.Context, account, bucket string, rate float64, burst int) (wait time.Duration, err error) {
	sum := sha256.Sum256([]byte(account))
	key := templates.OwnPrefix + "rate:" + l.Keys.Hash() + ":" + strconv.FormatFloat(l.Rate, 'g', -1, 64) + "/" + strconv.Itoa(l.Burst) + ":" +
		hex.EncodeToString(sum[:16]) + ":" + bucket
	period := time.Duration(min(float64(time.Second)/rate, float64(24*time.Hour)))
	result, err := l.buckets.Allow(ctx, key, redis_rate.Limit{Rate: 1, Burst: burst, Period: max(period, time.Microsecond)})
	switch {
	case err != nil:
		return 0, fmt.Errorf("asking for a slot that all replicas share: %w", err)
	case result.Allowed > 0:
		return 0, nil
	case result.RetryAfter > period+clockSlack:
		_ = l.buckets.Reset(ctx, key) // if not, all this comes again
		return 0, errClock
	}
	return max(result.RetryAfter, time.Millisecond), nil
}

// errClock means that a bucket was written by a clock that was ahead of Redis' by now: it has
// been set back, or another server has taken over. No bucket makes anybody wait for longer
// than its period.
var errClock = errors.New("asking for a slot that all replicas share: Redis' clock has gone back")

// note remembers how a question ended, and says in the log when Redis no longer answers them,
// or does so again.
func (l *Limit) note(account string, counted bool, err error) {
	l.mu.Lock()
	if counted {
		l.counted[account] = true
	} else {
		delete(l.counted, account)
	}
	if err != nil {
		l.alone = time.Now().Add(alonePause)
	}
	news := l.away != (err != nil)
	l.away = err != nil
	l.mu.Unlock()
	switch {
	case news && err != nil:
		l.Log.Warn().Str("error", err.Error()).Msg("limit alone")
	case news:
		l.Log.Info().Msg("limit shared")
	}
}

// ownKeys is a client whose keys are ours where redis_rate would have them begin with "rate:".
type ownKeys struct{ redis.UniversalClient }

func own(keys []string) []string { return []string{strings.TrimPrefix(keys[0], "rate:")} }

func (c ownKeys) Del(ctx context.Context, keys ...string) *redis.IntCmd {
	return c.UniversalClient.Del(ctx, own(keys)...)
}

func (c ownKeys) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return c.UniversalClient.EvalSha(ctx, sha, own(keys), args...)
}

func (c ownKeys) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return c.UniversalClient.Eval(ctx, script, own(keys), args...)
}
