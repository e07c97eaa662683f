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

// openTimeout bounds how long it takes to open a session: dial and welcome, both.
const openTimeout = 15 * time.Second

// Dial connects to the program in one container: a fresh byte stream, and the
// version that the engine's record of the container has. Its errors are those of
// package runtime: ErrNotFound, ErrNotRunning, ErrUnavailable, ErrTainted when
// something else listens there, and those of runtime.Protocols.Parse.
type Dial func(ctx context.Context) (stream io.ReadWriteCloser, version int, err error)

// errClosed is every call on a session after Close.
var errClosed = fmt.Errorf("%w: the session is closed", runtime.ErrUnavailable)

// sessionConn is a connection to one life of the program in a container.
type sessionConn struct {
	*Conn
	bootID  string
	version int // what the program speaks: requests that differ by it ask here
}

func newSessionConn(stream io.ReadWriteCloser, channel *Channel, reply HandshakeReply, onResponse func()) *sessionConn {
	return &sessionConn{Conn: NewConn(stream, channel, nil, onResponse), bootID: reply.BootID, version: reply.Version}
}

// Session is the conversation with the program in one container. It is opened
// by the first call, opened again when it is lost, and safe for many
// goroutines.
type Session struct {
	dial           Dial
	checkRunning   func(context.Context) error
	mayChange      func() error
	key            []byte
	responsiveness *responsiveness

	// openSem holds one token: whoever has it opens the link. A channel, not a
	// mutex, so that waiting for it ends with the context.
	openSem chan struct{}

	// mu guards what follows. It is held for no I/O.
	mu     sync.Mutex
	conn   *sessionConn // nil when there is none
	closed bool
}

// newSession makes a session and opens nothing.
func newSession(id string, o Options) *Session {
	s := &Session{
		dial:           func(ctx context.Context) (io.ReadWriteCloser, int, error) { return o.Dial(ctx, id) },
		checkRunning:   func(ctx context.Context) error { return o.CheckRunning(ctx, id) },
		mayChange:      o.MayChange,
		key:            DeriveKey(o.Secret, id),
		responsiveness: newResponsiveness(o.UnresponsiveTimeout),
		openSem:        make(chan struct{}, 1),
	}
	if s.mayChange == nil {
		s.mayChange = func() error { return nil }
	}
	return s
}

// Open connects, when the session is not open already. It is a
// *runtime.StartError when the main process could not be started.
func (s *Session) Open(ctx context.Context) error {
	_, err := s.connect(ctx)
	return err
}

// Close ends the session. Commands run on in the container until their timeout,
// which is kept there.
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

// disconnect breaks the link, if there is one.
func (s *Session) disconnect() {
	if c, _ := s.current(); c != nil {
		c.fail(errConnLost)
	}
}

// connect gives the open link, or opens one.
func (s *Session) connect(ctx context.Context) (*sessionConn, error) {
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
	if c, err := s.current(); c != nil || err != nil {
		return c, err
	}
	if err := s.responsiveness.taintedErr(); err != nil {
		return nil, err
	}
	start := time.Now()
	c, err := s.open(ctx)
	if err != nil {
		return nil, s.classifyOpenError(ctx, start, err)
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

// current is the open link; nil when there is none or it is lost.
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

// recordLost notes a request that was lost with its link.
func (s *Session) recordLost(err error) {
	if errors.Is(err, errConnLost) {
		s.responsiveness.recordLost(time.Now())
	}
}

// open dials, says hello and starts to read.
func (s *Session) open(ctx context.Context) (*sessionConn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, errOpenTimeout)
	defer cancel()
	stream, version, err := s.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	// The stream knows no deadline: closing it is what ends a handshake.
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	channel, reply, err := handshake(stream, s.key, version)
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
	c := newSessionConn(stream, channel, reply, s.responsiveness.recordResponse)
	// The goroutine ends when the stream does: by the peer, by Close or by a
	// write that takes too long, all of which close it.
	go c.Run()
	return c, nil
}

// How an attempt to open a session may fail without a word about why.
var (
	errOpenTimeout  = fmt.Errorf("no session within %s", openTimeout)
	errStreamBroken = errors.New("the stream broke")
)

// classifyOpenError tells a container that does not answer from an engine that does not,
// after a session could not be opened. The engine is asked: a broken stream may
// be either's doing.
func (s *Session) classifyOpenError(ctx context.Context, start time.Time, err error) error {
	if ctx.Err() != nil {
		return err
	}
	unresponsive := errors.Is(err, runtime.ErrUnresponsive) || errors.Is(err, errOpenTimeout) || errors.Is(err, errStreamBroken)
	if unresponsive && !errors.Is(err, runtime.ErrUnresponsive) {
		ctx, cancel := context.WithTimeoutCause(ctx, openTimeout,
			fmt.Errorf("%w: no word of the container within %s", runtime.ErrUnavailable, openTimeout))
		defer cancel()
		if runErr := s.checkRunning(ctx); runErr != nil {
			unresponsive, err = false, fmt.Errorf("%w: %w", runErr, err)
		} else {
			err = fmt.Errorf("%w: %w", runtime.ErrUnresponsive, err)
		}
	}
	if !unresponsive {
		s.responsiveness.recordResponse() // nothing is known against the container
		return err
	}
	s.responsiveness.recordOpenFailure(start)
	if tainted := s.responsiveness.check(); tainted != nil {
		return fmt.Errorf("%w: %s", tainted, err.Error())
	}
	return err
}

// handshake opens the channel and judges the welcome.
func handshake(stream io.ReadWriter, key []byte, version int) (*Channel, HandshakeReply, error) {
	channel, reply, err := ServerHandshake(stream, key, version)
	if err != nil {
		return nil, reply, handshakeError(err)
	}
	if reply.Error != nil {
		return nil, reply, reply.Error.Err()
	}
	if reply.BootID == "" {
		return nil, reply, fmt.Errorf("%w: its shim does not say when it began", runtime.ErrTainted)
	}
	return channel, reply, nil
}

// handshakeError tells a stream that broke, which may be tried again, from a
// peer that says nonsense. What the backend knows of it counts more.
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
