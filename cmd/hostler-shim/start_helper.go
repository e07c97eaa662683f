package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	goruntime "runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"golang.org/x/sys/unix"
)

// startTimeout is how long a start helper may take.
const startTimeout = 10 * time.Second

// startRequest is the message to a process that will become a program of the
// workload.
type startRequest struct {
	Args   []string `json:"args"`
	Env    []string `json:"env"`
	Dir    string   `json:"dir"`
	UID    int      `json:"uid"`
	GID    int      `json:"gid"`
	Groups []int    `json:"groups"`

	Limits runtime.ProcessLimits `json:"limits"`
}

// startByHelper starts the program through this one: a process of our own user
// that becomes the other user. So no thread of the caller ever has that user's
// credentials, by which the user's processes could access the thread, and the
// kernel never has a reason to give the caller's files in /proc to root.
func (l launch) startByHelper() (int, error) {
	l.chownPipes()
	ours, theirs, err := socketPair()
	if err != nil {
		return 0, startErrorf("create a socket: %s", err)
	}
	defer ours.Close()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"hostler-shim", "start"}, &syscall.ProcAttr{
		Dir: "/", Env: []string{},
		Files: l.descriptors(theirs),
		Sys:   l.attributes(),
	})
	unix.Close(theirs)
	if err != nil {
		return 0, startErrorf("start the start helper: %s", err)
	}
	if err := l.sendStartRequest(ours); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL) // not reaped yet, so the PID is still its own
		return 0, err
	}
	return pid, nil
}

// sendStartRequest sends what to start and receives why it could not be
// started. If the socket is closed without a message, the program is running.
func (l launch) sendStartRequest(socket *os.File) error {
	_ = socket.SetDeadline(time.Now().Add(cmp.Or(l.startTimeout, startTimeout)))
	err := json.NewEncoder(socket).Encode(startRequest{
		Args: l.args, Env: l.env, Dir: l.dir, UID: l.as.uid, GID: l.as.gid, Groups: l.as.groups, Limits: l.limits,
	})
	if err != nil {
		return startErrorf("send the start request: %s", err)
	}
	var wireErr shim.WireError
	err = json.NewDecoder(io.LimitReader(socket, shim.MaxFrame)).Decode(&wireErr)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET): // the helper may not have read the last newline
		return nil
	case err != nil:
		return startErrorf("receive the start result: %s", err)
	}
	return wireErr.Err()
}

// runStart is the start helper. It becomes the program or sends the error.
func runStart([]string) int {
	unix.CloseOnExec(workerSocket)
	socket := os.NewFile(workerSocket, "init")
	var s startRequest
	err := json.NewDecoder(socket).Decode(&s)
	if err == nil {
		err = s.exec()
	}
	if _, known := errors.AsType[*runtime.StartError](err); !known {
		err = startErrorf("%s", fmt.Sprint(err))
	}
	_ = json.NewEncoder(socket).Encode(shim.NewWireError(err)) // if init has exited, this process ends as well
	return exitFailed
}

// exec returns only with an error.
func (s startRequest) exec() error {
	// The program inherits the credentials of the calling thread.
	goruntime.LockOSThread()
	if err := setThreadIdentity(identity{uid: s.UID, gid: s.GID, groups: s.Groups}); err != nil {
		return err
	}
	l := launch{args: s.Args, env: s.Env, dir: s.Dir}
	path, err := l.prepare()
	if err != nil {
		return err
	}
	if err := unix.Chdir(s.Dir); err != nil {
		return workdirError(s.Dir, err)
	}
	debug.SetGCPercent(-1) // the limit of memory may be less than this process has
	if err := setRlimits(rlimits(s.Limits)); err != nil {
		return err
	}
	return execError(s.Args[0], path, unix.Exec(path, s.Args, s.Env))
}
