package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
)

// openTimeout bounds opening a session: dial and handshake together.
const openTimeout = 15 * time.Second

// Dial connects to the program in one container. It returns a new byte stream
// and the version from the engine's record of the container. Its errors are
// those of package runtime: ErrNotFound, ErrNotRunning, ErrUnavailable,
// ErrTainted if something else listens there, and those of
// runtime.Protocols.Parse.
type Dial func(ctx context.Context) (stream io.ReadWriteCloser, version int, err error)

// errClosed is the error of every call on a session after Close.
var errClosed = fmt.Errorf("%w: session closed", runtime.ErrUnavailable)

// sessionConn is a connection to one boot of the program in a container.
type sessionConn struct {
	*Conn
	bootID  string
	version int // the program's; requests that depend on the version check it
}

func newSessionConn(stream io.ReadWriteCloser, channel *Channel, reply HandshakeReply, handle Handler, onResponse func()) *sessionConn {
	return &sessionConn{Conn: NewConn(stream, channel, handle, onResponse), bootID: reply.BootID, version: reply.Version}
}

// Session is the client's end of the protocol for one container. The first call
// opens it, and it is reopened when it is lost. Its methods may be called by
// multiple goroutines.
type Session struct {
	dial           Dial
	checkRunning   func(context.Context) error
	mayChange      func() error
	key            []byte
	responsiveness *responsiveness
	asked          *Bucket    // requests of the container, on any connection
	servers        askServers // of the requests of the container and of commands

	// openSem holds one token: the goroutine that has it opens the connection.
	// It is a channel, not a mutex, so that waiting for it ends with the
	// context.
	openSem chan struct{}

	// mu guards the fields below. It is never held during I/O.
	mu     sync.Mutex
	conn   *sessionConn // nil if there is none
	closed bool
}

// newSession returns a session without opening it.
func newSession(id string, o Options) *Session {
	s := &Session{
		dial:           func(ctx context.Context) (io.ReadWriteCloser, int, error) { return o.Dial(ctx, id) },
		checkRunning:   func(ctx context.Context) error { return o.CheckRunning(ctx, id) },
		mayChange:      o.MayChange,
		key:            DeriveKey(o.Secret, id),
		responsiveness: newResponsiveness(o.UnresponsiveTimeout),
		asked:          NewBucket(serverRate),
		openSem:        make(chan struct{}, 1),
	}
	if s.mayChange == nil {
		s.mayChange = func() error { return nil }
	}
	return s
}

// Open connects unless the session is already open. It returns a
// *runtime.StartError if the main process could not be started.
func (s *Session) Open(ctx context.Context) error {
	_, err := s.connect(ctx)
	return err
}

// Close ends the session. Commands keep running in the container until their
// timeout, which the program enforces.
func (s *Session) Close() error {
	s.mu.Lock()
	s.closed = true
	conn := s.conn
	s.conn = nil
	s.mu.Unlock()
	if conn != nil {
		conn.fail(errClosed)
	}
	return nil
}

// Disconnect closes the connection, if there is one. The next call opens another
// one. A backend calls it when the engine has started the container again and may
// have left the stream to the earlier program open.
func (s *Session) Disconnect() {
	if c, _ := s.current(); c != nil {
		c.fail(errConnLost)
	}
}

// connect returns the open connection or opens one.
func (s *Session) connect(ctx context.Context) (*sessionConn, error) {
	return s.connectWith(ctx, s.classifyOpenError)
}

// connectWith is connect with another judgment of an attempt that has failed.
func (s *Session) connectWith(ctx context.Context, failed func(ctx context.Context, start time.Time, err error) error) (*sessionConn, error) {
	if err := s.responsiveness.taintedErr(); err != nil {
		return nil, err
	}
	if c, err := s.current(); c != nil || err != nil {
		return c, err
	}
	select {
	case s.openSem <- struct{}{}:
		defer func() { <-s.openSem }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if ctx.Err() != nil { // both were ready
		return nil, context.Cause(ctx)
	}
	if c, err := s.current(); c != nil || err != nil {
		return c, err
	}
	if err := s.responsiveness.taintedErr(); err != nil {
		return nil, err
	}
	start := time.Now()
	c, err := s.open(ctx)
	if err != nil {
		return nil, failed(ctx, start, err)
	}
	s.responsiveness.recordOpened()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.fail(errClosed)
		return nil, errClosed
	}
	s.conn = c
	return c, nil
}

// current returns the open connection, or nil if there is none or it is lost.
func (s *Session) current() (*sessionConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.conn != nil && s.conn.isClosed() {
		s.conn = nil
	}
	return s.conn, nil
}

// recordLost records a request that was lost with its connection.
func (s *Session) recordLost(err error) {
	if errors.Is(err, errConnLost) {
		s.responsiveness.recordLost(time.Now())
	}
}

// open dials, runs the handshake and starts to read.
func (s *Session) open(ctx context.Context) (*sessionConn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, errOpenTimeout)
	defer cancel()
	stream, version, err := s.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	// The stream has no deadlines: only closing it ends a handshake.
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	channel, reply, err := handshake(stream, s.key, version)
	if _, failed := errors.AsType[*runtime.StartError](err); failed {
		awaitEnd(stream)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		stream.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("open a session: %w", err)
	}
	c := newSessionConn(stream, channel, reply, s.handleAsk, s.responsiveness.recordResponse)
	// The goroutine ends with the stream: when the peer, Close or a write that
	// times out closes it.
	go c.Run()
	return c, nil
}

// awaitEnd waits until a program whose main process could not be started closes the
// stream, which it does once it has our proof. An engine may drop what was sent on a
// stream that is closed at once, and the program would wait for another session.
func awaitEnd(stream io.ReadCloser) {
	timer := time.AfterFunc(endTimeout, func() { stream.Close() })
	defer timer.Stop()
	_, _ = stream.Read(make([]byte, 1)) // its end, or an error
}

// endTimeout bounds awaitEnd.
const endTimeout = 5 * time.Second

// Errors of opening a session that do not identify the cause.
var (
	errOpenTimeout  = fmt.Errorf("no session within %s", openTimeout)
	errStreamBroken = errors.New("stream broken")
)

// classifyOpenError distinguishes an unresponsive container from an
// unresponsive engine after a session could not be opened. It queries the
// engine, because either can break a stream.
func (s *Session) classifyOpenError(ctx context.Context, start time.Time, err error) error {
	if ctx.Err() != nil {
		return err
	}
	unresponsive := errors.Is(err, runtime.ErrUnresponsive) || errors.Is(err, errOpenTimeout) || errors.Is(err, errStreamBroken)
	if unresponsive && !errors.Is(err, runtime.ErrUnresponsive) {
		ctx, cancel := context.WithTimeoutCause(ctx, openTimeout,
			fmt.Errorf("%w: no container status within %s", runtime.ErrUnavailable, openTimeout))
		defer cancel()
		if runErr := s.checkRunning(ctx); runErr != nil {
			unresponsive, err = false, fmt.Errorf("%w: %w", runErr, err)
		} else {
			err = fmt.Errorf("%w: %w", runtime.ErrUnresponsive, err)
		}
	}
	if !unresponsive {
		s.responsiveness.recordResponse() // nothing indicates that the container is unresponsive
		return err
	}
	s.responsiveness.recordOpenFailure(start)
	if tainted := s.responsiveness.check(); tainted != nil {
		return fmt.Errorf("%w: %s", tainted, err.Error())
	}
	return err
}

// handshake opens the channel and checks the reply.
func handshake(stream io.ReadWriter, key []byte, version int) (*Channel, HandshakeReply, error) {
	channel, reply, err := ServerHandshake(stream, key, version)
	reply.Error.limit()
	if err != nil {
		return nil, reply, handshakeError(err)
	}
	if reply.Error != nil {
		return nil, reply, reply.Error.Err()
	}
	if reply.BootID == "" {
		return nil, reply, fmt.Errorf("%w: its shim sent no boot ID", runtime.ErrTainted)
	}
	return channel, reply, nil
}

// handshakeError distinguishes a broken stream, which may be retried, from a
// peer that violates the protocol. Errors that the backend recognizes take
// precedence.
func handshakeError(err error) error {
	if errors.Is(err, runtime.ErrTainted) {
		return err
	}
	if errors.Is(err, ErrProtocol) {
		return fmt.Errorf("%w: %w", runtime.ErrTainted, err)
	}
	for _, known := range []error{runtime.ErrUnavailable, runtime.ErrNotRunning, runtime.ErrNotFound} {
		if errors.Is(err, known) {
			return fmt.Errorf("%w: %w", runtime.ErrUnavailable, err)
		}
	}
	return fmt.Errorf("%w: %w", errStreamBroken, err)
}
