// Package hooks has the hooks of a workload as data: the points, the hooks with
// their policies and actions, and the record of each attempt. It runs nothing;
// package hooks/runner does.
//
// A point is a row of the table in point.go; an action is a type in action.go.
package hooks

import (
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
