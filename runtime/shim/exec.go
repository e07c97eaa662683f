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
	// KillBound is how long everything may take to be gone after SIGKILL.
	KillBound = 5 * time.Second
	// margin covers the way there and back, and a busy machine.
	margin = 5 * time.Second
	// QueueBound is how long a command may wait for its turn.
	QueueBound = 5 * time.Minute
	// Between two attempts to open a lost session: doubled from the first.
	reopenFirst = 5 * time.Millisecond
	reopenMost  = time.Second
)

// Exec is runtime.Execer.Exec. It ends at the latest when the command's
// timeout, its grace and KillBound have passed, lost sessions or not.
func (s *Session) Exec(ctx context.Context, cmd runtime.Command) (runtime.Result, error) {
	run, err := newRun(cmd)
	if err != nil {
		return runtime.Result{}, err
	}
	return s.execute(ctx, run, Request{Op: OpRun, Run: &run})
}

// Outcome is runtime.Execer.Outcome, bounded as Exec.
func (s *Session) Outcome(ctx context.Context, cmd runtime.Command) (runtime.Result, error) {
	run := bounded(cmd)
	return s.execute(ctx, run, Request{Op: OpOutcome, Key: run.Key})
}

// execute asks for a run and waits for its outcome.
func (s *Session) execute(ctx context.Context, run Run, request Request) (runtime.Result, error) {
	if ctx.Err() != nil {
		return runtime.Result{}, context.Cause(ctx)
	}
	e := &execution{session: s, run: run, request: request, end: run.Grace + KillBound + margin}
	e.limit = time.NewTimer(run.Timeout + e.end)
	defer e.limit.Stop()
	result, err := e.wait(ctx)
	if !e.cancelled {
		return result, err
	}
	if errors.Is(err, runtime.ErrDoomed) || errors.Is(err, runtime.ErrLost) {
		return runtime.Result{}, errors.Join(context.Cause(ctx), err)
	}
	return runtime.Result{}, context.Cause(ctx)
}

// newRun fills in what a command leaves open and refuses what no kernel would
// take.
func newRun(cmd runtime.Command) (Run, error) {
	run := bounded(cmd)
	if run.Key == "" {
		run.Key = newKey()
	}
	if fault := inputFault(cmd); fault != "" {
		return run, &runtime.StartError{Reason: runtime.StartBadInput, Detail: fault}
	}
	return run, nil
}

// bounded is a command with its times filled in.
func bounded(cmd runtime.Command) Run {
	run := Run{
		Key: cmd.Key, Args: cmd.Args, Environment: cmd.Environment, User: cmd.User,
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

// inputFault is what is wrong with a command on the face of it.
func inputFault(cmd runtime.Command) string {
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
	session   *Session
	run       Run
	request   Request       // what asks for it
	end       time.Duration // how long ending the command may take
	limit     *time.Timer   // when to give up
	boot      string        // of the container the run was sent to; empty before
	cancelled bool          // the caller's context ended and the program is told
}

// wait sends the run, again on every new link, until its outcome is known.
func (e *execution) wait(ctx context.Context) (runtime.Result, error) {
	for pause := reopenFirst; ; pause = min(2*pause, reopenMost) {
		if e.request.Op == OpRun {
			if err := e.session.mayChange(); err != nil {
				return runtime.Result{}, err
			}
		}
		l, err := e.connect(ctx)
		if err == nil {
			var result runtime.Result
			result, err = e.attempt(ctx, l)
			e.session.lost(err)
			if !errors.Is(err, errLinkLost) {
				return result, err
			}
		}
		if e.boot == "" || !retriable(err) {
			return runtime.Result{}, e.verdict(err)
		}
		select {
		case <-time.After(pause):
		case <-e.limit.C:
			return runtime.Result{}, fmt.Errorf("%w: the outcome of %s: %w",
				runtime.ErrUnavailable, e.run.Key, err)
		}
	}
}

// connect opens the link. Once the run is sent, the end of the caller's context
// does not spare us to ask what became of it.
func (e *execution) connect(ctx context.Context) (*link, error) {
	if e.boot != "" {
		ctx = context.WithoutCancel(ctx)
	}
	return e.session.connect(ctx)
}

// retriable says whether another link may tell more.
func retriable(err error) bool {
	return errors.Is(err, errLinkLost) || errors.Is(err, runtime.ErrUnavailable) && !errors.Is(err, errClosed)
}

// verdict is what a link that cannot be had means for the run.
func (e *execution) verdict(err error) error {
	if e.boot == "" {
		return err
	}
	if errors.Is(err, runtime.ErrNotFound) || errors.Is(err, runtime.ErrNotRunning) {
		return fmt.Errorf("%w: %w", runtime.ErrLost, err)
	}
	if _, failed := errors.AsType[*runtime.StartError](err); failed {
		return fmt.Errorf("%w: %s", runtime.ErrLost, err.Error())
	}
	return err
}

// attempt asks for the run on one link and waits for the answer.
func (e *execution) attempt(ctx context.Context, l *link) (runtime.Result, error) {
	if e.boot != "" && e.boot != l.boot {
		return runtime.Result{}, fmt.Errorf("%w: it was started again", runtime.ErrLost)
	}
	out, err := l.Ask(e.request)
	if errors.Is(err, errTooLarge) {
		return runtime.Result{}, &runtime.StartError{
			Reason: runtime.StartBadInput, Detail: "the command and its input are too long"}
	}
	e.boot = l.boot
	if err != nil {
		return runtime.Result{}, err
	}
	defer out.Forget()
	if e.cancelled {
		// A failed write is a lost link, which the loop below sees.
		_ = l.Tell(Request{Op: OpCancel, Key: e.run.Key})
	}
	return e.await(ctx, l, out.events)
}

// await follows one request until it is answered or the link is lost.
func (e *execution) await(ctx context.Context, l *link, events <-chan event) (runtime.Result, error) {
	done := ctx.Done()
	if e.cancelled {
		done = nil
	}
	for {
		select {
		case ev := <-events:
			if ev.answer != nil {
				return outcome(ev.answer)
			}
			e.follow(ev.turn)
		case <-done:
			done, e.cancelled = nil, true
			e.limit.Reset(e.end)
			_ = l.Tell(Request{Op: OpCancel, Key: e.run.Key})
		case <-l.lost:
			return lastAnswer(events)
		case <-e.limit.C:
			return runtime.Result{}, fmt.Errorf("%w: no outcome of %s in time", runtime.ErrDoomed, e.run.Key)
		}
	}
}

// follow moves the limit while the run waits for its turn.
func (e *execution) follow(turn Turn) {
	if e.cancelled {
		return
	}
	limits := map[Turn]time.Duration{
		TurnQueued:  QueueBound + e.end,
		TurnStarted: e.run.Timeout + e.end,
	}
	if limit, ok := limits[turn]; ok {
		e.limit.Reset(limit)
	}
}

// lastAnswer is the answer that came just before the link was lost, if any.
func lastAnswer(events <-chan event) (runtime.Result, error) {
	for {
		select {
		case ev := <-events:
			if ev.answer != nil {
				return outcome(ev.answer)
			}
		default:
			return runtime.Result{}, errLinkLost
		}
	}
}

// outcome reads an answer to a run. One without a result is no success.
func outcome(a *Answer) (runtime.Result, error) {
	if a.Fault != nil {
		return runtime.Result{}, a.Fault.Err()
	}
	if a.Result == nil {
		return runtime.Result{}, fmt.Errorf("%w: an answer without a result", runtime.ErrDoomed)
	}
	return *a.Result, nil
}
