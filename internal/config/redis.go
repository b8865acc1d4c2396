package config

import (
	"errors"

	"alimtalk-syncer/internal/redisconn"
)

// readRedis reads REDIS_URL as REDIS_MODE says, and judges what goes with it.
func (l *loader) readRedis() {
	c := l.config
	files := redisconn.Files{CA: c.RedisCAFile, Cert: c.RedisCertFile, Key: c.RedisKeyFile}
	modes := []redisconn.Mode{c.RedisMode}
	if l.failed("REDIS_MODE") { // a fault is then what is one in every mode
		modes = []redisconn.Mode{redisconn.Cluster, redisconn.Sentinel, redisconn.Single}
	}
	text := l.values["REDIS_URL"]
	if text == "" {
		text = c.shown["REDIS_URL"]
	}
	var err error
	for _, mode := range modes {
		if c.Redis, err = redisconn.Parse(mode, text, files); err == nil {
			break
		}
	}
	l.judgeRedisFiles(files)
	if c.RedisMode == redisconn.Cluster && !l.failed("REDIS_MODE") && !l.failed("CACHE_KEY_FORMAT") {
		if err := c.CacheKeyFormat.CheckCluster(); err != nil {
			l.fault("CACHE_KEY_FORMAT", err.Error())
		}
	}
	if l.failed("REDIS_URL") { // its file cannot be read
		return
	}
	if err != nil {
		l.fault("REDIS_URL", err.Error())
		return
	}
	c.shown["REDIS_URL"] = c.Redis.String()
	on, verified := c.Redis.TLS()
	for _, name := range []string{"REDIS_CA_FILE", "REDIS_CERT_FILE", "REDIS_KEY_FILE"} {
		if !on && l.given[name] != "" && !l.failed(name) {
			l.fault(name, "goes only with a REDIS_URL that begins with rediss://")
		}
	}
	if on && !verified {
		if files.CA != "" && !l.failed("REDIS_CA_FILE") {
			l.fault("REDIS_CA_FILE", "is of no use with skip_verify in REDIS_URL; only one of the two is allowed")
		}
		l.warn("REDIS_URL: skip_verify: whoever can stand between here and Redis can read and change everything")
	}
}

func (l *loader) judgeRedisFiles(files redisconn.Files) {
	ca, cert, key := files.Check()
	switch {
	case files.Cert != "" && files.Key == "":
		key = errors.New("is not set, but REDIS_CERT_FILE is; they go together")
	case files.Key != "" && files.Cert == "":
		cert = errors.New("is not set, but REDIS_KEY_FILE is; they go together")
	}
	for name, err := range map[string]error{"REDIS_CA_FILE": ca, "REDIS_CERT_FILE": cert, "REDIS_KEY_FILE": key} {
		if err != nil {
			l.fault(name, err.Error())
		}
	}
}
