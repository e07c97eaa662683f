package e2e

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy is a way to the engine that can be cut: for the server behind it the
// engine is down then.
type proxy struct {
	path string

	mu       sync.Mutex // guards what follows
	listener net.Listener
	open     map[net.Conn]bool
}

// newProxy makes a way that is cut.
func newProxy(t testing.TB) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "e2e-") // a socket's path is short
	require.NoError(t, err)
	p := &proxy{path: filepath.Join(dir, "sock"), open: map[net.Conn]bool{}}
	t.Cleanup(func() {
		p.cut()
		require.NoError(t, os.RemoveAll(dir))
	})
	return p
}

// host is how the way is named in DOCKER_HOST.
func (p *proxy) host() string { return "unix://" + p.path }

// mend opens the way.
func (p *proxy) mend(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("unix", p.path)
	require.NoError(t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = listener
	go p.accept(t, listener) // ends with cut
}

// cut closes the way and all that is on it.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return
	}
	p.listener.Close()
	p.listener = nil
	for c := range p.open {
		c.Close()
	}
	clear(p.open)
}

// add notes a connection of a way that is open; else it says no.
func (p *proxy) add(listener net.Listener, conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.listener != listener {
			c.Close()
			continue
		}
		p.open[c] = true
	}
	return p.listener == listener
}

func (p *proxy) accept(t testing.TB, listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		e, err := theEngine()
		if err != nil {
			near.Close()
			continue
		}
		far, err := e.dial(t.Context())
		if err != nil {
			near.Close()
			continue
		}
		if p.add(listener, near, far) {
			go carry(near, far)
			go carry(far, near)
		}
	}
}

// carry ends with either side. A side that has said all may still listen.
func carry(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be closed already
	}
}
