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

// LookTime is for how long the program looks for changes before it answers that
// it cannot finish, and lookTimeout for how long that answer is waited for.
// What takes this long is a large tree, not a container out of control.
const (
	LookTime    = 90 * time.Second
	lookTimeout = LookTime + 15*time.Second
)

// newKey makes up the key of a run that has none.
func newKey() string { return rand.Text() }

// Restart is runtime.Lifecycle.Restart. The processes are killed without being
// asked first: what a main process saves at its end would go over files that
// were just put there for the next one.
func (s *Session) Restart(ctx context.Context, fence int64) error {
	_, err := s.call(ctx, "restart", Request{Op: OpRestart, Fence: fence})
	return err
}

// Begin starts the main process when there is none, in a container that its
// engine has started again. It ends nothing, and so needs no fence.
func (s *Session) Begin(ctx context.Context) error {
	_, err := s.call(ctx, "begin", Request{Op: OpBegin})
	return err
}

// Raise has the container refuse what carries a smaller fence, and changes
// nothing else.
func (s *Session) Raise(ctx context.Context, fence int64) error {
	_, err := s.call(ctx, "raise the fence", Request{Op: OpRaise, Fence: fence})
	return err
}

// Seal is runtime.Recycler.Seal. The paths are what the engine says that has
// changed in the container so far, besides what the program finds by itself.
func (s *Session) Seal(ctx context.Context, fence int64, paths []string) error {
	_, err := s.call(ctx, "baseline", Request{Op: OpSeal, Fence: fence, Paths: paths})
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

// Changed is runtime.Files.Changed.
func (s *Session) Changed(ctx context.Context, dirs []string) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookTimeout,
		fmt.Errorf("%w: no answer in %s", runtime.ErrUnfinished, lookTimeout))
	defer cancel()
	answer, err := s.call(ctx, "look for changes", Request{Op: OpChanged, Paths: dirs})
	if err != nil {
		return time.Time{}, err
	}
	return answer.Time, nil
}

// call is request with callTimeout.
func (s *Session) call(ctx context.Context, what string, r Request) (*Answer, error) {
	timeout := fmt.Errorf("%w: no answer in %s", runtime.ErrDoomed, callTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, timeout)
	defer cancel()
	return s.request(ctx, what, r)
}

// request sends a request that is safe to send twice, and waits for its answer.
func (s *Session) request(ctx context.Context, what string, r Request) (answer *Answer, err error) {
	err = s.repeat(ctx, what, r.Op != OpChanged, func(l *link) error {
		answer, err = do(ctx, l, r)
		return err
	})
	return answer, err
}

// repeat makes an attempt on a connection, again on another one as long as that
// may help.
func (s *Session) repeat(ctx context.Context, what string, changes bool, attempt func(*link) error) error {
	boot := ""
	for pause := reopenFirst; ; pause = min(2*pause, reopenMost) {
		if changes {
			if err := s.mayChange(); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		l, err := s.connect(ctx)
		if err == nil && boot != "" && boot != l.boot {
			return fmt.Errorf("%s: %w: it was started again", what, runtime.ErrLost)
		}
		if err == nil {
			boot = l.boot
			err = attempt(l)
			s.lost(err)
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

// do sends one request on one connection and waits for its answer.
func do(ctx context.Context, l *link, r Request) (*Answer, error) {
	out, err := l.Ask(r)
	if err != nil {
		return nil, err
	}
	defer out.Forget()
	select {
	case ev := <-out.events:
		if ev.answer == nil {
			return nil, fmt.Errorf("%w: a note on a request that has none", ErrProtocol)
		}
		if ev.answer.Fault != nil {
			return nil, ev.answer.Fault.Err()
		}
		return ev.answer, nil
	case <-l.lost:
		return nil, errLinkLost
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
