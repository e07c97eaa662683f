package builtin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
)

// Executor performs actions of kind builtin.
type Executor struct {
	log       *slog.Logger
	functions func(name string) (Function, bool)
}

var _ runner.Executor = Executor{}

// NewExecutor returns the executor of hooks.Builtin. Functions write to log.
func NewExecutor(log *slog.Logger) Executor { return Executor{log: log, functions: Find} }

// Execute calls the function of an attempt.
func (x Executor) Execute(ctx context.Context, a runner.Attempt) runner.Result {
	res, _ := x.Check(ctx, a, nil)
	return res
}

// Check calls the function of an attempt at a gate. within are the directories that
// the file of the use must be in; none if it may be anywhere.
func (x Executor) Check(ctx context.Context, a runner.Attempt, u *Use) (res runner.Result, within []string) {
	res = runner.Result{Gone: true}
	action, _ := a.Action.(hooks.Builtin)
	f, ok := x.functions(action.Name)
	if !ok {
		res.State, res.Err = hooks.StartFailed, fmt.Errorf("unknown builtin %q", action.Name)
		return res, nil
	}
	attempt, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	result, err := x.call(attempt, f, Call{Context: a.Context, With: action.With, Envelope: a.Envelope, Use: u})
	switch {
	case err == nil:
		res.State, res.Stop = hooks.Succeeded, result.Stop
		return res, result.Within
	case ctx.Err() != nil:
		res.State = hooks.Cancelled
	case attempt.Err() != nil:
		res.State = hooks.TimedOut
	default:
		res.State = hooks.Failed
	}
	res.Err = fmt.Errorf("%s: %w", f.Name, err)
	return res, nil
}

// errPanic is the error of a function that panicked. The log has the rest.
var errPanic = errors.New("panic")

// call calls a function and recovers its panic.
func (x Executor) call(ctx context.Context, f Function, c Call) (result Result, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			x.log.ErrorContext(ctx, "builtin panicked", "builtin", f.Name, "hook", c.Hook, "run", c.Run,
				"panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			result, err = Result{}, errPanic
		}
	}()
	return f.call(ctx, x.log, c)
}

// WaitResult implements runner.Executor. The server that called the function
// has stopped.
func (Executor) WaitResult(context.Context, runner.Attempt) runner.Result {
	return runner.Result{State: hooks.Unknown, Err: errors.New("the result is lost"), Gone: true}
}

// Ending implements runner.Executor: a function that failed would fail again, and
// none changes more than the server's log.
func (Executor) Ending(hooks.Run) runner.Ending {
	return runner.Ending{MayContinue: true, Harmless: true}
}
