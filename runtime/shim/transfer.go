package shim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/runtime"
)

// transfer is an OpTar or OpUntar that the program has begun.
type transfer struct {
	ctx       context.Context //nolint:containedctx // the call that the transfer belongs to
	session   *Session
	conn      *sessionConn
	out       Outgoing
	stream    *Stream
	stopWatch func() bool // ends the watch over ctx
	timedOut  chan error  // why it was given up while the program said nothing
	closed    chan struct{}
}

// startTransfer begins one, on another connection if need be: no file is moved before
// the program says that it has begun. The caller closes it.
func (s *Session) startTransfer(ctx context.Context, what string, op Op, dir string) (t *transfer, err error) {
	err = s.withRetry(ctx, what, op == OpUntar, func(c *sessionConn) error {
		t, err = s.startTransferOn(ctx, c, Request{Op: op, Paths: []string{dir}, Streams: 1})
		return err
	})
	return t, err
}

func (s *Session) startTransferOn(ctx context.Context, c *sessionConn, r Request) (*transfer, error) {
	if !c.Has(FeatureFiles) {
		return nil, fmt.Errorf("%w: its shim does not move files", runtime.ErrTainted)
	}
	out, err := c.Call(r)
	if err != nil {
		return nil, err
	}
	t := &transfer{
		ctx: ctx, session: s, conn: c, out: out, stream: out.Stream(0),
		timedOut: make(chan error, 1), closed: make(chan struct{}),
	}
	t.stopWatch = context.AfterFunc(ctx, func() { t.stream.Reset(context.Cause(ctx)) })
	ev, err := t.nextEvent()
	switch {
	case err != nil:
	case ev.response == nil:
		return t, nil
	case ev.response.Error != nil:
		err = ev.response.Error.Err()
	default:
		err = fmt.Errorf("%w: it has ended before it began", runtime.ErrTainted)
	}
	t.abort()
	return nil, err
}

// abort gives up what is still under way. It may be called again, and is for one
// goroutine.
func (t *transfer) abort() {
	select {
	case <-t.closed:
		return
	default:
	}
	close(t.closed)
	t.stopWatch()
	t.out.Abandon()
}

// nextEvent waits for the next thing that the program says of the request.
func (t *transfer) nextEvent() (event, error) {
	defer t.startWatchdog().Stop()
	return t.waitEvent()
}

// waitEvent is next without a limit.
func (t *transfer) waitEvent() (event, error) {
	select {
	case ev := <-t.out.events:
		return ev, nil
	default:
	}
	select {
	case ev := <-t.out.events:
		return ev, nil
	case err := <-t.timedOut:
		return event{}, err
	case <-t.conn.closed:
	case <-t.ctx.Done():
		return event{}, context.Cause(t.ctx)
	}
	select {
	case ev := <-t.out.events: // it came just before
		return ev, nil
	default:
		return event{}, errConnLost
	}
}

// startWatchdog gives the program as long as it may leave a request unanswered, from now
// until the timer is stopped. Then the transfer is over.
func (t *transfer) startWatchdog() *time.Timer {
	since := time.Now()
	return time.AfterFunc(t.session.responsiveness.timeout, func() {
		err := t.session.requestTimedOut(since)
		select {
		case t.timedOut <- err:
		default: // it has been said
		}
		t.stream.Reset(err)
	})
}

// requestTimedOut judges a container that has said nothing since then of a request on
// an open session. The engine is asked: it may be to blame.
func (s *Session) requestTimedOut(since time.Time) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), openTimeout,
		fmt.Errorf("%w: no word of the container within %s", runtime.ErrUnavailable, openTimeout))
	defer cancel()
	if err := s.checkRunning(ctx); err != nil {
		return exitedOrUnavailable(err)
	}
	return s.responsiveness.recordUnanswered(since)
}

// exitedOrUnavailable is what the engine's word on a container means for a transfer.
func exitedOrUnavailable(err error) error {
	_, failed := errors.AsType[*runtime.StartError](err)
	if failed || errors.Is(err, runtime.ErrNotFound) || errors.Is(err, runtime.ErrNotRunning) {
		return fmt.Errorf("%w: %s", runtime.ErrContainerExited, err.Error())
	}
	return err
}

// connLostError is why a connection was lost in the middle of the transfer: because the
// container has ended, or else a reason to try again.
func (t *transfer) connLostError() error {
	t.session.responsiveness.recordLost(time.Now())
	c, err := t.session.connect(t.ctx)
	switch {
	case t.ctx.Err() != nil:
		return context.Cause(t.ctx)
	case err != nil:
		return exitedOrUnavailable(err)
	case c.bootID != t.conn.bootID:
		return fmt.Errorf("%w: it was started again", runtime.ErrContainerExited)
	}
	return fmt.Errorf("%w: the session was lost in the middle", runtime.ErrUnavailable)
}

// result is what the end of the request means: nil for a good one.
func (t *transfer) result(ev event, err error) error {
	switch {
	case errors.Is(err, errConnLost):
		return t.connLostError()
	case err != nil:
		return err
	case ev.response == nil:
		return fmt.Errorf("%w: a note on a transfer under way", runtime.ErrTainted)
	case ev.response.Error != nil:
		return ev.response.Error.Err()
	}
	return nil
}
