// Package activity defines the event log. Every change that Hostler makes and
// every run of a hook is an Event; all events have one order.
//
// It promises that an event's Seq is greater than that of every event that a
// reader could have seen before it, so "all after Seq" misses nothing. Package
// store stores the events: it writes an event in the transaction of the change
// that the event records.
package activity

import (
	"encoding/json"
	"slices"
	"time"
)

// Type is the type of an event: the subject, then the verb in the past tense.
type Type string

// The types of events.
const (
	WorkloadApplied Type = "workload.applied"
	WorkloadDeleted Type = "workload.deleted"
	// WorkloadRejected records that a file of the followed directory is not applied,
	// and WorkloadAccepted that nothing is wrong with it any more.
	WorkloadRejected Type = "workload.rejected"
	WorkloadAccepted Type = "workload.accepted"

	PoolCreated   Type = "pool.created"
	PoolScaled    Type = "pool.scaled"
	PoolDrained   Type = "pool.drained"
	PoolWarning   Type = "pool.warning"
	PoolRecovered Type = "pool.recovered"
	PoolDestroyed Type = "pool.destroyed"

	ContainerCreating  Type = "container.creating"
	ContainerCreated   Type = "container.created"
	ContainerClaimed   Type = "container.claimed"
	ContainerWiped     Type = "container.wiped"
	ContainerReleased  Type = "container.released"
	ContainerUnhealthy Type = "container.unhealthy"
	// ContainerReached records that a container that could not be reached responds again.
	ContainerReached Type = "container.reached"
	ContainerDied    Type = "container.died"
	// ContainerTerminating records that the engine was told to remove a container by
	// someone else: it ends within its grace period.
	ContainerTerminating Type = "container.terminating"
	// ContainerForced records that an operator has a container destroyed although
	// it is claimed, or without its pre_destroy hooks.
	ContainerForced     Type = "container.forced"
	ContainerDestroying Type = "container.destroying"
	ContainerDestroyed  Type = "container.destroyed"

	ClaimRequested Type = "claim.requested"
	ClaimActivated Type = "claim.activated"
	ClaimFailed    Type = "claim.failed"
	ClaimReleasing Type = "claim.releasing"
	// ClaimDiscarded records a request to discard the tenant's state that came
	// after the release of the claim had begun.
	ClaimDiscarded Type = "claim.discarded"
	// ClaimStateLost records that a claim was released without the changes that
	// its tenant made since the last snapshot.
	ClaimStateLost Type = "claim.state_lost"
	ClaimReleased  Type = "claim.released"
	// ClaimExtended records that the end of a claim's lifetime was moved.
	ClaimExtended Type = "claim.extended"
	// ClaimReleaseFailed records that a claim keeps its container because its
	// tenant's state could not be uploaded.
	ClaimReleaseFailed Type = "claim.release_failed"

	// WaitRequested begins a wait; one of WaitSignalled, WaitTimedOut, WaitAborted
	// and WaitCancelled ends it.
	WaitRequested      Type = "wait.requested"
	WaitStarted        Type = "wait.started"         // its clock
	WaitSignalReceived Type = "wait.signal_received" // the wait_signal hooks follow
	WaitSignalled      Type = "wait.signalled"
	WaitExpired        Type = "wait.expired" // its deadline has passed, and the wait_timeout hooks follow
	WaitExtended       Type = "wait.extended"
	WaitRetried        Type = "wait.retried"
	WaitTimedOut       Type = "wait.timed_out"
	WaitEscalated      Type = "wait.escalated" // an operator should look at what timed out
	WaitAborted        Type = "wait.aborted"
	WaitCancelled      Type = "wait.cancelled" // its claim ended

	HookStarted   Type = "hook.started"
	HookCompleted Type = "hook.completed"
	HookFailed    Type = "hook.failed"
	HookSkipped   Type = "hook.skipped"
	// HookWarning records what the author of a hook should know although its
	// attempt was made.
	HookWarning Type = "hook.warning"

	DeliveryRetried   Type = "delivery.retried"
	DeliveryReplayed  Type = "delivery.replayed"
	DeliveryDiscarded Type = "delivery.discarded"

	SyncStarted    Type = "sync.started"
	SyncProgressed Type = "sync.progressed"
	SyncCompleted  Type = "sync.completed"
	SyncFailed     Type = "sync.failed"

	// What a tenant does with its container. Each ExecStarted has one end.
	ExecStarted      Type = "exec.started"
	ExecCompleted    Type = "exec.completed"
	ExecFailed       Type = "exec.failed"
	FileRead         Type = "file.read"
	FileWritten      Type = "file.written"
	FileRemoved      Type = "file.removed"
	RequestCompleted Type = "request.completed"

	// AccessDenied records that a request was refused for lack of a permission.
	AccessDenied Type = "access.denied"

	// QuotaChanged records new limits of a tenant, a key or a workload, and
	// QuotaRemoved that the defaults apply to it.
	QuotaChanged Type = "quota.changed"
	QuotaRemoved Type = "quota.removed"

	// SnapshotRestored reports that a tenant's older state is its current one again.
	SnapshotRestored Type = "snapshot.restored"
	// SnapshotImported reports that a tenant's current state is that of a tar, and
	// SnapshotExported that a tar of one has begun to be sent.
	SnapshotImported Type = "snapshot.imported"
	SnapshotExported Type = "snapshot.exported"

	// AgentActivityChanged records that a tenant's program does something else. The
	// program reports it, as it publishes the other events of agents.
	AgentActivityChanged Type = "agent.activity_changed"

	// What changes who may use the server.
	KeyCreated     Type = "key.created"
	KeyRevoked     Type = "key.revoked"
	TokenCreated   Type = "token.created"
	BindingApplied Type = "binding.applied"
	BindingDeleted Type = "binding.deleted"
)

// types lists every Type that Hostler records itself, for validation and
// documentation.
var types = []Type{
	WorkloadApplied, WorkloadDeleted, WorkloadRejected, WorkloadAccepted,
	PoolCreated, PoolScaled, PoolDrained, PoolWarning, PoolRecovered, PoolDestroyed,
	ContainerCreating, ContainerCreated, ContainerClaimed, ContainerWiped, ContainerReleased,
	ContainerUnhealthy, ContainerReached, ContainerTerminating, ContainerDied, ContainerForced, ContainerDestroying, ContainerDestroyed,
	ClaimRequested, ClaimActivated, ClaimFailed, ClaimReleasing, ClaimDiscarded, ClaimStateLost, ClaimReleased, ClaimReleaseFailed, ClaimExtended,
	WaitRequested, WaitStarted, WaitSignalReceived, WaitSignalled, WaitExpired, WaitExtended, WaitRetried,
	WaitTimedOut, WaitEscalated, WaitAborted, WaitCancelled,
	HookStarted, HookCompleted, HookFailed, HookSkipped, HookWarning,
	DeliveryRetried, DeliveryReplayed, DeliveryDiscarded,
	SyncStarted, SyncProgressed, SyncCompleted, SyncFailed,
	ExecStarted, ExecCompleted, ExecFailed, FileRead, FileWritten, FileRemoved, RequestCompleted,
	AccessDenied, QuotaChanged, QuotaRemoved, SnapshotRestored, SnapshotImported, SnapshotExported, AgentActivityChanged,
	KeyCreated, KeyRevoked, TokenCreated, BindingApplied, BindingDeleted,
}

// Types returns every type that Hostler records itself, in the order of the
// documentation. IsPublished knows the others.
func Types() []Type { return slices.Clone(types) }

// Event is one entry of the log. Fields that do not apply are empty.
type Event struct {
	Seq       int64           `json:"seq" doc:"Place in the log, growing; resume after it."`
	Time      time.Time       `json:"time" doc:"When it was recorded, UTC."`
	Type      Type            `json:"type" doc:"What happened: the thing first, then the verb."`
	Workload  string          `json:"workload,omitempty"`
	Container string          `json:"container,omitempty"`
	Tenant    string          `json:"tenant,omitempty"`
	Claim     string          `json:"claim,omitempty"`
	Run       string          `json:"run,omitempty" doc:"The hook run that it is about."`
	Point     string          `json:"point,omitempty" doc:"The hook point that it is about."`
	Depth     int             `json:"depth,omitempty" doc:"1 if a delivery to an event hook caused it: such an event is not delivered."`
	Message   string          `json:"message" doc:"A sentence for people."`
	Data      json.RawMessage `json:"data,omitempty" doc:"Details, by type."`
	Untrusted bool            `json:"untrusted,omitempty" doc:"Whether a tenant's program published it: its data is whatever that sent."`
	Priority  *int            `json:"priority,omitempty" doc:"Of an event that a tenant's program published: 9 is critical, 8 about its lifecycle, 7 about its state, 6 and lower are measurements."`
	Actor     string          `json:"actor,omitempty" doc:"Who caused it: key:NAME, token:ACTOR#TENANT, oidc:ISSUER#SUBJECT, cert:NAME, unix:UID, claim:ID for a program in a container, link, local or system."`
	Address   string          `json:"address,omitempty" doc:"The address of the client that caused it. Tenants do not see those of others."`
	Request   string          `json:"request,omitempty" doc:"The id of the request that caused it."`
	// Publication identifies the request of a tenant's program that published it, if
	// that has an id: a repeated one publishes nothing.
	Publication string `json:"-"`
}

// Cursor is how far a follower that handles every event once has come.
type Cursor struct {
	Name   string
	Seq    int64     // the last event that it has handled
	Behind int64     // the number of events after that
	Oldest time.Time // when the first of them was recorded; zero if there is none
}

// Filter selects the events to read. All fields must match. An empty field
// matches everything; Types matches if any of its elements does.
type Filter struct {
	Types     []Type // a type, or a subject such as "hook" for all of its types
	Workload  string
	Container string
	Tenant    string
	Claim     string
	Point     string
	Actor     string
	Run       string
	// MinPriority selects the events of this priority and above, and all events of
	// Hostler, which come before those.
	MinPriority int
	// Untrusted selects the events that tenants' programs published, or the others.
	// nil: both.
	Untrusted *bool
	// Labels selects the events of claims that have all of these labels.
	Labels map[string]string
	// Scope is what the reader may see. nil: everything.
	Scope *Scope
}

// Page is a sequence of consecutive events.
type Page struct {
	Items []Event
	// Next is the Seq after which to continue: that of the last item, or the
	// last Seq that was read if nothing matched.
	Next int64
	// OldestSeq is the Seq of the oldest retained event if events after the
	// requested Seq were deleted, else 0.
	OldestSeq int64
	// Rewinds is how often this server has noticed that the log lost its newest
	// events, so that their numbers are given again: in a failover of the database
	// to a standby that missed them. A reader that was ahead begins again.
	Rewinds int
}
