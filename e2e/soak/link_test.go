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

// link is the way to the engine, and can be cut.
type link struct {
	path   string
	engine *engine

	mu    sync.Mutex // guards what follows
	down  bool
	conns map[net.Conn]bool
}

// newLink listens until the test ends, and lets everything pass.
func newLink(t *testing.T, e *engine) *link {
	t.Helper()
	dir, err := os.MkdirTemp("", "soak") // a socket's path is short
	require.NoError(t, err)
	l := &link{path: filepath.Join(dir, "engine"), engine: e, conns: map[net.Conn]bool{}}
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

func (l *link) serve(listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		go l.carry(near) // ends with either end of the connection
	}
}

// carry copies both ways and hands on each end.
func (l *link) carry(near net.Conn) {
	defer near.Close()
	far, err := l.engine.dial(context.Background())
	if err != nil || !l.keep(near, far) {
		if err == nil {
			far.Close()
		}
		return
	}
	defer l.drop(near, far)
	back := make(chan struct{})
	go func() { // ends with the connection, which is closed below at the latest
		defer close(back)
		pass(near, far)
	}()
	pass(far, near)
	<-back
}

// pass copies one direction and hands on its end.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// keep remembers connections to be cut, and says whether the link is up.
func (l *link) keep(conns ...net.Conn) bool {
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
func (l *link) drop(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(l.conns, c)
	}
}

// cut ends all connections; new ones end at once until the link is mended.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.conns {
		c.Close()
	}
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}
