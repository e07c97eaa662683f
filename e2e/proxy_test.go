package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// proxy is a proxy to an engine that can be cut: then the engine is unavailable
// to the server.
type proxy struct {
	network, address string // where the proxy listens
	dial             func(context.Context) (net.Conn, error)

	mu       sync.Mutex // guards what follows
	listener net.Listener
	open     map[net.Conn]bool
}

// newProxy returns a proxy that is cut, on an address that is free.
func newProxy(t testing.TB, network, address string, dial func(context.Context) (net.Conn, error)) *proxy {
	t.Helper()
	listener, err := net.Listen(network, address)
	require.NoError(t, err)
	p := &proxy{network: network, address: listener.Addr().String(), dial: dial, open: map[net.Conn]bool{}}
	require.NoError(t, listener.Close())
	t.Cleanup(p.cut)
	return p
}

// freeAddress returns a loopback address that no other process uses, so that its
// port stays free while the proxy is cut.
func freeAddress() string {
	return fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(255), 1+rand.IntN(254))
}

// givenPorts are the ports that freePort has returned.
var givenPorts sync.Map

// freePort returns a port that nothing listens on here. It stays free until the test
// uses it: the system does not choose it for a connection or for a listener on any free
// port, which have ports above 32767, and no other test gets it.
func freePort(t testing.TB) int {
	t.Helper()
	for {
		port := 10000 + rand.IntN(20000)
		if _, given := givenPorts.LoadOrStore(port, true); given {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, l.Close())
		return port
	}
}

// startOnProxy configures an installation's server to use a proxy, which is cut.
func startOnProxy(t testing.TB, s *server) *proxy {
	t.Helper()
	p, args, env := s.rt.proxyEngine(t)
	s.args, s.env = append(s.args, args...), append(s.env, env...)
	return p
}

// restore opens the proxy. Another connection of this machine may have its port
// for a while.
func (p *proxy) restore(t testing.TB) {
	t.Helper()
	var listener net.Listener
	testenv.AwaitTrue(t, "the address is free", func() bool {
		var err error
		listener, err = net.Listen(p.network, p.address)
		return err == nil
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = listener
	go p.accept(t, listener) // ends with cut
}

// cut closes the proxy and all of its connections.
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

// add registers connections and reports whether the proxy is open. It closes
// them if the proxy was cut.
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
		far, err := p.dial(t.Context())
		if err != nil {
			near.Close()
			continue
		}
		if p.add(listener, near, far) {
			go copyStream(near, far)
			go copyStream(far, near)
		}
	}
}

// copyStream copies until either side ends. It propagates a half close.
func copyStream(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be closed already
	}
}
