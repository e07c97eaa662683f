package runtime

import (
	"errors"
	"fmt"
)

// What can be wrong with a call. Backends turn their engine's errors into
// these where they enter.
var (
	// ErrNotFound says that there is no such container.
	ErrNotFound = errors.New("no such container")
	// ErrExists says that there is such a container already.
	ErrExists = errors.New("the container exists")
	// ErrNotRunning says that the container is there and does not run.
	ErrNotRunning = errors.New("the container is not running")
	// ErrContainerExited says that the container ended in the middle of the call.
	ErrContainerExited = errors.New("the container ended")
	// ErrUnknownRun says that the container knows no command of that key.
	ErrUnknownRun = errors.New("the container knows no such command")
	// ErrTainted says that something in the container can no longer be
	// controlled. Nothing but Destroy is safe.
	ErrTainted = errors.New("the container is out of control and must be destroyed")
	// ErrWipeUnverified says that a Wipe could not prove what it must.
	ErrWipeUnverified = errors.New("the container cannot be proven clean")
	// ErrScanIncomplete says that a look at the container's files took too long to
	// be finished, so that nothing is known of them.
	ErrScanIncomplete = errors.New("the container's files are too many to be looked at")
	// ErrUnavailable says that the engine did not answer.
	ErrUnavailable = errors.New("the container engine does not answer")
	// ErrUnresponsive says that the engine reports the container as running,
	// and that the container did not answer. It is an ErrUnavailable as well,
	// for as long as the call may be made again. A container that has not
	// answered for a backend's limit is ErrTainted instead, and that is no
	// ErrUnavailable.
	ErrUnresponsive error = unavailableError("the container runs and does not answer")
	// ErrNewer says that a newer server made the container: this one cannot
	// speak to its program, and leaves it alone. It is an ErrUnavailable: the
	// call may be made again, by a newer server.
	ErrNewer error = unavailableError("the container was made by a newer server")
	// ErrTooOld says that the server which made the container is older than
	// those whose containers this one can speak to. It is an ErrUnavailable: the
	// call may be made again, by a server of a version between the two. Such a
	// container can be destroyed.
	ErrTooOld error = unavailableError("the container was made by a server that is too old for this one")
	// ErrStaleFence says that a flow with a greater fence has become
	// responsible for the container. The call had no effect and is not to be
	// made again.
	ErrStaleFence = errors.New("another flow is responsible for the container")
	// ErrInvalid says that the engine refuses the spec, in its own words.
	ErrInvalid = errors.New("the container engine refuses the container")
	// ErrImageUnavailable says that the image is not there and cannot be pulled.
	ErrImageUnavailable = errors.New("the image is not available")
	// ErrBadArchive says that a tar stream is broken or reaches outside.
	ErrBadArchive = errors.New("bad archive")
	// ErrFileNotFound says that the path does not exist in the container.
	ErrFileNotFound = errors.New("no such file in the container")
)

// unavailableError is an ErrUnavailable whose cause is known.
type unavailableError string

func (u unavailableError) Error() string { return string(u) }
func (unavailableError) Unwrap() error   { return ErrUnavailable }

// StartReason is why a command did not start.
type StartReason string

// Why a command did not start. None gets better by trying again.
const (
	StartBinaryNotFound  StartReason = "binary_not_found"
	StartNotExecutable   StartReason = "not_executable"
	StartUserNotFound    StartReason = "user_not_found"
	StartWorkdirNotFound StartReason = "workdir_not_found"
	StartBadInput        StartReason = "bad_input" // NUL in argv, too long, too much stdin
	StartFailed          StartReason = "start_failed"
)

// StartError says that a command, or a main process, never ran.
type StartError struct {
	Reason StartReason
	Detail string // a sentence that names the binary, the user or the folder
}

func (e *StartError) Error() string {
	return fmt.Sprintf("start the command: %s (%s)", e.Detail, e.Reason)
}
