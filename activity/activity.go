// Package activity is the log of what happened: every change that Hostler
// makes, and every run of a hook, is an Event with a place in one order.
//
// It promises that an event's Seq is greater than that of every event which a
// reader could have seen before it, so that "all after Seq" misses nothing.
// How events are kept is left to package store, which writes an event in the
// transaction of the change that it tells of.
package activity

import (
	"encoding/json"
	"slices"
	"time"
)

// Type names what happened: the thing first, then the verb in the past tense.
type Type string

// The types of events.
const (
	WorkloadApplied Type = "workload.applied"
	WorkloadDeleted Type = "workload.deleted"

	PoolCreated   Type = "pool.created"
	PoolScaled    Type = "pool.scaled"
	PoolDrained   Type = "pool.drained"
	PoolWarning   Type = "pool.warning"
	PoolRecovered Type = "pool.recovered"
	PoolDestroyed Type = "pool.destroyed"

	ContainerCreating   Type = "container.creating"
	ContainerCreated    Type = "container.created"
	ContainerClaimed    Type = "container.claimed"
	ContainerWiped      Type = "container.wiped"
	ContainerReleased   Type = "container.released"
	ContainerUnhealthy  Type = "container.unhealthy"
	ContainerDied       Type = "container.died"
	ContainerDestroying Type = "container.destroying"
	ContainerDestroyed  Type = "container.destroyed"

	ClaimRequested Type = "claim.requested"
	ClaimActivated Type = "claim.activated"
	ClaimFailed    Type = "claim.failed"
	ClaimReleasing Type = "claim.releasing"
	// ClaimDiscarded says that nothing of what the tenant of a claim left is to be
	// kept, which was asked for after its release had begun.
	ClaimDiscarded Type = "claim.discarded"
	// ClaimStateLost says that a claim was released without what its tenant
	// changed since the last snapshot.
	ClaimStateLost Type = "claim.state_lost"
	ClaimReleased  Type = "claim.released"
	// ClaimReleaseFailed says that a claim keeps its container, because its
	// tenant's state could not be kept.
	ClaimReleaseFailed Type = "claim.release_failed"

	HookStarted   Type = "hook.started"
	HookCompleted Type = "hook.completed"
	HookFailed    Type = "hook.failed"
	HookSkipped   Type = "hook.skipped"

	SyncStarted   Type = "sync.started"
	SyncCompleted Type = "sync.completed"
	SyncFailed    Type = "sync.failed"
)

// types lists every Type, for validation and documentation.
var types = []Type{
	WorkloadApplied, WorkloadDeleted,
	PoolCreated, PoolScaled, PoolDrained, PoolWarning, PoolRecovered, PoolDestroyed,
	ContainerCreating, ContainerCreated, ContainerClaimed, ContainerWiped, ContainerReleased,
	ContainerUnhealthy, ContainerDied, ContainerDestroying, ContainerDestroyed,
	ClaimRequested, ClaimActivated, ClaimFailed, ClaimReleasing, ClaimDiscarded, ClaimStateLost, ClaimReleased, ClaimReleaseFailed,
	HookStarted, HookCompleted, HookFailed, HookSkipped,
	SyncStarted, SyncCompleted, SyncFailed,
}

// Types returns every type, in the order of the documentation.
func Types() []Type { return slices.Clone(types) }

// Event is one line of the log. Fields that do not apply are empty.
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
	Message   string          `json:"message" doc:"A sentence for people."`
	Data      json.RawMessage `json:"data,omitempty" doc:"Details, by type."`
}

// Filter says which events to read. Empty fields match everything; within
// Types any one may match, all fields must.
type Filter struct {
	Types     []Type // a type, or a thing such as "hook" for all of its types
	Workload  string
	Container string
	Tenant    string
	Claim     string
	Point     string
}

// Page is a run of events in order.
type Page struct {
	Items []Event
	// Next is the Seq to read on after: that of the last item, or where the
	// reading stopped when nothing matched.
	Next int64
	// OldestSeq is the Seq of the oldest event that retention has left when events
	// after the asked-for Seq are gone, else 0.
	OldestSeq int64
}

// Data turns the details of an event into its data object. They are built from
// strings and numbers of ours, so that a failure is a mistake in the program.
func Data(details map[string]any) json.RawMessage {
	b, err := json.Marshal(details)
	if err != nil {
		panic("activity: details that are no JSON: " + err.Error())
	}
	return b
}
