package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"alimtalk-syncer/internal/redistest"
)

// closed are the series that exist from the start, at 0.
func closed() (names []string) {
	names = []string{
		"single_flight_requests_total", "single_flight_loaders_started_total", "single_flight_waiters_shared_total",
		"single_flight_loaders_succeeded_total", "single_flight_loaders_failed_total", "single_flight_in_flight",
		"single_flight_waiters", "single_flight_waiters_per_key_max",
		"single_flight_waiter_duration_seconds_count", "single_flight_loader_duration_seconds_count",
		"syncer_hospitals_failing", "syncer_mass_change", "syncer_change_detection_seconds_count",
		"syncer_sync_last_attempt_timestamp_seconds", "syncer_sync_last_success_timestamp_seconds",
	}
	for name, values := range map[string][]string{
		"single_flight_rejected_total{reason=": {"keys", "waiters"}, "syncer_cache_reads_total{result=": {"hit", "miss", "error"},
		"syncer_cache_writes_total{result=": {"stored", "refused", "error"}, "syncer_invalidations_total{trigger=": {"schedule", "list", "manual"},
		"syncer_sync_ticks_total{result=": {"run", "skipped"}, "syncer_looks_total{result=": {"clean", "changed", "failed"},
		`syncer_fleet_claims_total{of="tick",result=`: {"won", "lost", "error"}, `syncer_fleet_claims_total{of="load",result=`: {"won", "lost", "error"},
		"syncer_fleet_slots_total{result=": {"shared", "alone"},
	} {
		for _, v := range values {
			names = append(names, fmt.Sprintf("%s%q}", name, v))
		}
	}
	return names
}

func TestEveryMetricExistsFromTheStartAtZero(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001", "H002").quiet()
	m := w.start().metrics()
	for _, name := range closed() {
		if v, ok := m[name]; !ok || v != 0 {
			t.Errorf("%s is %v (there: %t), want 0", name, v, ok)
		}
	}
	if m["syncer_hospitals"] != 2 {
		t.Errorf("syncer_hospitals %v, want 2", m["syncer_hospitals"])
	}
	for prefix, want := range map[string]int{
		"syncer_build_info{": 1, "syncer_surem_requests_total{operation=": 1, "syncer_surem_request_duration_seconds_bucket{operation=": 1,
		`single_flight_waiter_duration_seconds_bucket{le="0.001"}`: 1, `single_flight_waiter_duration_seconds_bucket{le="30"}`: 1,
		`single_flight_loader_duration_seconds_bucket{le="0.001"}`: 1, `single_flight_loader_duration_seconds_bucket{le="30"}`: 1,
		"syncer_redis_pool": 1, "go_goroutines": 1, "process_open_fds": 1,
	} {
		n := 0
		for name := range m {
			if strings.HasPrefix(name, prefix) {
				n++
			}
		}
		if n < want {
			t.Errorf("no series %s…", prefix)
		}
	}
}

// moved fails the test unless exactly these counters have moved by so much, and no other of
// single_flight_* and syncer_*_total has.
func moved(t *testing.T, what string, before, after map[string]float64, want map[string]float64) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(after)) {
		base, _, _ := strings.Cut(name, "{")
		count := strings.HasSuffix(base, "_duration_seconds_count") && strings.HasPrefix(base, "single_flight_")
		if !count && (!strings.HasSuffix(base, "_total") || !strings.HasPrefix(base, "single_flight_") && !strings.HasPrefix(base, "syncer_")) || strings.HasPrefix(base, "syncer_redis") {
			continue
		}
		if by := after[name] - before[name]; by != want[name] {
			t.Errorf("%s: %s moved by %v, want %v", what, name, by, want[name])
		}
	}
}

func surem(op, outcome string) string {
	return fmt.Sprintf("syncer_surem_requests_total{operation=%q,outcome=%q}", op, outcome)
}

func TestEveryCounterMovesForItsReasonOnly(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, newRedis(t, redistest.Durable...), "H001").quiet()
	for _, code := range []string{"T1", "T2", "T3", "T4"} {
		w.offer("H001", template{code: code, status: "APPROVED"})
	}
	d := w.start("FLIGHT_MAX_KEYS=2", "FLIGHT_MAX_WAITERS=3", "SUREM_MAX_RETRIES=0", "FLIGHT_FAILURE_COOLDOWN=0s")
	step := func(what string, do func(), want map[string]float64) {
		t.Helper()
		before := d.metrics()
		do()
		eventually(t, soon, what+": at rest", func() bool {
			m := d.metrics()
			return m["single_flight_in_flight"] == 0 && m["single_flight_waiters"] == 0 &&
				m["single_flight_requests_total"] == m["single_flight_loaders_started_total"]+m["single_flight_waiters_shared_total"]+
					m[`single_flight_rejected_total{reason="keys"}`]+m[`single_flight_rejected_total{reason="waiters"}`]
		})
		moved(t, what, before, d.metrics(), want)
	}
	const (
		requests, started, shared = "single_flight_requests_total", "single_flight_loaders_started_total", "single_flight_waiters_shared_total"
		succeeded, failed         = "single_flight_loaders_succeeded_total", "single_flight_loaders_failed_total"
		waited, loaded            = "single_flight_waiter_duration_seconds_count", "single_flight_loader_duration_seconds_count"
		hit, miss, readError      = `syncer_cache_reads_total{result="hit"}`, `syncer_cache_reads_total{result="miss"}`, `syncer_cache_reads_total{result="error"}`
		stored, refused           = `syncer_cache_writes_total{result="stored"}`, `syncer_cache_writes_total{result="refused"}`
	)
	step("a miss", func() { d.read("H001", "T1").want(t, 200) }, map[string]float64{
		requests: 1, started: 1, succeeded: 1, waited: 1, loaded: 1, miss: 1, stored: 1, surem(login, "ok"): 1, surem(detail, "ok"): 1,
	})
	step("a hit", func() { d.read("H001", "T1").want(t, 200) }, map[string]float64{hit: 1})
	step("not found", func() { d.read("H001", "NONE").want(t, 404) }, map[string]float64{
		requests: 1, started: 1, waited: 1, loaded: 1, miss: 1, surem(detail, "not_found"): 1, succeeded: 1,
	})
	w.surem.each(func(c call) *reply {
		if c.op == detail {
			return failure
		}
		return nil
	})
	step("a failure", func() { d.read("H001", "T2").want(t, 502) }, map[string]float64{
		requests: 1, started: 1, failed: 1, waited: 1, loaded: 1, miss: 1, surem(detail, "server_error"): 1,
	})
	w.surem.each(nil)
	step("caps, sharing, a fill refused by DELETE's fence", func() {
		gate := w.surem.hold(detail, senderKey("H001"), 0)
		all := make(chan []answer, 1)
		go func() { all <- together(3, func(int) answer { return d.read("H001", "T2") }) }()
		other := inBackground(func() answer { return d.read("H001", "T3") })
		d.awaitWaiters(4)
		if n := d.metric("single_flight_waiters_per_key_max"); n != 3 {
			t.Errorf("single_flight_waiters_per_key_max %v, want 3", n)
		}
		if n := d.metric("single_flight_in_flight"); n != 2 {
			t.Errorf("single_flight_in_flight %v, want 2", n)
		}
		d.read("H001", "T2").want(t, 429)
		d.read("H001", "T4").want(t, 429)
		gate.release()
		receive(t, soon, "three", all)
		receive(t, soon, "another", other)
	}, map[string]float64{
		requests: 6, started: 2, shared: 2, succeeded: 2, waited: 4, loaded: 2, miss: 6, stored: 2, surem(detail, "ok"): 2,
		`single_flight_rejected_total{reason="keys"}`: 1, `single_flight_rejected_total{reason="waiters"}`: 1,
	})
	w.surem.setStatus(senderKey("H001"), "T1", "REQUESTED")
	step("a POST", func() { d.sync("H001").report(t) }, map[string]float64{
		surem(summaries, "ok"): 1, `syncer_invalidations_total{trigger="manual"}`: 1, `syncer_looks_total{result="changed"}`: 1,
	})
	w.surem.setStatus(senderKey("H001"), "T2", "REQUESTED")
	step("a list", func() { d.get(listPath("H001")).want(t, 200) }, map[string]float64{
		surem(summaries, "ok"): 1, `syncer_invalidations_total{trigger="list"}`: 1, `syncer_looks_total{result="changed"}`: 1,
	})
	step("Redis away", func() {
		w.redis.Kill()
		d.read("H001", "T3").want(t, 200).via(t, "fwd=bypass")
	}, map[string]float64{
		requests: 1, started: 1, succeeded: 1, waited: 1, loaded: 1, readError: 1, surem(detail, "ok"): 1,
	})
	w.redis.Restart()
	before := d.metrics()
	gate := w.surem.hold(detail, senderKey("H001"), 1)
	fenced := inBackground(func() answer { return d.read("H001", "T4") })
	gate.await(1)
	d.delete("H001", "T4").want(t, http.StatusNoContent)
	gate.release()
	receive(t, soon, "the fenced read", fenced).want(t, 200)
	if by := d.metrics()[refused] - before[refused]; by != 1 {
		t.Errorf("a fill behind a fence: refused moved by %v, want 1", by)
	}
}

func TestEveryFigureOfThePassMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001")
	w.listed("H001", 2, "APPROVED", "REQUESTED")
	gate := w.surem.hold(summaries, senderKey("H001"), 1)
	before := float64(time.Now().Unix())
	d := w.start()
	eventually(t, soon, "a tick is skipped", func() bool { return d.metric(`syncer_sync_ticks_total{result="skipped"}`) >= 1 })
	m := d.metrics()
	if m["syncer_sync_last_attempt_timestamp_seconds"] < before || m["syncer_sync_last_success_timestamp_seconds"] != 0 {
		t.Errorf("during the first pass: last attempt %v, last success %v", m["syncer_sync_last_attempt_timestamp_seconds"], m["syncer_sync_last_success_timestamp_seconds"])
	}
	gate.release()
	eventually(t, soon, "a pass has succeeded", func() bool { return d.metric("syncer_sync_last_success_timestamp_seconds") >= before })
	if n := d.metric(`syncer_invalidations_total{trigger="schedule"}`); n != 2 {
		t.Errorf("%v invalidations, want 2", n)
	}
	eventually(t, soon, "ticks run", func() bool { return d.metric(`syncer_sync_ticks_total{result="run"}`) >= 1 })
	w.surem.each(func(call) *reply { return failure })
	eventually(t, soon, "a hospital fails", func() bool { return d.metric("syncer_hospitals_failing") == 1 })
	success := d.metric("syncer_sync_last_success_timestamp_seconds")
	attempt := d.metric("syncer_sync_last_attempt_timestamp_seconds")
	eventually(t, 2*soon, "attempts go on", func() bool { return d.metric("syncer_sync_last_attempt_timestamp_seconds") > attempt })
	if now := d.metric("syncer_sync_last_success_timestamp_seconds"); now != success {
		t.Error("a pass in which all failed counts as a success")
	}
	if d.metric(`syncer_surem_request_duration_seconds_count{operation="summaries"}`) == 0 {
		t.Error("no summary call is timed")
	}
}

func TestAThousandHospitalsHaveAsManySeriesAsOne(t *testing.T) {
	t.Parallel()
	series := func(n int) map[string]bool {
		w := newWorld(t)
		w.env["SYNC_SCHEDULE"] = never
		var list []string
		for i := range n {
			id := fmt.Sprintf("H%04d", i+1)
			list = append(list, entry(id, senderKey(id)))
			w.offer(id, template{code: "APPT_CONFIRM", status: "APPROVED"})
		}
		w.cache("H0001", template{code: "APPT_CONFIRM", status: "REQUESTED"})
		d := w.start("HOSPITALS=", "HOSPITALS_FILE="+w.hospitalsFile("["+strings.Join(list, ",")+"]"))
		eventually(t, 4*soon, "the pass has ended", func() bool { return d.metric("syncer_sync_last_success_timestamp_seconds") > 0 })
		if v := d.metric("syncer_hospitals"); v != float64(n) {
			t.Errorf("syncer_hospitals %v, want %d", v, n)
		}
		d.read("H0001", "APPT_CONFIRM").want(t, http.StatusOK)
		d.read("H0001", "NONE").want(t, http.StatusNotFound)
		d.get(listPath("H0001")).want(t, http.StatusOK)
		d.sync("H0001").report(t)
		names := map[string]bool{}
		for name := range d.metrics() {
			names[name] = true
			if strings.Contains(name, "H0001") || strings.Contains(name, "APPT_CONFIRM") || strings.Contains(name, "NONE") {
				t.Errorf("a label holds a hospital or a code: %s", name)
			}
		}
		return names
	}
	one, thousand := series(1), series(1000)
	for name := range thousand {
		if !one[name] {
			t.Errorf("only with a thousand hospitals: %s", name)
		}
	}
}
