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
var errConnLost = errors.New("the session was lost")

// errTooManyOpen refuses a request that the peer would not take.
var errTooManyOpen = fmt.Errorf("%w: too many requests are unanswered", runtime.ErrUnavailable)

// Handler begins a request of the peer. It is called in the order in which the
// requests arrive, must not block, and sees to it that each is answered. An
// error ends the connection.
type Handler func(in *Incoming) error

// Conn is a connection between a server and the program in a container, after
// the handshake. Both ends are alike: each may send requests, and serves those of
// the other with its Handler. A request may have streams of bytes in both
// directions. Its methods may be called by many goroutines at once.
//
// Nothing that the peer does makes a Conn hold more than the limits of its end,
// and nothing delays its reading: each wait for a peer is on a goroutine of its
// own. A peer that breaks the protocol or goes beyond a limit loses the
// connection: Err is ErrProtocol then.
type Conn struct {
	stream     io.ReadWriteCloser
	channel    *Channel // on the stream
	local      Role
	remote     Role
	features   []string // those that both ends have
	handle     Handler
	onResponse func()        // called at each answer
	closed     chan struct{} // closed when the connection is over

	writeMu sync.Mutex // guards writing to channel; a write is bounded

	// mu guards what follows. It may be taken while writeMu is held.
	mu             sync.Mutex
	lastSentID     uint64 // the number of the last request of ours
	lastReceivedID uint64 // that of the last one of the peer's
	exchanges      map[uint64]*exchange
	outgoing       usage // by our requests
	incoming       usage // by the peer's
	livenessTimer  *time.Timer
	err            error // why it is over
}

// usage is what the open requests of one end take.
type usage struct{ requests, streams int }

// fits reports whether one more request is within an end's limits.
func (u usage) fits(streams int, limits Role) bool {
	return u.requests < limits.maxRequests && u.streams+streams <= limits.maxStreams
}

// NewConn makes a connection of a channel. Nothing is read before Run. Both
// functions may be nil: a Conn without a handler answers that it knows no
// requests.
func NewConn(stream io.ReadWriteCloser, channel *Channel, handle Handler, onResponse func()) *Conn {
	if handle == nil {
		handle = rejectRequest
	}
	if onResponse == nil {
		onResponse = func() {}
	}
	return &Conn{
		stream: stream, channel: channel, local: channel.local, remote: channel.remote,
		features: channel.features, handle: handle, onResponse: onResponse,
		lastSentID: channel.local.firstID, lastReceivedID: channel.remote.firstID,
		closed: make(chan struct{}), exchanges: make(map[uint64]*exchange),
	}
}

// rejectRequest is the handler of an end that serves nothing.
func rejectRequest(in *Incoming) error {
	if in.OneWay() {
		return nil
	}
	wireErr := &WireError{Code: CodeUnsupported, Detail: "no request is called " + fmt.Sprintf("%.64q", in.Request.Op)}
	go func() { _ = in.Respond(Response{Error: wireErr}) }() // ends with the write, which is bounded
	return nil
}

// Has reports whether both ends have a feature.
func (c *Conn) Has(feature string) bool { return slices.Contains(c.features, feature) }

// Closed is closed when the connection is over.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// Err is why the connection is over, nil if it is not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// isClosed reports whether the connection is over.
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

// fail ends the connection, once. Waiting callers see lost.
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

// Run reads what the peer sends until the connection is over.
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

// frameHandlers are what may come after the handshake.
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

// dispatch hands one frame to whom it is for. It never waits.
func (c *Conn) dispatch(f Frame) error {
	handler, ok := frameHandlers[f.Kind]
	if !ok {
		return protocolError("a frame of kind %q", f.Kind)
	}
	return handler(c, f)
}

// protocolError is what ends a connection because of the peer.
func protocolError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrProtocol}, args...)...)
}

// write sends a frame. Only errTooLarge leaves the connection as it was. The
// caller holds writeMu.
func (c *Conn) write(kind Kind, message any) error {
	return c.withWriteTimeout(func() error { return c.channel.Write(kind, message) })
}

// withWriteTimeout does a write, and ends the connection when it takes too long or fails.
func (c *Conn) withWriteTimeout(write func() error) error {
	watchdog := time.AfterFunc(c.local.writeTimeout, func() {
		c.fail(fmt.Errorf("%w: the peer does not read", errConnLost))
	})
	defer watchdog.Stop()
	err := write()
	if err == nil || errors.Is(err, errTooLarge) {
		return err
	}
	c.fail(err)
	return errConnLost
}

// exchangeByID finds the request that a frame is about.
func (c *Conn) exchangeByID(id uint64) (*exchange, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.exchanges[id]
	if x == nil && c.err == nil {
		return nil, protocolError("a message about request %d, which is none", id)
	}
	if x == nil {
		return nil, errConnLost
	}
	return x, nil
}
