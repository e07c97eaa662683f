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

// proxy is the way to the engine, and can be cut.
type proxy struct {
	path   string
	engine *engine

	mu    sync.Mutex // guards what follows
	down  bool
	conns map[net.Conn]bool
}

// newProxy listens until the test ends, and lets everything pass.
func newProxy(t *testing.T, e *engine) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "soak") // a socket's path is short
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

// forward copies both ways and hands on each end.
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
	go func() { // ends with the connection, which is closed below at the latest
		defer close(back)
		copyStream(near, far)
	}()
	copyStream(far, near)
	<-back
}

// copyStream copies one direction and hands on its end.
func copyStream(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// track remembers connections to be cut, and says whether the link is up.
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

// drop closes and forgets connections.
func (l *proxy) drop(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(l.conns, c)
	}
}

// cut ends all connections; new ones end at once until the link is mended.
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
