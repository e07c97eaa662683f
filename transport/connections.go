package transport

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// memoryPerConnection is how much memory of the server's limit there is for each
	// connection. One with unfinished headers takes a quarter of it.
	memoryPerConnection = 512 << 10
	// maxConnections is the total bound of a server without a memory limit, and
	// minConnections that of a server with almost none.
	maxConnections = 16384
	minConnections = 64
	// maxUnread is how much a connection may send before its first request: a handshake
	// and the headers.
	maxUnread = 64 << 10
	// strangerIdleTimeout is how long a connection may be idle that has had no
	// authenticated request.
	strangerIdleTimeout = 10 * time.Second
)

// Limits are the bounds of the connections of a server.
type Limits struct {
	Total int
	// PerAddress is the bound of one IPv4 address, or of one IPv6 network of 64 bits.
	PerAddress int
	// Trusted are addresses with the total bound only, as loopback addresses and Unix
	// sockets: those of proxies, with the connections of many clients.
	Trusted []netip.Prefix
}

// LimitsFor returns the bounds of a process with a limit of descriptors, half of
// which are for other things, and of memory in bytes.
func LimitsFor(descriptors uint64, memory int64, trusted []netip.Prefix) Limits {
	total := int64(maxConnections)
	if half := descriptors / 2; half < maxConnections {
		total = int64(half) //nolint:gosec // it is small
	}
	total = max(min(total, memory/memoryPerConnection), minConnections)
	return Limits{Total: int(total), PerAddress: int(total / 4), Trusted: trusted}
}

// Connections are the open connections of a server. Beyond a bound, a new one has
// another one closed: the oldest without an authenticated request, else the one that
// has been idle for the longest time. If all are in use, the new one is closed.
type Connections struct {
	limits Limits

	mu        sync.Mutex // guards what follows, and the fields of connections
	all       group
	byAddress map[netip.Prefix]*group
	closed    uint64 // because of a bound
}

// NewConnections returns no connections yet.
func NewConnections(limits Limits) *Connections {
	return &Connections{limits: limits, byAddress: map[netip.Prefix]*group{}}
}

// use is what a connection is used for.
type use int

// The uses, in the order in which connections are closed.
const (
	stranger use = iota // it has had no authenticated request
	idle                // it waits for a further request
	busy
	uses int = iota
)

// group is connections that have a bound together.
type group struct{ lists [uses]list.List }

func (g *group) len() (n int) {
	for i := range g.lists {
		n += g.lists[i].Len()
	}
	return n
}

// next returns the connection that makes room, or nil.
func (g *group) next() *connection {
	for _, u := range []use{stranger, idle} {
		if first := g.lists[u].Front(); first != nil {
			return first.Value.(*connection) //nolint:forcetypeassert // there is nothing else in it
		}
	}
	return nil
}

// connection is one of Connections.
type connection struct {
	net.Conn
	of      *Connections
	address netip.Prefix // invalid: the total bound only
	groups  []*group     // empty: it is closed
	places  []*list.Element
	use     use
	idle    *time.Timer // closes a stranger; nil: not idle

	isNew  atomic.Bool // it has had no request
	unread int         // what it has sent before its first request
}

// errUnread is the error of a connection that sends much before its first request.
var errUnread = errors.New("the client sends too much before its first request")

// Listen returns a listener whose connections are bounded.
func (c *Connections) Listen(l net.Listener) net.Listener { return &boundedListener{l, c} }

type boundedListener struct {
	net.Listener
	connections *Connections
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := l.connections.admit(conn); admitted != nil {
			return admitted, nil
		}
		conn.Close() //nolint:errcheck // it is not served
	}
}

// admit adds a connection, in place of another one if a bound is reached. It returns
// nil if that is not possible.
func (c *Connections) admit(conn net.Conn) *connection {
	added := &connection{Conn: conn, of: c, address: c.addressOf(conn)}
	added.isNew.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byAddress[added.address] == nil && added.address.IsValid() {
		c.byAddress[added.address] = &group{}
	}
	if own := c.byAddress[added.address]; own != nil && !c.makeRoom(own, c.limits.PerAddress) || !c.makeRoom(&c.all, c.limits.Total) {
		c.forget(added.address)
		return nil
	}
	added.groups = []*group{&c.all}
	if added.address.IsValid() {
		// The connection that made room may have been the last one of the address.
		if c.byAddress[added.address] == nil {
			c.byAddress[added.address] = &group{}
		}
		added.groups = append(added.groups, c.byAddress[added.address])
	}
	for _, g := range added.groups {
		added.places = append(added.places, g.lists[stranger].PushBack(added))
	}
	return added
}

// makeRoom closes a connection of a group that has reached its bound. It returns
// false if each of them is in use. The caller holds the mutex.
func (c *Connections) makeRoom(g *group, bound int) bool {
	if g.len() < bound {
		return true
	}
	c.closed++
	next := g.next()
	if next == nil {
		return false
	}
	c.remove(next)
	next.Conn.Close() //nolint:errcheck // it does not wait, and nothing else can be done
	return true
}

// remove removes a connection. A second call does nothing. The caller holds the mutex.
func (c *Connections) remove(conn *connection) {
	for i, g := range conn.groups {
		g.lists[conn.use].Remove(conn.places[i])
	}
	conn.groups, conn.places = nil, nil
	conn.stopIdle()
	c.forget(conn.address)
}

// forget removes the group of an address without connections.
func (c *Connections) forget(address netip.Prefix) {
	if g := c.byAddress[address]; g != nil && g.len() == 0 {
		delete(c.byAddress, address)
	}
}

// addressOf returns the address that has a bound of its own, if there is one.
func (c *Connections) addressOf(conn net.Conn) netip.Prefix {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	if !address.IsValid() || address.IsLoopback() {
		return netip.Prefix{}
	}
	for _, trusted := range c.limits.Trusted {
		if trusted.Contains(address) {
			return netip.Prefix{}
		}
	}
	bits := 32
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.Prefix(bits) //nolint:errcheck // an address has as many bits
	return prefix
}

// move changes the use of a connection. The caller holds the mutex.
func (conn *connection) move(to use) {
	for i, g := range conn.groups {
		g.lists[conn.use].Remove(conn.places[i])
		conn.places[i] = g.lists[to].PushBack(conn)
	}
	conn.use = to
}

// stopIdle ends the timeout of an idle stranger. The caller holds the mutex.
func (conn *connection) stopIdle() {
	if conn.idle != nil {
		conn.idle.Stop()
		conn.idle = nil
	}
}

// Read implements net.Conn.
func (conn *connection) Read(b []byte) (int, error) {
	n, err := conn.Conn.Read(b)
	if conn.isNew.Load() {
		if conn.unread += n; conn.unread > maxUnread {
			return 0, errUnread
		}
	}
	return n, err
}

// Close implements net.Conn.
func (conn *connection) Close() error {
	conn.of.mu.Lock()
	conn.of.remove(conn)
	conn.of.mu.Unlock()
	return conn.Conn.Close()
}

// CloseWrite ends one direction of the connection.
func (conn *connection) CloseWrite() error {
	if half, ok := conn.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return conn.Close()
}

// SetLinger sets what a close does with unsent data, as that of net.TCPConn. Other
// connections have nothing to set.
func (conn *connection) SetLinger(seconds int) error {
	if tcp, ok := below[*net.TCPConn](conn.Conn); ok {
		return tcp.SetLinger(seconds)
	}
	return nil
}

// NetConn returns the connection of the listener below.
func (conn *connection) NetConn() net.Conn { return conn.Conn }

// below returns the connection of a type that is below others, such as that of TLS.
func below[T net.Conn](conn net.Conn) (found T, ok bool) {
	for {
		if found, ok = conn.(T); ok {
			return found, true
		}
		above, isAbove := conn.(interface{ NetConn() net.Conn })
		if !isAbove {
			return found, false
		}
		conn = above.NetConn()
	}
}

// ConnContext returns a function for http.Server: withAuthenticated adds what is
// called when a request of the connection is authenticated. next may be nil.
func (c *Connections) ConnContext(withAuthenticated func(context.Context, func()) context.Context, next func(context.Context, net.Conn) context.Context) func(context.Context, net.Conn) context.Context {
	return func(ctx context.Context, conn net.Conn) context.Context {
		if bounded, ok := below[*connection](conn); ok {
			ctx = withAuthenticated(ctx, func() { c.authenticated(bounded) })
		}
		if next != nil {
			ctx = next(ctx, conn)
		}
		return ctx
	}
}

func (c *Connections) authenticated(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.use == stranger {
		conn.move(busy)
	}
}

// ConnState is for http.Server.
func (c *Connections) ConnState(of net.Conn, state http.ConnState) {
	conn, ok := below[*connection](of)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case state == http.StateActive:
		conn.isNew.Store(false)
		conn.stopIdle()
		if conn.use == idle {
			conn.move(busy)
		}
	case state == http.StateIdle && conn.use != stranger:
		conn.move(idle)
	case state == http.StateIdle && conn.groups != nil && conn.idle == nil:
		conn.idle = time.AfterFunc(strangerIdleTimeout, func() { conn.Close() }) //nolint:errcheck // nothing else can be done
	}
}

// Counts returns the number of open connections, the bound of all, and how many
// connections were closed because of a bound.
func (c *Connections) Counts() (open, bound int, closed uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.len(), c.limits.Total, c.closed
}
