package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

const (
	// maxEndedCommands bounds the commands that have ended and are kept.
	maxEndedCommands = 64
	// maxEndedOutput bounds their output, in bytes: what as many commands as a tenant
	// may run leave when they end together, with what is in their pipes. The oldest
	// ones lose it first.
	maxEndedOutput = runtime.MaxTenantCommands * (runtime.CommandBuffer + 256<<10)
)

// commands are the commands with streams: those that run, and those that have ended
// and are kept for a client that attaches again.
type commands struct {
	admit func(fence int64) error // refuses a smaller fence than an earlier one

	// mu guards the fields below. It is locked before that of a command.
	mu     sync.Mutex
	all    []*tenantCommand // in the order of their start
	closed bool             // every process is being killed
	exited bool             // the container has exited, and its main process was not started since
	// environment is that of commands that begin, as of the main process.
	environment map[string]string
	// lostErr is why processes of a command may be left, until every process was
	// killed.
	lostErr error
}

// open returns the command of a request, and whether it is new. A stale request for
// a new command leaves nothing.
func (s *commands) open(r shim.Request) (c *tenantCommand, created bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := commandKey{r.Fence, r.RunID}
	if known := s.find(key); known != nil {
		return known, false, nil
	}
	if r.Run == nil || r.Command.After > 0 {
		return nil, false, s.unknown(r.RunID)
	}
	if err := s.admit(r.Fence); err != nil {
		return nil, false, err
	}
	if s.closed {
		return nil, false, errMainNotRunning
	}
	limit := runtime.MaxTenantCommands
	if r.Command.Internal {
		limit = runtime.MaxInternalCommands
	}
	if s.running(r.Command.Internal) >= limit {
		return nil, false, fmt.Errorf("%w: at most %d", runtime.ErrTooManyCommands, limit)
	}
	c = newCommand(key, r.Command, r.Run.Args)
	if !c.internal {
		c.environment = s.environment
	}
	s.all = append(s.all, c)
	return c, true, nil
}

// unknown returns the error for a command that there is not. A container that has
// exited has none, whether its engine has started it again or not. The caller holds mu.
func (s *commands) unknown(id string) error {
	if s.exited {
		return errWaitsForStart
	}
	return fmt.Errorf("%w: %.64q", runtime.ErrUnknownRun, id)
}

// setExited records that the container has exited.
func (s *commands) setExited() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exited = true
}

// find returns the command with a key, or nil. The caller holds mu.
func (s *commands) find(key commandKey) *tenantCommand {
	i := slices.IndexFunc(s.all, func(c *tenantCommand) bool { return c.key == key })
	if i < 0 {
		return nil
	}
	return s.all[i]
}

// running counts the commands that have not ended. The caller holds mu.
func (s *commands) running(internal bool) (n int) {
	for _, c := range s.all {
		if c.internal == internal && c.isRunning() {
			n++
		}
	}
	return n
}

// get returns the command with a fence and an ID.
func (s *commands) get(fence int64, id string) (*tenantCommand, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.find(commandKey{fence, id}); c != nil {
		return c, nil
	}
	return nil, s.unknown(id)
}

// list describes the commands of a claim.
func (s *commands) list(fence int64) (all []runtime.CommandStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.all {
		if c.key.fence == fence && !c.internal {
			all = append(all, c.status())
		}
	}
	return all
}

// remove forgets a command.
func (s *commands) remove(c *tenantCommand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(c)
}

// drop is remove for a caller that holds mu.
func (s *commands) drop(c *tenantCommand) {
	s.all = slices.DeleteFunc(s.all, func(other *tenantCommand) bool { return other == c })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopForgetting()
}

// keep keeps a command that has ended, or has lost its attachment after that, for
// some time and within the limits. One that was forgotten stays so.
func (s *commands) keep(c *tenantCommand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.all, c) {
		return
	}
	s.evict()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopForgetting()
	c.forgetAt = time.Now().Add(runtime.EndedCommandTTL)
	c.forget = time.AfterFunc(runtime.EndedCommandTTL, func() { s.forget(c) })
}

// forget drops a command whose time has passed, unless something is attached.
func (s *commands) forget(c *tenantCommand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.isForgettable(time.Now()) {
		s.drop(c)
	}
}

// evict drops what exceeds the limits of the commands that have ended: first those
// to which nothing is attached. The caller holds mu.
func (s *commands) evict() {
	var kept, attached []*tenantCommand
	size := 0
	for _, c := range s.all {
		isEnded, isAttached, held := c.kept()
		if !isEnded {
			continue
		}
		size += held
		if isAttached {
			attached = append(attached, c)
		} else {
			kept = append(kept, c)
		}
	}
	for len(kept) > 0 && len(kept)+len(attached) > maxEndedCommands {
		size -= kept[0].dropOutput()
		s.drop(kept[0])
		kept = kept[1:]
	}
	for _, c := range append(kept, attached...) {
		if size <= maxEndedOutput {
			return
		}
		size -= c.dropOutput()
	}
}

// stopForgetting stops the timer, which holds the command. The caller holds mu.
func (c *tenantCommand) stopForgetting() {
	if c.forget != nil {
		c.forget.Stop()
	}
}

// isForgettable reports whether the time of the command has passed.
func (c *tenantCommand) isForgettable(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attached == nil && !now.Before(c.forgetAt)
}

// kept returns whether the command has ended, and what is kept of it.
func (c *tenantCommand) kept() (isEnded, isAttached bool, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended != nil, c.attached != nil, c.output.size()
}

// dropOutput drops the output of a command that has ended, and returns its size.
func (c *tenantCommand) dropOutput() (size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size = c.output.size()
	c.output.release(c.output.end)
	c.changed.Broadcast()
	return size
}

// markLost marks every running command as lost, lets none start, and returns them.
func (s *commands) markLost() (running []*tenantCommand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.environment = true, nil
	for _, c := range s.all {
		if c.isRunning() {
			c.mu.Lock()
			c.lost = true
			c.mu.Unlock()
			running = append(running, c)
		}
	}
	return running
}

// reopen allows commands again, and gives them the environment of the main process.
func (s *commands) reopen(environment map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.exited, s.lostErr, s.environment = false, false, nil, environment
}

// setUncertain records an error that means that processes of a command may be left.
func (s *commands) setUncertain(c *tenantCommand, err error) {
	c.mu.Lock()
	lost := c.lost // killAll proves that nothing is left
	c.mu.Unlock()
	if lost || !errors.Is(err, runtime.ErrTainted) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lostErr = err
}

// uncertain returns an error if processes of a command may be left.
func (s *commands) uncertain() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lostErr
}

// reset forgets all commands, because they belong to another tenant.
func (s *commands) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.all {
		c.dropOutput()
		c.mu.Lock()
		c.stopForgetting()
		c.endAttachment(s.unknown(c.key.id))
		c.mu.Unlock()
	}
	s.all = nil
}

// endAll lets no command with a smaller fence start, and ends those that run, at the
// latest after the grace.
func (s *commands) endAll(fence int64, grace time.Duration) (running []*tenantCommand, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admit(fence); err != nil {
		return nil, err
	}
	for _, c := range s.all {
		if c.isRunning() {
			go c.endWithin(grace) // ends when the worker is informed, which has a timeout
			running = append(running, c)
		}
	}
	return running, nil
}
