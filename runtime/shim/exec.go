package shim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/runtime"
)

// Timeouts for ending a command, in addition to its timeout and grace.
const (
	// KillTimeout is how long processes may take to exit after SIGKILL.
	KillTimeout = 5 * time.Second
	// replyMargin covers the round trip and a busy machine.
	replyMargin = 5 * time.Second
	// QueueTimeout is how long a command may wait in the queue.
	QueueTimeout = 5 * time.Minute
)

// reopens is how a lost session is opened again.
var reopens = backoff.Policy{Min: 5 * time.Millisecond, Max: time.Second, Jitter: 0.2}

// Exec implements runtime.Execer.Exec. It ends at the latest when the command's
// timeout, its grace and KillTimeout have passed, even if sessions are lost.
func (s *Session) Exec(ctx context.Context, cmd runtime.Command) (runtime.Result, error) {
	run, err := newRun(cmd)
	if err != nil {
		return runtime.Result{}, err
	}
	defer s.serveCommand(ctx, run.RunID, cmd.Fence, cmd.Requests)()
	return s.execute(ctx, run, Request{Op: OpRun, Run: &run, Fence: cmd.Fence, Requests: cmd.Requests != nil})
}

// WaitResult implements runtime.Execer.WaitResult, with the same bound as Exec.
func (s *Session) WaitResult(ctx context.Context, cmd runtime.Command) (runtime.Result, error) {
	run := withDefaults(cmd)
	request := Request{Op: OpWaitResult, RunID: run.RunID}
	if request.Requests = cmd.Requests != nil; request.Requests {
		request.Fence = cmd.Fence
	}
	defer s.serveCommand(ctx, run.RunID, cmd.Fence, cmd.Requests)()
	return s.execute(ctx, run, request)
}

// execute sends the request for a run and waits for its outcome.
func (s *Session) execute(ctx context.Context, run Run, request Request) (runtime.Result, error) {
	if ctx.Err() != nil && request.Op == OpRun {
		return runtime.Result{}, context.Cause(ctx)
	}
	e := &execution{session: s, run: run, request: request, endTimeout: run.Grace + KillTimeout + replyMargin}
	e.deadline = time.NewTimer(run.Timeout + e.endTimeout)
	defer e.deadline.Stop()
	result, err := e.wait(ctx)
	if !e.cancelled {
		return result, err
	}
	if errors.Is(err, runtime.ErrTainted) || errors.Is(err, runtime.ErrContainerExited) || errors.Is(err, runtime.ErrUnavailable) {
		return runtime.Result{}, errors.Join(context.Cause(ctx), err)
	}
	return runtime.Result{}, context.Cause(ctx)
}

// newRun fills in a command's defaults and rejects input that no kernel would
// accept.
func newRun(cmd runtime.Command) (Run, error) {
	run := withDefaults(cmd)
	if run.RunID == "" {
		run.RunID = newRunID()
	}
	problem := invalidInput(cmd)
	if problem == "" {
		problem = run.Invalid()
	}
	if problem != "" {
		return run, &runtime.StartError{Reason: runtime.StartBadInput, Detail: problem}
	}
	return run, nil
}

// withDefaults returns a command as a Run, with its timeouts filled in.
func withDefaults(cmd runtime.Command) Run {
	run := Run{
		RunID: cmd.RunID, Args: cmd.Args, Script: []byte(cmd.Script), Environment: cmd.Environment, User: cmd.User,
		Workdir: cmd.Workdir, Stdin: cmd.Stdin, Timeout: cmd.Timeout, Grace: runtime.DefaultGrace, Limits: cmd.Limits,
	}
	if run.Timeout <= 0 {
		run.Timeout = runtime.DefaultTimeout
	}
	if cmd.Grace != nil {
		run.Grace = max(0, *cmd.Grace)
	}
	return run
}

// invalidInput describes what is invalid in a command, or returns "".
func invalidInput(cmd runtime.Command) string {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return "no command"
	}
	if len(cmd.Stdin) > runtime.MaxStdin {
		return fmt.Sprintf("stdin has %d bytes, at most %d are allowed", len(cmd.Stdin), runtime.MaxStdin)
	}
	for i, arg := range cmd.Args {
		if strings.ContainsRune(arg, 0) {
			return fmt.Sprintf("argument %d contains a NUL byte", i)
		}
	}
	for name, value := range cmd.Environment {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return fmt.Sprintf("invalid environment entry %q", name)
		}
	}
	return ""
}

// execution is one Exec or WaitResult, over as many connections as it takes.
type execution struct {
	session    *Session
	run        Run
	request    Request       // starts or looks up the run
	endTimeout time.Duration // how long ending the command may take
	deadline   *time.Timer   // when to give up
	bootID     string        // boot ID of the program that received the run; empty before
	cancelled  bool          // the caller's context ended and the program was notified
}

// wait sends the run, again on every new connection, until its outcome is
// known.
func (e *execution) wait(ctx context.Context) (runtime.Result, error) {
	for wait := reopens.Retries(); ; {
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
		if e.request.Op == OpWaitResult && errors.Is(err, runtime.ErrUnavailable) {
			return runtime.Result{}, err // a later call returns the outcome
		}
		if e.bootID == "" || !isRetryable(err) {
			return runtime.Result{}, e.openError(err)
		}
		select {
		case <-time.After(wait.Next()):
		case <-e.deadline.C:
			return runtime.Result{}, fmt.Errorf("%w: wait for the outcome of %s: %w",
				runtime.ErrUnavailable, e.run.RunID, err)
		}
	}
}

// connect returns the open connection or opens one. Once the run is sent, perhaps
// by an earlier server, the outcome must be determined even if the caller's
// context ends.
func (e *execution) connect(ctx context.Context) (*sessionConn, error) {
	if e.bootID != "" || e.request.Op == OpWaitResult {
		ctx = context.WithoutCancel(ctx)
	}
	return e.session.connect(ctx)
}

// isRetryable reports whether a retry on another connection may help.
func isRetryable(err error) bool {
	return errors.Is(err, errConnLost) || errors.Is(err, runtime.ErrUnavailable) && !errors.Is(err, errClosed)
}

// openError returns what a connection that cannot be opened means for the run.
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

// attempt requests the run on one connection and waits for the response.
func (e *execution) attempt(ctx context.Context, c *sessionConn) (runtime.Result, error) {
	if e.bootID != "" && e.bootID != c.bootID {
		return runtime.Result{}, fmt.Errorf("%w: it was restarted", runtime.ErrContainerExited)
	}
	if e.request.Run != nil {
		if err := c.checkFeatures(*e.request.Run); err != nil {
			return runtime.Result{}, err
		}
	}
	request := e.request
	request.Requests = request.Requests && c.version >= RequestsVersion
	out, err := c.Call(request)
	if errors.Is(err, errTooLarge) {
		return runtime.Result{}, &runtime.StartError{
			Reason: runtime.StartBadInput, Detail: "the command and its input are too large"}
	}
	e.bootID = c.bootID
	if err != nil {
		return runtime.Result{}, err
	}
	defer out.Abandon()
	if e.cancelled {
		if err := e.cancel(c); err != nil {
			return runtime.Result{}, err
		}
	}
	return e.waitResponse(ctx, c, out.events)
}

// cancel asks the program to end the command, unless another server may be
// responsible for the command by now: that one waits for its outcome.
func (e *execution) cancel(c *sessionConn) error {
	if err := e.session.mayChange(); err != nil {
		return err
	}
	// A failed write means a lost connection, which waitResponse detects.
	_ = c.Notify(Request{Op: OpCancel, RunID: e.run.RunID})
	return nil
}

// waitResponse waits until a request is answered or the connection is lost.
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
			if err := e.cancel(c); err != nil {
				return runtime.Result{}, err
			}
		case <-c.closed:
			return lastResponse(events)
		case <-e.deadline.C:
			return runtime.Result{}, fmt.Errorf("%w: no outcome of %s before the deadline", runtime.ErrTainted, e.run.RunID)
		}
	}
}

// extendDeadline moves the deadline while the run waits in the queue.
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

// lastResponse returns the response that arrived just before the connection was
// lost, if any.
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

// responseResult returns the result in a response to a run. A response without
// a result is an error.
func responseResult(a *Response) (runtime.Result, error) {
	if a.Error != nil {
		return runtime.Result{}, a.Error.Err()
	}
	if a.Result == nil {
		return runtime.Result{}, fmt.Errorf("%w: a response without a result", runtime.ErrTainted)
	}
	return *a.Result, nil
}
