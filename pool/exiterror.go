package pool

import (
	"fmt"

	"github.com/hostler/hostler/runtime"
)

// exitError is an ErrUnhealthy: the main process has exited.
type exitError string

// exitErrorOf returns how a main process has ended.
func exitErrorOf(exitCode int, outOfMemory bool) exitError {
	if outOfMemory {
		return "it ran out of memory"
	}
	return exitError(fmt.Sprintf("its main process exited with code %d", exitCode))
}

func exitErrorOfStatus(s runtime.Status) exitError { return exitErrorOf(s.ExitCode, s.OOMKilled) }

func (e exitError) Error() string { return string(e) }

// Is implements the interface of errors.Is.
func (exitError) Is(target error) bool { return target == ErrUnhealthy }
