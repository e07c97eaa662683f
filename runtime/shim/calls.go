package shim

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/runtime"
)

// callTimeout bounds Restart, RecordBaseline and Wipe. Killing processes and
// emptying volumes takes milliseconds unless something is wrong.
const callTimeout = 2 * time.Minute

// ScanTimeout is how long the program scans for changes before it answers that
// it cannot finish. scanCallTimeout is how long the server waits for that
// answer. A scan that takes this long means a large tree, not a tainted
// container.
const (
	ScanTimeout     = 90 * time.Second
	scanCallTimeout = ScanTimeout + 15*time.Second
)

// newRunID returns a run ID for a command that has none.
func newRunID() string { return rand.Text() }

// Restart implements runtime.Lifecycle.Restart. It kills the processes without
// asking them to exit first: what a main process saves when it exits would
// overwrite files that were just copied in for the next one. If the engine has
// restarted the container, its main process waits for StartMain, and the error
// is runtime.ErrNotRunning.
func (s *Session) Restart(ctx context.Context, fence int64) error {
	_, err := s.call(ctx, "restart", Request{Op: OpRestart, Fence: fence})
	return err
}

// NoFence is the fence of a request by no flow.
const NoFence = 0

// StartMain implements runtime.Lifecycle.Start for a container whose process 1
// runs, and Restart for one that its engine has restarted.
func (s *Session) StartMain(ctx context.Context, fence int64) error {
	_, err := s.call(ctx, "start main", Request{Op: OpStartMain, Fence: fence})
	return err
}

// RecordBaseline implements runtime.Recycler.RecordBaseline.
func (s *Session) RecordBaseline(ctx context.Context, fence int64) error {
	_, err := s.call(ctx, "baseline", Request{Op: OpRecordBaseline, Fence: fence})
	return err
}

// Stop implements runtime.Lifecycle.Stop.
func (s *Session) Stop(ctx context.Context, fence int64) error {
	_, err := s.call(ctx, "stop", Request{Op: OpStop, Fence: fence})
	return err
}

// Halt asks the main process to exit and waits until it has, within its grace
// period. Init keeps running. Halt may be called again: the grace period
// continues.
func (s *Session) Halt(ctx context.Context) error {
	_, err := s.request(ctx, "halt", Request{Op: OpHalt})
	return err
}

// Wipe implements runtime.Recycler.Wipe, Stop included, for a backend whose log
// has an exact position for its end.
func (s *Session) Wipe(ctx context.Context, fence int64) error {
	_, err := s.call(ctx, "wipe", Request{Op: OpWipe, Fence: fence})
	return err
}

// LastModified implements runtime.Files.LastModified.
func (s *Session) LastModified(ctx context.Context, dirs []string) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, scanCallTimeout,
		fmt.Errorf("%w: no answer within %s", runtime.ErrScanIncomplete, scanCallTimeout))
	defer cancel()
	response, err := s.call(ctx, "scan for changes", Request{Op: OpLastModified, Paths: dirs})
	if err != nil {
		return time.Time{}, err
	}
	return response.Time, nil
}

// call is request with callTimeout.
func (s *Session) call(ctx context.Context, what string, r Request) (*Response, error) {
	timeout := fmt.Errorf("%w: no answer within %s", runtime.ErrTainted, callTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, timeout)
	defer cancel()
	return s.request(ctx, what, r)
}

// request sends a request that is safe to send twice and waits for its
// response.
func (s *Session) request(ctx context.Context, what string, r Request) (response *Response, err error) {
	err = s.withRetry(ctx, what, r.Op != OpLastModified, func(c *sessionConn) error {
		response, err = roundTrip(ctx, c, r)
		return err
	})
	return response, err
}

// withRetry runs attempt on a connection. It retries on another connection as
// long as that may help. If the engine becomes unavailable, it retries only what
// changes the container, because the change may have been made.
func (s *Session) withRetry(ctx context.Context, what string, changes bool, attempt func(*sessionConn) error) error {
	if ctx.Err() != nil { // an answer that is already there would win, at times
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	bootID := ""
	for wait := reopens.Retries(); ; {
		if changes {
			if err := s.mayChange(); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		c, err := s.connect(ctx)
		if !changes && errors.Is(err, runtime.ErrUnavailable) {
			return fmt.Errorf("%s: %w", what, err) // no answer is lost
		}
		if err == nil && bootID != "" && bootID != c.bootID {
			return fmt.Errorf("%s: %w: it was restarted", what, runtime.ErrContainerExited)
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
		case <-time.After(wait.Next()):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
}

// roundTrip sends one request on one connection and waits for its response.
func roundTrip(ctx context.Context, c *sessionConn, r Request) (*Response, error) {
	out, err := c.Call(r)
	if err != nil {
		return nil, err
	}
	defer out.Abandon()
	select {
	case ev := <-out.events:
		if ev.response == nil {
			return nil, fmt.Errorf("%w: a progress message for a request that has none", ErrProtocol)
		}
		if ev.response.Error != nil {
			return nil, &answerError{ev.response.Error.Err()}
		}
		return ev.response, nil
	case <-c.closed:
		return nil, errConnLost
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// answerError is an error that a program has answered.
type answerError struct{ err error }

func (e *answerError) Error() string { return e.err.Error() }
func (e *answerError) Unwrap() error { return e.err }

// endAnswers are the errors that a program may answer to a request that belongs to
// the end of a claim.
var endAnswers = []error{
	runtime.ErrStaleFence, runtime.ErrUnavailable, runtime.ErrTainted, runtime.ErrNotRunning, runtime.ErrContainerExited, runtime.ErrUnsupported,
}

// asEndError returns the error of a request that belongs to the end of a claim. A
// container whose program answers what no program of ours does is tainted: a
// release that fails for it would fail each time.
func asEndError(err error) error {
	answer, ok := errors.AsType[*answerError](err)
	isEnd := func(known error) bool { return errors.Is(answer, known) }
	if errors.Is(err, ErrProtocol) || ok && !slices.ContainsFunc(endAnswers, isEnd) {
		return fmt.Errorf("%w: %w", runtime.ErrTainted, err)
	}
	return err
}
