// Package hooks has the hooks of a workload as data: the points, the hooks with
// their policies and actions, and the record of each attempt. It runs nothing;
// package hooks/runner does.
//
// A point is a row of the table in point.go; an action is a type in action.go.
package hooks

import (
	"time"

	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/runtime"
)

// Hook is one action with its policy, at one point or for events.
type Hook struct {
	Name    string // unique within its point, and among event hooks
	Action  Action
	Timeout time.Duration // of one attempt, from its start
	OnError OnError
	Retries int // max retries of a failed attempt; 0 unless OnError is Retry
	// OnExhausted is Continue, or Fail or empty: what follows the last failed
	// attempt if OnError is Retry.
	OnExhausted OnError
	// Idempotent reports whether the hook may run again if the server was killed
	// while it ran, its outcome is unknown, and nothing of it is left.
	Idempotent bool
	// Condition is when the hook runs. Otherwise it is skipped. The zero Condition
	// is always true.
	Condition variables.Condition
	Disabled  bool // enabled: false
	// StopOn has the exit codes that end the point as a success without the hooks
	// that follow.
	StopOn []int
}

// EventHook is a hook for events. Nothing waits for it.
type EventHook struct {
	Hook
	// On has types of events, subjects such as claim for all of its types, and
	// aliases of several types. Matches interprets it.
	On       []string
	Debounce time.Duration // 0: each event
	// Point is the point that the hook was written at with blocking: false; empty
	// for one under events.
	Point Point
}

// OnError is the policy for the rest of a point after a failed hook.
type OnError string

// The policies. A hook fails if its exit code is not 0, if a signal or its
// timeout terminates it, or if it cannot be started; a request fails as its
// executor says.
const (
	Fail     OnError = "fail"     // the rest is skipped and the point fails
	Continue OnError = "continue" // the next hook runs
	Retry    OnError = "retry"    // the hook is retried; after the last attempt, as OnExhausted
)

// Limits and defaults of a hook's fields.
const (
	DefaultTimeout        = runtime.DefaultTimeout
	DefaultRequestTimeout = 10 * time.Second
	DefaultWaitTimeout    = 5 * time.Second // at the points of waits
	MaxTimeout            = 10 * time.Minute
	MaxRequestTimeout     = 2 * time.Minute
	DefaultRetries        = 1
	MaxRetries            = 5
	DefaultEventRetries   = 15
	MaxEventRetries       = 25
)

// Header and response header of requests.
const (
	// HeaderID has container:hook:point:run, the same at every attempt. For an event
	// hook, the type of the event stands for the point.
	HeaderID = "X-Hostler-Hook-ID"
	// HeaderKey has the run's id, the same at every attempt.
	HeaderKey = "Idempotency-Key"
	// HeaderStop in a response, with the value 1, ends the point as a success.
	HeaderStop = "Hostler-Stop"
)
