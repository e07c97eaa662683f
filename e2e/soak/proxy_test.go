package soak

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy is a proxy to the engine that can be cut.
type proxy struct {
	path   string
	engine *engine

	mu    sync.Mutex // guards what follows
	down  bool
	conns map[net.Conn]bool
}

// newProxy starts a proxy, which is open. It listens until the test ends.
func newProxy(t *testing.T, e *engine) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "soak") // short, for the path of a socket
	require.NoError(t, err)
	l := &proxy{path: filepath.Join(dir, "engine"), engine: e, conns: map[net.Conn]bool{}}
	listener, err := net.Listen("unix", l.path)
	require.NoError(t, err)
	t.Cleanup(func() {
		listener.Close()
		l.cut()
		os.RemoveAll(dir)
	})
	go l.serve(listener) // ends when the listener is closed
	return l
}

func (l *proxy) serve(listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		go l.forward(near) // ends with either end of the connection
	}
}

// forward copies both directions.
func (l *proxy) forward(near net.Conn) {
	defer near.Close()
	far, err := l.engine.dial(context.Background())
	if err != nil || !l.track(near, far) {
		if err == nil {
			far.Close()
		}
		return
	}
	defer l.drop(near, far)
	back := make(chan struct{})
	go func() { // ends with the connection
		defer close(back)
		copyStream(near, far)
	}()
	copyStream(far, near)
	<-back
}

// copyStream copies one direction and propagates its end.
func copyStream(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// track registers connections, and reports whether the proxy is open.
func (l *proxy) track(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return false
	}
	for _, c := range conns {
		l.conns[c] = true
	}
	return true
}

// drop closes and unregisters connections.
func (l *proxy) drop(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(l.conns, c)
	}
}

// cut closes all connections, and new ones at once until restore is called.
func (l *proxy) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.conns {
		c.Close()
	}
}

func (l *proxy) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}
