package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
)

// Files are what TLS takes beside the URL, as PEM; "" = none. Cert and Key go together. They
// are read again for every new connection, so that what is renewed on disk is used without a
// restart.
type Files struct {
	CA   string // whom to trust, instead of the system's authorities
	Cert string // who we are
	Key  string
}

// Check reads the files and reports what is wrong with each; with cert when it is not that of
// its key. The messages leave out the paths.
func (f Files) Check() (ca, cert, key error) {
	_, ca = f.authorities()
	_, cert = read(f.Cert)
	_, key = read(f.Key)
	if cert == nil && key == nil {
		_, cert = f.pair()
	}
	return ca, cert, key
}

// authorities returns what the file of CA holds, nil without one.
func (f Files) authorities() (*x509.CertPool, error) {
	data, err := read(f.CA)
	if err != nil || f.CA == "" {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, errors.New("holds no certificate as PEM")
	}
	return pool, nil
}

// pair returns what the files of Cert and Key hold, nil without them.
func (f Files) pair() ([]tls.Certificate, error) {
	if f.Cert == "" || f.Key == "" {
		return nil, nil
	}
	cert, err := read(f.Cert)
	if err != nil {
		return nil, err
	}
	key, err := read(f.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("holds no certificate as PEM, or not that of its key: %w", err)
	}
	return []tls.Certificate{pair}, nil
}

// maxFile is the largest file that is read, in bytes: the system's own authorities are a quarter.
const maxFile = 1 << 20

func read(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, cannotRead(err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, cannotRead(err)
	}
	if len(data) > maxFile {
		return nil, errors.New("is larger than 1 MiB")
	}
	return data, nil
}

func cannotRead(err error) error {
	var told *os.PathError
	if errors.As(err, &told) {
		err = told.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// dialer returns how to connect by TLS with these files, nil where go-redis' own way does.
func (f Files) dialer(base *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	if f == (Files{}) {
		return nil
	}
	var good atomic.Pointer[tls.Config] // the last that could be read: a renewal may be half done
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		fresh, err := f.config(base)
		if err == nil {
			good.Store(fresh)
		} else if good.Load() == nil {
			return nil, err
		}
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: good.Load()}
		return d.DialContext(ctx, network, addr)
	}
}

func (f Files) config(base *tls.Config) (*tls.Config, error) {
	pool, err := f.authorities()
	if err != nil {
		return nil, fmt.Errorf("the file of the CA %w", err)
	}
	pair, err := f.pair()
	if err != nil {
		return nil, fmt.Errorf("the file of the certificate or of its key %w", err)
	}
	c := base.Clone()
	c.RootCAs, c.Certificates = pool, pair
	return c, nil
}
