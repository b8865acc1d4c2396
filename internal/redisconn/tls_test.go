package redisconn_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"alimtalk-syncer/internal/redisconn"
	"alimtalk-syncer/internal/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{})
	os.Exit(m.Run())
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func connect(t *testing.T, mode redisconn.Mode, url string, files redisconn.Files) redis.UniversalClient {
	t.Helper()
	server, err := redisconn.Parse(mode, url, files)
	if err != nil {
		t.Fatal(err)
	}
	rdb := server.Connect()
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsRenewedOnDiskIsUsedByTheNextConnection(t *testing.T) {
	ours, theirs := redistest.NewCA(t), redistest.NewCA(t)
	server := redistest.StartTLS(t, ours)
	goodCert, goodKey := ours.Issue("syncer")
	badCert, badKey := theirs.Issue("syncer")
	dir := t.TempDir()
	files := redisconn.Files{CA: dir + "/ca.pem", Cert: dir + "/cert.pem", Key: dir + "/key.pem"}
	put := func(ca, cert, key string) {
		t.Helper()
		copyFile(t, ca, files.CA)
		copyFile(t, cert, files.Cert)
		copyFile(t, key, files.Key)
	}
	put(ours.File, badCert, badKey)
	rdb := connect(t, redisconn.Single, "rediss://"+server.Addr, files)
	ping := func() error {
		// Every ping on a connection of its own.
		server.Client.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes")
		err := rdb.Ping(t.Context()).Err()
		if err != nil { // the cut connection, or a refusal of the next
			err = rdb.Ping(t.Context()).Err()
		}
		return err
	}
	if err := ping(); err == nil {
		t.Fatal("a certificate of a foreign authority is taken")
	}
	put(ours.File, goodCert, goodKey)
	if err := ping(); err != nil {
		t.Fatal("after a renewal:", err)
	}
	copyFile(t, badKey, files.Key) // a renewal that is half done: the certificate is to come
	if err := ping(); err != nil {
		t.Error("during a renewal:", err)
	}
	copyFile(t, "tls.go", files.CA)
	if err := ping(); err != nil {
		t.Error("with a broken file:", err)
	}
	put(theirs.File, goodCert, goodKey)
	if err := ping(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server that the new authority does not know: %v", err)
	}
	put(ours.File, goodCert, goodKey)
	if err := ping(); err != nil {
		t.Error("at last:", err)
	}
}

func TestWithoutACertificateOfOursTheServerRefusesAndWithoutItsAuthorityWe(t *testing.T) {
	ca := redistest.NewCA(t)
	server := redistest.StartTLS(t, ca)
	cert, key := ca.Issue("syncer")
	for name, files := range map[string]redisconn.Files{
		"no certificate": {CA: ca.File},
		"no authority":   {Cert: cert, Key: key},
		"neither":        {},
	} {
		if err := connect(t, redisconn.Single, "rediss://"+server.Addr, files).Ping(t.Context()).Err(); err == nil {
			t.Errorf("%s: connected", name)
		}
	}
	if err := connect(t, redisconn.Single, "rediss://"+server.Addr+"?skip_verify=true", redisconn.Files{Cert: cert, Key: key}).Ping(t.Context()).Err(); err != nil {
		t.Error("skip_verify:", err)
	}
	if err := connect(t, redisconn.Single, "redis://"+server.Addr, redisconn.Files{}).Ping(t.Context()).Err(); err == nil {
		t.Error("connected without TLS")
	}
}

func TestTLSReachesSentinelsAndClusters(t *testing.T) {
	ca := redistest.NewCA(t)
	cert, key := ca.Issue("syncer")
	files := redisconn.Files{CA: ca.File, Cert: cert, Key: key}
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		set := redistest.StartSentinelTLS(t, ca, 1)
		rdb := connect(t, redisconn.Sentinel, set.URL(), files)
		if err := rdb.Set(t.Context(), "k", "v", 0).Err(); err != nil || set.Primary().Client.Get(t.Context(), "k").Val() != "v" {
			t.Errorf("set: %v", err)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		set := redistest.StartClusterTLS(t, ca, 0)
		rdb := connect(t, redisconn.Cluster, set.URL(), files)
		for _, k := range []string{"a", "b", "c", "d", "e"} {
			if err := rdb.Set(t.Context(), k, "v", 0).Err(); err != nil || set.Client.Get(t.Context(), k).Val() != "v" {
				t.Errorf("set: %v", err)
			}
		}
	})
}
