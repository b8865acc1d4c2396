package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

var cronParser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// parseSchedule reads a SYNC_SCHEDULE for a time zone. It refuses what robfig/cron takes and
// does not keep: delays below a second or with a fraction of one, and dates that never come;
// and TZ=, which would silently beat SYNC_TIMEZONE (and makes the parser panic at times).
func parseSchedule(expression string, zone *time.Location) (schedule cron.Schedule, err error) {
	expression = strings.TrimSpace(expression)
	if strings.Contains(expression, "TZ=") {
		return nil, errors.New("must not set TZ=; SYNC_TIMEZONE does")
	}
	if delay, ok := strings.CutPrefix(expression, "@every "); ok {
		d, err := time.ParseDuration(delay)
		if err != nil || d < time.Second || d%time.Second != 0 {
			return nil, errors.New("must have whole seconds, at least 1s, after @every, such as @every 1m30s")
		}
		return cron.Every(d), nil
	}
	defer func() {
		if recover() != nil {
			schedule, err = nil, errors.New("must be a cron expression; the parser breaks on this one")
		}
	}()
	parsed, err := cronParser.Parse(expression)
	if err != nil {
		return nil, fmt.Errorf("must be 5 or 6 cron fields, @every with a duration, or a descriptor such as @hourly (%w)", err)
	}
	fields, ok := parsed.(*cron.SpecSchedule)
	if !ok || !fires(fields) {
		return nil, errors.New("must fire at some time; this one never does")
	}
	fields.Location = zone
	return fields, nil
}

// aligned is a cron.Schedule whose ticks are d apart and fall alike in every process, when
// robfig's own @every counts from the process' start.
type aligned struct{ d time.Duration }

// Next implements cron.Schedule: the next whole multiple of d since 1970.
func (a aligned) Next(t time.Time) time.Time {
	every := int64(a.d / time.Second)
	return time.Unix((t.Unix()/every+1)*every, 0).In(t.Location())
}

// fires reports whether a schedule has a next time. A field that matches nothing (",") is
// found first: cron would look for it second by second through five years.
func fires(s *cron.SpecSchedule) bool {
	for _, bits := range []uint64{s.Second, s.Minute, s.Hour, s.Dom, s.Month, s.Dow} {
		if bits == 0 {
			return false
		}
	}
	inUTC := *s
	inUTC.Location = time.UTC
	return !inUTC.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero()
}
