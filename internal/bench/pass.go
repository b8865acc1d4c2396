package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/invalidate"
	"alimtalk-syncer/internal/metrics"
	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/templates"
)

const (
	concurrency = 8 // hospitals at once, of every contender
	// passesPerTurn is how many passes a turn has where nothing changes: one of ours is over in
	// less than a tenth of a second, of which the garbage collection before it takes its share.
	passesPerTurn = 5
)

// pass measures rounds of all hospitals: ours, the seed's way, and the least that a client
// can do which fetches the same.
func (b *bench) pass() error {
	ctx := context.Background()
	e := newEntries(b.sizes.hospitals, entrySize)
	rdb, trips := client(b.redis().Addr)
	b.Cleanup(func() { _ = rdb.Close() })
	if err := e.fill(ctx, rdb, everything); err != nil {
		return err
	}
	syncer, hs, err := newSyncer(e, rdb)
	if err != nil {
		return err
	}
	b.Cleanup(func() { syncer.Close(ctx) })
	contenders := []struct {
		name string
		pass func() error
	}{
		{"pass (ours)", func() error {
			if reports := syncer.Pass(ctx, invalidate.TriggerSchedule, hs); len(reports) != len(hs) {
				return errors.New("a pass did not come round")
			}
			return nil
		}},
		{"the seed's way", func() error {
			return eachHospital(hs, func(h hospitals.Hospital) error { return seedWay(ctx, rdb, e, h) })
		}},
		{"looks at nothing", func() error { return eachHospital(hs, func(h hospitals.Hospital) error { return fetch(ctx, rdb, h) }) }},
	}

	fmt.Printf("%d hospitals of %d entries of %d bytes, %d at once. Rate: of hospitals. Trips: round trips to Redis.\n",
		b.sizes.hospitals, perHospital, len(e.documents[0]), concurrency)
	t := newTable("", "hospitals/s", "ours is", "CPU µs/hospital", "its CPU to ours", "trips/hospital", "deleted/pass")
	for what, title := range changes {
		e.changed = what
		passes := 1
		if what == nothing {
			passes = passesPerTurn
		}
		got := make([][]turn, len(contenders))
		for round := range b.sizes.rounds + 1 {
			for i := range contenders {
				i = (i + round) % len(contenders)
				c := contenders[i]
				before, size := trips.Load(), rdb.DBSize(ctx).Val()
				u, err := measured(func() (err error) {
					for range passes {
						err = errors.Join(err, c.pass())
					}
					return err
				})
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				u.wall, u.cpu = u.wall/time.Duration(passes), u.cpu/time.Duration(passes)
				u.trips = float64(trips.Load()-before-1) / float64(passes*b.sizes.hospitals)
				u.deleted = float64(size - rdb.DBSize(ctx).Val())
				if err := e.fill(ctx, rdb, what); err != nil {
					return err
				}
				if round > 0 { // the first one warms up
					got[i] = append(got[i], u)
				}
			}
		}
		t.heading(title)
		for i, c := range contenders {
			perSecond := func(u turn) float64 { return float64(b.sizes.hospitals) / u.wall.Seconds() }
			t.row(c.name, "%.0f", median(got[i], perSecond), "%.2f ×", medianRatio(got[0], got[i], perSecond),
				"%.0f", median(got[i], func(u turn) float64 { return float64(u.cpu.Microseconds()) / float64(b.sizes.hospitals) }),
				"%.2f ×", medianRatio(got[i], got[0], func(u turn) float64 { return u.cpu.Seconds() }),
				"%.3f", median(got[i], func(u turn) float64 { return u.trips }), "%.0f", median(got[i], func(u turn) float64 { return u.deleted }))
		}
	}
	t.print()
	return nil
}

// client is Redis as the program uses it, with its round trips counted.
func client(addr string) (*redis.Client, *atomic.Int64) {
	rdb := redisconn.NewSingle(&redis.Options{Addr: addr})
	var trips counter
	rdb.AddHook(&trips)
	return rdb, &trips.n
}

// newSyncer is the program's own Syncer over SureM in this process.
func newSyncer(e *entries, rdb *redis.Client) (*invalidate.Syncer, []hospitals.Hospital, error) {
	directory, err := e.directory()
	if err != nil {
		return nil, nil, err
	}
	keys, err := templates.ParseKeyFormat(keyFormat)
	if err != nil {
		return nil, nil, err
	}
	return invalidate.New(invalidate.Options{
		Hospitals: directory, Source: e,
		Cache: templates.NewCache(rdb, templates.CacheOptions{Keys: keys, TTL: 24 * time.Hour, FenceTTL: time.Minute, Current: directory.Current}),
		Skip:  map[templates.State]bool{templates.Rejected: true}, Timeout: 30 * time.Second, Concurrency: concurrency,
		Metrics: metrics.New("", "", ""), Log: zerolog.New(io.Discard),
	}), directory.All(), nil
}

// eachHospital calls f for every hospital, several at once.
func eachHospital(hs []hospitals.Hospital, f func(hospitals.Hospital) error) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	errs := make([]error, concurrency)
	for w := range errs {
		workers.Go(func() {
			for i := int(next.Add(1)); i <= len(hs) && errs[w] == nil; i = int(next.Add(1)) {
				errs[w] = f(hs[i-1])
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

// seedWay is what the seed's Promise.all does: for every template that is not REJECTED one
// GET, the whole document decoded, its status compared, and a DEL where it differs; all of a
// hospital's at once.
func seedWay(ctx context.Context, rdb *redis.Client, e *entries, h hospitals.Hospital) error {
	rows := e.list(h.ID).Summaries
	errs := make([]error, len(rows))
	var all sync.WaitGroup
	for i, row := range rows {
		if row.Status == "REJECTED" {
			continue
		}
		all.Go(func() {
			at := "infotalk:template:{" + h.ID + "}:" + row.Code
			value, err := rdb.Get(ctx, at).Bytes()
			if errors.Is(err, redis.Nil) {
				return
			}
			if err != nil {
				errs[i] = err
				return
			}
			var document map[string]any
			if errs[i] = json.Unmarshal(value, &document); errs[i] != nil {
				return
			}
			if document["inspectionStatus"] != string(row.Status) {
				errs[i] = rdb.Del(ctx, at).Err()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// fetch has the same commands sent as a pass in which nothing has changed, and looks at no answer.
func fetch(ctx context.Context, rdb *redis.Client, h hospitals.Hospital) error {
	pipe := rdb.Pipeline()
	pipe.Del(ctx, "alimtalk-syncer:fence:infotalk:template:{"+h.ID+"}:")
	for i := range perHospital {
		pipe.Get(ctx, "infotalk:template:{"+h.ID+"}:"+code(i))
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	return nil
}
