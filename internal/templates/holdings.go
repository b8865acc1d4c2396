package templates

import (
	"context"
	_ "embed" // the scripts
	"fmt"

	"github.com/redis/go-redis/v9"

	"alimtalk-syncer/internal/order"
)

var (
	//go:embed lua/note.lua
	noteSource string
	//go:embed lua/unnote.lua
	unnoteSource string

	// Eval runs these and the store, not EVALSHA: a pipeline does not repair NOSCRIPT.
	noteScript   = redis.NewScript(noteSource)
	unnoteScript = redis.NewScript(unnoteSource)
)

// holdingsKeys are the two sorted sets that say which hospitals hold entries, and until when
// the last one lives: those in a state that a reviewer is about to change, and all others.
// Deployments with other formats do not meet.
func (c *Cache) holdingsKeys() (hot, cold string) {
	hash := c.Keys.Hash()
	return OwnPrefix + "hot:" + hash, OwnPrefix + "cold:" + hash
}

// note adds to a pipeline that hospitals hold entries of this kind from now on. It comes after
// what stores them; but in a Cluster another node may take it first, and what stores them until
// their fence runs out. So it says that they live that much longer, and none outlives its note.
// It is told by Redis' own clock, so that of replicas whose clocks differ none hides another's.
func (c *Cache) note(ctx context.Context, pipe redis.Pipeliner, hot bool, hospitalIDs ...string) *redis.Cmd {
	key, cold := c.holdingsKeys()
	if !hot {
		key = cold
	}
	args := make([]any, 1, len(hospitalIDs)+1)
	args[0] = (c.TTL + c.FenceTTL).Milliseconds()
	for _, id := range hospitalIDs {
		args = append(args, id)
	}
	return noteScript.Eval(ctx, pipe, []string{key}, args...)
}

// Holdings reads, in one round trip, what each hospital is known to hold. Fills write it in
// their own round trip; looks correct it.
func (c *Cache) Holdings(ctx context.Context) (map[string]order.Holding, error) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	hotKey, coldKey := c.holdingsKeys()
	pipe := c.rdb.Pipeline()
	hot, cold := pipe.ZRangeWithScores(ctx, hotKey, 0, -1), pipe.ZRangeWithScores(ctx, coldKey, 0, -1)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("reading which hospitals hold entries: %w", err)
	}
	known := make(map[string]order.Holding, len(hot.Val())+len(cold.Val()))
	for _, z := range hot.Val() {
		id, _ := z.Member.(string)
		known[id] = order.Holding{Hot: int64(z.Score)}
	}
	for _, z := range cold.Val() {
		id, _ := z.Member.(string)
		k := known[id]
		k.Cold = int64(z.Score)
		known[id] = k
	}
	return known, nil
}

// Correction is what looks have found to be otherwise than Holdings said.
type Correction struct {
	HospitalID string
	Was, Is    order.Holding
}

// Correct writes corrections, in one round trip for up to 500 of them. What a fill has noted
// since Was was read stays noted.
func (c *Cache) Correct(ctx context.Context, corrections []Correction) error {
	for len(corrections) > 0 {
		part := corrections[:min(len(corrections), batch)]
		corrections = corrections[len(part):]
		if err := c.correctPart(ctx, part); err != nil {
			return fmt.Errorf("correcting which hospitals hold entries: %w", err)
		}
	}
	return nil
}

func (c *Cache) correctPart(ctx context.Context, part []Correction) error {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	hotKey, coldKey := c.holdingsKeys()
	pipe := c.rdb.Pipeline()
	for _, kind := range []struct {
		hot bool
		key string
		of  func(order.Holding) int64
	}{
		{false, coldKey, func(k order.Holding) int64 { return k.Cold }}, // first what keeps a hospital in play
		{true, hotKey, func(k order.Holding) int64 { return k.Hot }},
	} {
		var noted []string
		var over []any
		for _, fix := range part {
			was, is := kind.of(fix.Was), kind.of(fix.Is)
			switch {
			case is > was:
				noted = append(noted, fix.HospitalID)
			case is == 0 && was != 0:
				over = append(over, fix.HospitalID, was)
			}
		}
		if len(noted) > 0 {
			c.note(ctx, pipe, kind.hot, noted...)
		}
		if len(over) > 0 {
			unnoteScript.Eval(ctx, pipe, []string{kind.key}, over...)
		}
	}
	_, err := pipe.Exec(ctx)
	return err
}
