package templates

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"

	"alimtalk-syncer/internal/hospitals"
)

// Bounds of the commands. A read makes three at most (get, look, store; a store only after
// a look that was answered), so that Redis away adds less than two seconds to it.
const (
	readTimeout = 600 * time.Millisecond
	passTimeout = 5 * time.Second
	batch       = 500 // entries per pipeline or script
)

var (
	//go:embed lua/look.lua
	lookSource string
	//go:embed lua/store.lua
	storeSource string
	//go:embed lua/delete_if.lua
	deleteIfSource string
	//go:embed lua/forget.lua
	forgetSource string

	lookScript     = redis.NewScript(lookSource)
	storeScript    = redis.NewScript(storeSource)
	deleteIfScript = redis.NewScript(deleteIfSource)
	forgetScript   = redis.NewScript(forgetSource)
)

// The errors of a Cache itself; others are Redis' and the network's.
var (
	ErrWrongType = errors.New("the key holds another type than a string")
	// ErrMoved means that a reload gave the hospital another sender key or account, or
	// removed it: what was begun for the former one stores and deletes nothing more.
	ErrMoved = errors.New("the hospital's sender key or account has changed meanwhile")
)

// CacheOptions say how entries stand in Redis.
type CacheOptions struct {
	Keys     KeyFormat
	Keyv     bool          // write {"value":document,"expires":unix-ms} instead of the document
	TTL      time.Duration // of an entry, at least 1 ms
	FenceTTL time.Duration // at least twice a load's deadline
	Current  func(hospitals.Hospital) bool
	Fleet    bool // loads on several replicas are one: they claim their templates
}

// Cache is the entries of all hospitals in Redis and the fence that keeps stale ones out:
// a random token per hospital. A load takes the token before it asks SureM and may store
// only while it is still there; every pass removes it after its summaries have arrived.
type Cache struct {
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // rdb, where it is one
	gets    gets
	CacheOptions
}

// NewCache returns the cache on rdb, which package redisconn has made.
func NewCache(rdb redis.UniversalClient, o CacheOptions) *Cache {
	cluster, _ := rdb.(*redis.ClusterClient)
	return &Cache{rdb: rdb, cluster: cluster, gets: gets{rdb: rdb}, CacheOptions: o}
}

// Ping reports whether Redis answers, in a Cluster every primary of it, within readTimeout.
func (c *Cache) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if c.cluster != nil {
		return c.cluster.ForEachMaster(ctx, func(ctx context.Context, primary *redis.Client) error {
			return primary.Ping(ctx).Err()
		})
	}
	return c.rdb.Ping(ctx).Err()
}

// Get reads one entry: the first look of a read.
func (c *Cache) Get(ctx context.Context, h hospitals.Hospital, code string) (Entry, error) {
	if c.cluster != nil { // where a node that hangs must not keep the others' readers waiting
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		return entryOf(c.rdb.Get(ctx, c.Keys.Key(h.ID, code)))
	}
	get, err := c.gets.get(ctx, c.Keys.Key(h.ID, code))
	if err != nil {
		return Entry{}, err
	}
	return entryOf(get)
}

// entryOf reads the answer of a GET.
func entryOf(cmd *redis.StringCmd) (Entry, error) {
	value, err := cmd.Result()
	switch {
	case err == nil:
		return readEntry(value, time.Now()), nil
	case errors.Is(err, redis.Nil):
		return Entry{}, nil
	case strings.HasPrefix(err.Error(), "WRONGTYPE"):
		return Entry{Kind: WrongType}, nil
	default:
		return Entry{}, fmt.Errorf("reading an entry: %w", err)
	}
}

// Look is what stands under an entry's key, with what a fill needs where nothing does.
type Look struct {
	Entry
	Token   string // of the fence; "" when there is none
	NoToken error  // why there is none on a miss: OOM, READONLY, NOPERM
	// Of LookAndClaim, on a miss:
	Held    bool  // another load holds the claim; then nothing was taken, no token either
	Claimed bool  // the claim is this load's
	NoClaim error // why it is nobody's though there is a token
}

// Look reads one entry inside the slot of its load. On a miss it also takes the fence's
// token, which Store asks for.
func (c *Cache) Look(ctx context.Context, h hospitals.Hospital, code string) (Look, error) {
	return c.look(ctx, h, code, "")
}

// look is Look, and LookAndClaim for a load with a token.
func (c *Cache) look(ctx context.Context, h hospitals.Hospital, code, load string) (Look, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	keys, args := c.entryAndFence(h, code), []any{rand.Text(), c.FenceTTL.Milliseconds()}
	if load != "" {
		keys, args = append(keys, c.Keys.LoadKey(h, code)), append(args, load, claimLife.Milliseconds())
	}
	answer, err := lookScript.Run(ctx, c.rdb, keys, args...).StringSlice()
	if err != nil {
		return Look{}, fmt.Errorf("looking at an entry and its fence: %w", err)
	}
	switch answer[0] {
	case "entry":
		return Look{Entry: readEntry(answer[1], time.Now())}, nil
	case "other":
		return Look{Entry: Entry{Kind: WrongType}}, nil
	case "wait":
		return Look{Held: true}, nil
	case "fenceless":
		return Look{NoToken: fmt.Errorf("making a fence: %w", errors.New(answer[1]))}, nil
	}
	look := Look{Token: answer[1], Claimed: load != "" && len(answer) == 2}
	if len(answer) == 3 {
		look.NoClaim = fmt.Errorf("claiming a template: %w", errors.New(answer[2]))
	}
	return look, nil
}

// Store writes a document where nothing stands, if token is still the fence's, and notes in
// the same round trip that the hospital holds it (Holdings). It reports whether it was written,
// also beside an error, which then says that it was not noted; ErrMoved when the hospital is
// no longer what it was.
func (c *Cache) Store(ctx context.Context, h hospitals.Hospital, code, token string, doc Document) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if !c.Current(h) {
		return false, ErrMoved
	}
	value := doc.Raw
	if c.Keyv {
		value = `{"value":` + doc.Raw + `,"expires":` + strconv.FormatInt(time.Now().Add(c.TTL).UnixMilli(), 10) + `}`
	}
	pipe := c.rdb.Pipeline()
	store := storeScript.Eval(ctx, pipe, c.entryAndFence(h, code), token, value, c.TTL.Milliseconds())
	note := c.note(ctx, pipe, doc.Status.State().Pending(), h.ID)
	_, _ = pipe.Exec(ctx) // the first error of any command: each is asked for its own
	stored, err := store.Bool()
	if err != nil {
		return false, fmt.Errorf("storing an entry: %w", err)
	}
	if stored && note.Err() != nil {
		return true, fmt.Errorf("noting that a hospital holds an entry: %w", note.Err())
	}
	return stored, nil
}

// FenceAndRead fences a hospital and then reads its entries, in one round trip for up to
// 500 of them (in a Cluster two). No fill whose load began before it is stored after it. An
// error means that the fence is not confirmed. The entries lie in buffer, which is overwritten: once it is used
// again, of them only Kind and Status are good.
func (c *Cache) FenceAndRead(ctx context.Context, h hospitals.Hospital, codes []string, buffer *bytes.Buffer) (map[string]Entry, error) {
	return c.read(ctx, h, codes, buffer, true)
}

// ReadAll reads a hospital's entries as FenceAndRead does, and leaves its fence alone.
func (c *Cache) ReadAll(ctx context.Context, h hospitals.Hospital, codes []string, buffer *bytes.Buffer) (map[string]Entry, error) {
	return c.read(ctx, h, codes, buffer, false)
}

func (c *Cache) read(ctx context.Context, h hospitals.Hospital, codes []string, buffer *bytes.Buffer, fence bool) (map[string]Entry, error) {
	buffer.Reset()
	entries := make(map[string]Entry, len(codes))
	for fence || len(codes) > 0 {
		part := codes[:min(len(codes), batch)]
		codes = codes[len(part):]
		if err := c.readPart(ctx, h, part, fence, buffer, entries); err != nil {
			return nil, err
		}
		fence = false
	}
	return entries, nil
}

func (c *Cache) readPart(ctx context.Context, h hospitals.Hospital, codes []string, fence bool, buffer *bytes.Buffer, entries map[string]Entry) error {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	pipe := c.rdb.Pipeline()
	var fenced *redis.IntCmd
	switch {
	case fence && c.cluster != nil:
		// On its own: where a slot moves, a pipeline may come out of order, and a MULTI is
		// refused (TRYAGAIN) until the last key has moved.
		if err := c.rdb.Del(ctx, c.Keys.FenceKey(h.ID)).Err(); err != nil {
			return fmt.Errorf("fencing: %w", err)
		}
	case fence:
		fenced = pipe.Del(ctx, c.Keys.FenceKey(h.ID))
	}
	before := buffer.Len()
	gets := make([]*redis.RawWriteToCmd, len(codes))
	for i, code := range codes {
		gets[i] = redis.NewRawWriteToCmd(ctx, buffer, "get", c.Keys.Key(h.ID, code))
		_ = pipe.Process(ctx, gets[i])
	}
	_, _ = pipe.Exec(ctx) // the first error of any command: each is asked for its own
	if fenced != nil && fenced.Err() != nil {
		return fmt.Errorf("fencing: %w", fenced.Err())
	}
	now, replies := time.Now(), buffer.Bytes()[before:]
	for i, code := range codes {
		size, err := gets[i].Result()
		if err != nil {
			return fmt.Errorf("reading an entry: %w", err)
		}
		entry, err := entryIn(replies[:size], now)
		if err != nil && c.cluster != nil { // that its slot is moving: go-redis follows only replies that it reads
			entry, err = entryOf(c.rdb.Get(ctx, c.Keys.Key(h.ID, code)))
		}
		if err != nil {
			return err
		}
		entries[code], replies = entry, replies[size:]
	}
	return nil
}

// entryIn reads the reply to a GET as it came over the wire (RESP 2 or 3). The entry lies in it.
//
// A pass reads megabytes per second, of which nearly nothing changes: kept in one buffer they
// are no garbage, which spares a pass more than a quarter of its CPU.
func entryIn(reply []byte, now time.Time) (Entry, error) {
	header, value, _ := strings.Cut(unsafe.String(unsafe.SliceData(reply), len(reply)), "\r\n") //nolint:gosec // nobody writes there while the entry is used
	switch {
	case header == "$-1" || header == "_":
		return Entry{}, nil
	case strings.HasPrefix(header, "$"):
		return readEntry(strings.TrimSuffix(value, "\r\n"), now), nil
	case strings.HasPrefix(header, "-WRONGTYPE"):
		return Entry{Kind: WrongType}, nil
	default:
		return Entry{}, fmt.Errorf("reading an entry: %s", strings.TrimPrefix(header, "-"))
	}
}

// DeleteIf deletes those of the codes' entries that still hold the bytes that were seen, in
// one round trip for up to 500 of them, and returns the codes of those it deleted; with an
// error, of those it is known to have deleted. ErrMoved when the hospital is no longer what
// it was.
func (c *Cache) DeleteIf(ctx context.Context, h hospitals.Hospital, codes []string, seen map[string]Entry) (map[string]bool, error) {
	deleted := make(map[string]bool, len(codes))
	for len(codes) > 0 {
		part := codes[:min(len(codes), batch)]
		codes = codes[len(part):]
		if err := c.deletePart(ctx, h, part, seen, deleted); err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

func (c *Cache) deletePart(ctx context.Context, h hospitals.Hospital, codes []string, seen map[string]Entry, deleted map[string]bool) error {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	keys, values := make([]string, len(codes)), make([]any, len(codes))
	for i, code := range codes {
		keys[i], values[i] = c.Keys.Key(h.ID, code), seen[code].value
	}
	if !c.Current(h) {
		return ErrMoved
	}
	answers, err := deleteIfScript.Run(ctx, c.rdb, keys, values...).BoolSlice()
	if err != nil {
		return fmt.Errorf("deleting entries: %w", err)
	}
	for i, yes := range answers {
		if yes {
			deleted[codes[i]] = true
		}
	}
	return nil
}

// Forget fences a hospital and deletes one entry whatever string it holds. ErrWrongType
// when the key holds another type; any other error means that Redis did not confirm.
func (c *Cache) Forget(ctx context.Context, h hospitals.Hospital, code string) error {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	n, err := forgetScript.Run(ctx, c.rdb, c.entryAndFence(h, code)).Int()
	if err != nil {
		return fmt.Errorf("deleting an entry: %w", err)
	}
	if n < 0 {
		return ErrWrongType
	}
	return nil
}

func (c *Cache) entryAndFence(h hospitals.Hospital, code string) []string {
	return []string{c.Keys.Key(h.ID, code), c.Keys.FenceKey(h.ID)}
}
