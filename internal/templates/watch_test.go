package templates

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// answer is an error that Redis gives.
type answer string

func (a answer) Error() string { return string(a) }
func (a answer) RedisError()   {}

// TestANodeThatAnswersPingIsNotBack: while it has no Cluster it refuses all else.
func TestANodeThatAnswersPingIsNotBack(t *testing.T) {
	var log strings.Builder
	w := &Watch{node: true, Log: zerolog.New(&log)}
	send := func(name string, err error) {
		_ = w.ProcessHook(func(context.Context, redis.Cmder) error { return err })(t.Context(), redis.NewCmd(t.Context(), name))
	}
	for range 3 {
		send("get", answer("CLUSTERDOWN The cluster is down"))
		send("ping", nil)
		send("cluster", nil)
	}
	if away, back := strings.Count(log.String(), "redis away"), strings.Count(log.String(), "redis back"); away != 1 || back != 0 {
		t.Errorf("%d times away and %d times back:\n%s", away, back, log.String())
	}
	send("get", redis.Nil)
	if w.Away() || !strings.Contains(log.String(), "redis back") {
		t.Errorf("it is back, and nobody says so:\n%s", log.String())
	}
}
