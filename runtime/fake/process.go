package fake

import (
	"context"
	"io"
	"slices"
	"time"
)

// Program is what a process runs. Its result is the exit code, unless it is Park.
// It must return soon after ctx ends, which happens when the process is killed:
// an Exec waits for it. A container's main process runs its program within
// Start, so there it must return at once, with Park if the process is to
// continue.
type Program func(ctx context.Context, p *Proc) int

// Park is the result of a program whose process stays until a signal or Exit
// ends it.
const Park = -1

// Proc is a process as its program sees it. After its exit it can do nothing: its
// writes are discarded, it changes no file and starts no child.
type Proc struct {
	Args   []string
	Script string // of a shell: the content of its last argument
	Env    map[string]string
	Dir    string
	User   User
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer

	c      *container
	run    *run // nil for the main process and its children
	pid    int
	parent int
	cancel context.CancelFunc
	start  func() int    // runs its program; nil for a child
	done   chan struct{} // closed when it has exited

	// The container's lock guards what follows.
	traps   map[string]func() // by the signal's name
	stopped bool
	dead    bool
	code    int
	signal  string
}

// initPID is the process that starts the others, shimPID the one that supervises
// commands. They are not in the process table: nothing can be done to them.
const (
	initPID  = 1
	shimPID  = 2
	firstPID = 7
)

// PID returns the process's number within its container.
func (p *Proc) PID() int { return p.pid }

// OnTerm sets f to be called on SIGTERM instead of ending the process. f may call
// Exit, and must not block.
func (p *Proc) OnTerm(f func()) { p.OnSignal(sigTerm.Name, f) }

// OnSignal is OnTerm for the signal of that name, such as SIGUSR1.
func (p *Proc) OnSignal(name string, f func()) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.traps == nil {
		p.traps = make(map[string]func())
	}
	p.traps[name] = f
}

// Exit ends a process, parked or not. A second call has no effect.
func (p *Proc) Exit(code int) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if !p.dead {
		p.c.removeProc(p, code)
	}
}

// ExitAfter ends a parked process after d.
func (p *Proc) ExitAfter(d time.Duration, code int) {
	timer := time.AfterFunc(d, func() { p.Exit(code) })
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.dead {
		timer.Stop()
		return
	}
	cancel := p.cancel
	p.cancel = func() { timer.Stop(); cancel() }
}

// Spawn starts a child that does nothing until a signal ends it.
func (p *Proc) Spawn(args ...string) *Proc {
	child := &Proc{
		Args: args, Env: p.Env, Dir: p.Dir, User: p.User,
		Stdin: p.Stdin, c: p.c, run: p.run, parent: p.pid,
	}
	child.Stdout, child.Stderr = p.Stdout, p.Stderr
	if w, ok := p.Stdout.(*pipe); ok {
		child.Stdout = &pipe{p: child, to: w.to}
	}
	if w, ok := p.Stderr.(*pipe); ok {
		child.Stderr = &pipe{p: child, to: w.to}
	}
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	child.setUp(nil)
	if p.dead {
		child.dead = true
		close(child.done)
		return child
	}
	p.c.addProc(child)
	return child
}

// setUp initializes a process and sets its program.
func (p *Proc) setUp(program Program) {
	p.done = make(chan struct{})
	if program == nil {
		p.cancel = func() {}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.start = func() int { return program(ctx, p) }
}

// execute runs the program on the caller's goroutine. Afterwards the process has
// exited or is parked.
func (p *Proc) execute() {
	if code := p.start(); code != Park {
		p.Exit(code)
	}
}

// addProc adds a process to the table. The caller holds the lock.
func (c *container) addProc(p *Proc) {
	p.pid = c.nextPID
	c.nextPID++
	c.procs[p.pid] = p
	if p.run != nil {
		p.run.liveProcs++
	}
}

// processes returns the table, oldest first.
func (c *container) processes() []*Proc {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sorted(func(*Proc) bool { return true })
}

// sorted returns the processes that match, oldest first. The caller holds the lock.
func (c *container) sorted(match func(*Proc) bool) []*Proc {
	var all []*Proc
	for _, p := range c.procs {
		if match(p) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *Proc) int { return a.pid - b.pid })
	return all
}

// pipe is a stream from one process to its destination. The writes of an exited
// process are discarded.
type pipe struct {
	p  *Proc
	to io.Writer
}

func (w *pipe) Write(b []byte) (int, error) {
	w.p.c.mu.Lock()
	if w.p.dead {
		w.p.c.mu.Unlock()
		return 0, io.ErrClosedPipe
	}
	if out, ok := w.to.(*outputStream); ok {
		defer w.p.c.mu.Unlock()
		return out.writeAll(w.p, b)
	}
	n, err := w.to.Write(b)
	exceeded := w.p.run != nil && w.p.run.countOutput(n)
	w.p.c.mu.Unlock()
	if exceeded {
		w.p.run.terminate()
	}
	return n, err
}
