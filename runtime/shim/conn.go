package shim

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
)

// errConnLost ends every request that was open on a connection when it broke.
var errConnLost = errors.New("connection lost")

// errTooManyOpen is the error for a request that would exceed the peer's
// limits.
var errTooManyOpen = fmt.Errorf("%w: too many open requests", runtime.ErrUnavailable)

// Handler starts a request of the peer. It is called in the order in which the
// requests arrive. It must not block, and it must ensure that each request is
// answered. An error ends the connection.
type Handler func(in *Incoming) error

// Conn is a connection between a server and the program in a container, after
// the handshake. Both ends are symmetric: each may send requests, and each
// serves the other's requests with its Handler. A request may have byte streams
// in both directions. Its methods may be called by multiple goroutines.
//
// Nothing that the peer does makes a Conn hold more than the limits of its end,
// and nothing delays its reading: each wait for a peer has its own goroutine. A
// peer that violates the protocol or exceeds a limit loses the connection. Err
// then returns ErrProtocol.
type Conn struct {
	stream     io.ReadWriteCloser
	channel    *Channel // on the stream
	local      Role
	remote     Role
	features   []string // supported by both ends
	handle     Handler
	onResponse func()        // called for each response
	closed     chan struct{} // closed when the connection ends

	writeMu sync.Mutex // guards writing to channel; writes have a timeout

	// mu guards the fields below. It may be locked while writeMu is held.
	mu             sync.Mutex
	lastSentID     uint64 // ID of our last request
	lastReceivedID uint64 // ID of the peer's last request
	exchanges      map[uint64]*exchange
	outgoing       usage // used by our requests
	incoming       usage // used by the peer's requests
	livenessTimer  *time.Timer
	err            error // why the connection ended
}

// usage counts the open requests of one end and their streams.
type usage struct{ requests, streams int }

// fits reports whether one more request is within an end's limits.
func (u usage) fits(streams int, limits Role) bool {
	return u.requests < limits.maxRequests && u.streams+streams <= limits.maxStreams
}

// NewConn returns a connection over a channel. Nothing is read before Run. Both
// functions may be nil: without a handler, the Conn answers that it does not
// support the request.
func NewConn(stream io.ReadWriteCloser, channel *Channel, handle Handler, onResponse func()) *Conn {
	if handle == nil {
		handle = rejectRequest
	}
	if onResponse == nil {
		onResponse = func() {}
	}
	return &Conn{
		stream: stream, channel: channel, local: channel.local, remote: channel.remote.limitsFor(channel.features),
		features: channel.features, handle: handle, onResponse: onResponse,
		lastSentID: channel.local.firstID, lastReceivedID: channel.remote.firstID,
		closed: make(chan struct{}), exchanges: make(map[uint64]*exchange),
	}
}

// rejectRequest is the Handler of an end that serves no requests.
func rejectRequest(in *Incoming) error {
	if in.OneWay() {
		return nil
	}
	wireErr := &WireError{Code: CodeUnsupported, Detail: "unknown request " + fmt.Sprintf("%.64q", in.Request.Op)}
	go func() { _ = in.Respond(Response{Error: wireErr}) }() // ends with the write, which has a timeout
	return nil
}

// Has reports whether both ends have a feature.
func (c *Conn) Has(feature string) bool { return slices.Contains(c.features, feature) }

// Closed returns a channel that is closed when the connection ends.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// Err returns why the connection ended, or nil if it is open.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// isClosed reports whether the connection has ended.
func (c *Conn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// Close ends the connection.
func (c *Conn) Close() error {
	c.fail(errConnLost)
	return nil
}

// fail ends the connection, once. Waiting callers get errConnLost.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	close(c.closed)
	exchanges := c.exchanges
	c.exchanges = nil
	c.mu.Unlock()
	c.stream.Close()
	for _, x := range exchanges {
		x.finish(errConnLost)
	}
}

// Run reads what the peer sends until the connection ends.
func (c *Conn) Run() {
	for {
		f, err := c.channel.Read()
		if err == nil {
			err = c.dispatch(f)
			c.channel.Release(f)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// frameHandlers are the handlers of the frames that may follow the handshake.
var frameHandlers = map[Kind]func(c *Conn, f Frame) error{
	KindRequest:  (*Conn).handleRequest,
	KindProgress: (*Conn).handleProgress,
	KindResponse: (*Conn).handleResponse,
	KindDone:     (*Conn).handleDone,
	KindData:     (*Conn).handleStreamFrame,
	KindCredit:   (*Conn).handleStreamFrame,
	KindEnd:      (*Conn).handleStreamFrame,
	KindReset:    (*Conn).handleStreamFrame,
}

// dispatch passes one frame to its handler. It never blocks.
func (c *Conn) dispatch(f Frame) error {
	handler, ok := frameHandlers[f.Kind]
	if !ok {
		return protocolError("unexpected frame kind %q", f.Kind)
	}
	return handler(c, f)
}

// protocolError returns an error that ends a connection because of the peer.
func protocolError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrProtocol}, args...)...)
}

// write sends a frame. Only errTooLarge leaves the connection unchanged. The
// caller holds writeMu.
func (c *Conn) write(kind Kind, message any) error {
	return c.withWriteTimeout(func() error { return c.channel.Write(kind, message) })
}

// withWriteTimeout runs a write. It ends the connection if the write fails or
// takes too long.
func (c *Conn) withWriteTimeout(write func() error) error {
	watchdog := time.AfterFunc(c.local.writeTimeout, func() {
		c.fail(fmt.Errorf("%w: write timed out: the peer does not read", errConnLost))
	})
	defer watchdog.Stop()
	err := write()
	if err == nil || errors.Is(err, errTooLarge) {
		return err
	}
	c.fail(err)
	return errConnLost
}

// exchangeByID returns the request that a frame belongs to.
func (c *Conn) exchangeByID(id uint64) (*exchange, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.exchanges[id]
	if x == nil && c.err == nil {
		return nil, protocolError("a message for unknown request %d", id)
	}
	if x == nil {
		return nil, errConnLost
	}
	return x, nil
}
