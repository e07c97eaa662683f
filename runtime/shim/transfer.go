package shim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/runtime"
)

// transfer is a transfer of files that the program has started.
type transfer struct {
	ctx       context.Context //nolint:containedctx // the call that the transfer belongs to
	session   *Session
	conn      *sessionConn
	out       Outgoing
	stream    *Stream
	stopWatch func() bool // stops watching ctx
	timedOut  chan error  // the reason for giving up while the program was silent
	closed    chan struct{}
}

// startTransfer starts a transfer, if necessary on another connection: no file
// is transferred before the program confirms the start. The caller must call
// abort.
func (s *Session) startTransfer(ctx context.Context, what string, r Request) (t *transfer, err error) {
	err = s.withRetry(ctx, what, r.Op == OpUntar || r.Op == OpWrite, func(c *sessionConn) error {
		t, err = s.startTransferOn(ctx, c, r)
		return err
	})
	return t, err
}

func (s *Session) startTransferOn(ctx context.Context, c *sessionConn, r Request) (*transfer, error) {
	if ctx.Err() != nil { // the stream would be reset too late
		return nil, context.Cause(ctx)
	}
	if !c.Has(FeatureFiles) {
		return nil, fmt.Errorf("%w: its shim does not support file transfers", runtime.ErrTainted)
	}
	if (r.Op == OpScan || r.Op == OpWrite) && !c.Has(FeatureTrees) {
		return nil, runtime.ErrUnsupported
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
		err = fmt.Errorf("%w: the transfer ended before it started", runtime.ErrTainted)
	}
	t.abort()
	return nil, err
}

// abort ends a transfer that is still in progress. It may be called more than
// once, but only by one goroutine.
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

// nextEvent waits for the program's next message for the request, with a
// timeout.
func (t *transfer) nextEvent() (event, error) {
	defer t.startWatchdog().Stop()
	return t.waitEvent()
}

// waitEvent is nextEvent without a timeout.
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
	case ev := <-t.out.events: // it arrived just before
		return ev, nil
	default:
		return event{}, errConnLost
	}
}

// startWatchdog limits how long the program may leave the request unanswered,
// from now until the timer is stopped. After that, the transfer ends.
func (t *transfer) startWatchdog() *time.Timer {
	since := time.Now()
	return time.AfterFunc(t.session.responsiveness.timeout, func() {
		err := t.session.requestTimedOut(since)
		select {
		case t.timedOut <- err:
		default: // an earlier error is already there
		}
		t.stream.Reset(err)
	})
}

// requestTimedOut returns the error for a container that has been silent since
// then about a request on an open session. It queries the engine, which may be
// the cause.
func (s *Session) requestTimedOut(since time.Time) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), openTimeout,
		fmt.Errorf("%w: no container status within %s", runtime.ErrUnavailable, openTimeout))
	defer cancel()
	if err := s.checkRunning(ctx); err != nil {
		return exitedOrUnavailable(err)
	}
	return s.responsiveness.recordUnanswered(since)
}

// exitedOrUnavailable returns what the engine's error for a container means for
// a transfer.
func exitedOrUnavailable(err error) error {
	_, failed := errors.AsType[*runtime.StartError](err)
	if failed || errors.Is(err, runtime.ErrNotFound) || errors.Is(err, runtime.ErrNotRunning) {
		return fmt.Errorf("%w: %s", runtime.ErrContainerExited, err.Error())
	}
	return err
}

// connLostError returns why a connection was lost during the transfer: the
// container has exited, or an error that allows a retry.
func (t *transfer) connLostError() error {
	t.session.responsiveness.recordLost(time.Now())
	c, err := t.session.connect(t.ctx)
	switch {
	case t.ctx.Err() != nil:
		return context.Cause(t.ctx)
	case err != nil:
		return exitedOrUnavailable(err)
	case c.bootID != t.conn.bootID:
		return fmt.Errorf("%w: it was restarted", runtime.ErrContainerExited)
	}
	return fmt.Errorf("%w: the connection was lost during the transfer", runtime.ErrUnavailable)
}

// result returns the error with which the request ended, or nil if it
// succeeded.
func (t *transfer) result(ev event, err error) error {
	switch {
	case errors.Is(err, errConnLost):
		return t.connLostError()
	case err != nil:
		return err
	case ev.response == nil:
		return fmt.Errorf("%w: unexpected progress message during a transfer", runtime.ErrTainted)
	case ev.response.Error != nil:
		return ev.response.Error.Err()
	}
	return nil
}
