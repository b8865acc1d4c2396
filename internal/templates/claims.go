package templates

import (
	"context"
	"crypto/rand"
	_ "embed" // the scripts
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"alimtalk-syncer/internal/flight"
	"alimtalk-syncer/internal/hospitals"
)

// In a fleet a load claims its template, so that of the misses on several replicas one asks
// SureM and the others wait for its entry. A claim only saves calls: whoever loads stores by
// the fence, so that two loads at a time, after a claim has run out under a load that was
// frozen or cut off, cost a call and nothing else.
const (
	claimLife  = 1500 * time.Millisecond
	renewEvery = 500 * time.Millisecond
	pollEvery  = 50 * time.Millisecond // of those who wait for another's entry
)

var (
	//go:embed lua/renew.lua
	renewSource string
	//go:embed lua/release.lua
	releaseSource string

	renewScript   = redis.NewScript(renewSource)
	releaseScript = redis.NewScript(releaseSource)
)

// LookAndClaim is Look, but a miss also claims the template for a load, which is named by a
// token of its own. The claim runs out after 1.5 s without Renew.
func (c *Cache) LookAndClaim(ctx context.Context, h hospitals.Hospital, code, load string) (Look, error) {
	look, err := c.look(ctx, h, code, load)
	if !redis.IsPermissionError(err) {
		return look, err
	}
	// A user who may not touch a claim may not run a script that names one.
	look, without := c.look(ctx, h, code, "")
	look.NoClaim = err
	return look, without
}

// Renew gives a load's claim another 1.5 s. False: it has run out, or is another load's by now.
func (c *Cache) Renew(ctx context.Context, h hospitals.Hospital, code, load string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	ours, err := renewScript.Run(ctx, c.rdb, []string{c.Keys.LoadKey(h, code)}, load, claimLife.Milliseconds()).Bool()
	if err != nil {
		return false, fmt.Errorf("renewing a load's claim: %w", err)
	}
	return ours, nil
}

// Release gives a load's claim back. One that is another load's by now stays.
func (c *Cache) Release(ctx context.Context, h hospitals.Hospital, code, load string) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := releaseScript.Run(ctx, c.rdb, []string{c.Keys.LoadKey(h, code)}, load).Err(); err != nil {
		return fmt.Errorf("releasing a load's claim: %w", err)
	}
	return nil
}

// turn is a load's last look, after which it has an entry or asks SureM.
type turn struct {
	Look
	good flight.Mark // before the look
	via  Via         // of the entry
	end  func()      // lets go of the claim; it does not wait for Redis
}

// takeTurn looks at the entry inside the slot. In a fleet it waits while another load holds
// the template's claim, and looks again, until that one's entry is there or the claim is free.
// Who has waited for an entry has joined another's load: its answer is Collapsed.
func (r *Reader) takeTurn(ctx context.Context, run *flight.Run, h hospitals.Hospital, code string) (turn, error) {
	t := turn{via: Hit, end: func() {}, good: run.Mark()}
	if !r.cache.Fleet {
		look, err := r.cache.Look(ctx, h, code)
		t.Look = look
		return t, err
	}
	load := rand.Text()
	look, err := r.cache.LookAndClaim(ctx, h, code, load)
	for look.Held {
		if t.via == Hit {
			r.metrics.FleetClaims.WithLabelValues("load", "lost").Inc()
		}
		t.via = Collapsed
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return t, context.Cause(ctx)
		}
		t.good = run.Mark()
		look, err = r.cache.LookAndClaim(ctx, h, code, load)
	}
	t.Look = look
	switch {
	case look.Claimed:
		r.metrics.FleetClaims.WithLabelValues("load", "won").Inc()
		t.end = r.hold(ctx, h, code, load)
	case err != nil: // Redis may have given the claim, but this load can store nothing: nobody is to wait for it
		r.claims.Go(func() { _ = r.cache.Release(context.WithoutCancel(ctx), h, code, load) })
		fallthrough
	case look.Kind == Missing:
		r.metrics.FleetClaims.WithLabelValues("load", "error").Inc()
	}
	return t, err
}

// hold renews a load's claim until it is told the load's end, and then releases it.
func (r *Reader) hold(ctx context.Context, h hospitals.Hospital, code, load string) (end func()) {
	ctx = context.WithoutCancel(ctx)
	ended := make(chan struct{})
	r.claims.Go(func() {
		tick := time.NewTicker(renewEvery)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				_ = r.cache.Release(ctx, h, code, load) // if not, it runs out
				return
			case <-tick.C:
				if ours, err := r.cache.Renew(ctx, h, code, load); err == nil && !ours {
					return // it ran out while we were frozen or cut off
				}
			}
		}
	})
	return func() { close(ended) }
}

// Close ends all loads, as flight.Group.Close does, and waits until their claims are released.
func (r *Reader) Close(ctx context.Context) error {
	if err := r.flights.Close(ctx); err != nil {
		return err
	}
	released := make(chan struct{})
	go func() {
		r.claims.Wait()
		close(released)
	}()
	select {
	case <-released:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("closing: claims are not released yet: %w", context.Cause(ctx))
	}
}
