package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hostler/hostler/runtime"
)

// tenantVersion is the protocol version from which on a container supports
// commands, files and ports of tenants, and their environments.
const tenantVersion = 2

// maxEndedCommands is how many ended commands a container remembers.
const maxEndedCommands = 64

// tenantCommand is a command of a tenant: its run, its output and its input.
type tenantCommand struct {
	spec    runtime.TenantCommand
	run     *run
	started time.Time
	output  commandOutput
	ended   chan struct{} // closed when the result is set

	// The container's lock guards what follows.
	endedAt  time.Time // zero until then
	result   runtime.Result
	err      error
	input    []byte // that its program has not read
	received int64  // bytes of input
	closed   bool   // the input
	discards bool   // its program has closed the input
	size     runtime.TerminalSize
	attached *commandStream // the latest
}

// OpenCommand starts a command on a goroutine of its own, and attaches to it.
func (rt *Runtime) OpenCommand(ctx context.Context, id string, cmd runtime.TenantCommand) (runtime.CommandStream, error) {
	var s *commandStream
	call := Call{Op: "open_command", ID: id, Args: cmd.Args, Fence: cmd.Fence}
	err := rt.do(ctx, call, func(c *container) error {
		t, leader, err := c.openCommand(rt, cmd)
		if err != nil {
			return err
		}
		if leader != nil {
			go t.execute(leader) // ends with the processes of the command
		}
		s, err = c.attach(t, cmd.After)
		if err == nil {
			s.start.Created = leader != nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openCommand creates a command and its leader. For one that is known it returns
// no leader.
func (c *container) openCommand(rt *Runtime, cmd runtime.TenantCommand) (*tenantCommand, *Proc, error) {
	if !runtime.IsRequestID(cmd.ID) {
		return nil, nil, startError(runtime.StartBadInput, "the id %q is invalid", cmd.ID)
	}
	if err := checkInput(runtime.Command{Args: cmd.Args, Environment: cmd.Environment}); err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkTenant(cmd.Fence); err != nil {
		return nil, nil, err
	}
	if t, err := c.findCommand(cmd.ID, cmd.Fence); err == nil {
		return t, nil, nil
	}
	limit := runtime.MaxTenantCommands
	if cmd.Internal {
		limit = runtime.MaxInternalCommands
	}
	running := func(t *tenantCommand) bool { return t.spec.Internal == cmd.Internal && t.endedAt.IsZero() }
	if len(c.matchingCommands(running)) >= limit {
		return nil, nil, runtime.ErrTooManyCommands
	}
	cmd.Args, cmd.Environment = slices.Clone(cmd.Args), maps.Clone(cmd.Environment)
	r := &run{id: cmd.ID, c: c, grace: runtime.DefaultGrace, allExited: make(chan struct{}), done: make(chan struct{})}
	if cmd.Grace != nil {
		r.grace = *cmd.Grace
	}
	t := &tenantCommand{spec: cmd, run: r, started: time.Now(), closed: !cmd.Input, ended: make(chan struct{})}
	if cmd.Terminal != nil {
		t.size = *cmd.Terminal
	}
	t.output.changed, r.tenant = c.changed, t
	leader := &Proc{Args: cmd.Args, Dir: cmd.Workdir, c: c, run: r, parent: shimPID}
	leader.Stdin = &commandInput{t, leader}
	leader.Stdout, leader.Stderr = &pipe{leader, t.output.stream(false)}, &pipe{leader, t.output.stream(cmd.Terminal == nil)}
	if err := c.prepare(rt, leader, cmd.User, c.commandEnvironment(cmd)); err != nil {
		return nil, nil, err
	}
	c.addProc(leader)
	c.active[r] = true
	c.tenant = append(c.tenant, t)
	return t, leader, nil
}

// checkTenant returns an error if the container does not run or another claim has
// it. The caller holds the lock.
func (c *container) checkTenant(fence int64) error {
	switch {
	case c.program < tenantVersion:
		return runtime.ErrUnsupported
	case c.main == nil:
		return runtime.ErrNotRunning
	}
	return c.admit(fence)
}

// execute runs a command and records how it ended.
func (t *tenantCommand) execute(leader *Proc) {
	t.run.execute(leader, t.spec.Timeout)
	c := t.run.c
	c.mu.Lock()
	defer c.mu.Unlock()
	t.endedAt, t.result, t.err = time.Now(), t.run.result, t.run.err
	t.result.Stdout, t.result.Stderr = runtime.Output{Total: t.output.totals[0]}, runtime.Output{Total: t.output.totals[1]}
	t.input = nil
	close(t.ended)
	c.changed.Broadcast()
}

// findCommand returns a command of a claim. The caller holds the lock.
func (c *container) findCommand(id string, fence int64) (*tenantCommand, error) {
	c.forgetCommands()
	for _, t := range c.tenant {
		if t.spec.ID == id && t.spec.Fence == fence {
			return t, nil
		}
	}
	return nil, runtime.ErrUnknownRun
}

// matchingCommands returns the commands that match, in the order of their start.
// The caller holds the lock.
func (c *container) matchingCommands(match func(*tenantCommand) bool) []*tenantCommand {
	var all []*tenantCommand
	for _, t := range c.tenant {
		if match(t) {
			all = append(all, t)
		}
	}
	return all
}

// forgetCommands removes the commands that ended too long ago, and the first ones
// of too many. The caller holds the lock.
func (c *container) forgetCommands() {
	ended := len(c.matchingCommands(func(t *tenantCommand) bool { return !t.endedAt.IsZero() }))
	c.tenant = slices.DeleteFunc(c.tenant, func(t *tenantCommand) bool {
		if t.endedAt.IsZero() {
			return false
		}
		if time.Since(t.endedAt) < runtime.EndedCommandTTL && ended <= maxEndedCommands {
			return false
		}
		ended--
		return true
	})
}

// AttachCommand attaches to a command of a claim.
func (rt *Runtime) AttachCommand(ctx context.Context, id, commandID string, fence, after int64) (runtime.CommandStream, error) {
	var s *commandStream
	call := Call{Op: "attach_command", ID: id, Args: []string{commandID}, Fence: fence}
	err := rt.doCommand(ctx, call, commandID, func(c *container, t *tenantCommand) (err error) {
		s, err = c.attach(t, after)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// doCommand makes a call about a command that is known.
func (rt *Runtime) doCommand(ctx context.Context, call Call, commandID string, action func(*container, *tenantCommand) error) error {
	return rt.do(ctx, call, func(c *container) error {
		c.mu.Lock()
		err := c.checkReachable()
		var t *tenantCommand
		if err == nil {
			t, err = c.findCommand(commandID, call.Fence)
		}
		c.mu.Unlock()
		if err != nil {
			return err
		}
		return action(c, t)
	})
}

// checkReachable returns an error if nothing answers for the container's commands.
// The caller holds the lock.
func (c *container) checkReachable() error {
	switch {
	case c.program < tenantVersion:
		return runtime.ErrUnsupported
	case c.state != runtime.Running:
		return runtime.ErrNotRunning
	}
	return nil
}

// Commands lists the commands of a claim.
func (rt *Runtime) Commands(ctx context.Context, id string, fence int64) ([]runtime.CommandStatus, error) {
	var all []runtime.CommandStatus
	err := rt.do(ctx, Call{Op: "list_commands", ID: id, Fence: fence}, func(c *container) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := c.checkReachable(); err != nil {
			return err
		}
		c.forgetCommands()
		isListed := func(t *tenantCommand) bool { return t.spec.Fence == fence && !t.spec.Internal }
		for _, t := range c.matchingCommands(isListed) {
			all = append(all, t.status())
		}
		return nil
	})
	return all, err
}

// status describes a command. The caller holds the lock.
func (t *tenantCommand) status() runtime.CommandStatus {
	s := runtime.CommandStatus{
		ID: t.spec.ID, Args: slices.Clone(t.spec.Args), Terminal: t.spec.Terminal != nil, Started: t.started,
		Attached: t.attached != nil && t.attached.err == nil, Output: t.output.end, Held: t.output.waiting > 0,
	}
	if !t.endedAt.IsZero() {
		s.Ended, s.Result = new(t.endedAt), new(t.result)
	}
	return s
}

// EndCommand ends a command and waits until it has ended.
func (rt *Runtime) EndCommand(ctx context.Context, id, commandID string, fence int64) error {
	call := Call{Op: "end_command", ID: id, Args: []string{commandID}, Fence: fence}
	return rt.doCommand(ctx, call, commandID, func(_ *container, t *tenantCommand) error {
		t.run.terminate()
		return t.awaitEnd(ctx)
	})
}

// awaitEnd waits until a command has ended.
func (t *tenantCommand) awaitEnd(ctx context.Context) error {
	select {
	case <-t.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	t.run.c.mu.Lock()
	defer t.run.c.mu.Unlock()
	if t.run.tainted {
		return fmt.Errorf("end the command %s: %w", t.spec.ID, t.err)
	}
	return nil
}

// EndCommands ends every command and lets no command of an earlier claim start.
func (rt *Runtime) EndCommands(ctx context.Context, id string, fence int64, grace time.Duration) error {
	return rt.do(ctx, Call{Op: "end_commands", ID: id, Fence: fence}, func(c *container) error {
		c.mu.Lock()
		if c.program < tenantVersion {
			c.mu.Unlock()
			return nil
		}
		err := c.checkReachable()
		if err == nil {
			err = c.checkFence(fence)
		}
		all := slices.Clone(c.tenant)
		c.mu.Unlock()
		if err != nil {
			return err
		}
		for _, t := range all {
			t.run.terminate()
		}
		timer := time.AfterFunc(max(grace, 0), func() {
			for _, t := range all {
				t.run.kill()
			}
		})
		defer timer.Stop()
		for _, t := range all {
			if err := t.awaitEnd(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}
