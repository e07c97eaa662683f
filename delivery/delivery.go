// Package delivery delivers events to event hooks.
//
// The activity log is the outbox. The leader reads it from a cursor, and adds a
// delivery, a record, for each event hook that an event matches, in the
// transaction that moves the cursor: no event creates two deliveries for one
// hook, and none is missed, whenever a server is killed. Then it attempts the
// deliveries and records each attempt as a hook run.
//
// It promises that
//
//   - a request or a call of a builtin is delivered at least once, with the same
//     key at every attempt; a command at most once, unless it is idempotent;
//   - deliveries of one hook and lane are attempted one after another, in the
//     order of their events. A lane is a container, else a claim, else a
//     workload. One that waits for its next attempt holds back the later ones of
//     its lane, and one that has failed for good does not;
//   - otherwise they do not wait for each other: a receiver that does not answer
//     delays its own hook;
//   - an event that a delivery caused is not delivered, so that no hook triggers
//     itself;
//   - a command runs only while the claim of its event is active or, without a
//     claim, while no tenant has the container.
//
// The hooks themselves are those of the workload as it is applied now. How an
// action is performed is left to its executor, and who leads to membership.
package delivery

import (
	"errors"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
)

// State is the state of a delivery.
type State string

// The states. All but the first three are final.
const (
	Queued    State = "queued"    // waits for its turn
	Scheduled State = "scheduled" // waits for a time: of a retry, or the end of a debounce
	Running   State = "running"   // is being attempted
	Succeeded State = "succeeded"
	Failed    State = "failed"    // the last attempt failed
	Discarded State = "discarded" // will not be attempted
)

// States returns every state, for validation and documentation.
func States() []State {
	return []State{Queued, Scheduled, Running, Succeeded, Failed, Discarded}
}

// IsLive reports whether a delivery in state s still has to end.
func (s State) IsLive() bool { return s == Queued || s == Scheduled || s == Running }

// Delivery is one event hook for one event. Its ID is also that of its hook run,
// and the idempotency key of its requests.
type Delivery struct {
	ID        string        `json:"id" doc:"Also the id of its hook run, and the idempotency key of its requests."`
	Workload  string        `json:"workload"`
	Hook      string        `json:"hook" doc:"The hook's name."`
	Lane      string        `json:"lane" doc:"The container, else the claim, else the workload of the event: the deliveries of a hook and a lane are in order."`
	Seq       int64         `json:"seq" doc:"The place of the event in the log."`
	Event     activity.Type `json:"event" doc:"The type of the event."`
	Container string        `json:"container,omitempty"`
	Claim     string        `json:"claim,omitempty"`
	Tenant    string        `json:"tenant,omitempty"`
	Replay    bool          `json:"replay,omitempty" doc:"Whether it was added by a replay."`
	// Priority is that of the event. Under pressure, lower ones are discarded
	// first.
	Priority  int        `json:"priority"`
	State     State      `json:"state"`
	Attempts  int        `json:"attempts" doc:"Attempts that were started."`
	Failures  int        `json:"failures" doc:"Attempts that failed since it was queued."`
	DueAt     *time.Time `json:"due_at,omitempty" doc:"The time of the next attempt at the earliest."`
	Reason    string     `json:"reason,omitempty" doc:"Why the last attempt failed, or why it was discarded."`
	CreatedAt time.Time  `json:"created_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
}

// Key returns what the deliveries that are in order have in common.
func (d Delivery) Key() Key { return Key{d.Workload, d.Hook, d.Lane} }

// Key is a hook and a lane.
type Key struct{ Workload, Hook, Lane string }

// group is the hook, of all lanes.
func (k Key) group() string { return k.Workload + "/" + k.Hook }

// owner is the workload.
func (k Key) owner() string { return k.Workload }

// Priorities of events.
const (
	// PriorityOwn is that of the events of Hostler.
	PriorityOwn = 10
	// MaxTenantPriority is the highest one of an event that a tenant's program
	// published.
	MaxTenantPriority = 9
)

// Filter selects deliveries. An empty field matches all.
type Filter struct {
	Workload  string
	Hook      string
	Container string
	Claim     string
	Tenant    string
	States    []State
	After     string // only ids greater than this one
	IDPart    string // only ids that begin or end with it
	Newest    bool   // in the reverse order; After: only ids less than this one
	Limit     int    // 0: no limit
	// Scope is what the reader may see. nil: everything.
	Scope *activity.Scope
}

// Errors of a store and of a Service.
var (
	// ErrNotFound indicates that there is no such delivery.
	ErrNotFound = errors.New("no such delivery")
	// ErrConflict indicates that a delivery is in another state than the caller
	// expected.
	ErrConflict = errors.New("the delivery is in another state")
	// ErrHookNotFound indicates that the workload has no such event hook.
	ErrHookNotFound = errors.New("no such event hook")
	// ErrEventRemoved indicates that retention has removed the event.
	ErrEventRemoved = errors.New("its event was removed by retention")
	// ErrClaimEnded indicates that a command must not start: the claim of its
	// event has ended or, without a claim, the container is not idle.
	ErrClaimEnded = errors.New("the claim of the event has ended, or a claim of the container has begun")
	// ErrClaimPending indicates that a command must not start yet: the claim of
	// its event is not active, or the container is being created.
	ErrClaimPending = errors.New("the claim of the event is not active yet")
	// ErrTestRunning indicates that a test must not start: another one of the same
	// claim is running.
	ErrTestRunning = errors.New("another test of hooks is running in the claim")
)

// Change is a change of the queue that follows from an event: a new delivery,
// or the end of debounces.
type Change struct {
	// Add is the new delivery.
	Add Delivery
	// Debounce, if it is not 0, has the event take the place of the one that
	// waits with the same key and type. It is then due once Debounce has passed
	// without another one, and after MaxWindows times that in any case.
	Debounce time.Duration
	// Flush is a key whose debounced deliveries are due now, and of whose events no
	// later one takes the place. It is the zero Key if there is a new delivery.
	Flush Key
}

// MaxWindows is how many debounce windows an event waits at most during a steady
// stream.
const MaxWindows = 10

// Transition is a change of a delivery and of its run, in one transaction.
type Transition struct {
	Delivery         // as it becomes
	From     []State // else ErrConflict
	// Run is the run that starts, is skipped, or ends; nil: none.
	Run *hooks.Run
	// Events are written with the change.
	Events []activity.Event
}

// Permission is what an attempt has got with its start.
type Permission struct {
	Fence int64 // of the container, for a command
}

// Status is the state of the queue, for metrics.
type Status struct {
	Live   map[State]int // deliveries that have not ended
	Behind int64         // events that the cursor has not passed
	Oldest time.Time     // when the oldest event that has not been delivered was recorded; zero if there is none
}
