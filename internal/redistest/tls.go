package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is an authority of the test's own, and the folder where its certificates are.
type CA struct {
	File string // its certificate, as PEM

	t    testing.TB
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// NewCA makes an authority.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{t: t, dir: t.TempDir()}
	template := template("the test's CA")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	ca.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, ca.key.Public(), ca.key)
	if err != nil {
		t.Fatal("making a CA:", err)
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal("reading a CA:", err)
	}
	ca.File = ca.write("ca.pem", "CERTIFICATE", der)
	return ca
}

// Issue makes a certificate for 127.0.0.1 and localhost, fit for both sides of a connection,
// and returns the files of it and of its key. The same name again replaces them, as a renewal
// does.
func (ca *CA) Issue(name string) (cert, key string) {
	ca.t.Helper()
	template := template(name)
	template.IPAddresses, template.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	private := newKey(ca.t)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, private.Public(), ca.key)
	if err != nil {
		ca.t.Fatal("issuing a certificate:", err)
	}
	bytes, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		ca.t.Fatal("writing a key:", err)
	}
	return ca.write(name+".pem", "CERTIFICATE", der), ca.write(name+"-key.pem", "PRIVATE KEY", bytes)
}

// scheme is that of the URLs of a server with this CA, or without one.
func (ca *CA) scheme() string {
	if ca == nil {
		return "redis://"
	}
	return "rediss://"
}

// listen is a server's settings, each behind a mark, with which it listens at an address; where
// there is a CA by TLS only, towards other servers too.
func (ca *CA) listen(addr, mark string) []string {
	if ca == nil {
		return []string{mark + "port", port(addr)}
	}
	ca.t.Helper()
	cert, key := ca.Issue("server-" + port(addr))
	return []string{mark + "port", "0", mark + "tls-port", port(addr), mark + "tls-replication", "yes", mark + "tls-cluster", "yes",
		mark + "tls-ca-cert-file", ca.File, mark + "tls-cert-file", cert, mark + "tls-key-file", key}
}

// client is how the test's own client of a server connects, nil without a CA.
func (ca *CA) client(addr string) *tls.Config {
	if ca == nil {
		return nil
	}
	ca.t.Helper()
	pair, err := tls.LoadX509KeyPair(ca.Issue("test-of-" + port(addr)))
	if err != nil {
		ca.t.Fatal("reading a certificate:", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return &tls.Config{ServerName: "localhost", RootCAs: pool, Certificates: []tls.Certificate{pair}}
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal("making a key:", err)
	}
	return key
}

func (ca *CA) write(name, kind string, der []byte) string {
	ca.t.Helper()
	path := filepath.Join(ca.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		ca.t.Fatal("writing", name+":", err)
	}
	return path
}
