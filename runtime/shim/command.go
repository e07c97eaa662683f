package shim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/runtime"
)

// The times of ending commands.
const (
	// EndWait is how long the program waits for the end of a command before it
	// answers that it needs longer.
	EndWait = time.Minute
	// maxListedCommands bounds the commands in a response.
	maxListedCommands = 1 << 10
)

// OpenCommand implements runtime.Commander.OpenCommand. The context is that of the
// call, not of the attachment.
func (s *Session) OpenCommand(ctx context.Context, cmd runtime.TenantCommand) (runtime.CommandStream, error) {
	run, err := newCommandRun(cmd)
	if err != nil {
		return nil, err
	}
	return s.openStream(ctx, "open a command", Request{
		Op: OpCommand, RunID: cmd.ID, Run: &run, Fence: cmd.Fence,
		Command: &CommandRequest{Nonce: newRunID(), Terminal: cmd.Terminal, Input: cmd.Input, Internal: cmd.Internal, After: cmd.After},
	})
}

// AttachCommand implements runtime.Commander.AttachCommand.
func (s *Session) AttachCommand(ctx context.Context, id string, fence, after int64) (runtime.CommandStream, error) {
	if !runtime.IsRequestID(id) || after < 0 && after != runtime.ControlOnly {
		return nil, fmt.Errorf("attach to a command: %w: %.64q", runtime.ErrUnknownRun, id)
	}
	return s.openStream(ctx, "attach to a command", Request{
		Op: OpCommand, RunID: id, Fence: fence, Command: &CommandRequest{After: after},
	})
}

// openStream sends a request for a command, again on another connection if one is
// lost.
func (s *Session) openStream(ctx context.Context, what string, r Request) (runtime.CommandStream, error) {
	r.Streams, r.Window = commandStreams, CommandWindow
	var stream *commandStream
	err := s.withRetry(ctx, what, true, func(c *sessionConn) (err error) {
		stream, err = s.attach(ctx, c, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return stream, nil
}

// newCommandRun returns a command as a Run.
func newCommandRun(cmd runtime.TenantCommand) (Run, error) {
	grace := cmd.Grace
	run := withDefaults(runtime.Command{
		Args: cmd.Args, Environment: cmd.Environment, User: cmd.User, Workdir: cmd.Workdir, Grace: grace,
	})
	run.Timeout = max(0, cmd.Timeout)
	problem := invalidInput(runtime.Command{Args: cmd.Args, Environment: cmd.Environment})
	switch {
	case !runtime.IsRequestID(cmd.ID):
		problem = fmt.Sprintf("%.64q is no ID of a command", cmd.ID)
	case cmd.After < 0:
		problem = "a negative offset"
	case cmd.Fence <= NoFence:
		problem = "a command needs the fence of a claim"
	}
	if problem != "" {
		return run, &runtime.StartError{Reason: runtime.StartBadInput, Detail: problem}
	}
	return run, nil
}

// Commands implements runtime.Commander.Commands.
func (s *Session) Commands(ctx context.Context, fence int64) ([]runtime.CommandStatus, error) {
	response, err := s.commandCall(ctx, "list commands", callTimeout, Request{Op: OpCommands, Fence: fence})
	if err != nil {
		return nil, err
	}
	if len(response.Commands) > maxListedCommands {
		return nil, fmt.Errorf("%w: it lists %d commands", runtime.ErrTainted, len(response.Commands))
	}
	for i, status := range response.Commands {
		if !runtime.IsRequestID(status.ID) {
			return nil, fmt.Errorf("%w: it lists a command with the ID %.64q", runtime.ErrTainted, status.ID)
		}
		if status.Result != nil {
			result := withoutOutput(*status.Result)
			response.Commands[i].Result = &result
		}
	}
	return response.Commands, nil
}

// withoutOutput returns a result with nothing of the output but its size.
func withoutOutput(r runtime.Result) runtime.Result {
	r.Stdout, r.Stderr = runtime.Output{Total: r.Stdout.Total}, runtime.Output{Total: r.Stderr.Total}
	return r
}

// EndCommand implements runtime.Commander.EndCommand.
func (s *Session) EndCommand(ctx context.Context, id string, fence int64) error {
	_, err := s.commandCall(ctx, "end a command", callTimeout, Request{Op: OpEndCommand, RunID: id, Fence: fence})
	return err
}

// EndCommands implements runtime.Commander.EndCommands.
func (s *Session) EndCommands(ctx context.Context, fence int64, grace time.Duration) error {
	if fence <= NoFence {
		return fmt.Errorf("end the commands: %w: %d is no fence", runtime.ErrStaleFence, fence)
	}
	grace = max(0, grace)
	timeout := grace + callTimeout
	// Of all attempts together: a program that answers each with an error of the
	// connection must not hold up the release.
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, silentError(timeout))
	defer cancel()
	_, err := s.commandCall(ctx, "end the commands", timeout, Request{Op: OpEndCommands, Fence: fence, Grace: grace})
	if errors.Is(err, runtime.ErrUnsupported) {
		return nil
	}
	return asEndError(err)
}

// silentError is why a container is tainted that does not answer in time.
func silentError(timeout time.Duration) error {
	return fmt.Errorf("%w: no answer within %s", runtime.ErrTainted, timeout)
}

// commandCall is request for a program that has FeatureCommands. Each attempt has a
// timeout.
func (s *Session) commandCall(ctx context.Context, what string, timeout time.Duration, r Request) (response *Response, err error) {
	silent := silentError(timeout)
	err = s.withRetry(ctx, what, r.Op != OpCommands, func(c *sessionConn) error {
		if !c.Has(FeatureCommands) {
			return runtime.ErrUnsupported
		}
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, silent)
		defer cancel()
		response, err = roundTrip(ctx, c, r)
		return err
	})
	return response, err
}
