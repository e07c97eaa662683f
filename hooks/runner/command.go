package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/backoff"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// CommandExecutor runs commands and scripts in containers.
type CommandExecutor struct {
	rt       runtime.Execer
	requests func(claim, container string) runtime.RequestHandler // nil: none
}

// NewCommandExecutor returns the executor of hooks.Command and hooks.Script.
func NewCommandExecutor(rt runtime.Execer) CommandExecutor { return CommandExecutor{rt: rt} }

// WithRequests returns an executor of commands whose processes may send requests,
// where the attempt permits it, to the handler for their claim and container.
func (x CommandExecutor) WithRequests(handler func(claim, container string) runtime.RequestHandler) CommandExecutor {
	x.requests = handler
	return x
}

// permitting returns a command with what handles the requests of its processes.
func (x CommandExecutor) permitting(cmd runtime.Command, a Attempt) runtime.Command {
	if a.MayAsk && x.requests != nil {
		cmd.Fence, cmd.Requests = a.Fence, x.requests(a.Claim, a.Container)
	}
	return cmd
}

// Execute runs the command of an attempt. If the engine becomes unavailable, the
// command may or may not have started. The container is then queried by the
// attempt's id. If it does not know the id, the command is sent again under the
// same id, so the container runs only one of two commands that arrive late.
//
// It returns no later than the attempt itself could have ended. A longer outage
// of the engine does not block the flow, and a command that may still be on its
// way to the container is not sent again.
func (x CommandExecutor) Execute(ctx context.Context, a Attempt) Result {
	cmd, query := x.permitting(CommandOf(a), a), x.permitting(commandQuery(a), a)
	deadline := time.Now().Add(a.Timeout + graceOf(cmd))
	res, err := x.rt.Exec(ctx, a.Container, cmd)
	for n := 1; isUnavailable(err) && ctx.Err() == nil; n++ {
		res, err = x.rt.WaitResult(ctx, a.Container, query)
		remaining := time.Until(deadline)
		if errors.Is(err, runtime.ErrUnknownRun) && remaining > 0 {
			res, err = x.rt.Exec(ctx, a.Container, cmd)
		}
		if remaining <= 0 || isUnavailable(err) && flow.Sleep(ctx, min(pollDelay.Delay(n), time.Until(deadline))) != nil {
			break
		}
	}
	return commandResult(ctx, a, res, err)
}

// pollDelay is the delay between two queries while the engine is unavailable.
var pollDelay = backoff.Policy{Min: time.Second, Max: 8 * time.Second}

// resumeTimeout is how long to wait for the outcome of an attempt, in addition
// to its timeout: the engine may be starting, as this server is.
const resumeTimeout = 5 * time.Minute

// WaitResult asks the container for the result of an attempt, and polls until
// the engine is available.
func (x CommandExecutor) WaitResult(ctx context.Context, a Attempt) Result {
	query := x.permitting(commandQuery(a), a)
	polling, cancel := context.WithTimeout(ctx, a.Timeout+resumeTimeout)
	defer cancel()
	for polls := pollDelay.Retries(); ; {
		res, err := x.rt.WaitResult(polling, a.Container, query)
		if !errors.Is(err, runtime.ErrUnavailable) || polls.Sleep(polling) != nil {
			return commandResult(ctx, a, res, err)
		}
	}
}

// Ending implements Executor. A command that cannot be started fails again, and
// nothing can run in a container that has exited or may be tainted.
func (CommandExecutor) Ending(r hooks.Run) Ending {
	ran := r.State == hooks.Failed || r.State == hooks.TimedOut
	return Ending{MayRetry: ran, MayContinue: ran || r.State == hooks.StartFailed}
}

// CommandOf returns the command that performs an attempt. The workload's author
// cannot override the variables that Hostler sets.
func CommandOf(a Attempt) runtime.Command {
	p := programOf(a.Action)
	env := make(map[string]string, len(p.Environment)+9)
	for name, value := range p.Environment {
		env[name] = value.Text(a.Lookup)
	}
	maps.Copy(env, environment(a.Context))
	for name, value := range a.Parameters {
		env["HOSTLER_"+workload.VariableOf(name)] = value
	}
	return runtime.Command{
		RunID:       a.ID(),
		Args:        p.args,
		Script:      p.script,
		Digest:      p.digest,
		Environment: env,
		User:        p.User,
		Stdin:       a.Envelope,
		Workdir:     p.Workdir,
		Timeout:     a.Timeout,
		Grace:       p.Grace,
		Limits:      runtime.ProcessLimits(p.Limits),
		Fence:       a.Fence,
	}
}

// program is what an action runs in the container.
type program struct {
	args   []string
	script string // the text that args, a shell, run; empty for none
	digest string // of a hook of the image
	hooks.Process
}

func programOf(action hooks.Action) program {
	switch x := action.(type) {
	case hooks.Script:
		return program{args: x.Shell, script: x.Text, Process: x.Process}
	case hooks.Command:
		return program{args: x.Args, Process: x.Process}
	case hooks.ImageFile:
		return program{args: x.Summary(), digest: x.Digest}
	}
	return program{}
}

// commandQuery returns the command that names an attempt in WaitResult.
func commandQuery(a Attempt) runtime.Command {
	p := programOf(a.Action)
	return runtime.Command{RunID: a.ID(), Digest: p.digest, Timeout: a.Timeout, Grace: p.Grace}
}

// graceOf returns the grace period of a command.
func graceOf(cmd runtime.Command) time.Duration {
	if cmd.Grace != nil {
		return *cmd.Grace
	}
	return runtime.DefaultGrace
}

// environment renders a context as the HOSTLER_ variables of a command.
func environment(c Context) map[string]string {
	env := map[string]string{
		"HOSTLER_HOOK":         c.Hook,
		"HOSTLER_POINT":        string(c.Point),
		"HOSTLER_RUN_ID":       c.Run,
		"HOSTLER_ATTEMPT":      strconv.Itoa(c.Attempt),
		"HOSTLER_WORKLOAD":     c.Workload,
		"HOSTLER_CONTAINER":    c.Container,
		"HOSTLER_CLAIM":        c.Claim,
		"HOSTLER_TENANT":       c.Tenant,
		"HOSTLER_CLAIM_SOURCE": c.Source,
	}
	if c.Traceparent != "" {
		env["TRACEPARENT"] = c.Traceparent
	}
	return env
}

// commandResult returns the Result of what an Execer returned.
func commandResult(ctx context.Context, a Attempt, res runtime.Result, err error) Result {
	r := Result{
		Err: err, Stdout: res.Stdout, Stderr: res.Stderr,
		Detail: hooks.Detail{Signal: res.Signal, TimedOut: res.TimedOut, Killed: res.Killed, OOMKilled: res.OOMKilled, Leaked: res.Leaked},
		Gone:   err == nil || errors.Is(err, runtime.ErrUnknownRun),
	}
	if res.TimedOut {
		r.Detail.Timeout = float64(a.Timeout.Microseconds()) / 1000
	}
	_, startFailed := errors.AsType[*runtime.StartError](err)
	switch {
	case err == nil:
		r.State, r.Detail.ExitCode = commandState(res), &res.ExitCode
		r.Err = limitError(a, res)
	case startFailed:
		r.State = hooks.StartFailed
	case errors.Is(err, runtime.ErrContainerExited), errors.Is(err, runtime.ErrNotRunning), errors.Is(err, runtime.ErrNotFound):
		r.State = hooks.Lost
	case ctx.Err() != nil && !errors.Is(err, runtime.ErrTainted):
		r.State = hooks.Cancelled
	default:
		r.State = hooks.Unknown
	}
	return r
}

// commandState returns the state of a command that ran and ended.
func commandState(res runtime.Result) hooks.RunState {
	switch {
	case res.TimedOut:
		return hooks.TimedOut
	case res.OK():
		return hooks.Succeeded
	}
	return hooks.Failed
}

// limitError returns why the kernel or the container's shim has ended a command,
// or nil if neither has.
func limitError(a Attempt, res runtime.Result) error {
	limits := programOf(a.Action).Limits
	switch {
	case res.OOMKilled && !res.OK():
		return errors.New("the container ran out of memory, and a process of the hook was killed")
	case res.Exceeded == runtime.LimitOutput:
		return fmt.Errorf("it wrote more output than its limit of %d bytes", limits.Output)
	case res.Exceeded == runtime.LimitCPUTime:
		return fmt.Errorf("it used more CPU time than its limit of %s", limits.CPUTime)
	case res.Exceeded == runtime.LimitFileSize:
		return fmt.Errorf("it wrote a file larger than its limit of %d bytes", limits.FileSize)
	}
	return nil
}
