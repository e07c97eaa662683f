package access

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/hostler/hostler/runtime"
)

// CommandRequest is a command that a tenant asks for.
type CommandRequest struct {
	// ID names it, so that the request can be repeated; empty for a new one.
	ID          string
	Args        []string
	Environment map[string]string
	User        string // empty for the container's own
	Workdir     string // empty for the container's own
	Terminal    *runtime.TerminalSize
	Input       bool          // whether input will be sent; Run ignores it
	Timeout     time.Duration // 0: none; of Run: DefaultRunTimeout
	After       int64         // as in Attach, for a command that runs already
}

// DefaultRunTimeout is the timeout of a command of Run that has none of its own: a
// command whose server is lost runs until then.
const DefaultRunTimeout = 5 * time.Minute

// MaxCommandTimeout bounds the timeout of a command.
const MaxCommandTimeout = 24 * time.Hour

// endTimeout bounds how long a command is ended whose caller does not wait.
const endTimeout = 30 * time.Second

// openTimeout bounds how long a container may take to start a command. It is less
// than unknownAfter: RunSweep must not take a start that is still on its way for one
// that never reached the container.
const openTimeout = 45 * time.Second

var errOpenTimeout = fmt.Errorf("%w: the container did not start the command within %s", runtime.ErrUnavailable, openTimeout)

// ErrTooManyCalls means that as many requests for commands are in progress as may
// be.
var ErrTooManyCalls = errors.New("too many requests for commands at once")

// maxCommandCalls bounds the requests for commands, attachments included. Each
// command of a claim may have a reader and a few others.
var maxCommandCalls = bounds{perClaim: 128, perTenant: 256, total: 2048}

// Start starts a command and attaches to it. A repeated request with its ID attaches
// to the one that runs. Close detaches; the command continues.
func (s *Service) Start(ctx context.Context, claimID string, r CommandRequest) (*Command, error) {
	g, err := s.Enter(ctx, claimID)
	if err != nil {
		return nil, err
	}
	return s.start(ctx, g, r)
}

func (s *Service) start(ctx context.Context, g Grant, r CommandRequest) (*Command, error) {
	named := r.ID != ""
	if !named {
		r.ID = uuid.NewString()
	}
	if err := r.validate(g); err != nil {
		return nil, err
	}
	end, err := s.commandCalls.take(g)
	if err != nil {
		return nil, err
	}
	c, err := s.open(ctx, g, r, named)
	if err != nil {
		end()
		return nil, err
	}
	c.end = end
	return c, nil
}

// open starts the command, which passes its gate and is recorded first.
func (s *Service) open(ctx context.Context, g Grant, r CommandRequest, named bool) (*Command, error) {
	use := CommandUse{
		ID: r.ID, Args: r.Args, Environment: r.Environment, User: r.User, Workdir: r.Workdir, Terminal: r.Terminal != nil,
	}
	if err := s.o.Gates.Exec(ctx, g, use); err != nil {
		return nil, err
	}
	if stream, err := s.recordStart(ctx, g, use, r.After); err != nil {
		return nil, asUsed(err)
	} else if stream != nil {
		return s.attached(ctx, g, r.ID, stream), nil
	}
	opening, cancel := context.WithTimeoutCause(ctx, openTimeout, errOpenTimeout)
	defer cancel()
	stream, err := s.o.Runtime.OpenCommand(opening, g.Container(), runtime.TenantCommand{
		ID: r.ID, Args: r.Args, Environment: r.Environment, User: r.User, Workdir: r.Workdir,
		Terminal: r.Terminal, Input: r.Input, Timeout: r.Timeout, Fence: g.Fence(), After: r.After,
	})
	if err == nil {
		return s.attached(ctx, g, r.ID, stream), nil
	}
	if neverStarted(err) {
		s.o.Uses.CommandEnded(g, r.ID, runtime.Result{}, err)
	} else if !named {
		s.end(ctx, g, r.ID) // it may run, and no one knows its ID
	}
	return nil, asUsed(fmt.Errorf("start a command in %s: %w", g.Container(), err))
}

// neverStarted reports whether the error of a start means that the command does not
// run.
func neverStarted(err error) bool {
	if _, ok := errors.AsType[*runtime.StartError](err); ok {
		return true
	}
	for _, never := range []error{runtime.ErrTooManyCommands, runtime.ErrStaleFence, runtime.ErrUnsupported, runtime.ErrNotFound} {
		if errors.Is(err, never) {
			return true
		}
	}
	return false
}

// end ends a command that no one waits for. Where that fails, the command ends at
// its timeout or with the claim.
func (s *Service) end(ctx context.Context, g Grant, id string) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), endTimeout, runtime.ErrUnavailable)
	defer cancel()
	if err := s.o.Runtime.EndCommand(ctx, g.Container(), id, g.Fence()); err != nil && !errors.Is(err, runtime.ErrUnknownRun) {
		s.o.Log.Debug("ending a command failed", "claim", g.Claim.ID, "command", id, "error", err)
	}
}

// Attach attaches to a command of the claim. The output before the offset after
// counts as acknowledged; see runtime.ControlOnly. A claim that is used only for
// control is not held.
func (s *Service) Attach(ctx context.Context, claimID, id string, after int64) (*Command, error) {
	g, err := s.enterCommand(ctx, claimID, id)
	if err != nil {
		return nil, err
	}
	end, err := s.commandCalls.take(g)
	if err != nil {
		return nil, err
	}
	stream, err := s.o.Runtime.AttachCommand(ctx, g.Container(), id, g.Fence(), after)
	if err != nil {
		end()
		return nil, asUsed(fmt.Errorf("attach to the command %s: %w", id, err))
	}
	c := &Command{CommandStream: stream, ID: id, s: s, g: g, close: stream.Close}
	if after != runtime.ControlOnly {
		c = s.attached(ctx, g, id, stream)
	}
	c.end = end
	return c, nil
}

// enterCommand is Enter for a command. One whose ID is none does not exist.
func (s *Service) enterCommand(ctx context.Context, claimID, id string) (Grant, error) {
	g, err := s.Enter(ctx, claimID)
	if err == nil && !runtime.IsRequestID(id) {
		err = runtime.ErrUnknownRun
	}
	return g, err
}

// Commands lists the commands of the claim that its container knows of.
func (s *Service) Commands(ctx context.Context, claimID string) ([]runtime.CommandStatus, error) {
	g, err := s.Enter(ctx, claimID)
	if err != nil {
		return nil, err
	}
	end, err := s.commandCalls.take(g)
	if err != nil {
		return nil, err
	}
	defer end()
	list, err := s.o.Runtime.Commands(ctx, g.Container(), g.Fence())
	if err != nil {
		return nil, asUsed(fmt.Errorf("list the commands of %s: %w", g.Container(), err))
	}
	return list, nil
}

// Signal sends a signal to a command: one of Signals.
func (s *Service) Signal(ctx context.Context, claimID, id, name string) error {
	if err := validateSignal(name); err != nil {
		return err
	}
	c, err := s.Attach(ctx, claimID, id, runtime.ControlOnly)
	if err != nil {
		return err
	}
	return errors.Join(c.Signal(name), c.Close())
}

// EndCommand ends a command as its timeout would, and returns when it has ended.
func (s *Service) EndCommand(ctx context.Context, claimID, id string) error {
	g, err := s.enterCommand(ctx, claimID, id)
	if err != nil {
		return err
	}
	end, err := s.commandCalls.take(g)
	if err != nil {
		return err
	}
	defer end()
	if err := s.o.Runtime.EndCommand(ctx, g.Container(), id, g.Fence()); err != nil {
		return asUsed(fmt.Errorf("end the command %s: %w", id, err))
	}
	return nil
}

// Command is an attachment to a command of a tenant. The claim is held while it is
// open.
type Command struct {
	runtime.CommandStream
	ID    string
	s     *Service
	g     Grant
	close func() error
	end   func() // gives its place back
}

func (s *Service) attached(ctx context.Context, g Grant, id string, stream runtime.CommandStream) *Command {
	release := s.Hold(ctx, g)
	return &Command{CommandStream: stream, ID: id, s: s, g: g, close: sync.OnceValue(func() error {
		release()
		return stream.Close()
	})}
}

// Next implements runtime.CommandStream.
func (c *Command) Next() (runtime.CommandOutput, error) {
	out, err := c.CommandStream.Next()
	return out, asUsed(err)
}

// Result implements runtime.CommandStream, and records how the command ended.
func (c *Command) Result() (runtime.Result, error) {
	result, err := c.CommandStream.Result()
	c.s.o.Uses.CommandEnded(c.g, c.ID, result, err)
	return result, err
}

// SendSignal sends one of Signals.
func (c *Command) SendSignal(name string) error {
	if err := validateSignal(name); err != nil {
		return err
	}
	return c.Signal(name)
}

// Close implements runtime.CommandStream. A second call does nothing.
func (c *Command) Close() error {
	defer c.end()
	return c.close()
}
