package runtime

import (
	"strings"
	"time"
)

// The defaults of a Command, and the limits of what is kept of its output.
const (
	// DefaultTimeout bounds a command's runtime.
	DefaultTimeout = 30 * time.Second
	// DefaultGrace is the time between SIGTERM, which asks a command to exit,
	// and SIGKILL.
	DefaultGrace = 2 * time.Second
	// OutputHead and OutputTail are how many bytes are kept of the beginning and
	// of the end of each stream.
	OutputHead = 4 << 10
	OutputTail = 60 << 10
	// MaxStdin bounds Command.Stdin, in bytes.
	MaxStdin = 1 << 20
	// MaxScript bounds Command.Script, in bytes.
	MaxScript = 64 << 10
)

// Command is a program to run in a container.
//
// If Script is set, Args are a shell, and its last argument is a path from which
// it and no other user can read the text. Nothing can change the text. It is in
// no argument, no variable and no file of the container.
//
// If Digest is set, Args are the path of an ImageHook. A file that ImageHooks
// would not list, or whose content has another SHA-256, is not run: a *StartError.
type Command struct {
	// RunID names this run permanently. A backend that loses its connection
	// during the run requests the outcome from the container by this id instead
	// of running the command again. If it is empty, the backend generates one.
	RunID       string
	Args        []string          // argv; Args[0] is looked up in the container's PATH
	Script      string            // at most MaxScript, without NUL; empty for none
	Digest      string            // of an ImageHook; empty for other commands
	Environment map[string]string // over the container's; HOSTLER_MAIN_PID is always set
	User        string            // as Spec.User; empty for the container's own
	Workdir     string            // absolute; empty for the container's own
	Stdin       []byte            // at most MaxStdin; empty for none
	Timeout     time.Duration     // from its start; 0 for DefaultTimeout
	Grace       *time.Duration    // nil for DefaultGrace; 0 for SIGKILL at once
	Limits      ProcessLimits
	Fence       int64 // of the flow; 0 for none. See Runtime.
	// Requests handles what the processes of the command ask, while Exec or
	// WaitResult waits for its end: for a command of a flow, during which the
	// container serves no other process. The requests have the Fence. It is nil for
	// a command whose processes may ask what all others may. See Requester.
	Requests RequestHandler
}

// ProcessLimits are limits of a command. All but Output are limits of each of
// its processes, which no process can raise. 0 means no limit.
type ProcessLimits struct {
	CPUTime  time.Duration `json:"cpu_time,omitempty"`  // rounded up to seconds
	Memory   int64         `json:"memory,omitempty"`    // bytes of address space
	FileSize int64         `json:"file_size,omitempty"` // bytes of each file that it writes
	// Output is in bytes of stdout and stderr together. A command that writes
	// more is ended as by its timeout.
	Output int64 `json:"output,omitempty"`
}

// Limit is the name of a limit of a command, as in workload files.
type Limit string

// The limits that end a command. A process that exceeds its memory or the size
// of a file may also get an error from the kernel and continue.
const (
	LimitCPUTime  Limit = "cpu_time"
	LimitFileSize Limit = "file_size"
	LimitOutput   Limit = "output"
)

// Result is how a command ended.
type Result struct {
	ExitCode int    // its own, or 128 + the signal's number
	Signal   string // "SIGKILL" and so on; empty when it exited
	TimedOut bool   // its timeout passed before it exited
	Killed   bool   // SIGKILL was needed, the grace was not enough
	Leaked   int    // processes of it that outlived it and were killed
	Exceeded Limit  // the limit that ended it; empty for none
	// OOMKilled reports whether the kernel killed a process of it because the
	// container ran out of memory. It is false where the container has no counter
	// of such kills.
	OOMKilled bool
	Duration  time.Duration // from its start until all its processes had exited
	Stdout    Output
	Stderr    Output
}

// OK reports whether the command exited by itself, with code 0, before its
// timeout and within its limits.
func (r Result) OK() bool {
	return r.ExitCode == 0 && r.Signal == "" && !r.TimedOut && r.Exceeded == ""
}

// Output is what is kept of one stream: its beginning and its end. Both are
// valid UTF-8: invalid bytes are replaced, and no character is split.
type Output struct {
	Head  string `json:"head,omitempty"`
	Tail  string `json:"tail,omitempty"` // empty unless Truncated or longer than the head
	Total int64  `json:"total"`          // bytes that the command wrote
	// Truncated reports whether bytes between Head and Tail are lost.
	Truncated bool `json:"truncated,omitempty"`
}

// String joins what was kept, with a line in between where bytes are lost.
func (o Output) String() string {
	if !o.Truncated {
		return o.Head + o.Tail
	}
	return o.Head + "\n[...]\n" + o.Tail
}

// Excerpt returns the last n bytes of what was kept, cut at a character, and
// reports whether anything is missing before them.
func (o Output) Excerpt(n int) (text string, truncated bool) {
	text = o.Head + o.Tail
	if len(text) <= n {
		return text, o.Truncated
	}
	text = strings.ToValidUTF8(text[len(text)-n:], "")
	return text, true
}

// Size returns how many bytes were kept.
func (o Output) Size() int { return len(o.Head) + len(o.Tail) }
