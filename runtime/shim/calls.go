package shim

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/hostler/hostler/runtime"
)

// callTimeout bounds Restart, Seal and Wipe: ending processes and emptying
// volumes takes milliseconds, unless something is wrong.
const callTimeout = 2 * time.Minute

// newKey makes up the key of a run that has none.
func newKey() string { return rand.Text() }

// Restart is runtime.Lifecycle.Restart. The processes are killed without being
// asked first: what a main process saves at its end would go over files that
// were just put there for the next one.
func (s *Session) Restart(ctx context.Context) error {
	return s.call(ctx, "restart", Request{Op: OpRestart})
}

// Seal is runtime.Recycler.Seal. The paths are what the engine says that has
// changed in the container so far, besides what the program finds by itself.
func (s *Session) Seal(ctx context.Context, paths []string) error {
	return s.call(ctx, "seal", Request{Op: OpSeal, Paths: paths})
}

// Stop ends every process in the container, the main one too. A backend whose
// engine tells which files have changed asks it between Stop and Wipe: before,
// a process could still change one more.
func (s *Session) Stop(ctx context.Context) error {
	return s.call(ctx, "stop", Request{Op: OpStop})
}

// Wipe is runtime.Recycler.Wipe, Stop included. The paths are what the engine
// says that has changed by now: the same as at Seal, or it is not clean.
func (s *Session) Wipe(ctx context.Context, paths []string) error {
	return s.call(ctx, "wipe", Request{Op: OpWipe, Paths: paths})
}

// call sends a request that is safe to send twice, and waits for its answer.
func (s *Session) call(ctx context.Context, what string, r Request) error {
	timeout := fmt.Errorf("%w: no answer in %s", runtime.ErrDoomed, callTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, timeout)
	defer cancel()
	boot := ""
	for pause := reopenFirst; ; pause = min(2*pause, reopenMost) {
		l, err := s.connect(ctx)
		if err == nil && boot != "" && boot != l.boot {
			return fmt.Errorf("%s: %w: it was started anew", what, runtime.ErrLost)
		}
		if err == nil {
			boot = l.boot
			err = l.do(ctx, r)
		}
		if err == nil {
			return nil
		}
		if boot == "" || !retriable(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
}

// do sends one request on one link and waits for its answer.
func (l *link) do(ctx context.Context, r Request) error {
	id, events, err := l.ask(r)
	if err != nil {
		return err
	}
	defer l.forget(id)
	select {
	case ev := <-events:
		if ev.answer == nil {
			return fmt.Errorf("%w: a note on a request that has none", ErrProtocol)
		}
		_, err := outcome(ev.answer)
		if ev.answer.Fault == nil {
			return nil
		}
		return err
	case <-l.lost:
		return errLinkLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
