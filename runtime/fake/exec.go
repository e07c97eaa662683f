package fake

import (
	"bytes"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/runtime"
)

// Exec runs a command on the caller's goroutine. Of two callers with one RunID
// the first runs the command, and the second waits for it.
func (rt *Runtime) Exec(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	var result runtime.Result
	call := Call{Op: "exec", ID: id, Args: cmd.Args, Command: cmd, Fence: cmd.Fence}
	err := rt.do(ctx, call, func(c *container) error {
		r, leader, err := c.begin(rt, cmd)
		if err != nil {
			return err
		}
		defer c.serveCommand(ctx, cmd)()
		var cancelled atomic.Bool
		defer context.AfterFunc(ctx, func() { r.cancel(&cancelled) })()
		if leader != nil {
			timeout := cmd.Timeout
			if timeout <= 0 {
				timeout = runtime.DefaultTimeout
			}
			r.execute(leader, timeout)
		}
		<-r.done
		if r.err == nil && cancelled.Load() {
			return context.Cause(ctx)
		}
		result = r.result
		return r.err
	})
	if err != nil {
		return runtime.Result{}, err
	}
	return result, nil
}

// WaitResult waits for a command that began before.
func (rt *Runtime) WaitResult(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	var result runtime.Result
	call := Call{Op: "outcome", ID: id, Command: cmd}
	calling := ctx
	if ctx.Err() != nil {
		calling = context.WithoutCancel(ctx) // it ends the command
	}
	err := rt.do(calling, call, func(c *container) error {
		c.mu.Lock()
		r, ok := c.runs[cmd.RunID]
		running := c.main != nil
		c.mu.Unlock()
		switch {
		case !running:
			return runtime.ErrNotRunning
		case !ok:
			return runtime.ErrUnknownRun
		}
		defer c.serveCommand(ctx, cmd)()
		select {
		case <-r.done:
		case <-ctx.Done():
			r.terminate()
			<-r.done
			return context.Cause(ctx)
		}
		result = r.result
		return r.err
	})
	return result, err
}

// Output returns what a command has printed so far.
func (rt *Runtime) Output(ctx context.Context, id, runID string) (stdout, stderr runtime.Output, err error) {
	err = rt.do(ctx, Call{Op: "output", ID: id, Command: runtime.Command{RunID: runID}}, func(c *container) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		r, ok := c.runs[runID]
		if !ok {
			return runtime.ErrUnknownRun
		}
		stdout, stderr = r.result.Stdout, r.result.Stderr
		if stdout.Total+stderr.Total == 0 {
			stdout, stderr = r.stdout.Output(), r.stderr.Output()
		}
		return nil
	})
	return stdout, stderr, err
}

// run is one command, from its start until all its processes have exited.
type run struct {
	id        string
	tenant    *tenantCommand // that it is of; nil for a command of Exec
	c         *container
	grace     time.Duration
	limits    runtime.ProcessLimits
	allExited chan struct{} // closed when its last process has exited
	done      chan struct{} // closed when result and err are set

	// The container's lock guards what follows.
	liveProcs       int         // processes
	ending          bool        // they have been asked to exit
	killer          *time.Timer // fires at the end of their grace period
	timedOut        bool
	killed          bool
	containerExited bool // the container exited
	tainted         bool // the shim was killed
	leaked          int
	written         int64 // bytes of output
	exceeded        runtime.Limit
	oomKilled       bool
	stdout          runtime.Capture
	stderr          runtime.Capture

	result runtime.Result
	err    error
}

// begin creates the run of a command and its leader. For a known RunID it returns
// the existing run, and no leader.
func (c *container) begin(rt *Runtime, cmd runtime.Command) (*run, *Proc, error) {
	if err := checkInput(cmd); err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.main == nil {
		return nil, nil, runtime.ErrNotRunning
	}
	if r, ok := c.runs[cmd.RunID]; ok {
		return r, nil, nil
	}
	if err := c.admit(cmd.Fence); err != nil {
		return nil, nil, err
	}
	r := &run{id: cmd.RunID, c: c, grace: runtime.DefaultGrace, limits: cmd.Limits, allExited: make(chan struct{}), done: make(chan struct{})}
	if cmd.Grace != nil {
		r.grace = *cmd.Grace
	}
	leader := &Proc{
		Args: cmd.Args, Dir: cmd.Workdir, Stdin: bytes.NewReader(cmd.Stdin),
		Script: cmd.Script, c: c, run: r, parent: shimPID,
	}
	if cmd.Script != "" {
		leader.Args = append(slices.Clip(cmd.Args), scriptPath)
	}
	leader.Stdout, leader.Stderr = &pipe{leader, &r.stdout}, &pipe{leader, &r.stderr}
	err := rt.checkImageHook(leader, cmd.Digest)
	if err == nil {
		err = c.prepare(rt, leader, cmd.User, cmd.Environment)
	}
	if err != nil {
		r.err = err
		close(r.done)
		c.rememberRun(cmd.RunID, r)
		return r, nil, nil
	}
	c.addProc(leader)
	c.active[r] = true
	c.rememberRun(cmd.RunID, r)
	return r, leader, nil
}

// execute runs the command and waits until all its processes have exited. A timeout
// of 0 is none.
func (r *run) execute(leader *Proc, timeout time.Duration) {
	start := time.Now()
	stopDeadline := func() bool { return false }
	if timeout > 0 {
		stopDeadline = time.AfterFunc(timeout, r.expire).Stop
	}
	leader.execute()
	<-leader.done
	stopDeadline()
	r.endLeaked()
	<-r.allExited

	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.killer != nil {
		r.killer.Stop()
	}
	delete(c.active, r)
	r.result = runtime.Result{
		ExitCode: leader.code, Signal: leader.signal, TimedOut: r.timedOut,
		Killed: r.killed, Leaked: r.leaked, Exceeded: r.exceeded, OOMKilled: r.oomKilled, Duration: time.Since(start),
		Stdout: r.stdout.Output(), Stderr: r.stderr.Output(),
	}
	r.stdout, r.stderr = runtime.Capture{}, runtime.Capture{}
	switch {
	case r.containerExited:
		r.err = runtime.ErrContainerExited
	case r.tainted:
		r.err = runtime.ErrTainted
	}
	close(r.done)
}

// cancel ends a command whose caller's context has ended. It marks the command as
// canceled before the end of the command can be reported, unless it had ended
// already.
func (r *run) cancel(cancelled *atomic.Bool) {
	r.c.mu.Lock()
	cancelled.Store(r.liveProcs > 0)
	r.c.mu.Unlock()
	r.terminate()
}

// expire ends a command at its timeout, if it is still running.
func (r *run) expire() {
	r.c.mu.Lock()
	r.timedOut = !r.ending && r.liveProcs > 0
	r.c.mu.Unlock()
	r.terminate()
}

// endLeaked ends the processes that a leader which exited by itself has left.
func (r *run) endLeaked() {
	r.c.mu.Lock()
	if !r.ending {
		r.leaked = r.liveProcs
	}
	r.c.mu.Unlock()
	r.terminate()
}

// terminate asks every process of the run to exit, and kills the remaining ones
// at the end of the grace period. Only the first call has an effect.
func (r *run) terminate() {
	r.c.mu.Lock()
	if r.ending || r.liveProcs == 0 {
		r.c.mu.Unlock()
		return
	}
	r.ending = true
	procs := r.processes()
	r.c.mu.Unlock()
	if r.grace <= 0 {
		r.kill()
		return
	}
	for _, p := range procs {
		r.c.signal(p, sigTerm)
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.liveProcs > 0 {
		r.killer = time.AfterFunc(r.grace, r.kill)
	}
}

func (r *run) kill() {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	for _, p := range r.processes() {
		r.killed = true
		r.c.terminate(p, sigKill)
	}
}

// processes returns those of the run. The caller holds the lock.
func (r *run) processes() []*Proc {
	return r.c.sorted(func(p *Proc) bool { return p.run == r })
}

// maxRuns is how many runs with a RunID a container remembers.
const maxRuns = 1 << 10

// rememberRun keeps a run for callers that request its RunID again. The caller
// holds the lock.
func (c *container) rememberRun(runID string, r *run) {
	if runID == "" {
		return
	}
	if len(c.runIDs) >= maxRuns {
		delete(c.runs, c.runIDs[0])
		c.runIDs = c.runIDs[1:]
	}
	c.runs[runID] = r
	c.runIDs = append(c.runIDs, runID)
}

// clearRuns drops commands and their output. The caller holds the lock.
func (c *container) clearRuns() {
	clear(c.runs)
	c.runIDs = nil
	c.tenant = nil
}
