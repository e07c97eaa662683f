package main

import (
	"github.com/hostler/hostler/runtime"
	"golang.org/x/sys/unix"
)

// setExitStatus records how the leader exited.
func setExitStatus(status unix.WaitStatus, result *runtime.Result) {
	if status.Signaled() {
		result.ExitCode = 128 + int(status.Signal())
		result.Signal = unix.SignalName(status.Signal())
		return
	}
	result.ExitCode = status.ExitStatus()
}

// explain records why the command was ended, if this program or the kernel did.
// Only processes that SIGKILL has ended can be those that the kernel killed
// because the container ran out of memory: another process of the container may
// have been killed at the same time.
func (j *job) explain(result *runtime.Result, outOfMemory func() bool) {
	j.reapMu.Lock()
	defer j.reapMu.Unlock()
	limits := j.spec.Limits
	switch {
	case j.output.isExceeded():
		result.Exceeded = runtime.LimitOutput
	case j.sawSIGKILL && outOfMemory():
		result.OOMKilled = true
	case limits.CPUTime > 0 && (j.status.Signal() == unix.SIGXCPU || j.cpuTime >= limits.CPUTime):
		result.Exceeded = runtime.LimitCPUTime
	case limits.FileSize > 0 && j.status.Signal() == unix.SIGXFSZ:
		result.Exceeded = runtime.LimitFileSize
	}
}

// isSIGKILL reports whether SIGKILL has ended a process. A shell whose last
// command SIGKILL has ended exits with the code of the signal.
func isSIGKILL(status unix.WaitStatus, leader bool) bool {
	return status.Signaled() && status.Signal() == unix.SIGKILL ||
		leader && status.Exited() && status.ExitStatus() == 128+int(unix.SIGKILL)
}

// reapFailed waits for the processes of a command that could not be started,
// which have exited or were killed.
func reapFailed() {
	for {
		_, err := unix.Wait4(-1, nil, unix.WALL, nil)
		if err != nil && err != unix.EINTR {
			return // ECHILD
		}
	}
}
