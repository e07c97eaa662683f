package runtime

import (
	"context"
	"time"
)

// Limits of the commands of tenants.
const (
	// MaxTenantCommands bounds the commands of a container that run at once,
	// without those of Execer.
	MaxTenantCommands = 32
	// CommandBuffer is how many bytes of output a container keeps until they are
	// acknowledged. A command with more of them waits in its next write.
	CommandBuffer = 1 << 20
	// EndedCommandTTL is how long a container remembers a command that has ended,
	// with what is left of its output, unless a client has acknowledged all of it.
	EndedCommandTTL = 2 * time.Minute
)

// ControlOnly is the offset of an attachment that has no output: it sends input,
// signals and acknowledgments while another client may read.
const ControlOnly int64 = -1

// Commander runs commands with streams, for programs of tenants. They are apart
// from those of Execer: a tenant who runs as many as it may delays no hook.
//
// A command has ended when no process of it is left. It outlives the connection
// that started it and the server. Its output has one order, of both streams, and an
// offset counts its bytes. What is not acknowledged can be read again, by another
// server too.
type Commander interface {
	// OpenCommand starts a command, unless the container has one with that ID, and
	// attaches to it. A *StartError means that it never ran. ErrTooManyCommands
	// means that MaxTenantCommands are running. ErrStaleFence means that the claim
	// of the fence has ended. ErrUnsupported means that an older server created the
	// container. A call that ends with another error may have started the command:
	// call it again, or EndCommand. The context is that of the call, not of the
	// attachment.
	OpenCommand(ctx context.Context, id string, cmd TenantCommand) (CommandStream, error)
	// AttachCommand attaches to a command, which may have ended. What is before the
	// offset after counts as acknowledged. The fence is that of the claim: a command
	// of an earlier claim is ErrUnknownRun. So is one that the container has
	// forgotten. A container that has exited has none: ErrNotRunning, until it is
	// started again. ErrOutputLost means that the output from that offset on is not
	// kept any more. With ControlOnly as the offset the attachment takes no other
	// one's place and none takes its: it has no output, so Next is not called, and
	// its other methods are as those of any.
	AttachCommand(ctx context.Context, id, commandID string, fence, after int64) (CommandStream, error)
	// Commands lists those that the container knows of, running and ended, in the
	// order of their start.
	Commands(ctx context.Context, id string, fence int64) ([]CommandStatus, error)
	// EndCommand ends a command as its timeout would, and returns when it has
	// ended. One that has ended already is no error.
	EndCommand(ctx context.Context, id, commandID string, fence int64) error
	// EndCommands ends every command as its timeout would, at the latest after the
	// grace, and lets no command with a smaller fence start. It returns when all
	// have ended. An error that is ErrTainted means that one could not be ended.
	// A container that an older server created has none.
	EndCommands(ctx context.Context, id string, fence int64, grace time.Duration) error
}

// TenantCommand is a command with streams.
type TenantCommand struct {
	// ID names the command, until the container forgets it: IsRequestID.
	ID          string
	Args        []string          // argv; Args[0] is looked up in the container's PATH
	Environment map[string]string // over the container's
	User        string            // as Spec.User; empty for the container's own
	Workdir     string            // absolute; empty for the container's own
	// Terminal is the size of a terminal that the command gets in place of three
	// streams; nil for none. All its output is on stdout then.
	Terminal *TerminalSize
	// Input means that input will be sent. Otherwise it is empty.
	Input   bool
	Timeout time.Duration  // from its start; 0 for none
	Grace   *time.Duration // between SIGTERM and SIGKILL; nil for DefaultGrace
	Fence   int64          // of the claim
	// Internal marks a command of Hostler itself for a tenant, such as one that
	// reads a file. It is not listed, and has a limit of its own: MaxInternalCommands.
	Internal bool
	// After is as in AttachCommand, for a command that runs already.
	After int64
}

// MaxInternalCommands bounds the internal commands of a container that run at once.
const MaxInternalCommands = 16

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
}

// CommandStream is one attachment to a command. A later attachment takes its place:
// its calls return ErrAttachedElsewhere from then on. Next is for one goroutine,
// Input and CloseInput for another one; the other methods are for any.
type CommandStream interface {
	// Start returns the state of the command when it was attached to.
	Start() CommandStart
	// Next returns the next output. At its end it returns io.EOF: the command has
	// ended, Result returns how, and what was acknowledged is not kept any more.
	// An error that is ErrUnavailable means that the connection was lost: attach
	// again, after what was received.
	Next() (CommandOutput, error)
	// Acknowledge confirms that the output before the offset will not be read
	// again. The container holds the command back without that.
	Acknowledge(offset int64) error
	// Input sends input that begins at the offset, and returns when there is room
	// for more. The container ignores what it has received already. A command that
	// has closed its input, or has ended, discards it.
	Input(offset int64, p []byte) error
	// CloseInput ends the input.
	CloseInput() error
	// Resize changes the size of the terminal. Without one it does nothing.
	Resize(size TerminalSize) error
	// Signal sends a signal, such as "SIGINT", to the processes of the command's
	// group, with a terminal to those in the foreground.
	Signal(name string) error
	// Result returns how the command ended, once Next has returned io.EOF. Its
	// Stdout and Stderr have only the Total. ErrContainerExited means that the
	// container was stopped, and nothing of the command is left.
	Result() (Result, error)
	// Close detaches. The command continues.
	Close() error
}

// CommandStart is the state of a command when it was attached to.
type CommandStart struct {
	Offset        int64 // of the first output that Next returns
	InputReceived int64 // bytes of input that the container has received
	InputClosed   bool  // no more is received: the input or the command has ended
	Created       bool  // whether this call started the command
	Terminal      bool
}

// CommandOutput is a piece of output.
type CommandOutput struct {
	Offset int64 // of its first byte
	Stderr bool
	Data   []byte // valid until the next call
}

// CommandStatus describes a command.
type CommandStatus struct {
	ID       string     `json:"id"`
	Args     []string   `json:"args"` // the beginning, if they are long
	Terminal bool       `json:"terminal,omitempty"`
	Started  time.Time  `json:"started"`
	Attached bool       `json:"attached,omitempty"`
	Output   int64      `json:"output"` // bytes so far
	Ended    *time.Time `json:"ended,omitempty"`
	Result   *Result    `json:"result,omitempty"` // of one that has ended, without output
	// Held reports whether the command waits because its output is not acknowledged.
	Held bool `json:"held,omitempty"`
}
