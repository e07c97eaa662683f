// Package hooks runs the commands that a workload's author declares for points
// of a container's life.
//
// It promises that the hooks of one point run one after another in the order
// of the file; that each attempt has one record and one event when it starts
// and exactly one when it ends; that an attempt never starts before the one
// before it is wholly gone; and that a command which started is never run again
// without being asked to. What a failed hook means for the claim or the
// container is the flow's to decide: Run reports it.
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
	Retries int // how often a failed attempt is tried again; 0 unless OnError is Retry
	// Idempotent says that it may be run again when a server was killed while it
	// ran, nobody can say how it ended, and nothing of it is left.
	Idempotent bool
}

// OnError is what a failed hook does to the rest of its point.
type OnError string

// The policies. A hook fails when it exits with another code than 0, is ended
// by a signal or its timeout, or never starts.
const (
	Fail     OnError = "fail"     // the rest is skipped and the point fails
	Continue OnError = "continue" // the next hook runs
	Retry    OnError = "retry"    // it is tried again; when the last try fails, as Fail
)

// Bounds and defaults of a hook's fields.
const (
	DefaultTimeout = runtime.DefaultTimeout
	MaxTimeout     = 10 * time.Minute
	DefaultRetries = 1
	MaxRetries     = 5
)

// Action is what a hook does: one type and one file for each kind.
type Action interface {
	// Kind names the action as the workload file does.
	Kind() string
	// Summary is what events show of it: its argv, free of secrets.
	Summary() []string
	// Run does it once. It returns when all that it did is over, or with an
	// error that says why it is not or why it never began: those of
	// runtime.Execer.
	Run(ctx context.Context, c Call) (runtime.Result, error)
	// WaitResult waits for the end of what a Run with the same key has begun,
	// perhaps of a server that is no more, and does nothing else.
	// runtime.ErrNoRun when nobody can say.
	WaitResult(ctx context.Context, c Call) (runtime.Result, error)
}

// Call is one attempt, as an action needs to know it.
type Call struct {
	Runtime     runtime.Execer
	Container   string
	AttemptID   string            // unique to the attempt
	Environment map[string]string // the HOSTLER_ variables
	Timeout     time.Duration
}
