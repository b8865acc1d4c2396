package redistest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Fault is what a Proxy does to one request.
type Fault uint8

// The faults.
const (
	None      Fault = iota
	LoseReply       // the request runs, and the connection is cut instead of the reply
	Late            // the connection is cut, and the request runs after the proxy's delay
	Repeat          // the request runs, is answered, and runs once more after the delay
	Cut             // the connection is cut, and the request never runs
)

// Proxy stands between a client and a server and spoils what fault says. It takes what comes
// in one read for one request, which holds for a client that waits for its replies.
type Proxy struct {
	Addr string // host:port to connect to

	server string
	fault  func(request []byte) (Fault, time.Duration)
	listen net.Listener
	alive  sync.WaitGroup

	mu    sync.Mutex // guards what follows
	conns map[net.Conn]bool
	shut  bool
}

// NewProxy starts a proxy before server. fault is called for each request, from many
// goroutines; its duration is the delay of Late and Repeat. The proxy ends with its test.
func NewProxy(t testing.TB, server string, fault func(request []byte) (Fault, time.Duration)) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal("starting a proxy:", err)
	}
	p := &Proxy{Addr: l.Addr().String(), server: server, fault: fault, listen: l, conns: make(map[net.Conn]bool)}
	p.alive.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Close cuts all connections, as the end of a process does, and waits until nothing that was
// late or repeated is still to come.
func (p *Proxy) Close() {
	_ = p.listen.Close()
	p.mu.Lock()
	p.shut = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.alive.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		p.alive.Go(func() { p.serve(client) })
	}
}

// own notes a connection, which disown closes. A proxy that is shut owns none.
func (p *Proxy) own(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		_ = c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) disown(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

func (p *Proxy) serve(client net.Conn) {
	if !p.own(client) {
		return
	}
	defer p.disown(client)
	server, err := net.Dial("tcp", p.server)
	if err != nil || !p.own(server) {
		return
	}
	defer p.disown(server)

	var lose atomic.Bool // the reply to come
	p.alive.Go(func() {
		defer p.disown(client) // ends the loop below
		reply := make([]byte, 1<<16)
		for {
			n, err := server.Read(reply)
			if err != nil || lose.Load() {
				return
			}
			if _, err := client.Write(reply[:n]); err != nil {
				return
			}
		}
	})
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		request := buffer[:n]
		fault, delay := p.fault(request)
		if fault == Late || fault == Repeat {
			p.later(bytes.Clone(request), delay)
		}
		if fault == Late || fault == Cut {
			return
		}
		lose.Store(fault == LoseReply)
		if _, err := server.Write(request); err != nil {
			return
		}
	}
}

// later sends a request after a while, on a connection of its own, and waits until it has run.
func (p *Proxy) later(request []byte, delay time.Duration) {
	p.alive.Go(func() {
		time.Sleep(delay)
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			return
		}
		defer func() { _ = server.Close() }()
		if _, err := server.Write(request); err != nil {
			return
		}
		_ = server.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.ReadFull(server, make([]byte, 1))
	})
}
