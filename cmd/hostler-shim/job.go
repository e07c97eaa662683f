package main

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"golang.org/x/sys/unix"
)

// job is one command, from its start until none of its processes is left.
type job struct {
	spec       shim.Run
	cancelled  chan struct{}
	cancelOnce sync.Once

	oom    oomCounter
	output *outputLimit

	inherited bool   // its streams are those that this process has inherited
	terminal  bool   // they are a terminal
	onStart   func() // called when it has started, if its streams are inherited

	leaderPID    int
	started      time.Time
	leaderExited chan struct{}   // closed when the leader has exited
	status       unix.WaitStatus // of the leader, once leaderExited is closed
	allReaped    chan struct{}   // closed when no child is left

	hurry chan struct{} // has a token when grace has become shorter

	// reapMu guards the fields below. It is held while the leader is reaped, so
	// that while a caller holds it and reaped is false, the PID still belongs to
	// the leader.
	reapMu     sync.Mutex
	reaped     bool
	isKilling  bool          // this process sends SIGKILL
	sawSIGKILL bool          // a process was ended by SIGKILL before that
	grace      time.Duration // see end
	streams    streams       // once it has started, unless they are inherited
	cpuTime    time.Duration // of the leader with its children, if SIGKILL has ended it before that
}

func newJob(spec shim.Run, oom oomCounter) *job {
	return &job{
		spec:         spec,
		grace:        spec.Grace,
		hurry:        make(chan struct{}, 1),
		oom:          oom,
		output:       newOutputLimit(spec.Limits.Output),
		cancelled:    make(chan struct{}),
		leaderExited: make(chan struct{}),
		allReaped:    make(chan struct{}),
	}
}

// cancel ends the command as its timeout would.
func (j *job) cancel() { j.cancelOnce.Do(func() { close(j.cancelled) }) }

// run runs the command until its end.
func (j *job) run() (runtime.Result, error) {
	kills, counted := j.oom.read()
	ours, err := j.start()
	if err != nil {
		reapFailed()
		return runtime.Result{}, err
	}
	go j.reap() // ends when no child is left
	var result runtime.Result
	ok := j.wait(&result)
	result.Duration = time.Since(j.started)
	if !j.inherited {
		ours.finish()
		result.Duration = time.Since(j.started)
		result.Stdout, result.Stderr = ours.out.printed(), ours.err.printed()
		j.setStreams(streams{}) // the worker keeps the job
	}
	j.explain(&result, func() bool {
		after, ok := j.oom.read()
		return counted && ok && after > kills
	})
	if !ok {
		return result, fmt.Errorf("%w: processes of %q survived SIGKILL", runtime.ErrTainted, j.spec.Args[0])
	}
	return result, nil
}

// setStreams sets the streams that printed reads.
func (j *job) setStreams(s streams) {
	j.reapMu.Lock()
	defer j.reapMu.Unlock()
	j.streams = s
}

// streams are our ends of a command's input and output.
type streams struct {
	in       *feeder // nil without input
	out, err *drain
}

func (s streams) finish() {
	s.out.finish()
	s.err.finish()
	if s.in != nil {
		s.in.finish()
	}
}

// start starts the command with its streams.
func (j *job) start() (streams, error) {
	as, err := containerAccounts.lookup(j.spec.User)
	if err != nil {
		return streams{}, err
	}
	l := launch{args: j.spec.Args, as: as, dir: j.spec.Workdir, limits: j.spec.Limits}
	// A start that a process of the same user stops fails before init gives
	// up this worker.
	l.startTimeout = min(startTimeout, j.spec.Timeout+j.spec.Grace+shim.KillTimeout)
	l.env = mergeEnv(os.Environ(), j.spec.Environment, as.home)
	if j.inherited {
		l.startTimeout = startTimeout
		return streams{}, j.startInherited(l)
	}
	if len(j.spec.Script) > 0 {
		if l.script, err = openScript(j.spec.Script); err != nil {
			return streams{}, err
		}
		defer l.script.Close()
		l.args = append(slices.Clip(l.args), shim.ScriptPath)
	}

	in, feed, err := openInput(j.spec.Stdin)
	if err != nil {
		return streams{}, startErrorf("open the input: %s", err)
	}
	out, outTheirs, err1 := pipe(true)
	errs, errTheirs, err2 := pipe(true)
	l.files = [3]int{in, outTheirs, errTheirs}
	if err1 != nil || err2 != nil {
		err = startErrorf("open the output: %v", firstError(err1, err2))
	} else {
		j.started = time.Now()
		j.leaderPID, err = l.start()
	}
	for _, fd := range l.files {
		unix.Close(fd) // also -1 of a pipe that could not be created, which is harmless
	}
	if err != nil {
		closeAll(feed, out, errs)
		if l.script != nil {
			err = noShellError(l.args[0], err)
		}
		return streams{}, err
	}
	s := streams{out: newDrain(out, j.output), err: newDrain(errs, j.output)}
	if feed != nil {
		s.in = newFeeder(feed, j.spec.Stdin)
	}
	j.setStreams(s)
	return s, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// wait waits for the command and its descendants to exit. It returns false if a
// process cannot be killed.
func (j *job) wait(result *runtime.Result) bool {
	var timedOut <-chan time.Time // never, without a timeout
	if j.spec.Timeout > 0 {
		timeout := time.NewTimer(time.Until(j.started.Add(j.spec.Timeout)))
		defer timeout.Stop()
		timedOut = timeout.C
	}
	var ok bool
	select {
	case <-j.leaderExited:
		ok = j.killLeftovers(result)
	case <-timedOut:
		result.TimedOut = true
		ok = j.stop(result)
	case <-j.output.exceeded:
		ok = j.stop(result)
	case <-j.cancelled:
		ok = j.stop(result)
	}
	if ok {
		setExitStatus(j.status, result)
	}
	return ok
}

// killLeftovers kills the processes that a leader leaves behind when it exits.
func (j *job) killLeftovers(result *runtime.Result) bool {
	select {
	case <-j.allReaped: // no process is left: the usual case
		return true
	case <-time.After(reapGrace):
	}
	left, err := j.descendants()
	if err != nil {
		logError("list leftover processes", err)
	}
	result.Leaked = len(left)
	return j.stop(result)
}

// reapGrace is how long it may take to reap the last children of a command that
// exited with it, such as those of a pipeline.
const reapGrace = 2 * time.Millisecond

// stop asks all processes to exit, and kills those that have not exited after
// the grace period. Without a grace period it kills all at once.
func (j *job) stop(result *runtime.Result) bool {
	if j.currentGrace() > 0 {
		j.terminate()
	}
	if j.waitGrace() {
		return true
	}
	result.Killed = true
	j.reapMu.Lock()
	j.isKilling = true
	j.reapMu.Unlock()
	s := proctree.Sweeper{Targets: j.descendants, IsGone: j.waitReaped}
	return s.Kill(shim.KillTimeout)
}

func (j *job) waitReaped(timeout time.Duration) bool {
	select {
	case <-j.allReaped:
		return true
	case <-time.After(timeout):
		return false
	}
}

// terminate sends SIGTERM to each process of the command once: to the leader's
// whole group, and to the processes that have left it.
func (j *job) terminate() {
	j.reapMu.Lock()
	grouped := !j.reaped && unix.Kill(-j.leaderPID, unix.SIGTERM) == nil
	j.reapMu.Unlock()
	all, err := j.descendants()
	if err != nil {
		logError("list the command's processes", err)
	}
	for _, p := range all {
		if !grouped || p.Group != j.leaderPID {
			p.Signal(unix.SIGTERM)
		}
	}
}

func (j *job) descendants() ([]proctree.Process, error) {
	return proctree.Descendants(os.Getpid())
}

// reap waits for every child, including orphans that have become children,
// until the kernel reports that none is left. All descendants eventually become
// our children, so this proves that the command has ended.
func (j *job) reap() {
	defer close(j.allReaped)
	for {
		// Wait without reaping first, so that the leader's PID is not reused
		// before terminate can know.
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return // ECHILD
		}
		j.reapAll()
	}
}

// reapAll reaps all children that have exited so far.
func (j *job) reapAll() {
	j.reapMu.Lock()
	defer j.reapMu.Unlock()
	for {
		var status unix.WaitStatus
		var used unix.Rusage
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WALL, &used)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		j.sawSIGKILL = j.sawSIGKILL || !j.isKilling && isSIGKILL(status, pid == j.leaderPID)
		if pid == j.leaderPID {
			j.reaped, j.status = true, status
			if status.Signal() == unix.SIGKILL && !j.isKilling {
				j.cpuTime = time.Duration(used.Utime.Nano() + used.Stime.Nano())
			}
			close(j.leaderExited)
		}
	}
}
