package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

const (
	// maxRuns bounds how many commands run concurrently; more wait in the
	// queue.
	maxRuns = 32
	// maxIdleWorkers is how many idle workers are kept, at most one for each
	// user.
	maxIdleWorkers = 2
	// workerMargin is how much longer than a command's limits init waits for
	// its worker. It is less than the client's margin, so that the client
	// receives the error.
	workerMargin = 2 * time.Second
)

// workers are the processes that run commands. A worker runs the commands of one
// user only: while it starts a command, processes of that user can limit, stop
// or kill it, and must not reach another user's commands through it.
type workers struct {
	reaper      *reaper
	env         []string
	defaultUser string        // of the first worker
	hostProcess bool          // the machine is shared: workers keep init's user
	slots       chan struct{} // one token for each running command

	// mu guards the fields below. It is held while a worker is started, so that
	// closeAll misses none.
	mu    sync.Mutex
	idle  []*workerProcess     // the least recently used first
	alive map[proctree.ID]bool // the running workers
	// commands are the IDs of the commands that workers run.
	commands map[proctree.ID]string
	closed   bool // every process is being killed
}

// workerProcess is one worker as init sees it.
type workerProcess struct {
	id          proctree.ID
	user        string // whose commands it runs
	socket      *os.File
	notReusable bool // must not run another command

	// askMu guards what follows.
	askMu     sync.Mutex
	answering bool      // a command runs
	question  *question // the open one for its output; nil if there is none
}

// warmUp starts the first worker and makes it run this program once, so that
// the code and memory for the first command are loaded. That saves 1 of 4 ms. A
// command that arrives during the warm-up gets a worker of its own.
func (w *workers) warmUp() {
	p, err := w.startFirst()
	if err != nil {
		logError("start a worker", err)
	}
	if p == nil {
		return
	}
	defer w.release(p)
	self, err := os.Executable()
	if err != nil {
		return // the worker is not warmed up
	}
	_, _ = p.run(context.Background(), shim.Run{ // on an error it is not warmed up, or not reusable
		Args: []string{self, "version"}, User: p.user, Workdir: "/", Timeout: warmUpTimeout, Grace: warmUpTimeout,
	})
}

// warmUpTimeout bounds a worker's first run.
const warmUpTimeout = 10 * time.Second

// startFirst starts a worker if there is none.
func (w *workers) startFirst() (*workerProcess, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.alive) > 0 {
		return nil, nil
	}
	return w.spawnTracked(w.defaultUser)
}

// acquire returns an idle worker of the user, or a new one.
func (w *workers) acquire(user string) (*workerProcess, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errMainNotRunning
	}
	if p := w.takeIdle(user); p != nil {
		return p, nil
	}
	p, err := w.spawnTracked(user)
	if err != nil {
		return nil, startErrorf("%s", err)
	}
	return p, nil
}

// takeIdle returns the idle worker of the user, nil if there is none. The caller
// holds mu.
func (w *workers) takeIdle(user string) *workerProcess {
	i := slices.IndexFunc(w.idle, func(p *workerProcess) bool { return p.user == user })
	if i < 0 {
		return nil
	}
	p := w.idle[i]
	w.idle = slices.Delete(w.idle, i, i+1)
	if !w.alive[p.id] {
		p.socket.Close() // it was killed
		return nil
	}
	return p
}

// closeAll drops every worker and starts none until reopen.
func (w *workers) closeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.idle {
		p.socket.Close()
	}
	w.idle, w.closed = nil, true
	clear(w.alive)
}

// reopen allows workers again.
func (w *workers) reopen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = false
}

// commandOf reports whether a process is a worker, and returns the ID of the
// command that it runs.
func (w *workers) commandOf(id proctree.ID) (runID string, isWorker bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.commands[id], w.alive[id]
}

// setCommand records which command a worker runs; none for an empty ID.
func (w *workers) setCommand(p *workerProcess, runID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.commands == nil {
		w.commands = make(map[proctree.ID]string)
	}
	w.commands[p.id] = runID
	if runID == "" {
		delete(w.commands, p.id)
	}
}

// release takes back a worker whose command has ended.
func (w *workers) release(p *workerProcess) {
	w.mu.Lock()
	surplus := w.keepIdle(p)
	w.mu.Unlock()
	if surplus != nil {
		surplus.socket.Close() // the worker exits when it detects that
	}
}

// keepIdle keeps a worker for later and returns the one that is not kept, if
// any. The caller holds mu.
func (w *workers) keepIdle(p *workerProcess) (surplus *workerProcess) {
	if p.notReusable || !w.alive[p.id] {
		return p
	}
	same := slices.IndexFunc(w.idle, func(other *workerProcess) bool { return other.user == p.user })
	if same < 0 && len(w.idle) == maxIdleWorkers {
		same = 0
	}
	if same >= 0 {
		surplus = w.idle[same]
		w.idle = slices.Delete(w.idle, same, same+1)
	}
	w.idle = append(w.idle, p)
	return surplus
}

// spawnTracked starts a worker for commands of a server. The caller holds mu.
func (w *workers) spawnTracked(user string) (*workerProcess, error) {
	p, ended, err := w.spawn(user)
	if err != nil {
		return nil, err
	}
	w.track(p.id, ended)
	return p, nil
}

// spawn starts a worker for a user, with these descriptors after that of the socket.
// The caller holds mu.
func (w *workers) spawn(user string, more ...int) (p *workerProcess, ended <-chan unix.WaitStatus, err error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, nil, fmt.Errorf("create the worker's socket: %w", err)
	}
	defer unix.Close(theirs)
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		ours.Close()
		return nil, nil, fmt.Errorf("open the worker's input: %w", err)
	}
	defer unix.Close(null)
	args := []string{"hostler-shim", "worker"}
	if w.hostProcess {
		args = append(args, "shared")
	}
	files := []uintptr{uintptr(null), 2, 2, uintptr(theirs)}
	for _, fd := range more {
		files = append(files, uintptr(fd))
	}
	var found proctree.Process
	_, ended, err = w.reaper.start(func() (pid int, err error) {
		pid, err = syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{
			Dir: "/", Env: w.env,
			Files: files,
			Sys:   &syscall.SysProcAttr{Setpgid: true},
		})
		if err == nil {
			// It cannot be reaped yet, so its PID is still its own.
			found, err = proctree.Read(pid)
		}
		return pid, err
	})
	if err != nil {
		ours.Close()
		return nil, nil, fmt.Errorf("start a worker: %w", err)
	}
	return &workerProcess{id: found.ID, user: user, socket: ours}, ended, nil
}

// track keeps the worker in alive until it exits. The caller holds mu.
func (w *workers) track(id proctree.ID, ended <-chan unix.WaitStatus) {
	if w.alive == nil {
		w.alive = make(map[proctree.ID]bool)
	}
	w.alive[id] = true
	go func() { // ends with the worker
		<-ended
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.alive, id)
	}()
}

// run runs a command in the worker.
func (p *workerProcess) run(ctx context.Context, run shim.Run) (runtime.Result, error) {
	timeout := run.Timeout + run.Grace + shim.KillTimeout + workerMargin
	_ = p.socket.SetDeadline(time.Now().Add(timeout))
	err := shim.WriteFrame(p.socket, shim.KindRequest, shim.Request{ID: 1, Op: shim.OpRun, Run: &run})
	if err != nil {
		return runtime.Result{}, p.lostError(err)
	}
	stop := context.AfterFunc(ctx, func() {
		// The command was canceled. If the worker does not receive that, it
		// exceeds the deadline.
		_ = p.socket.SetDeadline(time.Now().Add(run.Grace + shim.KillTimeout + workerMargin))
		_ = shim.WriteFrame(p.socket, shim.KindRequest, shim.Request{Op: shim.OpCancel})
	})
	p.beginAnswers()
	f, err := p.response()
	// A cancellation or an answer may still be in transit and must not affect the
	// next command.
	p.notReusable = p.endAnswers()
	p.notReusable = !stop() || p.notReusable
	if err != nil {
		return runtime.Result{}, p.lostError(err)
	}
	return p.result(f)
}

// response reads until the worker responds to its command.
func (p *workerProcess) response() (shim.Frame, error) {
	for {
		f, err := shim.ReadFrame(p.socket, shim.MaxFrame)
		if err != nil || f.Kind != kindOutput {
			return f, err
		}
		if err := p.deliver(f); err != nil {
			return f, err
		}
	}
}

// result returns the result in a worker's response.
func (p *workerProcess) result(f shim.Frame) (runtime.Result, error) {
	response, err := shim.Decode[shim.Response](f, shim.KindResponse)
	if err != nil {
		return runtime.Result{}, p.lostError(err)
	}
	if response.Error != nil {
		p.notReusable = p.notReusable || response.Error.Code != shim.CodeStart
		return runtime.Result{}, response.Error.Err()
	}
	if response.Result == nil {
		return runtime.Result{}, p.lostError(errors.New("a response without a result"))
	}
	return *response.Result, nil
}

// lostError returns the error for a command whose worker was killed, stopped or
// corrupted: no process knows what the command has started.
func (p *workerProcess) lostError(err error) error {
	p.notReusable = true
	return fmt.Errorf("%w: the command's worker was lost: %w", runtime.ErrTainted, err)
}
