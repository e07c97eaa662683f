package hooks

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler/hostler/runtime"
)

// RunState is how far an attempt is, or how it ended.
type RunState string

// The states of an attempt. All but Running are final.
const (
	Running     RunState = "running"
	Succeeded   RunState = "succeeded"
	Failed      RunState = "failed"       // another exit code than 0, or a signal
	TimedOut    RunState = "timed_out"    // ended by its timeout
	StartFailed RunState = "start_failed" // the command could not be started
	Lost        RunState = "lost"         // the container ended while it ran, or before
	Cancelled   RunState = "cancelled"    // the flow it was part of was stopped
	Unknown     RunState = "unknown"      // nobody can say how it ended
	Skipped     RunState = "skipped"      // an earlier hook failed, or nothing to run it in
)

// RunStates lists every state, for validation and documentation.
func RunStates() []RunState {
	return []RunState{Running, Succeeded, Failed, TimedOut, StartFailed, Lost, Cancelled, Unknown, Skipped}
}

// Run is the record of one attempt of a hook. ID is the same for all attempts
// of one hook at one point of one flow: an idempotency key. ID and Attempt
// together name the record.
type Run struct {
	ID        string         `json:"id" doc:"The same for all attempts: an idempotency key."`
	Attempt   int            `json:"attempt" doc:"From 1."`
	Point     Point          `json:"point"`
	Hook      string         `json:"hook" doc:"The hook's name."`
	Index     int            `json:"index" doc:"Its place within the point, from 0."`
	Action    string         `json:"action"`
	Command   []string       `json:"command"`
	Workload  string         `json:"workload"`
	Container string         `json:"container"`
	Claim     string         `json:"claim,omitempty"`
	Tenant    string         `json:"tenant,omitempty"`
	State     RunState       `json:"state"`
	ExitCode  *int           `json:"exit_code,omitempty" doc:"Left out when there is none: it never started, or nobody knows."`
	Signal    string         `json:"signal,omitempty"`
	TimedOut  bool           `json:"timed_out,omitempty"`
	Killed    bool           `json:"killed,omitempty" doc:"SIGKILL was needed."`
	Leaked    int            `json:"leaked_processes,omitempty" doc:"Processes that outlived the command and were killed."`
	Stdout    runtime.Output `json:"stdout,omitzero" doc:"Left out in lists without output=true, and where nothing was printed."`
	Stderr    runtime.Output `json:"stderr,omitzero" doc:"Left out in lists without output=true, and where nothing was printed."`
	Error     string         `json:"error,omitempty" doc:"Why it has no exit code, or why it was skipped."`
	StartedAt time.Time      `json:"started_at"`
	EndedAt   *time.Time     `json:"ended_at,omitempty"`
	Duration  float64        `json:"duration_ms"`
}

// RunFilter says which attempts to list. Empty fields match all.
type RunFilter struct {
	Workload  string
	Container string
	Claim     string
	Tenant    string
	Point     Point
	States    []RunState
	After     string // ids after this one, in order of id
	Limit     int    // attempts at most; 0: no limit
	NoOutput  bool   // without what the attempts printed, which may be much
}

// Recorder keeps runs and their events. Each call writes the record and its
// event together, or neither, and returns when both are durable.
type Recorder interface {
	// RunStarted adds a record in state Running. When it fails the attempt must
	// not start. It fails when the claim that the attempt is for has ended, or its
	// container is gone: the runs that were on record as running ended then.
	RunStarted(ctx context.Context, r Run) error
	// RunEnded ends a record that RunStarted added. Ending it twice is nil and
	// changes nothing.
	RunEnded(ctx context.Context, r Run) error
	// RunSkipped adds a record that never started.
	RunSkipped(ctx context.Context, r Run) error
	// Runs lists the records that match, by id and attempt.
	Runs(ctx context.Context, f RunFilter) ([]Run, error)
}

// Error says which hook failed a point. It carries the run for the caller of
// the flow.
type Error struct {
	Run Run
}

func (e *Error) Error() string {
	r := e.Run
	what := fmt.Sprintf("%s hook %q", r.Point, r.Hook)
	if r.Attempt > 1 {
		what += fmt.Sprintf(" (attempt %d)", r.Attempt)
	}
	tail := ""
	if text, _ := r.Stderr.Excerpt(ExcerptBytes); text != "" {
		tail = ": " + text
	}
	switch {
	case r.State == TimedOut:
		return fmt.Sprintf("%s ran longer than its timeout and was ended%s", what, tail)
	case r.Error != "":
		return fmt.Sprintf("%s: %s", what, r.Error)
	case r.Signal != "":
		return fmt.Sprintf("%s was ended by %s%s", what, r.Signal, tail)
	case r.ExitCode != nil:
		return fmt.Sprintf("%s exited with code %d%s", what, *r.ExitCode, tail)
	}
	return fmt.Sprintf("%s: %s", what, r.State)
}

// ExcerptBytes is how much of a stream goes into events and errors. The whole
// of what was captured is in the run's record.
const ExcerptBytes = 2 << 10
