package runtime

import (
	"errors"
	"fmt"
)

// The errors of the contract. Backends convert their engine's errors into these
// at the edge where they enter.
var (
	// ErrNotFound reports that there is no such container.
	ErrNotFound = errors.New("no such container")
	// ErrExists reports that a container of that id exists already.
	ErrExists = errors.New("container already exists")
	// ErrNotRunning reports that the container exists and is not running.
	ErrNotRunning = errors.New("container is not running")
	// ErrContainerExited reports that the container exited during the call.
	ErrContainerExited = errors.New("container exited")
	// ErrUnknownRun reports that the container has no command of that RunID.
	ErrUnknownRun = errors.New("no such command in the container")
	// ErrTainted reports that something in the container can no longer be
	// controlled. Only Destroy is safe.
	ErrTainted = errors.New("container is tainted")
	// ErrWipeUnverified reports that a Wipe could not prove what it must.
	ErrWipeUnverified = errors.New("container wipe could not be verified")
	// ErrScanIncomplete reports that a scan of the container's files took too
	// long to complete. Nothing is known of the files.
	ErrScanIncomplete = errors.New("container has too many files to scan")
	// ErrUnavailable reports that the engine did not respond.
	ErrUnavailable = errors.New("container engine is unavailable")
	// ErrUnresponsive reports that the container did not respond, although the
	// engine reports it as running. It is an ErrUnavailable as well, as long as
	// the call may be retried. A container that has not responded for the
	// backend's limit is ErrTainted instead, which is not an ErrUnavailable.
	ErrUnresponsive error = unavailableError("container is running but does not respond")
	// ErrNewer reports that a newer server created the container. This server
	// does not support the protocol of its program and does not change it. It is
	// an ErrUnavailable: a newer server may retry the call.
	ErrNewer error = unavailableError("container was created by a newer server")
	// ErrTooOld reports that the server which created the container is older
	// than those whose containers this server supports. It is an ErrUnavailable:
	// a server of a version between the two may retry the call. Such a container
	// can be destroyed.
	ErrTooOld error = unavailableError("container was created by a server that is too old for this one")
	// ErrUnsupported reports that the container's program does not support what is
	// asked of it, because an older server created the container.
	ErrUnsupported = errors.New("container does not support it: an older server created it")
	// ErrStaleFence reports that a flow with a greater fence has become
	// responsible for the container. The call had no effect and must not be
	// retried.
	ErrStaleFence = errors.New("another flow is responsible for the container")
	// ErrInvalid reports that the engine rejected the spec. The wrapped error has
	// the engine's own words.
	ErrInvalid = errors.New("container spec is invalid")
	// ErrImageUnavailable reports that the image is not present and cannot be
	// pulled.
	ErrImageUnavailable = errors.New("image is not available")
	// ErrBadArchive reports that a tar stream is malformed or that an entry is
	// outside its directory.
	ErrBadArchive = errors.New("bad archive")
	// ErrFileNotFound reports that the path does not exist in the container.
	ErrFileNotFound = errors.New("no such file in the container")
	// ErrTooManyCommands reports that as many commands of the tenant are running
	// in the container as may.
	ErrTooManyCommands = errors.New("too many commands are running in the container")
	// ErrAttachedElsewhere reports that another client has attached to the command.
	ErrAttachedElsewhere = errors.New("another client has attached to the command")
	// ErrOutputLost reports that output of a command is not kept any more.
	ErrOutputLost = errors.New("output of the command is not kept any more")
	// ErrPortRefused reports that nothing listens on a port of the container.
	ErrPortRefused = errors.New("nothing listens on the port")
	// ErrTooManyConnections reports that as many connections to ports of the
	// container are open as may.
	ErrTooManyConnections = errors.New("too many connections to the container's ports")
)

// unavailableError is an ErrUnavailable whose cause is known.
type unavailableError string

func (u unavailableError) Error() string { return string(u) }
func (unavailableError) Unwrap() error   { return ErrUnavailable }

// StartReason is why a command did not start.
type StartReason string

// The reasons why a command did not start. A retry helps with none of them.
const (
	StartBinaryNotFound  StartReason = "binary_not_found"
	StartNotExecutable   StartReason = "not_executable"
	StartUserNotFound    StartReason = "user_not_found"
	StartWorkdirNotFound StartReason = "workdir_not_found"
	StartBadInput        StartReason = "bad_input" // NUL in argv, too long, too much stdin
	// StartUnsupported means that an older server created the container, whose
	// program cannot run such a command.
	StartUnsupported StartReason = "unsupported"
	StartFailed      StartReason = "start_failed"
)

// StartError reports that a command, or a main process, never ran.
type StartError struct {
	Reason StartReason
	Detail string // a sentence that names the binary, the user or the directory
}

func (e *StartError) Error() string {
	return fmt.Sprintf("start the command: %s (%s)", e.Detail, e.Reason)
}
