package config

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/templates"
)

// judgeTogether makes what takes more than one variable, and checks what the variables must
// be to each other.
func (l *loader) judgeTogether() {
	c := l.config
	if c.SureMBaseURL != nil && c.SureMBaseURL.Scheme == "http" && !loopback(c.SureMBaseURL.Hostname()) {
		l.warn("SUREM_BASE_URL: plain http to another machine: the secret and all templates travel readable")
	}
	for _, code := range c.SureMNotFoundCodes {
		if slices.Contains(c.SureMReloginCodes, code) {
			l.fault("SUREM_NOT_FOUND_CODES", "must hold no code that is among SUREM_RELOGIN_CODES too ("+code+")")
		}
	}
	l.readRedis()
	l.readSchedule()
	l.openHospitals()
	if c.Hospitals != nil && !l.failed("CACHE_KEY_FORMAT") {
		for _, h := range c.Hospitals.All() {
			if strings.HasPrefix(c.CacheKeyFormat.Key(h.ID, ""), templates.OwnPrefix) {
				l.fault("CACHE_KEY_FORMAT", "must make no key that begins with "+templates.OwnPrefix+", as it does for hospital "+h.ID)
				break
			}
		}
	}
	if host, _, err := net.SplitHostPort(c.HTTPAddr); err == nil && !loopback(host) && len(c.APITokens) == 0 && !l.failed("API_TOKENS") {
		l.fault("HTTP_ADDR", "must be loopback (127.0.0.0/8, ::1, localhost) as long as API_TOKENS is not set")
	}
}

func (l *loader) readSchedule() {
	zone := l.config.Timezone
	if zone == nil {
		zone = time.UTC // SYNC_TIMEZONE has its fault; the expression is still judged
	}
	schedule, err := parseSchedule(l.config.shown["SYNC_SCHEDULE"], zone)
	if err != nil {
		l.fault("SYNC_SCHEDULE", err.Error())
	}
	if every, ok := schedule.(cron.ConstantDelaySchedule); ok && l.config.Fleet {
		schedule = aligned{every.Delay}
	}
	l.config.Schedule = schedule
}

// openHospitals opens the list, whichever variable it comes from, and judges the account for
// all with it, since only the list tells whether one is needed.
func (l *loader) openHospitals() {
	c := l.config
	list, file := l.given["HOSPITALS"], l.given["HOSPITALS_FILE"]
	var err error
	switch {
	case list != "" && file != "":
		l.fault("HOSPITALS_FILE", "is given beside HOSPITALS; exactly one of the two is allowed")
	case list != "":
		c.Hospitals, err = hospitals.New(hospitals.ParseList(list), c.SureMUserCode, c.SureMSecretKey)
	case file != "":
		c.Hospitals, err = hospitals.Open(file, c.SureMUserCode, c.SureMSecretKey)
	default:
		l.fault("HOSPITALS", "is not set; exactly one of HOSPITALS and HOSPITALS_FILE is required")
	}
	needed := file == ""
	why := "required unless every hospital brings its own in HOSPITALS_FILE"
	for _, err := range each(err) {
		var missing *hospitals.AccountError
		switch {
		case errors.As(err, &missing):
			needed = true
			if file != "" {
				why += ", and " + missing.Entries[0] + " does not"
			}
		case file != "":
			l.fault("HOSPITALS_FILE", err.Error())
		default:
			l.fault("HOSPITALS", err.Error())
		}
	}
	code := l.values["SUREM_USER_CODE"] != "" || l.failed("SUREM_USER_CODE")
	key := l.values["SUREM_SECRET_KEY"] != "" || l.failed("SUREM_SECRET_KEY")
	switch {
	case code && !key:
		l.fault("SUREM_SECRET_KEY", "is not set, but SUREM_USER_CODE is; they go together")
	case key && !code:
		l.fault("SUREM_USER_CODE", "is not set, but SUREM_SECRET_KEY is; they go together")
	case !code && needed:
		l.fault("SUREM_USER_CODE", "is not set; "+why)
		l.fault("SUREM_SECRET_KEY", "is not set; "+why)
	}
}

// each takes an errors.Join apart.
func each(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// loopback reports whether a host is this machine: 127.0.0.0/8, ::1 or localhost. No host
// at all means every interface.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}
