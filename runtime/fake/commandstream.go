package fake

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/hostler/hostler/runtime"
)

// commandStream is an attachment to a tenant's command.
type commandStream struct {
	t     *tenantCommand
	c     *container
	start runtime.CommandStart
	// control reports whether it has no output: see runtime.ControlOnly.
	control bool

	// The container's lock guards what follows.
	next  int64 // offset of what Next returns
	err   error // why it is not attached any more
	atEOF bool
}

// attach attaches to a command, in place of the previous attachment.
func (c *container) attach(t *tenantCommand, after int64) (*commandStream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := runtime.CommandStart{
		Offset: after, InputReceived: t.received, InputClosed: t.closed || !t.endedAt.IsZero(), Terminal: t.spec.Terminal != nil,
	}
	if after == runtime.ControlOnly {
		state.Offset = t.output.start
		return &commandStream{t: t, c: c, start: state, control: true}, nil
	}
	if after < t.output.start || after > t.output.end {
		return nil, fmt.Errorf("%w: it has the bytes from %d to %d, and not from %d",
			runtime.ErrOutputLost, t.output.start, t.output.end, after)
	}
	t.output.acknowledge(after)
	t.attached.detach(runtime.ErrAttachedElsewhere)
	s := &commandStream{t: t, c: c, next: after, start: state}
	t.attached = s
	c.changed.Broadcast()
	return s, nil
}

// detach ends an attachment with an error. The caller holds the lock.
func (s *commandStream) detach(err error) {
	if s != nil && s.err == nil {
		s.err = err
		s.c.changed.Broadcast()
	}
}

// LoseCommands ends the attachments to the commands of a container, as a lost
// connection does.
func (rt *Runtime) LoseCommands(id string) {
	if c, err := rt.lookup(id); err == nil {
		c.loseCommands()
	}
}

func (c *container) loseCommands() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.tenant {
		t.attached.detach(fmt.Errorf("%w: the connection was lost", runtime.ErrUnavailable))
	}
}

// Start returns the state of the command when it was attached to.
func (s *commandStream) Start() runtime.CommandStart { return s.start }

// Next waits for output, or for the end of the command.
func (s *commandStream) Next() (runtime.CommandOutput, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for s.err == nil {
		if out, ok := s.t.output.next(s.next); ok {
			s.next += int64(len(out.Data))
			return out, nil
		}
		if !s.t.endedAt.IsZero() {
			s.atEOF = true
			return runtime.CommandOutput{}, io.EOF
		}
		s.c.changed.Wait()
	}
	return runtime.CommandOutput{}, s.err
}

// forgetAcknowledged removes a command whose end and whose output the client has
// received. The caller holds the lock.
func (s *commandStream) forgetAcknowledged() {
	if !s.atEOF || s.t.output.start < s.t.output.end {
		return
	}
	for i, t := range s.c.tenant {
		if t == s.t {
			s.c.tenant = append(s.c.tenant[:i:i], s.c.tenant[i+1:]...)
			return
		}
	}
}

// do performs a call of the client, if it is still attached.
func (s *commandStream) do(action func() error) error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return action()
}

// Acknowledge makes room for more output.
func (s *commandStream) Acknowledge(offset int64) error {
	return s.do(func() error {
		received := s.next
		if s.control {
			received = s.t.output.end
		}
		if offset > received {
			return fmt.Errorf("acknowledge %d: only what is before %d was received", offset, received)
		}
		s.t.output.acknowledge(offset)
		return nil
	})
}

// Input adds input when there is room for it.
func (s *commandStream) Input(offset int64, p []byte) error {
	return s.do(func() error {
		t := s.t
		switch {
		case !t.endedAt.IsZero():
			return nil
		case t.closed:
			return errors.New("input after its end")
		}
		if offset > t.received {
			return fmt.Errorf("input at %d: only what is before %d was received", offset, t.received)
		}
		p = p[min(t.received-offset, int64(len(p))):]
		for len(p) > 0 && !t.closed && t.endedAt.IsZero() {
			if t.discards {
				t.received += int64(len(p))
				return nil
			}
			if room := maxCommandInput - len(t.input); room > 0 {
				n := min(room, len(p))
				t.input = append(t.input, p[:n]...)
				t.received += int64(n)
				p = p[n:]
				s.c.changed.Broadcast()
				continue
			}
			s.c.changed.Wait()
			if s.err != nil {
				return s.err
			}
		}
		return nil
	})
}

// CloseInput ends the input.
func (s *commandStream) CloseInput() error {
	return s.do(func() error {
		s.t.closed = true
		s.c.changed.Broadcast()
		return nil
	})
}

// Resize changes the size of the terminal.
func (s *commandStream) Resize(size runtime.TerminalSize) error {
	err := s.do(func() error {
		s.t.size = size
		return nil
	})
	if err != nil || s.t.spec.Terminal == nil {
		return err
	}
	return s.Signal("SIGWINCH")
}

// TerminalSize returns the size of the terminal of a tenant's command, and whether
// it has one.
func (p *Proc) TerminalSize() (runtime.TerminalSize, bool) {
	if p.run == nil || p.run.tenant == nil || p.run.tenant.spec.Terminal == nil {
		return runtime.TerminalSize{}, false
	}
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.run.tenant.size, true
}

// ignoredSignals do not end a process that has no handler for them: SIGCHLD,
// SIGCONT, SIGURG and SIGWINCH.
var ignoredSignals = map[int]bool{17: true, 18: true, 23: true, sigWinch.Number: true}

// Signal sends a signal to every process of the command.
func (s *commandStream) Signal(name string) error {
	number, err := runtime.ParseSignal(name)
	if err != nil {
		return err
	}
	var procs []*Proc
	err = s.do(func() error {
		procs = s.t.run.processes()
		return nil
	})
	sent := signalByNumber(number)
	for _, p := range procs {
		if !ignoredSignals[number] || p.handles(sent) {
			s.c.signal(p, sent)
		}
	}
	return err
}

// handles reports whether a process has a handler for a signal.
func (p *Proc) handles(s Signal) bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.traps[s.Name] != nil
}

// Result returns how the command ended.
func (s *commandStream) Result() (runtime.Result, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.t.endedAt.IsZero() {
		return runtime.Result{}, fmt.Errorf("the command %s has not ended", s.t.spec.ID)
	}
	if s.t.err != nil {
		return runtime.Result{}, s.t.err
	}
	return s.t.result, nil
}

// Close detaches. A client that has received everything needs the command no more.
func (s *commandStream) Close() error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.err == nil {
		s.forgetAcknowledged()
	}
	s.detach(fs.ErrClosed)
	return nil
}
