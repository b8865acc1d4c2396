package config

import (
	"strings"
	"testing"

	"alimtalk-syncer/internal/redistest"
)

func TestTheFilesOfTLSAreJudgedAtTheStart(t *testing.T) {
	ca := redistest.NewCA(t)
	cert, key := ca.Issue("syncer")
	_, other := ca.Issue("other")
	const secure = "REDIS_URL=rediss://redis.example:6380"
	mustLoad(t, secure, "REDIS_CA_FILE="+ca.File, "REDIS_CERT_FILE="+cert, "REDIS_KEY_FILE="+key)

	for name, c := range map[string]struct {
		env  []string
		want []string // the beginnings of the lines
	}{
		"the key of another": {
			[]string{secure, "REDIS_CERT_FILE=" + cert, "REDIS_KEY_FILE=" + other},
			[]string{`REDIS_CERT_FILE="` + cert + `": holds no certificate as PEM, or not that of its key: tls: private key does not match public key`}},
		"the wrong way round": {
			[]string{secure, "REDIS_CERT_FILE=" + key, "REDIS_KEY_FILE=" + cert},
			[]string{`REDIS_CERT_FILE="` + key + `": holds no certificate as PEM, or not that of its key: `}},
		"without TLS": {
			[]string{"REDIS_CA_FILE=" + ca.File, "REDIS_CERT_FILE=" + cert, "REDIS_KEY_FILE=" + key},
			[]string{
				`REDIS_CA_FILE="` + ca.File + `": goes only with a REDIS_URL that begins with rediss://`,
				`REDIS_CERT_FILE="` + cert + `": goes only with`,
				`REDIS_KEY_FILE="` + key + `": goes only with`}},
		"an authority that is not asked": {
			[]string{secure + "?skip_verify=true", "REDIS_CA_FILE=" + ca.File},
			[]string{`REDIS_CA_FILE="` + ca.File + `": is of no use with skip_verify in REDIS_URL; only one of the two is allowed`}},
	} {
		_, _, err := load(c.env...)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		for i, want := range c.want {
			if len(lines) != len(c.want) || !strings.HasPrefix(lines[i], want) {
				t.Errorf("%s: got\n%v\nwant\n%s", name, err, strings.Join(c.want, "\n"))
				break
			}
		}
	}
}

func TestTheRedisURLIsShownWithoutItsSecrets(t *testing.T) {
	for _, c := range []struct{ mode, url, want string }{
		{"single", "rediss://app:hush@redis.example:6380/3?pool_size=5", "rediss://[hidden]@redis.example:6380/3"},
		{"sentinel", "redis://:hush@s1.example:26379/2?master_name=m%201&addr=s2.example:26379&addr=[2001:db8::1]:26379&password=hush",
			"redis://[hidden]@s1.example:26379/2?master_name=m+1&addr=s2.example:26379&addr=[2001:db8::1]:26379"},
		{"sentinel", "redis://s1.example:26379?master_name=m&password=hush", "redis://[hidden]@s1.example:26379/0?master_name=m"},
		{"cluster", "redis://app:hush@c1.example:7000?addr=c2.example:7001&addr=c3.example:7002", "redis://[hidden]@c1.example:7000?addr=c2.example:7001&addr=c3.example:7002"},
		{"cluster", "redis://c1.example:7000", "redis://c1.example:7000"},
	} {
		if got := mustLoad(t, "REDIS_MODE="+c.mode, "REDIS_URL="+c.url).shown["REDIS_URL"]; got != c.want {
			t.Errorf("%s: %s is shown as %s, want %s", c.mode, c.url, got, c.want)
		}
	}
}
