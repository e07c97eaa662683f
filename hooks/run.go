package hooks

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/runtime"
)

// RunState is the state of an attempt.
type RunState string

// The states of an attempt. All but Running are final.
const (
	Running     RunState = "running"
	Succeeded   RunState = "succeeded"
	Failed      RunState = "failed"       // exit code not 0, or a signal
	TimedOut    RunState = "timed_out"    // terminated by its timeout
	StartFailed RunState = "start_failed" // the command could not be started
	Lost        RunState = "lost"         // the container exited while it ran, or before
	Cancelled   RunState = "cancelled"    // its flow was stopped
	Unknown     RunState = "unknown"      // the outcome is unknown
	Skipped     RunState = "skipped"      // an earlier hook failed, or the container was not running
)

// RunStates returns every state, for validation and documentation.
func RunStates() []RunState {
	return []RunState{Running, Succeeded, Failed, TimedOut, StartFailed, Lost, Cancelled, Unknown, Skipped}
}

// Run is the record of one attempt of a hook. ID is the same for all attempts
// of one hook at one point of one flow; hooks use it as an idempotency key. ID
// and Attempt together identify the record.
type Run struct {
	ID        string   `json:"id" doc:"The same for all attempts: an idempotency key."`
	Attempt   int      `json:"attempt" doc:"From 1."`
	Point     Point    `json:"point" doc:"Or the gate. Empty if it is of an event hook."`
	Event     string   `json:"event,omitempty" doc:"The type of the event that an event hook ran for; test. and the point if the run was a test."`
	Seq       int64    `json:"seq,omitempty" doc:"The place of that event in the log."`
	Wait      string   `json:"wait,omitempty" doc:"Of a run at a point of a wait: the wait's id, a dot, and the round."`
	Hook      string   `json:"hook" doc:"The hook's name."`
	Index     int      `json:"index" doc:"The index of the hook within the point, from 0."`
	Kind      Kind     `json:"action"`
	Command   []string `json:"command"`
	Workload  string   `json:"workload"`
	Container string   `json:"container"`
	Claim     string   `json:"claim,omitempty"`
	Tenant    string   `json:"tenant,omitempty"`
	State     RunState `json:"state"`
	Detail
	Stdout    runtime.Output `json:"stdout,omitzero" doc:"Omitted in lists without output=true, and if empty. Of an attempt that runs, only the answer for one run has it: the lines so far."`
	Stderr    runtime.Output `json:"stderr,omitzero" doc:"Omitted in lists without output=true, and if empty."`
	Error     string         `json:"error,omitempty" doc:"Why there is no exit code, or why the hook was skipped."`
	StartedAt time.Time      `json:"started_at"`
	EndedAt   *time.Time     `json:"ended_at,omitempty"`
	Duration  float64        `json:"duration_ms"`

	// File names the content of the workload file that the hook is from. A server
	// that resumes the point reads the point's hooks from it.
	File string `json:"-"`
	// Values are the captured values by name. They are stored with the record and
	// shown nowhere.
	Values map[string]string `json:"-"`
}

// Detail is what a record has because of the kind of its action. Each kind has
// fields of its own; those of other kinds are empty.
type Detail struct {
	ErrorChain []string `json:"error_chain,omitempty" doc:"What was being done when the error occurred, outermost first."`
	Warnings   []string `json:"warnings,omitempty" doc:"What the author of the hook should know although the attempt was made, such as a variable that was empty."`

	// Of commands and scripts.
	ExitCode *int   `json:"exit_code,omitempty" doc:"Omitted if there is none: the command never started, or its outcome is unknown."`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
	// Timeout is what passed, in milliseconds.
	Timeout   float64 `json:"timeout_ms,omitempty" doc:"The timeout that passed."`
	OOMKilled bool    `json:"oom_killed,omitempty" doc:"The out-of-memory killer ended a process of it."`
	Killed    bool    `json:"killed,omitempty" doc:"SIGKILL was needed."`
	Leaked    int     `json:"leaked_processes,omitempty" doc:"Processes that the command left behind; they were killed."`

	// Stopped reports whether the hook ended its point as a success (stop_on).
	Stopped bool `json:"stopped,omitempty" doc:"The hook ended its point as a success: the hooks after it were skipped."`

	// Decision is that of a hook of a gate. Only refusals are recorded.
	Decision string `json:"decision,omitempty" doc:"Of a hook of a gate: deny. What gates allow is not recorded."`

	// Of requests.
	Status   int      `json:"status,omitempty" doc:"Of the HTTP response."`
	Captured []string `json:"captured,omitempty" doc:"The names of the values that were captured from the response."`
	Response string   `json:"response,omitempty" doc:"The first bytes of the response, if the hook has keep_response."`
}

// AttemptID returns an ID that is unique to an attempt of a run.
func AttemptID(run string, attempt int) string { return run + "." + strconv.Itoa(attempt) }

// testPrefix begins the Event of a run that is a test of a hook of a point.
const testPrefix = "test."

// AsTest returns the run of a hook of a point as a test of it: no flow resumes
// it, and it is none of the point's own runs.
func (r Run) AsTest() Run {
	r.Event, r.Point = testPrefix+string(r.Point), ""
	return r
}

// IsTest reports whether the run is a test of a hook.
func (r Run) IsTest() bool { return strings.HasPrefix(r.Event, testPrefix) }

// Occasion returns the point of the run, or the type of its event.
func (r Run) Occasion() string {
	if r.Event != "" {
		return r.Event
	}
	return string(r.Point)
}

// RunFilter selects the attempts to list. An empty field matches all.
type RunFilter struct {
	Workload  string
	Container string
	Claim     string
	Tenant    string
	Point     Point
	Wait      string // as in Run
	States    []RunState
	After     string    // only ids greater than this one
	IDPart    string    // only ids that begin or end with it
	Since     time.Time // only attempts that have started then or later; zero: all
	Newest    bool      // in the reverse order; After: only ids less than this one
	Limit     int       // max attempts; 0: no limit
	NoOutput  bool      // without stdout and stderr, which may be large
	Captured  bool      // only those that captured values
	NoClaim   bool      // only those outside claims
	// Scope is what the reader may see. nil: everything.
	Scope *activity.Scope
}

// Recorder stores runs and their events. Each call writes the record and its
// event in one transaction and returns when both are durable.
type Recorder interface {
	// RunStarted adds a record in state Running. If it fails, the attempt must
	// not start. It fails if the attempt's claim has ended or its container is
	// destroyed, because the running records were ended at that time.
	RunStarted(ctx context.Context, r Run) error
	// RunEnded ends a record that RunStarted added. A second call returns nil
	// and changes nothing.
	RunEnded(ctx context.Context, r Run) error
	// RunFollowed is RunEnded of ended and RunStarted of started, in this order and
	// in one transaction: an error means that neither is recorded.
	RunFollowed(ctx context.Context, ended, started Run) error
	// RunSkipped adds the record of a hook that was skipped.
	RunSkipped(ctx context.Context, r Run) error
	// Runs lists the matching records, ordered by id and attempt.
	Runs(ctx context.Context, f RunFilter) ([]Run, error)
}

// Error reports the hook that failed a point. It has the run for the caller of
// the flow.
type Error struct {
	Run Run
}

// timeoutText returns the timeout that passed, if it is on record.
func (r Run) timeoutText() string {
	if r.Timeout == 0 {
		return ""
	}
	return " of " + time.Duration(r.Timeout*float64(time.Millisecond)).String()
}

func (e *Error) Error() string {
	r := e.Run
	what := fmt.Sprintf("%s hook %q", r.Occasion(), r.Hook)
	if r.Attempt > 1 {
		what += fmt.Sprintf(" (attempt %d)", r.Attempt)
	}
	tail := ""
	if text, _ := r.Stderr.Excerpt(ExcerptBytes); text != "" {
		tail = ": " + text
	}
	switch {
	case r.State == TimedOut:
		return fmt.Sprintf("%s ran longer than its timeout%s and was terminated%s", what, r.timeoutText(), tail)
	case r.Error != "":
		return fmt.Sprintf("%s: %s", what, r.Error)
	case r.Signal != "":
		return fmt.Sprintf("%s was terminated by %s%s", what, r.Signal, tail)
	case r.ExitCode != nil:
		return fmt.Sprintf("%s exited with code %d%s", what, *r.ExitCode, tail)
	}
	return fmt.Sprintf("%s: %s", what, r.State)
}

// ExcerptBytes is the max number of bytes of a stream in events and errors. The
// run's record has all of the captured output.
const ExcerptBytes = 2 << 10
