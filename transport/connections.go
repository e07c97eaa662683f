package transport

import (
	"cmp"
	"container/list"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// memoryPerConnection is how much memory of the server's limit there is for each
	// connection. Header fields of a few bytes each need 500 KiB while they are read.
	memoryPerConnection = 768 << 10
	// http2Places is as how many connections one with HTTP/2 counts: eight requests,
	// each with its headers, a response that is not taken, and what the server has not
	// read of its body, need at most 1 MiB.
	http2Places = 2
	// maxConnections is the total bound of a server without a memory limit, and
	// minConnections that of a server with almost none.
	maxConnections = 16384
	minConnections = 64
	// minDescriptors is how many open files a server needs, half of them for itself.
	minDescriptors = 64
	// maxUnread is how much a connection may send before its first request: a handshake
	// and the headers.
	maxUnread = 64 << 10
	// strangerIdleTimeout is how long a connection may be idle that has had no
	// authenticated request.
	strangerIdleTimeout = 10 * time.Second
)

// Limits are the bounds of the connections of a server. One with HTTP/2 counts twice.
type Limits struct {
	Total int
	// PerAddress is the bound of one IPv4 address, or of one IPv6 network of 64 bits.
	PerAddress int
	// PerActor is the bound of the connections in use of one actor.
	PerActor int
	// Trusted are addresses with the total bound only, as loopback addresses and Unix
	// sockets: those of proxies, with the connections of many clients.
	Trusted []netip.Prefix
}

// LimitsFor returns the bounds of a process with a limit of descriptors, half of
// which are for other things, and of memory in bytes.
func LimitsFor(descriptors uint64, memory int64, trusted []netip.Prefix) (Limits, error) {
	if descriptors < minDescriptors {
		return Limits{}, fmt.Errorf("the limit of open files is %d, and the server needs at least %d: raise it with ulimit -n, or LimitNOFILE of its service", descriptors, minDescriptors)
	}
	total := int(min(max(memory/memoryPerConnection, minConnections), int64(min(descriptors/2, maxConnections)))) //nolint:gosec // it is small
	return Limits{Total: total, PerAddress: total / 4, PerActor: total / 4 * 3, Trusted: trusted}, nil
}

// Connections are the open connections of a server. Beyond a bound, a new one has
// another one closed: the oldest without an authenticated request, from the network
// with the most of them, else the one that has been idle for the longest time. If all
// are in use, the new one is closed.
type Connections struct {
	limits Limits

	mu       sync.Mutex // guards what follows, and the fields of connections
	all      group
	byActor  map[string]int // places of connections in use
	admitted uint64
	closed   uint64 // because of a bound
}

// NewConnections returns no connections yet.
func NewConnections(limits Limits) *Connections {
	return &Connections{limits: limits, byActor: map[string]int{}}
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

// group is all connections, or those of a network.
type group struct {
	lists    [uses]list.List // the oldest first
	places   [uses]int
	networks map[netip.Prefix]*group
}

func (g *group) size() int { return g.places[stranger] + g.places[idle] + g.places[busy] }

func (g *group) first(u use) *connection {
	if first := g.lists[u].Front(); first != nil {
		return first.Value.(*connection) //nolint:forcetypeassert // there is nothing else in it
	}
	return nil
}

// next returns the connection that makes room, or nil.
func (g *group) next() *connection {
	worst := g
	for worst.places[stranger] > 0 && len(worst.networks) > 0 {
		worst = worst.worst()
	}
	return cmp.Or(worst.first(stranger), g.first(idle))
}

// worst returns the network with the most strangers, of several that with the oldest.
func (g *group) worst() (worst *group) {
	for _, n := range g.networks {
		if n.places[stranger] == 0 {
			continue
		}
		if worst == nil || cmp.Or(cmp.Compare(worst.places[stranger], n.places[stranger]), cmp.Compare(n.first(stranger).number, worst.first(stranger).number)) < 0 {
			worst = n
		}
	}
	return worst
}

// connection is one of Connections.
type connection struct {
	net.Conn
	of       *Connections
	number   uint64
	networks []netip.Prefix // the widest first; one that is invalid: the total bound only
	groups   []*group       // all, and those of networks; empty: it is closed
	elements []*list.Element
	use      use
	places   int            // as how many it counts
	actors   map[string]int // of requests in progress
	idle     *time.Timer    // closes a stranger; nil: not idle

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
	added := &connection{Conn: conn, of: c, networks: c.networksOf(conn), places: 1, actors: map[string]int{}}
	added.isNew.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.makeRoom(added.networks) {
		return nil
	}
	c.admitted++
	added.number = c.admitted
	at := &c.all
	added.groups = []*group{at}
	for _, n := range added.networks {
		if at.networks[n] == nil {
			if at.networks == nil {
				at.networks = map[netip.Prefix]*group{}
			}
			at.networks[n] = &group{}
		}
		at = at.networks[n]
		added.groups = append(added.groups, at)
	}
	added.elements = make([]*list.Element, len(added.groups))
	added.enter(stranger)
	return added
}

// makeRoom closes a connection if a bound of a new one is reached. It returns false if
// each of them is in use. The caller holds the mutex.
func (c *Connections) makeRoom(networks []netip.Prefix) bool {
	own := &c.all
	for _, n := range networks {
		if own = own.networks[n]; own == nil {
			own = &group{} // it has none yet
		}
	}
	if networks[0].IsValid() && own.size() >= c.limits.PerAddress && !c.closeOne(own) {
		return false
	}
	return c.all.size() < c.limits.Total || c.closeOne(&c.all)
}

// closeOne closes a connection of a group, or returns false if each is in use.
func (c *Connections) closeOne(g *group) bool {
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
	conn.leave()
	for i := len(conn.groups) - 1; i > 0; i-- {
		if conn.groups[i].size() == 0 {
			delete(conn.groups[i-1].networks, conn.networks[i-1])
		}
	}
	conn.groups = nil
	conn.stopIdle()
}

// networksOf returns the networks of a connection, the widest first. The last one has
// a bound of its own. Those with the total bound only have one network together.
func (c *Connections) networksOf(conn net.Conn) (networks []netip.Prefix) {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return []netip.Prefix{{}}
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	isTrusted := func(p netip.Prefix) bool { return p.Contains(address) }
	if !address.IsValid() || address.IsLoopback() || slices.ContainsFunc(c.limits.Trusted, isTrusted) {
		return []netip.Prefix{{}}
	}
	bits := []int{32}
	if address.Is6() {
		bits = []int{48, 56, 64} // what providers assign
	}
	for _, n := range bits {
		network, _ := address.Prefix(n) //nolint:errcheck // an address has as many bits
		networks = append(networks, network)
	}
	return networks
}

// isTrusted reports whether the connection has the total bound only.
func (conn *connection) isTrusted() bool { return !conn.networks[0].IsValid() }

// enter adds the connection to its groups, and leave removes it. The caller holds the
// mutex.
func (conn *connection) enter(u use) {
	conn.use = u
	for i, g := range conn.groups {
		conn.elements[i] = g.lists[u].PushBack(conn)
		g.places[u] += conn.places
	}
}

func (conn *connection) leave() {
	for i, g := range conn.groups {
		g.lists[conn.use].Remove(conn.elements[i])
		g.places[conn.use] -= conn.places
	}
}

// move changes the use of a connection. The caller holds the mutex.
func (conn *connection) move(to use) {
	conn.leave()
	conn.enter(to)
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

// Counts returns the number of open connections, of which those with HTTP/2 count
// twice, the bound of all, and how many were closed because of a bound.
func (c *Connections) Counts() (open, bound int, closed uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.size(), c.limits.Total, c.closed
}
