package postgrestest

import (
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// Proxy is a proxy between a program and its database. It breaks their
// connections in the ways in which a network does.
type Proxy struct {
	server   *url.URL
	listener net.Listener
	group    errgroup.Group // the copying goroutines, until both ends of a link are closed

	mu    sync.Mutex // guards what follows
	links map[*link]fault
	down  bool
}

// link is one connection through the proxy.
type link struct{ client, server net.Conn }

func (l *link) closeBoth() {
	_ = l.client.Close() // it may have closed itself
	_ = l.server.Close()
}

// fault is the failure that is injected at the next message on a link.
type fault int

const (
	noFault fault = iota
	dropReply
	dropRequest
	silence // at every message
)

// NewProxy returns a proxy to the server, which ends with the test.
func NewProxy(tb testing.TB, server string) *Proxy {
	tb.Helper()
	u, err := url.Parse(server)
	require.NoError(tb, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	p := &Proxy{server: u, listener: listener, links: map[*link]fault{}}
	p.group.Go(p.accept)
	tb.Cleanup(func() {
		_ = listener.Close() // stop accepting connections
		p.Cut()
		_ = p.group.Wait() // copies end with an error when they are cut
	})
	return p
}

// URL returns the server's URL through the proxy.
func (p *Proxy) URL() string {
	u := *p.server
	u.Host = p.listener.Addr().String()
	return u.String()
}

// Cut breaks all connections and refuses new ones until Restore.
func (p *Proxy) Cut() { p.breakAll(true) }

// BreakConnections breaks all connections and accepts new ones.
func (p *Proxy) BreakConnections() { p.breakAll(false) }

// Restore accepts new connections again.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// DropReplies breaks the existing connections as soon as the server answers: it
// has executed the request, and the answer is lost.
func (p *Proxy) DropReplies() { p.set(dropReply) }

// DropRequests breaks the existing connections at the next request, which does
// not reach the server.
func (p *Proxy) DropRequests() { p.set(dropRequest) }

// Silence makes the existing connections silent, as a firewall does that forgets
// them: nothing is delivered any more in either direction, not even their end.
// New ones work.
func (p *Proxy) Silence() { p.set(silence) }

func (p *Proxy) breakAll(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	for l := range p.links {
		l.closeBoth()
	}
}

func (p *Proxy) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		p.links[l] = f
	}
}

func (p *Proxy) takeFault(l *link) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.links[l]
}

// accept accepts connections until the listener is closed.
func (p *Proxy) accept() error {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return err
		}
		server, err := net.Dial("tcp", p.server.Host)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.serveLink(&link{client, server})
	}
}

func (p *Proxy) serveLink(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		l.closeBoth()
		return
	}
	p.links[l] = noFault
	p.group.Go(func() error { return p.forward(l, l.server, l.client, dropRequest) })
	p.group.Go(func() error { return p.forward(l, l.client, l.server, dropReply) })
}

// end breaks a link. The other end of a silent one does not notice.
func (p *Proxy) end(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links[l] == silence {
		return
	}
	l.closeBoth()
	delete(p.links, l)
}

// forward copies one direction of a link until it breaks, or until the fault
// breaks it.
func (p *Proxy) forward(l *link, to, from net.Conn, by fault) error {
	defer p.end(l)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		f := p.takeFault(l)
		if err != nil || f == by {
			return err
		}
		if f == silence {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return err
		}
	}
}
