// Package wait lets a tenant's program wait for a signal from another program,
// with a deadline.
//
// A wait is a record, not a state of its claim: it survives servers. The hooks of
// wait_start run before its clock starts, those of wait_signal after its signal,
// and those of wait_timeout after its deadline; the last one of these may decide
// what becomes of it.
//
// The package promises that
//
//   - a wait has exactly one end, also when its signal and its deadline coincide,
//     and the hooks of a point run once in a round;
//   - every server ends the waits that are due, whichever began them. The server
//     whose transition is recorded runs the hooks, and another one resumes them
//     after it has terminated;
//   - a signal that no wait is open for is kept for the next one, up to a limit;
//   - the end of a claim cancels its waits in the same transaction.
//
// The transitions are in transition.go, what a server does in each state in
// progress.go. What hooks are, and how they run, is left to hooks/runner.
package wait

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
)

// State is the state of a wait:
//
//	starting ─→ waiting ─→ signalling ─→ signalled
//	waiting ─→ timing_out ─→ timed_out
//	timing_out ─→ aborted
//	timing_out ─→ waiting    (extended)
//	timing_out ─→ starting    (retried)
//	starting ─→ cancelled
//	waiting ─→ cancelled
//	signalling ─→ cancelled
//	timing_out ─→ cancelled
type State string

// The states. The first four are open, the others final.
const (
	Starting   State = "starting"   // the wait_start hooks run
	Waiting    State = "waiting"    // until its deadline
	Signalling State = "signalling" // the wait_signal hooks run
	TimingOut  State = "timing_out" // the wait_timeout hooks run
	Signalled  State = "signalled"
	TimedOut   State = "timed_out"
	Aborted    State = "aborted"
	Cancelled  State = "cancelled" // its claim ended
)

// States returns every state, for validation and documentation.
func States() []State {
	return []State{Starting, Waiting, Signalling, TimingOut, Signalled, TimedOut, Aborted, Cancelled}
}

// IsOpen reports whether a wait in state s still has to end.
func (s State) IsOpen() bool {
	return s == Starting || s == Waiting || s == Signalling || s == TimingOut
}

// runsHooks reports whether the owner of a wait in state s runs its hooks.
func (s State) runsHooks() bool { return s.IsOpen() && s != Waiting }

// Decision is what becomes of a wait after its deadline.
type Decision string

// The decisions.
const (
	Abort    Decision = "abort"    // it ends as aborted
	Retry    Decision = "retry"    // it begins again, once
	Extend   Decision = "extend"   // its deadline is moved, once
	Escalate Decision = "escalate" // it ends as timed_out, with an event
)

// Decisions returns every decision, for validation and documentation.
func Decisions() []Decision { return []Decision{Abort, Retry, Extend, Escalate} }

// Limits of waits and signals.
const (
	// DefaultMaxTimeout is the greatest timeout that a server permits by default.
	DefaultMaxTimeout = 5 * time.Minute
	// MaxJSON is the length of a context and of the data of a signal.
	MaxJSON = 32 << 10
	// MaxOpen is how many waits of a claim may be open at once.
	MaxOpen = 16
	// MaxKeptPerName and MaxKept are how many signals are kept for a name and for a
	// claim.
	MaxKeptPerName = 16
	MaxKept        = 256
	// MaxPerMinute is how many requests of a claim may begin a wait or join one in a
	// minute. One that is repeated does neither.
	MaxPerMinute = 120
	// MaxJoined is how many requests may join a wait. They are kept as long as it is.
	MaxJoined = 64
	// MaxEnded is how many ended waits of a claim are kept, the last that ended. It is
	// greater than MaxPerMinute and MaxOpen together, because they are counted for it.
	MaxEnded = 200
)

// Wait is the record of a wait. Its times are those of the database's clock.
type Wait struct {
	ID        string          `json:"id"`
	Claim     string          `json:"claim"`
	Workload  string          `json:"workload"`
	Container string          `json:"container"`
	Tenant    string          `json:"tenant"`
	Request   string          `json:"request_id,omitempty" doc:"The id of the request that began it: the same request returns the same wait."`
	Name      string          `json:"name,omitempty" doc:"A signal has the same name."`
	Type      string          `json:"type" doc:"What the tenant waits for: consensus, validation, dependency or another lower-case word."`
	State     State           `json:"state" doc:"starting, waiting, signalling or timing_out while it is open; signalled, timed_out, aborted or cancelled."`
	Round     int             `json:"round" doc:"From 1; an extension or a retry begins another."`
	TimeoutMS int64           `json:"timeout_ms" doc:"The timeout in milliseconds. The wait_start hooks do not count."`
	OnTimeout Decision        `json:"on_timeout,omitempty" doc:"What becomes of it after its deadline unless a hook decides: abort, retry, extend or escalate (default)."`
	Context   json.RawMessage `json:"context,omitempty" doc:"What the tenant sent with it. Not in lists."`
	Data      json.RawMessage `json:"data,omitempty" doc:"The data of the signal. Not in lists."`
	Decision  Decision        `json:"decision,omitempty" doc:"What was last decided after its deadline."`
	Reason    string          `json:"reason,omitempty" doc:"Why it ended as it did."`
	Extended  bool            `json:"extended,omitempty"`
	Retried   bool            `json:"retried,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	StartedAt *time.Time      `json:"started_at,omitempty" doc:"When its clock started, last."`
	Deadline  *time.Time      `json:"deadline,omitempty"`
	FiredAt   *time.Time      `json:"fired_at,omitempty" doc:"When its signal came or its deadline passed, last."`
	EndedAt   *time.Time      `json:"ended_at,omitempty"`

	// Points are the points at which hooks may run for it.
	Points []hooks.Point `json:"-"`
	// Owner is the server that changed it last.
	Owner string `json:"-"`
	// Refused is why its request may begin no wait and join none, unless it did before.
	// It is not recorded.
	Refused error `json:"-"`
}

// Timeout returns the timeout of a round.
func (w Wait) Timeout() time.Duration { return time.Duration(w.TimeoutMS) * time.Millisecond }

// fires reports whether hooks may run at a point.
func (w Wait) fires(p hooks.Point) bool { return slices.Contains(w.Points, p) }

// round returns what names the runs of hooks in this round.
func (w Wait) round() string { return fmt.Sprintf("%s.%d", w.ID, w.Round) }

// duration returns how long the tenant waited until the signal or the deadline.
func (w Wait) duration() time.Duration { return between(w.StartedAt, w.FiredAt) }

// Exceeded returns how long after the deadline that was.
func (w Wait) Exceeded() time.Duration { return between(w.Deadline, w.FiredAt) }

// between returns the time from a to b, and 0 if there is none: a clock may have
// been set back.
func between(a, b *time.Time) time.Duration {
	if a == nil || b == nil {
		return 0
	}
	return max(0, b.Sub(*a))
}

// Key returns what names the wait in queues.
func (w Wait) Key() Key { return Key{Claim: w.Claim, ID: w.ID} }

// Key is a wait with its claim.
type Key struct{ Claim, ID string }

func (k Key) group() string { return k.Claim }

// Filter selects waits. An empty field matches all.
type Filter struct {
	Workload string
	Claim    string
	Tenant   string
	States   []State
	After    string // only ids greater than this one
	IDPart   string // only ids that begin or end with it
	Newest   bool   // in the reverse order; After: only ids less than this one
	Limit    int    // 0: no limit
	// NoContent leaves out the context and the data, which tenants write.
	NoContent bool
	// Scope is what the reader may see. nil: everything.
	Scope *activity.Scope
}

// Errors of this package.
var (
	// ErrNotFound indicates that there is no such wait.
	ErrNotFound = errors.New("no such wait")
	// ErrConflict indicates that a wait is in another state than the caller
	// expected.
	ErrConflict = errors.New("the wait is in another state")
	// ErrInvalid indicates a request that can never succeed.
	ErrInvalid = errors.New("invalid wait or signal")
	// ErrOtherRequest indicates that the id of a request is that of another one.
	ErrOtherRequest = errors.New("the request_id is that of another request to wait")
	// ErrNameInUse indicates that a wait of the name is open for something else.
	ErrNameInUse = errors.New("a wait of this name and of another type is open")
	// ErrTooMany indicates that the claim has reached a limit.
	ErrTooMany = errors.New("too many waits or signals")
)
