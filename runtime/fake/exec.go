package fake

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/runtime"
)

// Exec runs a command on the caller's goroutine. Of two callers with one key
// the first runs the command, and the second waits for it.
func (rt *Runtime) Exec(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	var result runtime.Result
	call := Call{Op: "exec", ID: id, Args: cmd.Args, Command: cmd}
	err := rt.do(ctx, call, func(c *container) error {
		r, leader, err := c.begin(rt, cmd)
		if err != nil {
			return err
		}
		var cut atomic.Bool
		defer context.AfterFunc(ctx, func() { r.cancel(&cut) })()
		if leader != nil {
			r.carryOut(leader, cmd.Timeout)
		}
		<-r.over
		if r.err == nil && cut.Load() {
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

// Outcome waits for a command that was begun before.
func (rt *Runtime) Outcome(ctx context.Context, id string, cmd runtime.Command) (runtime.Result, error) {
	var result runtime.Result
	call := Call{Op: "outcome", ID: id, Command: cmd}
	err := rt.do(ctx, call, func(c *container) error {
		c.mu.Lock()
		r, ok := c.runs[cmd.Key]
		running := c.main != nil
		c.mu.Unlock()
		switch {
		case !running:
			return runtime.ErrNotRunning
		case !ok:
			return runtime.ErrNoRun
		}
		select {
		case <-r.over:
		case <-ctx.Done():
			r.end()
			<-r.over
			return context.Cause(ctx)
		}
		result = r.result
		return r.err
	})
	return result, err
}

// run is one command, from its start until all of it is gone.
type run struct {
	c     *container
	grace time.Duration
	empty chan struct{} // closed when its last process is gone
	over  chan struct{} // closed when result and err are there

	// The container's lock guards what follows.
	live     int         // processes
	ending   bool        // they have been told to end
	killer   *time.Timer // goes off when their grace is over
	timedOut bool
	killed   bool
	lost     bool // the container ended
	doomed   bool // the shim was killed
	leaked   int
	stdout   capture
	stderr   capture

	result runtime.Result
	err    error
}

// begin makes the run of a command and its leader. A key that is known gives
// the run that there is, and no leader.
func (c *container) begin(rt *Runtime, cmd runtime.Command) (*run, *Proc, error) {
	if err := checkInput(cmd); err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.main == nil {
		return nil, nil, runtime.ErrNotRunning
	}
	if r, ok := c.runs[cmd.Key]; ok {
		return r, nil, nil
	}
	r := &run{c: c, grace: cmd.Grace, empty: make(chan struct{}), over: make(chan struct{})}
	if r.grace <= 0 {
		r.grace = runtime.DefaultGrace
	}
	leader := &Proc{
		Args: cmd.Args, Dir: cmd.Workdir, Stdin: bytes.NewReader(cmd.Stdin),
		c: c, run: r, parent: shimPID,
	}
	leader.Stdout, leader.Stderr = &pipe{leader, &r.stdout}, &pipe{leader, &r.stderr}
	if err := c.prepare(rt, leader, cmd.User, cmd.Environment); err != nil {
		r.err = err
		close(r.over)
		c.remember(cmd.Key, r)
		return r, nil, nil
	}
	c.enter(leader)
	c.active[r] = true
	c.remember(cmd.Key, r)
	return r, leader, nil
}

// carryOut runs the command and waits until all of it is gone.
func (r *run) carryOut(leader *Proc, timeout time.Duration) {
	if timeout <= 0 {
		timeout = runtime.DefaultTimeout
	}
	began := time.Now()
	deadline := time.AfterFunc(timeout, r.expire)
	leader.carryOut()
	<-leader.done
	deadline.Stop()
	r.sweep()
	<-r.empty

	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.killer != nil {
		r.killer.Stop()
	}
	delete(c.active, r)
	r.result = runtime.Result{
		ExitCode: leader.code, Signal: leader.signal, TimedOut: r.timedOut,
		Killed: r.killed, Leaked: r.leaked, Duration: time.Since(began),
		Stdout: r.stdout.output(), Stderr: r.stderr.output(),
	}
	r.stdout, r.stderr = capture{}, capture{}
	switch {
	case r.lost:
		r.err = runtime.ErrLost
	case r.doomed:
		r.err = runtime.ErrDoomed
	}
	close(r.over)
}

// cancel ends a command whose caller's context has ended, and says so to the
// caller before the command's end can: unless it had ended already.
func (r *run) cancel(cut *atomic.Bool) {
	r.c.mu.Lock()
	cut.Store(r.live > 0)
	r.c.mu.Unlock()
	r.end()
}

// expire is the timeout of a command that has not ended by then.
func (r *run) expire() {
	r.c.mu.Lock()
	r.timedOut = !r.ending && r.live > 0
	r.c.mu.Unlock()
	r.end()
}

// sweep ends what a leader that has ended by itself has left behind.
func (r *run) sweep() {
	r.c.mu.Lock()
	if !r.ending {
		r.leaked = r.live
	}
	r.c.mu.Unlock()
	r.end()
}

// end tells every process of the run to end, and kills those that are left
// when the grace is over. Once it has begun it is not begun again.
func (r *run) end() {
	r.c.mu.Lock()
	if r.ending || r.live == 0 {
		r.c.mu.Unlock()
		return
	}
	r.ending = true
	procs := r.processes()
	r.c.mu.Unlock()
	for _, p := range procs {
		r.c.signal(p, sigTerm)
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.live > 0 {
		r.killer = time.AfterFunc(r.grace, r.kill)
	}
}

func (r *run) kill() {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	for _, p := range r.processes() {
		r.killed = true
		r.c.die(p, sigKill)
	}
}

// processes are those of the run. The caller holds the lock.
func (r *run) processes() []*Proc {
	return r.c.sorted(func(p *Proc) bool { return p.run == r })
}

// keptRuns is how many runs with a key a container remembers.
const keptRuns = 1 << 10

// remember keeps a run for whoever asks for its key again. The caller holds
// the lock.
func (c *container) remember(key string, r *run) {
	if key == "" {
		return
	}
	if len(c.keys) >= keptRuns {
		delete(c.runs, c.keys[0])
		c.keys = c.keys[1:]
	}
	c.runs[key] = r
	c.keys = append(c.keys, key)
}

// forgetRuns drops what commands have printed. The caller holds the lock.
func (c *container) forgetRuns() {
	clear(c.runs)
	c.keys = nil
}
