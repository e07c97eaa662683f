// Package runtime is the contract between Hostler and whatever runs its
// containers: the Docker engine, processes of this machine, or memory.
//
// It promises one meaning for every call on every backend. The suite in
// runtimetest is that meaning as code: a difference between two backends is a
// case there and a sentence here, never a type switch in a caller. What the
// package leaves to others: which containers there should be (package pool),
// what is run in them (package hooks) and when.
//
// Containers are named by Hostler's own id. A backend derives the engine's
// name from it and labels what it makes, so that a container of somebody else
// is never listed, never touched and never removed.
package runtime

import (
	"context"
	"io"
	"time"
)

// Runtime is everything that a backend does. All methods may be called by many
// goroutines at once, for one container as well as for several; calls that
// change one container (Start, Restart, Stop, Wipe, Destroy) are made by one
// flow at a time. Every call ends soon after its context does.
//
// Errors are those of errors.go, wrapped: match them with errors.Is and
// errors.AsType. ErrUnavailable stands for "the engine did not answer": nothing
// is known of the container, and the call may be made again. ErrUnresponsive is
// an ErrUnavailable whose cause is the container: the engine answers and
// reports it as running. A backend counts from the first request that such a
// container left unanswered. An answer ends the count; when it reaches the
// backend's limit, every call that needs the container's answer is ErrTainted,
// so that a flow that repeats what is ErrUnavailable comes to an end.
//
// Restart, Stop, RecordBaseline and Wipe carry a fence: a number above 0 that grows
// whenever another flow or another server becomes responsible for the
// container. The container remembers the greatest one, also over a restart by
// its engine, and refuses a smaller one with ErrStaleFence; an equal one is
// accepted.
//
// A container that a newer server made is ErrNewer to every call that would
// change it, Destroy included, and to those that need an answer of its program:
// only Status, List, Logs and Watch tell of it. One of a server that is too old
// is ErrTooOld to the latter. One whose record in the engine has no version, or
// what no server writes, is ErrTainted to them.
type Runtime interface {
	Lifecycle
	Observer
	Execer
	Files
	Recycler
}

// Lifecycle makes containers and ends them.
type Lifecycle interface {
	// Check says what of a spec this backend, as it is now, cannot do: a
	// *SpecError, which is an ErrInvalid. It makes nothing. A spec whose Isolation
	// asks for nothing is nil, without a question to the engine. What is accepted
	// here and cannot be done later fails Create or Start; it is never left out.
	Check(ctx context.Context, spec Spec) error
	// Create makes the container of spec, hardened, with its volumes, and starts
	// nothing. Creating an id that exists is ErrExists. A Create that fails or
	// is cut off may leave parts behind: Destroy removes them.
	Create(ctx context.Context, spec Spec) error
	// Start runs the main process and returns once the container accepts Exec.
	// Starting a container that runs already is nil.
	Start(ctx context.Context, id string) error
	// Restart ends every process in the container and runs the main process
	// anew. Files, volumes and the endpoint stay as they are. It starts a main
	// process that a Wipe has ended. Of a container that has ended by itself
	// only the volumes are sure to stay, and an engine may refuse to start one
	// (ErrNotRunning) or let it wait.
	Restart(ctx context.Context, id string, fence int64) error
	// Stop ends every process in the container, the main one too, and is no
	// death: the container stays, its files stay and can be read with CopyOut,
	// and Restart starts the main process again. Until then Exec is
	// ErrNotRunning. One that has ended by itself is ErrNotRunning.
	Stop(ctx context.Context, id string, fence int64) error
	// Destroy asks the main process to end (Spec.StopSignal), waits for that for
	// as long as Spec.StopGracePeriod, ends what still runs and removes the
	// container with its volumes. A container without a main process is removed
	// at once. The commands in it may run on until the main process has ended.
	// One that is not there is nil, so that it can be called until it says nil;
	// the grace period of a container begins with the first call.
	Destroy(ctx context.Context, id string) error
}

// Observer tells what there is.
type Observer interface {
	// Protocols are the versions that this server speaks. They never change.
	Protocols() Protocols
	// Status describes one container; ErrNotFound when there is none.
	Status(ctx context.Context, id string) (Status, error)
	// List describes every container that this Hostler made, in any state, in
	// no order. It tells them by label, and leaves out other people's. Whether a
	// container that has exited ran out of memory is known by Status alone. One
	// container about which the engine does not answer does not hold it up.
	List(ctx context.Context) ([]Status, error)
	// Logs reads what the main process has printed since then, both streams
	// together, the last tail bytes of it at most; with the zero time since it was
	// first started. A time at which nothing ran in the container, between a Wipe
	// and the next Restart, is exact: nothing of before it is in the log. The
	// caller closes it.
	Logs(ctx context.Context, id string, since time.Time, tail int64) (io.ReadCloser, error)
	// Watch calls died for every container of ours whose main process ends or
	// that disappears, until ctx ends (nil) or the engine is lost
	// (ErrUnavailable). It calls ready once, when no later death can be missed;
	// what died before is found by List. Deaths by Destroy are reported too. A
	// death while the engine's account was interrupted is told when the account
	// goes on, or the engine is lost.
	Watch(ctx context.Context, ready func(), died func(Exit)) error
}

// Execer runs commands.
type Execer interface {
	// Exec runs a command in the container. It returns only when the command,
	// and everything that it started, is gone, or when the container is doomed.
	//
	// A Result with a nil error means that the command ran and is over: look at
	// its ExitCode, Signal and TimedOut. A *StartError means that it never ran.
	// ErrNotRunning means that there was no main process to run beside. ErrContainerExited
	// means that the container ended while the command ran: nothing of it is
	// left, and its outcome is unknown. ErrTainted means that it could not be
	// confirmed that everything is gone: destroy the container. ErrUnavailable
	// means that the engine did not answer: the command never began, or what
	// became of it was not heard of within its timeout, which is kept in the
	// container all the same. Outcome tells. Until the container is started anew,
	// another Exec of the same Key runs what never began, and else gives the
	// outcome that there is.
	//
	// When ctx ends first, the command is ended as by its timeout and the error
	// is the context's cause.
	Exec(ctx context.Context, id string, cmd Command) (Result, error)
	// WaitResult tells of a command that was begun before, perhaps by a server that
	// is no more, what Exec would have: it waits for its end, and starts
	// nothing. The command is named by its Key; its Timeout and Grace say how
	// long that may take. ErrNoRun means that the container knows no such
	// command: it never began, or it did before the container was started
	// anew, or too long ago.
	WaitResult(ctx context.Context, id string, cmd Command) (Result, error)
}

// Files moves files in and out as tar streams.
type Files interface {
	// CopyIn unpacks the tar stream into dir, an existing folder of the
	// container. What it makes belongs to the container's user. An entry that
	// points outside dir, and one that is no file, folder or symbolic link, is
	// ErrBadArchive. What was unpacked before the fault stays.
	CopyIn(ctx context.Context, id, dir string, tar io.Reader) error
	// CopyOut packs what is below dir into a tar stream with names relative to
	// dir. A missing dir is ErrFileNotFound. Reading ends in io.EOF only after the
	// last byte of a whole archive; anything else is an error. The caller
	// closes it.
	CopyOut(ctx context.Context, id, dir string) (io.ReadCloser, error)
	// LastModified is when something in or below one of the folders was last
	// changed, by the container's own clock: made, written, renamed, removed or
	// given other rights. It is the zero time when none of them is there, and
	// ErrScanIncomplete when they hold more than can be looked at in some minutes.
	LastModified(ctx context.Context, id string, dirs []string) (time.Time, error)
}

// Recycler makes a container fit for another tenant, or reports that it is not.
type Recycler interface {
	// RecordBaseline takes the baseline: the state from which every tenant starts. It ends
	// every process before, for what one did before the baseline could take
	// effect after it, and starts the main process anew. It is called once,
	// before the first tenant. Without it a Wipe is ErrWipeUnverified.
	RecordBaseline(ctx context.Context, id string, fence int64) error
	// Wipe ends every process in the container, the main one too, empties its
	// volumes and temporary filesystems, and proves that nothing else differs
	// from the baseline: the content and the metadata of every file that a
	// process could have changed, by what no process can set. It restores or
	// compares what the emptied directories have besides files, and removes
	// System V objects and message queues. What cannot be proven, or only at
	// a higher cost than that of another container, is ErrWipeUnverified with the
	// reason: destroy the container. Afterwards CopyIn and Restart make it
	// ready.
	Wipe(ctx context.Context, id string, fence int64) error
}

// ReservedUser is the user, and the group, of the program that looks after a
// container from inside, where that can have a user of its own. No process of a
// workload may have it, whatever a Spec or the container's files say. It is
// below 65536, so that user namespaces of the usual size have it.
const ReservedUser = 64997

// Spec is what a container is made of. The zero value of a field means the
// image's own or the backend's safest.
type Spec struct {
	ID          string            // Hostler's id for it, unique for ever
	Workload    string            // a label
	Revision    string            // a label
	Image       string            // a reference the engine can resolve
	Command     []string          // argv; empty for the image's own
	Environment map[string]string // added to the image's
	User        string            // uid, uid:gid, name or name:group
	Workdir     string            // absolute; empty for the image's own
	ReadOnly    bool              // the root filesystem
	Ports       []int             // TCP ports that the endpoint lists
	Networks    []string          // engine networks; empty for Hostler's own
	DNS         []string          // resolvers; empty for the engine's
	Limits      Limits
	Volumes     []Volume
	// StopSignal asks the main process to end when the container is destroyed,
	// written as ParseSignal reads it. Empty means the image's, else SIGTERM.
	StopSignal string
	// StopGracePeriod is how long Destroy waits for the main process to end.
	// With 0 it is killed at once.
	StopGracePeriod time.Duration
	Isolation       Isolation
}

// Limits bound what the container may use. Zero means the backend's default,
// which is never "unlimited" for PIDs.
type Limits struct {
	CPUs   float64 // cores
	Memory int64   // bytes
	PIDs   int64   // processes and threads
}

// Volume is a private, initially empty folder of one container. It outlives a
// restart and ends with the container.
type Volume struct {
	Name     string // unique within the container
	Target   string // absolute path in the container
	ReadOnly bool   // for the container's processes; CopyIn still writes
}

// State is what a container is doing.
type State string

// The states of a container, as the backend sees it.
const (
	Created State = "created" // made, never started
	Running State = "running"
	Exited  State = "exited" // the main process ended, or the engine stopped it
)

// Status is what a backend knows of one container.
type Status struct {
	ID        string
	Workload  string
	Revision  string
	State     State
	ExitCode  int  // meaningful when Exited
	OOMKilled bool // the engine says that memory ended it
	Protocol  int  // the version in the engine's record of it; 0 when that has none
	Endpoint  Endpoint
}

// Endpoint is where the container's ports can be reached from this machine.
type Endpoint struct {
	Host  string `json:"host"`  // an address; empty when it has no network
	Ports []int  `json:"ports"` // as the workload lists them
}

// Exit tells that a container's main process ended.
type Exit struct {
	ID        string
	ExitCode  int
	OOMKilled bool
	Time      time.Time
}
