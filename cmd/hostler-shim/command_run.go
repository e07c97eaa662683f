package main

import (
	"math"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

const (
	// commandStartTimeout bounds the start of a command in its worker.
	commandStartTimeout = 30 * time.Second
	// commandWriteTimeout bounds a message to a worker.
	commandWriteTimeout = 10 * time.Second
	// maxGrace is longer than every grace.
	maxGrace = math.MaxInt64 / 4 * time.Nanosecond
)

// commandWorker is the worker of a command with streams. It runs no other command.
type commandWorker struct {
	*workerProcess
	grace time.Duration

	// mu guards the fields below.
	mu       sync.Mutex
	started  bool
	deadline time.Time // of the end, zero for none
}

// runCommand runs a command that was not requested before, until it has ended.
func (s *supervisor) runCommand(c *tenantCommand, spec shim.Run, r *shim.CommandRequest) {
	w, err := s.startCommand(c, spec, r)
	if err != nil {
		s.commands.setUncertain(c, err)
		s.commands.remove(c)
		c.failStart(err)
		return
	}
	running := c.startStreams()
	c.setReady(nil)
	result, err := w.wait()
	w.socket.Close() // the worker exits when it detects that
	c.finishStreams(running)
	s.commands.setUncertain(c, err)
	c.end(result, err)
	s.commands.keep(c)
}

// startCommand starts a worker with the command's streams, and the command in it.
func (s *supervisor) startCommand(c *tenantCommand, spec shim.Run, r *shim.CommandRequest) (*commandWorker, error) {
	if s.main.get() != shim.MainRunning {
		return nil, errMainNotRunning
	}
	spec = s.withDefaults(spec)
	for name, value := range c.environment {
		if _, isSet := spec.Environment[name]; !isSet {
			spec.Environment[name] = value
		}
	}
	if r.Terminal != nil && spec.Environment["TERM"] == "" && lookupEnv(s.env, "TERM", "") == "" {
		spec.Environment["TERM"] = "xterm"
	}
	theirs, err := c.streams.open(r)
	if err != nil {
		return nil, startErrorf("open the streams: %s", err)
	}
	p, err := s.workers.startForCommand(spec.User, theirs)
	closeDescriptors(theirs)
	if err != nil {
		c.streams.close()
		return nil, err
	}
	w := &commandWorker{workerProcess: p, grace: spec.Grace}
	if err := w.start(c, spec); err != nil {
		p.socket.Close()
		c.streams.close()
		return nil, err
	}
	return w, nil
}

// start has the worker start the command.
func (w *commandWorker) start(c *tenantCommand, spec shim.Run) error {
	_ = w.socket.SetReadDeadline(time.Now().Add(commandStartTimeout))
	op := opStream
	if c.terminal {
		op = opTerminal
	}
	if err := w.send(shim.KindRequest, shim.Request{ID: 1, Op: op, Run: &spec}); err != nil {
		return w.lostError(err)
	}
	c.setWorker(w)
	f, err := shim.ReadFrame(w.socket, shim.MaxFrame)
	if err != nil {
		return w.lostError(err)
	}
	if f.Kind == shim.KindProgress {
		w.setStarted(spec.Timeout)
		return nil
	}
	_, err = w.result(f)
	return err
}

// setWorker makes the worker known, which has received the command: it can be ended
// from now on.
func (c *tenantCommand) setWorker(w *commandWorker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.worker = w
	if c.endGrace >= 0 {
		go w.end(c.endGrace) // ends when the worker is informed, which has a timeout
	}
}

// setStarted begins the time that the command has.
func (w *commandWorker) setStarted(timeout time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started = true
	if timeout > 0 {
		w.limit(timeout)
	}
	_ = w.socket.SetReadDeadline(w.deadline)
}

// limit sets a deadline for the end of the command after a timeout, unless there is
// an earlier one. The caller holds mu.
func (w *commandWorker) limit(timeout time.Duration) {
	const margin = shim.KillTimeout + workerMargin
	at := time.Now().Add(min(timeout, maxGrace) + min(w.grace, maxGrace) + margin)
	if w.deadline.IsZero() || at.Before(w.deadline) {
		w.deadline = at
	}
}

// wait waits for the end of the command.
func (w *commandWorker) wait() (runtime.Result, error) {
	f, err := shim.ReadFrame(w.socket, shim.MaxFrame)
	if err != nil {
		return runtime.Result{}, w.lostError(err)
	}
	return w.result(f)
}

// end ends the command, at the latest after the grace.
func (w *commandWorker) end(grace time.Duration) {
	w.mu.Lock()
	w.grace = min(w.grace, grace)
	w.limit(0)
	if w.started {
		_ = w.socket.SetReadDeadline(w.deadline)
	}
	w.mu.Unlock()
	_ = w.send(kindEnd, workerEnd{Grace: grace}) // a worker that does not receive it exceeds the deadline
}

// signal sends a signal to the command's group, and to the foreground group of its
// terminal if there is one.
func (w *commandWorker) signal(number, foreground int) {
	_ = w.send(kindSignal, workerSignal{Signal: number, Group: foreground}) // a lost worker has no processes to signal
}

func (w *commandWorker) send(kind shim.Kind, message any) error {
	_ = w.socket.SetWriteDeadline(time.Now().Add(commandWriteTimeout))
	return shim.WriteFrame(w.socket, kind, message)
}

// endWithin ends the command as its timeout would, at the latest after the grace.
func (c *tenantCommand) endWithin(grace time.Duration) {
	c.mu.Lock()
	w := c.worker
	if c.endGrace < 0 || grace < c.endGrace {
		c.endGrace = grace
	}
	c.mu.Unlock()
	if w != nil {
		w.end(grace)
	}
}

// signal sends a signal to the processes of the command's group, with a terminal to
// those in the foreground.
func (c *tenantCommand) signal(number int) {
	c.mu.Lock()
	w := c.worker
	c.mu.Unlock()
	if w != nil {
		w.signal(number, c.streams.foreground())
	}
}
