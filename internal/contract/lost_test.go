package contract

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/order"
	"alimtalk-syncer/internal/redistest"
	"alimtalk-syncer/internal/templates"
)

// One token value goes into one command once: of a command whose reply is lost the program
// learns that it failed, and Redis gets it no second time.
func TestACommandWhoseReplyIsLostIsNotSentAgain(t *testing.T) {
	for name, start := range ways {
		if strings.Contains(name, "TLS") {
			continue // which a proxy cannot read
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			var lose atomic.Pointer[string] // requests that hold this
			cache := templates.NewCache(w.through(t, func(request []byte) (redistest.Fault, time.Duration) {
				if word := lose.Load(); word != nil && bytes.Contains(request, []byte(*word)) {
					return redistest.LoseReply, 0
				}
				return redistest.None, 0
			}), templates.CacheOptions{Keys: keys, TTL: life, FenceTTL: fenceLife, Current: func(hospitals.Hospital) bool { return true }})
			everything(t, w, cache) // so that the scripts are known
			fill(t, cache, "H1", "T0", "REQUESTED")
			note := []templates.Correction{{HospitalID: "H1", Is: order.Holding{Hot: time.Now().Add(life).UnixMilli()}}}
			seen, err := cache.FenceAndRead(t.Context(), hospital("H1"), []string{"T0"}, new(bytes.Buffer))
			if err != nil {
				t.Fatal(err)
			}
			look, err := cache.Look(t.Context(), hospital("H1"), "T1")
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				name, word, counted string
				send                func() error
			}{
				{"get", "T9", "get", func() error { _, err := cache.Get(t.Context(), hospital("H1"), "T9"); return err }},
				{"look", "T9", "evalsha", func() error { _, err := cache.Look(t.Context(), hospital("H1"), "T9"); return err }},
				{"store", "T1", "set", func() error {
					_, err := cache.Store(t.Context(), hospital("H1"), "T1", look.Token, document("T1", "REQUESTED"))
					return err
				}},
				{"note", "hot:", "zadd", func() error { return cache.Correct(t.Context(), note) }},
				{"fence", "fence:", "del", func() error {
					_, err := cache.FenceAndRead(t.Context(), hospital("H1"), []string{"T0"}, new(bytes.Buffer))
					return err
				}},
				{"reads", "T0", "get", func() error {
					_, err := cache.ReadAll(t.Context(), hospital("H1"), []string{"T0"}, new(bytes.Buffer))
					return err
				}},
				{"delete", "T0", "evalsha", func() error {
					_, err := cache.DeleteIf(t.Context(), hospital("H1"), []string{"T0"}, seen)
					return err
				}},
				{"forget", "T0", "evalsha", func() error { return cache.Forget(t.Context(), hospital("H1"), "T0") }},
			} {
				lose.Store(&c.word)
				ran := w.ran(t, func() {
					var answer redis.Error
					if err := c.send(); err == nil || errors.As(err, &answer) {
						t.Errorf("%s: its reply was not lost: %v", c.name, err)
					}
				})
				lose.Store(nil)
				if ran[c.counted] != 1 {
					t.Errorf("%s ran %d times: %v", c.name, ran[c.counted], ran)
				}
			}
		})
	}
}
