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
// package runtime: ErrNotFound, ErrNotRunning, ErrUnavailable, ErrDoomed when
// something else listens there, and those of runtime.Protocols.Parse.
type Dial func(ctx context.Context) (stream io.ReadWriteCloser, version int, err error)

// errClosed is every call on a session after Close.
var errClosed = fmt.Errorf("%w: the session is closed", runtime.ErrUnavailable)

// link is a connection to one life of the program in a container.
type link struct {
	*Conn
	boot    string
	version int // what the program speaks: requests that differ by it ask here
}

func newLink(stream io.ReadWriteCloser, channel *Channel, welcome Welcome, answered func()) *link {
	return &link{Conn: NewConn(stream, channel, nil, answered), boot: welcome.Boot, version: welcome.Version}
}

// Session is the conversation with the program in one container. It is opened
// by the first call, opened again when it is lost, and safe for many
// goroutines.
type Session struct {
	dial      Dial
	running   func(context.Context) error
	mayChange func() error
	key       []byte
	silence   *silence

	// turn holds one token: whoever has it opens the link. A channel, not a
	// mutex, so that waiting for it ends with the context.
	turn chan struct{}

	// mu guards what follows. It is held for no I/O.
	mu     sync.Mutex
	link   *link // nil when there is none
	closed bool
}

// newSession makes a session and opens nothing.
func newSession(id string, o Options) *Session {
	s := &Session{
		dial:      func(ctx context.Context) (io.ReadWriteCloser, int, error) { return o.Dial(ctx, id) },
		running:   func(ctx context.Context) error { return o.Running(ctx, id) },
		mayChange: o.MayChange,
		key:       Key(o.Secret, id),
		silence:   newSilence(o.UnresponsiveTimeout),
		turn:      make(chan struct{}, 1),
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
	old := s.link
	s.link = nil
	s.mu.Unlock()
	if old != nil {
		old.fail(errClosed)
	}
	return nil
}

// hangUp breaks the link, if there is one.
func (s *Session) hangUp() {
	if l, _ := s.current(); l != nil {
		l.fail(errLinkLost)
	}
}

// connect gives the open link, or opens one.
func (s *Session) connect(ctx context.Context) (*link, error) {
	if err := s.silence.verdict(); err != nil {
		return nil, err
	}
	if l, err := s.current(); l != nil || err != nil {
		return l, err
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l, err := s.current(); l != nil || err != nil {
		return l, err
	}
	if err := s.silence.verdict(); err != nil {
		return nil, err
	}
	begun := time.Now()
	l, err := s.open(ctx)
	if err != nil {
		return nil, s.judge(ctx, begun, err)
	}
	s.silence.opened()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		l.fail(errClosed)
		return nil, errClosed
	}
	s.link = l
	return l, nil
}

// current is the open link; nil when there is none or it is lost.
func (s *Session) current() (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.link != nil && s.link.isLost() {
		s.link = nil
	}
	return s.link, nil
}

// lost notes a request that was lost with its link.
func (s *Session) lost(err error) {
	if errors.Is(err, errLinkLost) {
		s.silence.lost(time.Now())
	}
}

// open dials, says hello and starts to read.
func (s *Session) open(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, errOpenTimeout)
	defer cancel()
	stream, version, err := s.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	// The stream knows no deadline: closing it is what ends a handshake.
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	channel, welcome, err := shakeHands(stream, s.key, version)
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
	l := newLink(stream, channel, welcome, s.silence.answered)
	// The goroutine ends when the stream does: by the peer, by Close or by a
	// write that takes too long, all of which close it.
	go l.Run()
	return l, nil
}

// How an attempt to open a session may fail without a word about why.
var (
	errOpenTimeout = fmt.Errorf("no session within %s", openTimeout)
	errBroken      = errors.New("the stream broke")
)

// judge tells a container that does not answer from an engine that does not,
// after a session could not be opened. The engine is asked: a broken stream may
// be either's doing.
func (s *Session) judge(ctx context.Context, begun time.Time, err error) error {
	if ctx.Err() != nil {
		return err
	}
	mute := errors.Is(err, runtime.ErrUnresponsive) || errors.Is(err, errOpenTimeout) || errors.Is(err, errBroken)
	if mute && !errors.Is(err, runtime.ErrUnresponsive) {
		ctx, cancel := context.WithTimeoutCause(ctx, openTimeout,
			fmt.Errorf("%w: no word of the container within %s", runtime.ErrUnavailable, openTimeout))
		defer cancel()
		if asked := s.running(ctx); asked != nil {
			mute, err = false, fmt.Errorf("%w: %w", asked, err)
		} else {
			err = fmt.Errorf("%w: %w", runtime.ErrUnresponsive, err)
		}
	}
	if !mute {
		s.silence.answered() // nothing is known against the container
		return err
	}
	s.silence.refused(begun)
	if tainted := s.silence.err(); tainted != nil {
		return fmt.Errorf("%w: %s", tainted, err.Error())
	}
	return err
}

// shakeHands opens the channel and judges the welcome.
func shakeHands(stream io.ReadWriter, key []byte, version int) (*Channel, Welcome, error) {
	channel, welcome, err := Call(stream, key, version)
	if err != nil {
		return nil, welcome, handshakeError(err)
	}
	if welcome.Fault != nil {
		return nil, welcome, welcome.Fault.Err()
	}
	if welcome.Boot == "" {
		return nil, welcome, fmt.Errorf("%w: its shim does not say when it began", runtime.ErrDoomed)
	}
	return channel, welcome, nil
}

// handshakeError tells a stream that broke, which may be tried again, from a
// peer that says nonsense. What the backend knows of it counts more.
func handshakeError(err error) error {
	if errors.Is(err, runtime.ErrDoomed) {
		return err
	}
	if errors.Is(err, ErrProtocol) {
		return fmt.Errorf("%w: %w", runtime.ErrDoomed, err)
	}
	for _, known := range []error{runtime.ErrUnavailable, runtime.ErrNotRunning, runtime.ErrNotFound} {
		if errors.Is(err, known) {
			return fmt.Errorf("%w: %w", runtime.ErrUnavailable, err)
		}
	}
	return fmt.Errorf("%w: %w", errBroken, err)
}
