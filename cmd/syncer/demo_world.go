package main

import (
	"fmt"
	"strings"

	"github.com/alicebob/miniredis/v2"

	"alimtalk-syncer/internal/sureM/simulator"
	"alimtalk-syncer/internal/templates"
)

// demoWorld is what the demo's daemon lives in: a Redis and a SureM, both on loopback.
type demoWorld struct {
	redis    *miniredis.Miniredis
	surem    *simulator.Simulator
	suremURL string
	close    func()
}

const demoUserCode, demoSecret = "demo", "demo-secret"

func newDemoWorld() (*demoWorld, error) {
	w := &demoWorld{surem: simulator.New()}
	w.surem.AddAccount(demoUserCode, demoSecret)
	for _, c := range clinics {
		w.surem.AddSender(demoUserCode, c.senderKey)
		for _, m := range messages {
			if err := w.surem.Put(c.senderKey, c.template(m)); err != nil {
				return nil, err
			}
		}
	}
	var err error
	if w.redis, err = miniredis.Run(); err != nil {
		return nil, fmt.Errorf("start the embedded Redis: %w", err)
	}
	w.redis.ClockTTL(true)
	url, stop, err := w.surem.Start()
	if err != nil {
		w.redis.Close()
		return nil, err
	}
	w.suremURL = url
	w.close = func() {
		stop()
		w.redis.Close()
	}
	return w, nil
}

// settings are the daemon's. The environment has no part in them.
func (w *demoWorld) settings(httpAddr string) []string {
	list := make([]string, len(clinics))
	for i, c := range clinics {
		list[i] = c.id + "=" + c.senderKey
	}
	return []string{
		"SUREM_BASE_URL=" + w.suremURL,
		"SUREM_USER_CODE=" + demoUserCode,
		"SUREM_SECRET_KEY=" + demoSecret,
		"SUREM_RATE_LIMIT=50",
		"SUREM_RATE_BURST=50",
		"SUREM_TIMEOUT=1s",
		"REDIS_URL=redis://" + w.redis.Addr() + "/0",
		"HOSPITALS=" + strings.Join(list, ","),
		"SYNC_SCHEDULE=@every 1s",
		"SYNC_TIMEOUT=5s",
		"FLIGHT_LOADER_TIMEOUT=5s",
		"HTTP_ADDR=" + httpAddr,
		"SHUTDOWN_GRACE=5s",
	}
}

// entry names a template as the daemon's users do.
type entry struct{ hospital, code string }

func (e entry) String() string { return e.hospital + " " + e.code }

// senderKey returns the sender key of an entry's hospital.
func (e entry) senderKey() string {
	for _, c := range clinics {
		if c.id == e.hospital {
			return c.senderKey
		}
	}
	return ""
}

// entryOf names the template of a sender key.
func entryOf(senderKey, code string) entry {
	for _, c := range clinics {
		if c.senderKey == senderKey {
			return entry{c.id, code}
		}
	}
	return entry{"?", code}
}

// cached returns the state that Redis holds for a template, "" when it holds none.
func (w *demoWorld) cached(e entry) templates.State {
	value, err := w.redis.Get("infotalk:template:{" + e.hospital + "}:" + e.code)
	if err != nil {
		return ""
	}
	return stateOf(value)
}
