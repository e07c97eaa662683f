package client

import "time"

// Point is when hooks run.
type Point string

// The points of hooks.
const (
	PreStart    Point = "pre_start"
	PostStart   Point = "post_start"
	PostCreate  Point = "post_create"
	PostClaim   Point = "post_claim"
	WaitStart   Point = "wait_start"
	WaitSignal  Point = "wait_signal"
	WaitTimeout Point = "wait_timeout"
	PreRelease  Point = "pre_release"
	PreDestroy  Point = "pre_destroy"
)

// RunState is how an attempt of a hook ended.
type RunState string

// The states of an attempt.
const (
	RunRunning     RunState = "running"
	RunSucceeded   RunState = "succeeded"
	RunFailed      RunState = "failed"       // another exit code than 0, or a signal
	RunTimedOut    RunState = "timed_out"    // ended by its timeout
	RunStartFailed RunState = "start_failed" // the command could not be started
	RunLost        RunState = "lost"         // the container ended before the command did
	RunCancelled   RunState = "cancelled"    // what it was part of was stopped
	RunUnknown     RunState = "unknown"      // how it ended is not known
	RunSkipped     RunState = "skipped"      // an earlier hook failed, or there is nothing to run it in
)

// HookSummary is one attempt of a hook as a claim shows it. Run has the output.
type HookSummary struct {
	Run      string   `json:"run"`
	Point    Point    `json:"point"`
	Hook     string   `json:"hook"`
	Attempt  int      `json:"attempt"`
	State    RunState `json:"state"`
	ExitCode *int     `json:"exit_code,omitempty"`
	Duration float64  `json:"duration_ms"`
}

// Run is one attempt of a hook.
type Run struct {
	ID         string     `json:"id"`      // the same for all attempts
	Attempt    int        `json:"attempt"` // from 1
	Point      Point      `json:"point"`
	Event      string     `json:"event,omitempty"` // the type of the event that an event hook ran for
	Seq        int64      `json:"seq,omitempty"`   // the place of that event in the log
	Wait       string     `json:"wait,omitempty"`  // at a point of a wait: its id, a dot, and the round
	Hook       string     `json:"hook"`
	Index      int        `json:"index"` // of the hook within its point, from 0
	Action     string     `json:"action"`
	Command    []string   `json:"command"`
	Workload   string     `json:"workload"`
	Container  string     `json:"container"`
	Claim      string     `json:"claim,omitempty"`
	Tenant     string     `json:"tenant,omitempty"`
	State      RunState   `json:"state"`
	ExitCode   *int       `json:"exit_code,omitempty"` // nil when there is none
	Signal     string     `json:"signal,omitempty"`
	TimedOut   bool       `json:"timed_out,omitempty"`
	TimeoutMS  float64    `json:"timeout_ms,omitempty"`       // that passed
	Killed     bool       `json:"killed,omitempty"`           // SIGKILL was needed
	Leaked     int        `json:"leaked_processes,omitempty"` // processes that outlived the command and were killed
	OOMKilled  bool       `json:"oom_killed,omitempty"`       // the out-of-memory killer ended a process of it
	Warnings   []string   `json:"warnings,omitempty"`         // such as a variable that was empty
	Stopped    bool       `json:"stopped,omitempty"`          // the hook ended its point as a success
	Status     int        `json:"status,omitempty"`           // of the HTTP response
	Decision   string     `json:"decision,omitempty"`         // of a hook of a gate: deny
	Captured   []string   `json:"captured,omitempty"`         // names of the values captured from the response
	Response   string     `json:"response,omitempty"`         // its first bytes, if the hook keeps them
	Stdout     Output     `json:"stdout,omitzero"`
	Stderr     Output     `json:"stderr,omitzero"`
	ErrorChain []string   `json:"error_chain,omitempty"` // what was being done when the error occurred, outermost first
	Error      string     `json:"error,omitempty"`       // why there is no exit code, or why it was skipped
	StartedAt  time.Time  `json:"started_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	Duration   float64    `json:"duration_ms"`
}

// RunFilter selects attempts of hooks; empty fields match all.
type RunFilter struct {
	Workload  string
	Container string
	Claim     string
	Tenant    string
	Point     Point
	States    []RunState
	After     string // ids after this one
	IDPart    string // ids that begin or end with it; of all states only if States has them
	Since     string // attempts that have started since a time (RFC 3339) or an age
	Newest    bool   // the newest first; After: ids before this one
	Limit     int    // 0: no limit
	NoOutput  bool   // without Stdout and Stderr, which may be large
}

// Output is what was kept of a stream: its beginning and its end.
type Output struct {
	Head      string `json:"head,omitempty"`
	Tail      string `json:"tail,omitempty"`
	Total     int64  `json:"total"`               // bytes that the command wrote
	Truncated bool   `json:"truncated,omitempty"` // bytes between Head and Tail are lost
}

// String joins what was kept, with a line in the middle where bytes are lost.
func (o Output) String() string {
	if !o.Truncated {
		return o.Head + o.Tail
	}
	return o.Head + "\n[...]\n" + o.Tail
}
