package main

import (
	"time"

	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// Between init and the worker of a command with streams.
const (
	// opStream and opTerminal are OpRun for a command whose streams the worker has
	// inherited, the latter with a terminal. The worker sends a progress message when
	// the command has started.
	opStream   shim.Op = "stream"
	opTerminal shim.Op = "terminal"

	kindEnd    shim.Kind = 'x' // workerEnd
	kindSignal shim.Kind = 'k' // workerSignal
)

// workerEnd ends a command as its timeout would, at the latest after the grace.
type workerEnd struct {
	Grace time.Duration `json:"grace"`
}

// workerSignal is a signal for the processes of a command in a group, and in the
// group of its leader if that is 0.
type workerSignal struct {
	Signal int `json:"signal"`
	Group  int `json:"group,omitempty"`
}

// inheritedStreams are the descriptors of a command's streams in its worker.
var inheritedStreams = [3]int{4, 5, 6}

// streamOps are the ways to run a command whose streams are inherited, and whether
// it has a terminal.
var streamOps = map[shim.Op]bool{opStream: false, opTerminal: true}

// messageHandlers handle what init sends while a command runs.
var messageHandlers = map[shim.Kind]func(w *worker, j *job, f shim.Frame) error{
	kindOutput: (*worker).answerOutput,
	kindEnd: func(_ *worker, j *job, f shim.Frame) error {
		m, err := shim.Decode[workerEnd](f, kindEnd)
		if err == nil {
			j.end(m.Grace)
		}
		return err
	},
	kindSignal: func(_ *worker, j *job, f shim.Frame) error {
		m, err := shim.Decode[workerSignal](f, kindSignal)
		if err == nil {
			j.signal(unix.Signal(m.Signal), m.Group)
		}
		return err
	},
}

// newStreamJob returns a command whose streams are inherited. started is called
// when it has started.
func newStreamJob(run shim.Run, oom oomCounter, terminal bool, started func()) *job {
	j := newJob(run, oom)
	j.inherited, j.terminal, j.onStart = true, terminal, started
	return j
}

// startInherited starts the command with the streams that this process has
// inherited, and closes them.
func (j *job) startInherited(l launch) error {
	l.files, l.session, l.terminal = inheritedStreams, j.terminal, j.terminal
	j.started = time.Now()
	pid, err := l.start()
	closeDescriptors(inheritedStreams)
	if err != nil {
		return err
	}
	j.reapMu.Lock()
	j.leaderPID = pid
	j.reapMu.Unlock()
	j.onStart()
	return nil
}

// end ends the command as its timeout would, at the latest after the grace, also if
// it is ending already.
func (j *job) end(grace time.Duration) {
	j.reapMu.Lock()
	if grace < j.grace {
		j.grace = grace
		select {
		case j.hurry <- struct{}{}:
		default: // it is to look again anyway
		}
	}
	j.reapMu.Unlock()
	j.cancel()
}

// currentGrace returns the grace, which end may make shorter.
func (j *job) currentGrace() time.Duration {
	j.reapMu.Lock()
	defer j.reapMu.Unlock()
	return j.grace
}

// waitGrace waits for the end of all processes within the grace, which may become
// shorter.
func (j *job) waitGrace() bool {
	for begin := time.Now(); ; {
		timer := time.NewTimer(j.currentGrace() - time.Since(begin))
		select {
		case <-j.allReaped:
			timer.Stop()
			return true
		case <-timer.C:
			return false
		case <-j.hurry:
			timer.Stop()
		}
	}
}

// signal sends a signal to the processes of the command in a group: to none of
// another command, whatever group is in the foreground of a terminal.
func (j *job) signal(number unix.Signal, group int) {
	j.reapMu.Lock()
	leader := j.leaderPID
	isLeaders := leader > 0 && (group == 0 || group == leader)
	sent := isLeaders && !j.reaped && unix.Kill(-leader, number) == nil
	j.reapMu.Unlock()
	if sent || leader <= 0 {
		return
	}
	if isLeaders {
		group = leader
	}
	all, err := j.descendants()
	if err != nil {
		logError("list the command's processes", err)
	}
	for _, p := range all {
		if p.Group == group {
			p.Signal(number)
		}
	}
}

// isTerminal reports whether a descriptor is a terminal.
func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// closeOnExecInherited keeps the streams that this process has inherited from the
// programs that it starts, but for the command.
func closeOnExecInherited() {
	for _, fd := range inheritedStreams {
		unix.CloseOnExec(fd) // most workers have none
	}
}

// startForCommand starts a worker for one command of a tenant, with the command's
// streams. It is not among those that run commands of a server.
func (w *workers) startForCommand(user string, streams [3]int) (*workerProcess, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errMainNotRunning
	}
	p, _, err := w.spawn(user, streams[:]...)
	if err != nil {
		return nil, startErrorf("%s", err)
	}
	return p, nil
}
