package shim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/runtime"
)

// How long a command's end may take beyond its timeout and grace.
const (
	// KillTimeout is how long everything may take to be gone after SIGKILL.
	KillTimeout = 5 * time.Second
	// replyMargin covers the way there and back, and a busy machine.
	replyMargin = 5 * time.Second
	// QueueTimeout is how long a command may wait for its turn.
	QueueTimeout = 5 * time.Minute
	// Between two attempts to open a lost session: doubled from the first.
	minReopenBackoff = 5 * time.Millisecond
	maxReopenBackoff = time.Second
)

// Exec is runtime.Execer.Exec. It ends at the latest when the command's
// timeout, its grace and KillTimeout have passed, lost sessions or not.
func (s *Session) Exec(ctx context.Context, cmd runtime.Command) (runtime.Result, error) {
	run, err := newRun(cmd)
	if err != nil {
		return runtime.Result{}, err
	}
	return s.execute(ctx, run, Request{Op: OpRun, Run: &run})
}

// WaitResult is runtime.Execer.Outcome, bounded as Exec.
func (s *Session) WaitResult(ctx context.Context, cmd runtime.Command) (runtime.Result, error) {
	run := withDefaults(cmd)
	return s.execute(ctx, run, Request{Op: OpWaitResult, RunID: run.RunID})
}

// execute asks for a run and waits for its outcome.
func (s *Session) execute(ctx context.Context, run Run, request Request) (runtime.Result, error) {
	if ctx.Err() != nil {
		return runtime.Result{}, context.Cause(ctx)
	}
	e := &execution{session: s, run: run, request: request, endTimeout: run.Grace + KillTimeout + replyMargin}
	e.deadline = time.NewTimer(run.Timeout + e.endTimeout)
	defer e.deadline.Stop()
	result, err := e.wait(ctx)
	if !e.cancelled {
		return result, err
	}
	if errors.Is(err, runtime.ErrTainted) || errors.Is(err, runtime.ErrContainerExited) {
		return runtime.Result{}, errors.Join(context.Cause(ctx), err)
	}
	return runtime.Result{}, context.Cause(ctx)
}

// newRun fills in what a command leaves open and refuses what no kernel would
// take.
func newRun(cmd runtime.Command) (Run, error) {
	run := withDefaults(cmd)
	if run.RunID == "" {
		run.RunID = newRunID()
	}
	if problem := invalidInput(cmd); problem != "" {
		return run, &runtime.StartError{Reason: runtime.StartBadInput, Detail: problem}
	}
	return run, nil
}

// withDefaults is a command with its times filled in.
func withDefaults(cmd runtime.Command) Run {
	run := Run{
		RunID: cmd.RunID, Args: cmd.Args, Environment: cmd.Environment, User: cmd.User,
		Workdir: cmd.Workdir, Stdin: cmd.Stdin, Timeout: cmd.Timeout, Grace: cmd.Grace,
	}
	if run.Timeout <= 0 {
		run.Timeout = runtime.DefaultTimeout
	}
	if run.Grace <= 0 {
		run.Grace = runtime.DefaultGrace
	}
	return run
}

// invalidInput is what is wrong with a command on the face of it.
func invalidInput(cmd runtime.Command) string {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return "there is no command"
	}
	if len(cmd.Stdin) > runtime.MaxStdin {
		return fmt.Sprintf("%d bytes of stdin are more than %d", len(cmd.Stdin), runtime.MaxStdin)
	}
	for i, arg := range cmd.Args {
		if strings.ContainsRune(arg, 0) {
			return fmt.Sprintf("argument %d holds a NUL", i)
		}
	}
	for name, value := range cmd.Environment {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return fmt.Sprintf("the environment entry %q is none", name)
		}
	}
	return ""
}

// execution is one Exec or Outcome, over as many links as it takes.
type execution struct {
	session    *Session
	run        Run
	request    Request       // what asks for it
	endTimeout time.Duration // how long ending the command may take
	deadline   *time.Timer   // when to give up
	bootID     string        // of the container the run was sent to; empty before
	cancelled  bool          // the caller's context ended and the program is told
}

// wait sends the run, again on every new link, until its outcome is known.
func (e *execution) wait(ctx context.Context) (runtime.Result, error) {
	for backoff := minReopenBackoff; ; backoff = min(2*backoff, maxReopenBackoff) {
		if e.request.Op == OpRun {
			if err := e.session.mayChange(); err != nil {
				return runtime.Result{}, err
			}
		}
		c, err := e.connect(ctx)
		if err == nil {
			var result runtime.Result
			result, err = e.attempt(ctx, c)
			e.session.recordLost(err)
			if !errors.Is(err, errConnLost) {
				return result, err
			}
		}
		if e.bootID == "" || !isRetryable(err) {
			return runtime.Result{}, e.openError(err)
		}
		select {
		case <-time.After(backoff):
		case <-e.deadline.C:
			return runtime.Result{}, fmt.Errorf("%w: the outcome of %s: %w",
				runtime.ErrUnavailable, e.run.RunID, err)
		}
	}
}

// connect opens the link. Once the run is sent, the end of the caller's context
// does not spare us to ask what became of it.
func (e *execution) connect(ctx context.Context) (*sessionConn, error) {
	if e.bootID != "" {
		ctx = context.WithoutCancel(ctx)
	}
	return e.session.connect(ctx)
}

// isRetryable says whether another link may tell more.
func isRetryable(err error) bool {
	return errors.Is(err, errConnLost) || errors.Is(err, runtime.ErrUnavailable) && !errors.Is(err, errClosed)
}

// openError is what a link that cannot be had means for the run.
func (e *execution) openError(err error) error {
	if e.bootID == "" {
		return err
	}
	if errors.Is(err, runtime.ErrNotFound) || errors.Is(err, runtime.ErrNotRunning) {
		return fmt.Errorf("%w: %w", runtime.ErrContainerExited, err)
	}
	if _, failed := errors.AsType[*runtime.StartError](err); failed {
		return fmt.Errorf("%w: %s", runtime.ErrContainerExited, err.Error())
	}
	return err
}

// attempt asks for the run on one link and waits for the answer.
func (e *execution) attempt(ctx context.Context, c *sessionConn) (runtime.Result, error) {
	if e.bootID != "" && e.bootID != c.bootID {
		return runtime.Result{}, fmt.Errorf("%w: it was started again", runtime.ErrContainerExited)
	}
	out, err := c.Call(e.request)
	if errors.Is(err, errTooLarge) {
		return runtime.Result{}, &runtime.StartError{
			Reason: runtime.StartBadInput, Detail: "the command and its input are too long"}
	}
	e.bootID = c.bootID
	if err != nil {
		return runtime.Result{}, err
	}
	defer out.Abandon()
	if e.cancelled {
		// A failed write is a lost link, which the loop below sees.
		_ = c.Notify(Request{Op: OpCancel, RunID: e.run.RunID})
	}
	return e.waitResponse(ctx, c, out.events)
}

// waitResponse follows one request until it is answered or the link is lost.
func (e *execution) waitResponse(ctx context.Context, c *sessionConn, events <-chan event) (runtime.Result, error) {
	done := ctx.Done()
	if e.cancelled {
		done = nil
	}
	for {
		select {
		case ev := <-events:
			if ev.response != nil {
				return responseResult(ev.response)
			}
			e.extendDeadline(ev.state)
		case <-done:
			done, e.cancelled = nil, true
			e.deadline.Reset(e.endTimeout)
			_ = c.Notify(Request{Op: OpCancel, RunID: e.run.RunID})
		case <-c.closed:
			return lastResponse(events)
		case <-e.deadline.C:
			return runtime.Result{}, fmt.Errorf("%w: no outcome of %s in time", runtime.ErrTainted, e.run.RunID)
		}
	}
}

// extendDeadline moves the limit while the run waits for its turn.
func (e *execution) extendDeadline(state ProgressState) {
	if e.cancelled {
		return
	}
	limits := map[ProgressState]time.Duration{
		ProgressQueued:  QueueTimeout + e.endTimeout,
		ProgressStarted: e.run.Timeout + e.endTimeout,
	}
	if limit, ok := limits[state]; ok {
		e.deadline.Reset(limit)
	}
}

// lastResponse is the answer that came just before the link was lost, if any.
func lastResponse(events <-chan event) (runtime.Result, error) {
	for {
		select {
		case ev := <-events:
			if ev.response != nil {
				return responseResult(ev.response)
			}
		default:
			return runtime.Result{}, errConnLost
		}
	}
}

// responseResult reads an answer to a run. One without a result is no success.
func responseResult(a *Response) (runtime.Result, error) {
	if a.Error != nil {
		return runtime.Result{}, a.Error.Err()
	}
	if a.Result == nil {
		return runtime.Result{}, fmt.Errorf("%w: an answer without a result", runtime.ErrTainted)
	}
	return *a.Result, nil
}
