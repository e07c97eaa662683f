// Package runtime is the contract between Hostler and the backends that run its
// containers: the Docker engine, Kubernetes, processes of this machine, or
// memory.
//
// It promises one meaning for every call on every backend. The suite in
// runtimetest is that meaning as code: a difference between two backends is a
// case there and a sentence here, never a type switch in a caller. The package
// leaves to others which containers exist (package pool), and what runs in them
// and when (package hooks).
//
// Containers are named by Hostler's own id. A backend derives the engine's
// name from it and labels what it creates, so that it never lists, changes or
// removes a container of another owner.
package runtime

import (
	"context"
	"io"
	"time"

	"github.com/hostler/hostler/runtime/tree"
)

// Runtime is all that a backend does. Many goroutines may call all methods
// concurrently, for one container as well as for several. Calls that change one
// container (Start, Restart, RestartWith, Stop, Wipe, Destroy) are made by one flow
// at a time. Every call returns soon after its context ends.
//
// Errors are those of errors.go, wrapped: match them with errors.Is and
// errors.AsType. ErrUnavailable means that the engine did not respond: nothing
// is known of the container, and the call may be retried. ErrUnresponsive is an
// ErrUnavailable whose cause is the container: the engine responds and reports
// it as running. A backend measures from the first request that such a
// container did not answer. A response resets the measurement. When it reaches
// the backend's limit, every call that needs a response of the container is
// ErrTainted, so that a flow that retries on ErrUnavailable terminates.
//
// Start, Restart, RestartWith, Stop, RecordBaseline and Wipe carry a fence: a number
// above 0 that grows whenever another flow or another server becomes responsible for the
// container. The container remembers the greatest one, also across a restart by
// its engine, and rejects a smaller one with ErrStaleFence. An equal one is
// accepted. Exec and CopyIn carry the fence of their flow as well. The container
// remembers theirs until it exits. A fence of 0 is that of no flow, such as a
// health check, and is accepted there.
//
// For a container that a newer server created, every call that would change it
// returns ErrNewer, Destroy included, and so does every call that needs a
// response of its program: only Status, List, Logs and Watch report on it. For
// one of a server that is too old, the latter calls return ErrTooOld. For one
// whose record in the engine has no version, or one that no server writes, they
// return ErrTainted.
type Runtime interface {
	Lifecycle
	Environments
	Observer
	Execer
	Outputs
	Files
	Images
	Recycler
	Requester
	Commander
	TenantFiles
	Ports
}

// Lifecycle creates and destroys containers.
type Lifecycle interface {
	// Check reports what of a spec this backend, in its current state, does not
	// support: a *SpecError, which is an ErrInvalid. It creates nothing. For a
	// spec with a zero Isolation it sends no request to the engine.
	// What Check accepts and the backend cannot do later fails Create or Start;
	// it is never silently omitted.
	Check(ctx context.Context, spec Spec) error
	// Create creates the container of spec, hardened, with its volumes, and starts
	// nothing. An id that exists is ErrExists. A Create that fails or is
	// interrupted may leave parts: Destroy removes them.
	Create(ctx context.Context, spec Spec) error
	// Start runs the main process and returns once the container accepts Exec.
	// For a container that runs already it returns nil if the main process was
	// started with the same fence, and is a Restart otherwise.
	Start(ctx context.Context, id string, fence int64) error
	// Restart ends every process in the container and runs the main process
	// again. Files, volumes and the endpoint stay as they are. It starts a main
	// process that a Wipe has ended. Of a container that exited by itself only
	// the volumes are sure to stay, and an engine may refuse to start it
	// (ErrNotRunning) or delay the start.
	Restart(ctx context.Context, id string, fence int64) error
	// Stop ends every process in the container, the main process included. It is
	// not an Exit: the container and its files stay, CopyOut can read the files,
	// and Restart starts the main process again. Until then Exec returns
	// ErrNotRunning. A container that exited by itself is stopped too: its files
	// can be read then, and its main process is not started for that. Status may
	// report it as running or exited until Restart. For one that was never
	// started, Stop returns ErrNotRunning.
	Stop(ctx context.Context, id string, fence int64) error
	// Destroy asks the main process to exit (Spec.StopSignal), waits up to
	// Spec.StopGracePeriod, kills what still runs and removes the container with
	// its volumes. A container without a main process is removed at once. The
	// commands in it may run until the main process has exited. For a container
	// that does not exist Destroy returns nil, so that it can be called until it
	// does. The grace period of a container begins with the first call.
	Destroy(ctx context.Context, id string) error
}

// Observer reports which containers exist and what they do.
type Observer interface {
	// Protocols returns the versions that this server supports. They never
	// change.
	Protocols() Protocols
	// Status describes one container; ErrNotFound if it does not exist.
	Status(ctx context.Context, id string) (Status, error)
	// List describes every container that this Hostler created, in any state, in
	// no order. It selects them by label and omits those of other owners.
	// Only Status reports whether an exited container ran out of memory. A
	// container about which the engine does not respond does not block List.
	List(ctx context.Context) ([]Status, error)
	// Logs returns what the main process has printed, both streams interleaved, at
	// most the last tail bytes. The time since is when the container was last
	// wiped, by the caller's clock; the zero time means never. The result then has
	// nothing from before that Wipe, however much the clocks differ. Where no Wipe
	// is recorded in the log, it has what was printed since then by the engine's
	// clock. The caller closes it.
	Logs(ctx context.Context, id string, since time.Time, tail int64) (io.ReadCloser, error)
	// Reach returns nil if calls to the container can be answered: a connection to it
	// is open, which costs the engine nothing, or could be opened. Otherwise it
	// returns the error of such a call. The caller bounds it with ctx.
	Reach(ctx context.Context, id string) error
	// Watch calls onExit for every container of this Hostler whose main process
	// exits or that disappears, and for every change of a Condition: such an Exit has
	// the Condition, and is none. Watch returns nil when ctx ends, and ErrUnavailable
	// when it loses the engine. It calls ready once, as soon as no later exit can
	// be missed; List finds earlier ones. Exits by Destroy are reported too. An
	// exit while the engine's event stream was interrupted is reported when the
	// stream resumes, or else Watch returns ErrUnavailable.
	Watch(ctx context.Context, ready func(), onExit func(Exit)) error
}

// Execer runs commands.
type Execer interface {
	// Exec runs a command in the container. It returns only when the command and
	// everything that it started have exited, or when the container is tainted.
	//
	// A Result with a nil error means that the command ran and ended: see its
	// ExitCode, Signal and TimedOut. A *StartError means that it never ran.
	// ErrNotRunning means that no main process was running. ErrContainerExited
	// means that the container exited while the command ran: nothing of it is
	// left, and its outcome is unknown. ErrTainted means that the backend could
	// not confirm that every process has exited: destroy the container.
	// ErrUnavailable means that the engine did not respond: either the command
	// never began, or its outcome was not received within its timeout. The
	// container enforces the timeout all the same, and WaitResult returns the
	// outcome. Until the container is started again, another Exec of the same
	// RunID runs a command that never began, and otherwise returns the outcome
	// of the one that did.
	//
	// If ctx ends first, the command is ended as by its timeout and the error is
	// the context's cause. If that could not be confirmed, it also matches
	// ErrUnavailable or ErrTainted.
	Exec(ctx context.Context, id string, cmd Command) (Result, error)
	// WaitResult returns what Exec would have returned for a command that began
	// before, possibly on behalf of an earlier server. It waits for the end of
	// the command and starts nothing. The command is named by its RunID; its
	// Timeout and Grace bound the wait. ErrUnknownRun means that the container
	// has no such command: it never began, or it began before the container was
	// started again, or too long ago. ErrUnavailable means that the engine does
	// not respond: nothing is known of the command, and WaitResult may be called
	// again.
	//
	// If ctx ends first, or has ended before, the command is ended as by Exec.
	WaitResult(ctx context.Context, id string, cmd Command) (Result, error)
}

// Outputs reads the output of commands that run.
type Outputs interface {
	// Output returns what the command RunID has printed so far, or at all if it
	// has ended. It waits for nothing and changes nothing. ErrUnknownRun is that of
	// Execer.WaitResult. ErrUnsupported means that the container's program is from a
	// server that did not have Output. What it returns is the tenant's: a process
	// that has the output open can write anything to it.
	Output(ctx context.Context, id, runID string) (stdout, stderr Output, err error)
}

// Files copies files in and out, file by file or as tar streams.
type Files interface {
	tree.Trees
	// CopyIn unpacks the tar stream into dir, an existing directory of the
	// container. What it creates belongs to the container's user. An entry that
	// points outside dir, and one that is not a file, directory or symbolic
	// link, is ErrBadArchive. What was unpacked before the error stays.
	CopyIn(ctx context.Context, id, dir string, fence int64, tar io.Reader) error
	// CopyOut packs what is below dir into a tar stream with names relative to
	// dir. A missing dir is ErrFileNotFound. Reading returns io.EOF only after
	// the last byte of a complete archive; anything else is an error. The caller
	// closes it.
	CopyOut(ctx context.Context, id, dir string) (io.ReadCloser, error)
	// LastModified returns when something in or below one of the directories was
	// last created, written, renamed, removed or given other permissions, by the
	// container's own clock. It returns the zero time if none of the directories
	// exists, and ErrScanIncomplete if they hold more than a scan can read in
	// some minutes.
	LastModified(ctx context.Context, id string, dirs []string) (time.Time, error)
}

// Images reads what the image of a container has for Hostler.
type Images interface {
	// ImageHooks lists the hooks of the container's image at points, in order of
	// points. It runs as the container's user, who must not be able to change them.
	// It is called before the first tenant: what it returns is trusted later. A
	// Command runs them by their Digest. Where containers have no image, or
	// their program cannot list them, there are none, and Refused has the reason.
	ImageHooks(ctx context.Context, id string, points []string, fence int64) (ImageHooks, error)
}

// Recycler prepares a container for another tenant, or reports that it cannot.
type Recycler interface {
	// RecordBaseline records the baseline: the state from which every tenant
	// starts. It first ends every process, because the effect of an earlier one
	// could follow the baseline, and then starts the main process again. It is
	// called once, before the first tenant. Without a baseline a Wipe returns
	// ErrWipeUnverified.
	RecordBaseline(ctx context.Context, id string, fence int64) error
	// Wipe ends every process in the container, the main process included,
	// empties its volumes and temporary filesystems, and proves that nothing else
	// differs from the baseline: it compares the content and the metadata of
	// every file that a process could have changed, by attributes that no process
	// can set. It restores or compares what the emptied directories have in addition to
	// files, and removes System V objects and message queues. What it cannot
	// prove, or only at a higher cost than that of another container, is
	// ErrWipeUnverified with the reason: destroy the container. Afterwards CopyIn
	// and Restart make the container ready.
	Wipe(ctx context.Context, id string, fence int64) error
}

// FirstFence is the fence of the flow that creates a container. No tenant's flow has it.
const FirstFence = 1

// ReservedUser is the user and group id of the program that supervises a
// container from inside, where that program can have a user of its own. No
// process of a workload may have it, whatever a Spec or the container's files
// request. It is below 65536, so that user namespaces of the usual size have it.
const ReservedUser = 64997

// Spec describes a container. The zero value of a field means the image's own
// value or the backend's safest.
type Spec struct {
	ID          string            // Hostler's id for it, never reused
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
	// StopSignal asks the main process to exit when the container is destroyed,
	// written as ParseSignal reads it. Empty means the image's, else SIGTERM.
	StopSignal string
	// StopGracePeriod bounds how long Destroy waits for the main process to exit.
	// With 0 it is killed at once.
	StopGracePeriod time.Duration
	Isolation       Isolation
	// CommandLimits has a value in each limit that a command of the container
	// will have. Only Check uses it, to reject those that the backend does not
	// enforce.
	CommandLimits ProcessLimits
	// KeepsState means that the files of a tenant are read before the container may
	// end. Where someone else than Destroy ends it with a grace period, the container
	// lasts for that period once a tenant has had it, although its main process has
	// exited.
	KeepsState bool
}

// Limits bound what the container may use. Zero means the backend's default,
// which is never "unlimited" for PIDs.
type Limits struct {
	CPUs   float64 // cores
	Memory int64   // bytes
	PIDs   int64   // processes and threads
}

// Volume is a private, initially empty directory of one container. It outlives a
// restart and is removed with the container.
type Volume struct {
	Name     string // unique within the container
	Target   string // absolute path in the container
	ReadOnly bool   // for the container's processes; CopyIn still writes
}

// State is the state of a container.
type State string

// The states of a container, as the backend reports them.
const (
	Created State = "created" // never started
	Running State = "running"
	Exited  State = "exited" // the main process exited, or the engine stopped it
)

// Condition is what the engine reports of a container in addition to its state.
// An engine that removes containers at once, and runs them on its own machine, has
// none.
type Condition string

// The conditions of a container.
const (
	// Terminating means that the engine was told to remove the container, by
	// Destroy or by someone else. Until its grace period is over, it may run.
	Terminating Condition = "terminating"
	// Unreachable means that the container's machine does not report: the rest of
	// the Status may be outdated.
	Unreachable Condition = "unreachable"
	// Reachable is the end of Unreachable. Only an Exit has it.
	Reachable Condition = "reachable"
)

// Status describes one container as the backend reports it.
type Status struct {
	ID        string
	Workload  string
	Revision  string
	State     State
	Condition Condition // Terminating, Unreachable or empty
	ExitCode  int       // meaningful when Exited
	OOMKilled bool      // the engine reports that the container ran out of memory
	Protocol  int       // the version in the engine's record of it; 0 if that has none
	Endpoint  Endpoint
	// Node is the name of the machine that the container runs on. It never changes
	// once the container was started. Only Status has it.
	Node string
}

// Endpoint is the address at which this machine reaches the container's ports.
type Endpoint struct {
	Host  string `json:"host"`  // an address; empty when it has no network
	Ports []int  `json:"ports"` // as the workload lists them
}

// Exit reports that a container's main process exited, or that its Condition has
// changed.
type Exit struct {
	ID        string
	Condition Condition // empty: the main process exited
	ExitCode  int
	OOMKilled bool
	Time      time.Time
}
