package e2e

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func TestReadyzNamesDegradedPartsAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	d := w.start("SUREM_MAX_RETRIES=0")
	w.surem.awaitReadings(senderKey("H001"), 1)
	part := regexp.MustCompile(`(?m)^[a-z ]+: [a-z ]+$`)
	if body := d.get("/readyz").want(t, http.StatusOK).body; part.MatchString(body) {
		t.Errorf("all is well, and /readyz says %q", body)
	}
	w.redis.Kill()
	d.awaitReady(http.StatusOK, "redis: away", true)
	w.surem.kill()
	d.awaitReady(http.StatusServiceUnavailable, "surem: away", true)
	a := d.get("/readyz").want(t, http.StatusServiceUnavailable)
	for line := range strings.Lines(a.body) {
		if line = strings.TrimSpace(line); line != "redis: away" && line != "surem: away" {
			t.Errorf("/readyz says %q", line)
		}
	}
	if c := a.header.Get("Content-Type"); !strings.HasPrefix(c, "text/plain") {
		t.Errorf("Content-Type %q", c)
	}
	d.get("/healthz").want(t, http.StatusOK)
}

func TestHealthzDependsOnNeitherRedisNorSureM(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	w.redis.freeze()
	w.surem.hold(summaries, senderKey("H001"), 0)
	w.surem.hold(detail, senderKey("H001"), 0)
	d := w.start("SYNC_TIMEOUT=3s")
	eventually(t, soon, "the first passes have failed", func() bool { return d.metric("syncer_hospitals_failing") == 1 })
	d.get("/healthz").want(t, http.StatusOK)
	w.redis.thaw()
	w.redis.Kill()
	w.surem.kill()
	ticks := `syncer_sync_ticks_total{result="run"}`
	before := d.metric(ticks)
	eventually(t, soon, "ticks go on", func() bool { return d.metric(ticks) >= before+2 })
	d.get("/healthz").want(t, http.StatusOK)
}
