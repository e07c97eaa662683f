package shim

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/hostler/hostler/runtime"
)

// callTimeout bounds Restart, RecordBaseline and Wipe: ending processes and emptying
// volumes takes milliseconds, unless something is wrong.
const callTimeout = 2 * time.Minute

// ScanTimeout is for how long the program looks for changes before it answers that
// it cannot finish, and scanCallTimeout for how long that answer is waited for.
// What takes this long is a large tree, not a container out of control.
const (
	ScanTimeout     = 90 * time.Second
	scanCallTimeout = ScanTimeout + 15*time.Second
)

// newRunID makes up the key of a run that has none.
func newRunID() string { return rand.Text() }

// Restart is runtime.Lifecycle.Restart. The processes are killed without being
// asked first: what a main process saves at its end would go over files that
// were just put there for the next one.
func (s *Session) Restart(ctx context.Context, fence int64) error {
	_, err := s.call(ctx, "restart", Request{Op: OpRestart, Fence: fence})
	return err
}

// StartMain starts the main process when there is none, in a container that its
// engine has started again. It ends nothing, and so needs no fence.
func (s *Session) StartMain(ctx context.Context) error {
	_, err := s.call(ctx, "begin", Request{Op: OpStartMain})
	return err
}

// RaiseFence has the container refuse what carries a smaller fence, and changes
// nothing else.
func (s *Session) RaiseFence(ctx context.Context, fence int64) error {
	_, err := s.call(ctx, "raise the fence", Request{Op: OpRaiseFence, Fence: fence})
	return err
}

// RecordBaseline is runtime.Recycler.RecordBaseline. The paths are what the engine says that has
// changed in the container so far, besides what the program finds by itself.
func (s *Session) RecordBaseline(ctx context.Context, fence int64, paths []string) error {
	_, err := s.call(ctx, "baseline", Request{Op: OpRecordBaseline, Fence: fence, Paths: paths})
	return err
}

// Stop is runtime.Lifecycle.Stop. A backend whose engine tells which files have
// changed asks it between Stop and Wipe: before, a process could still change
// one more.
func (s *Session) Stop(ctx context.Context, fence int64) error {
	_, err := s.call(ctx, "stop", Request{Op: OpStop, Fence: fence})
	return err
}

// Halt asks the main process to end and waits until it has, within its grace
// period. Init stays. It may be called again: the grace period goes on.
func (s *Session) Halt(ctx context.Context) error {
	_, err := s.request(ctx, "halt", Request{Op: OpHalt})
	return err
}

// Wipe is runtime.Recycler.Wipe, Stop included, for a backend whose log has an
// exact place for its end.
func (s *Session) Wipe(ctx context.Context, fence int64) error {
	_, err := s.call(ctx, "wipe", Request{Op: OpWipe, Fence: fence})
	return err
}

// LastModified is runtime.Files.Changed.
func (s *Session) LastModified(ctx context.Context, dirs []string) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, scanCallTimeout,
		fmt.Errorf("%w: no answer in %s", runtime.ErrScanIncomplete, scanCallTimeout))
	defer cancel()
	response, err := s.call(ctx, "look for changes", Request{Op: OpLastModified, Paths: dirs})
	if err != nil {
		return time.Time{}, err
	}
	return response.Time, nil
}

// call is request with callTimeout.
func (s *Session) call(ctx context.Context, what string, r Request) (*Response, error) {
	timeout := fmt.Errorf("%w: no answer in %s", runtime.ErrTainted, callTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, timeout)
	defer cancel()
	return s.request(ctx, what, r)
}

// request sends a request that is safe to send twice, and waits for its answer.
func (s *Session) request(ctx context.Context, what string, r Request) (response *Response, err error) {
	err = s.withRetry(ctx, what, r.Op != OpLastModified, func(c *sessionConn) error {
		response, err = roundTrip(ctx, c, r)
		return err
	})
	return response, err
}

// withRetry makes an attempt on a connection, again on another one as long as that
// may help.
func (s *Session) withRetry(ctx context.Context, what string, changes bool, attempt func(*sessionConn) error) error {
	bootID := ""
	for backoff := minReopenBackoff; ; backoff = min(2*backoff, maxReopenBackoff) {
		if changes {
			if err := s.mayChange(); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		c, err := s.connect(ctx)
		if err == nil && bootID != "" && bootID != c.bootID {
			return fmt.Errorf("%s: %w: it was started again", what, runtime.ErrContainerExited)
		}
		if err == nil {
			bootID = c.bootID
			err = attempt(c)
			s.recordLost(err)
		}
		if err == nil {
			return nil
		}
		if bootID == "" || !isRetryable(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
}

// roundTrip sends one request on one connection and waits for its answer.
func roundTrip(ctx context.Context, c *sessionConn, r Request) (*Response, error) {
	out, err := c.Call(r)
	if err != nil {
		return nil, err
	}
	defer out.Abandon()
	select {
	case ev := <-out.events:
		if ev.response == nil {
			return nil, fmt.Errorf("%w: a note on a request that has none", ErrProtocol)
		}
		if ev.response.Error != nil {
			return nil, ev.response.Error.Err()
		}
		return ev.response, nil
	case <-c.closed:
		return nil, errConnLost
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
