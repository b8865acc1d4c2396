package main

import (
	"context"
	"time"

	"alimtalk-syncer/internal/flight"

	"github.com/viccon/sturdyc"
	"golang.org/x/sync/singleflight"
	contextual "resenje.org/singleflight"
)

// timeout is the deadline of every loader. No loader here comes near it.
const timeout = 10 * time.Second

// result is what loaders return: small, and of a kind that fits every peer.
type result struct {
	version int64 // the how many-th load of its key
	ended   int64 // when the load ended, in ns since the start of the program; 0 = nobody asked
}

type loader func(context.Context) (result, error)

// do is one call of a peer.
type do func(ctx context.Context, key string, load loader) (result, error)

// peer makes an empty registry and returns its call. All give a loader the same: the values
// of the caller's context, its own deadline, and no cancellation by a caller that leaves.
type peer struct {
	name string
	make func() do
}

var peers = []peer{
	{"flight (ours)", func() do {
		g := flight.New[string, result](flight.Options{LoaderTimeout: timeout})
		return func(ctx context.Context, key string, load loader) (result, error) {
			v, _, err := g.Do(ctx, key, func(ctx context.Context, _ *flight.Run) (result, error) { return load(ctx) })
			return v, err
		}
	}},
	{"x/sync Do", func() do {
		var g singleflight.Group
		return func(ctx context.Context, key string, load loader) (result, error) {
			v, err, _ := g.Do(key, func() (any, error) { return detached(ctx, load) })
			return v.(result), err
		}
	}},
	{"x/sync DoChan", func() do {
		var g singleflight.Group
		return func(ctx context.Context, key string, load loader) (result, error) {
			select {
			case r := <-g.DoChan(key, func() (any, error) { return detached(ctx, load) }):
				return r.Val.(result), r.Err
			case <-ctx.Done():
				return result{}, ctx.Err()
			}
		}
	}},
	{"resenje", func() do {
		var g contextual.Group[string, result]
		return func(ctx context.Context, key string, load loader) (result, error) {
			v, _, err := g.Do(ctx, key, func(ctx context.Context) (result, error) { return limited(ctx, load) })
			return v, err
		}
	}},
	{"sturdyc", func() do {
		c := sturdyc.New[result](2*keyCount, 64, time.Hour, 10)
		return func(ctx context.Context, key string, load loader) (result, error) {
			return c.Passthrough(ctx, key, func(ctx context.Context) (result, error) { return detached(ctx, load) })
		}
	}},
}

func detached(ctx context.Context, load loader) (result, error) {
	return limited(context.WithoutCancel(ctx), load)
}

func limited(ctx context.Context, load loader) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return load(ctx)
}
