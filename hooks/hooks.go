// Package hooks runs the commands that a workload's author declares for points
// of a container's lifecycle.
//
// It promises that the hooks of one point run one after another in the order
// of the file; that each attempt has one record, one event when it starts and
// exactly one when it ends; that an attempt never starts while a process of
// the previous one exists; and that a command that started is never run again
// unless the hook permits it. Run reports a failed hook; the flow decides what
// that means for the claim or the container.
//
// A point is a row of the table in point.go; an action is a file (exec.go).
package hooks

import (
	"context"
	"time"

	"github.com/hostler/hostler/runtime"
)

// Hook is one action with its policy, at one point.
type Hook struct {
	Name    string // unique within its point
	Action  Action
	Timeout time.Duration // of one attempt, from its start
	OnError OnError
	Retries int // max retries of a failed attempt; 0 unless OnError is Retry
	// Idempotent reports whether the hook may run again if the server was killed
	// while it ran, its outcome is unknown, and no process of it is left.
	Idempotent bool
}

// OnError is the policy for the rest of a point after a failed hook.
type OnError string

// The policies. A hook fails if its exit code is not 0, if a signal or its
// timeout terminates it, or if it cannot be started.
const (
	Fail     OnError = "fail"     // the rest is skipped and the point fails
	Continue OnError = "continue" // the next hook runs
	Retry    OnError = "retry"    // the hook is retried; after the last attempt, as Fail
)

// Limits and defaults of a hook's fields.
const (
	DefaultTimeout = runtime.DefaultTimeout
	MaxTimeout     = 10 * time.Minute
	DefaultRetries = 1
	MaxRetries     = 5
)

// Kind is the name of a kind of action: its key in the workload file, and the
// action of a run on the wire.
type Kind string

// KindCommand is the kind of a command that runs in the container.
const KindCommand Kind = "command"

// Action is what a hook does: one type and one file for each kind.
type Action interface {
	// Kind returns the kind of the action.
	Kind() Kind
	// Summary returns what events show of the action: its argv, without secrets.
	Summary() []string
	// Run performs the action once. It returns when everything that it started
	// has ended. If that cannot be confirmed, or if the action did not start, it
	// returns an error of runtime.Execer.
	Run(ctx context.Context, c Call) (runtime.Result, error)
	// WaitResult waits for the result of a Run with the same attempt id, perhaps
	// by an earlier server, and starts nothing. It returns
	// runtime.ErrUnknownRun if the container does not know that attempt.
	WaitResult(ctx context.Context, c Call) (runtime.Result, error)
}

// Call is what an action needs to know about an attempt.
type Call struct {
	Runtime     runtime.Execer
	Container   string
	AttemptID   string            // unique to the attempt
	Environment map[string]string // the HOSTLER_ variables
	Timeout     time.Duration
}
