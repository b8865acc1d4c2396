// Package fleet is what replicas with the same settings tell each other through Redis, so
// that they do the work of one: who reads which hospital in a tick, and whose turn it is at
// SureM.
//
// None of it guards an entry: that is the fence's, whatever happens to claims. A claim that is
// lost, or held by a replica that is frozen or dead, costs a hospital one tick; one that two
// replicas believe to hold costs a second look.
package fleet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // the scripts
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/templates"
)

// PassShare is the part of an account's limit that the passes of all replicas may use together.
const PassShare = 4. / 5

const (
	claimTimeout  = time.Second        // of a claim, which is tried again
	lookedTimeout = 5 * time.Second    // as all that a pass reads
	grace         = 2 * time.Minute    // that a claim outlives its tick, for replicas whose clocks differ
	lookedLife    = 7 * 24 * time.Hour // of what is written down of looks, after the last of them
)

var (
	//go:embed lua/claim.lua
	claimSource string
	//go:embed lua/ended.lua
	endedSource string

	claimScript = redis.NewScript(claimSource)
	endedScript = redis.NewScript(endedSource)
)

// Claims share the sender keys of a tick among replicas. Deployments with other key formats
// do not meet. In a cluster one node has them all: they are few and small, and a claim and the
// note of it are one step.
type Claims struct {
	rdb redis.UniversalClient
	tag string
}

// NewClaims returns the claims on rdb, of a deployment whose entries have these keys.
func NewClaims(rdb redis.UniversalClient, keys templates.KeyFormat) *Claims {
	return &Claims{rdb: rdb, tag: "{" + keys.Hash() + "}"}
}

// Unit is what a sender key in its account is called in Redis: it is a secret.
func Unit(s hospitals.Sender) string {
	sum := sha256.Sum256([]byte(s.UserCode + "\x00" + s.Key.Reveal()))
	return hex.EncodeToString(sum[:16])
}

// Looked returns when each unit was last claimed, in whichever tick, by Redis' clock.
func (c *Claims) Looked(ctx context.Context) (map[string]time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, lookedTimeout)
	defer cancel()
	claimed, err := c.rdb.ZRangeWithScores(ctx, c.lookedKey(), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("reading when hospitals were looked at: %w", err)
	}
	looked := make(map[string]time.Time, len(claimed))
	for _, z := range claimed {
		unit, _ := z.Member.(string)
		looked[unit] = time.UnixMilli(int64(z.Score))
	}
	return looked, nil
}

func (c *Claims) lookedKey() string  { return templates.OwnPrefix + "looked:" + c.tag }
func (c *Claims) failingKey() string { return templates.OwnPrefix + "failing:" + c.tag }

// Tick is one pass's side of a tick.
type Tick struct {
	End    time.Time // when the next one falls: it tells ticks apart, on all replicas alike
	claims *Claims
	token  string // the pass's own: what another pass of this process has read is read, too
}

// Tick returns a pass's side of the tick that ends when the next one falls. All passes of all
// replicas that begin before that share it.
func (c *Claims) Tick(end time.Time) *Tick { return &Tick{End: end, claims: c, token: rand.Text()} }

// Claim is whose a sender key is in a tick.
type Claim struct {
	Won     bool          // this pass's
	Ago     time.Duration // since another pass claimed it, by Redis' clock
	Failing bool          // the last look at it that ended, anywhere, had failed
}

// Claim takes a sender key for this pass. An error leaves open whose it is; the pass may claim
// again.
func (t *Tick) Claim(ctx context.Context, s hospitals.Sender) (Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	unit := Unit(s)
	key := templates.OwnPrefix + "claim:" + t.claims.tag + ":" + strconv.FormatInt(t.End.Unix(), 10) + ":" + unit
	life := time.Until(t.End) + grace
	answer, err := claimScript.Run(ctx, t.claims.rdb, []string{key, t.claims.lookedKey(), t.claims.failingKey()},
		t.token, life.Milliseconds(), unit, lookedLife.Milliseconds()).Int64Slice()
	if err != nil {
		return Claim{}, fmt.Errorf("claiming a hospital: %w", err)
	}
	return Claim{Won: answer[0] < 0, Ago: time.Duration(answer[0]) * time.Millisecond, Failing: answer[1] == 1}, nil
}

// Ended writes down how a look at a sender key has ended, where that is news.
func (c *Claims) Ended(ctx context.Context, s hospitals.Sender, failed bool) error {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	if err := endedScript.Run(ctx, c.rdb, []string{c.failingKey()}, Unit(s), failed, lookedLife.Milliseconds()).Err(); err != nil {
		return fmt.Errorf("writing down how a look has ended: %w", err)
	}
	return nil
}

// Full reports whether Redis has refused a claim for want of memory. What it holds can be
// compared all the same, and must be.
func Full(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && strings.Contains(answer.Error(), "OOM command not allowed") // Redis 6.2 puts the script before it
}
