// Package claim assigns containers to tenants.
//
// It promises that a tenant has at most one live claim on a workload and a
// container at most one at all; that a repeated claim returns the existing one
// and runs nothing; that post_claim hooks run exactly once for a claim that
// becomes active; that a container which may hold another tenant's data is
// verified clean first or destroyed; and that a failed claim leaves no
// container behind. The steps are in steps.go, in order.
package claim

import (
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// State is a state in the lifecycle of a claim:
//
//	pending ─→ active ─→ releasing ─→ released
//	pending ─→ failed
//	releasing ─→ release_failed ─→ releasing    (again, until the tenant's state is safe)
//	active ─→ released    (with a database that is restored)
//	release_failed ─→ released    (the same)
type State string

// The states of a claim. Pending, Active, Releasing and ReleaseFailed are
// live: a tenant has at most one live claim on a workload, a container at most
// one at all.
const (
	Pending       State = "pending"
	Active        State = "active"
	Releasing     State = "releasing"
	Released      State = "released"
	ReleaseFailed State = "release_failed"
	Failed        State = "failed"
)

// States returns every state, in lifecycle order.
func States() []State {
	return []State{Pending, Active, Releasing, ReleaseFailed, Released, Failed}
}

// IsLive reports whether a claim in this state holds its container.
func (s State) IsLive() bool {
	return s == Pending || s == Active || s == Releasing || s == ReleaseFailed
}

// FailureReason is the cause of a failed upload of a tenant's state.
type FailureReason string

// The causes of a failed upload.
const (
	FailedByTenant  FailureReason = "tenant"  // the files in the container are unreadable or too large
	FailedBySink    FailureReason = "sink"    // the sink, or the connection to it
	FailedStale     FailureReason = "stale"   // a later claim of the tenant has uploaded its state
	FailedByVersion FailureReason = "version" // the container's protocol is too old for this server
)

// Source is the origin of a claim's container.
type Source string

// The origins of a container.
const (
	Fresh    Source = "fresh"    // never claimed
	Affinity Source = "affinity" // this tenant's last one, unchanged
	Recycled Source = "recycled" // another tenant's, wiped
)

// Claim is a tenant's hold on a container.
type Claim struct {
	ID        string           `json:"id"`
	Workload  string           `json:"workload"`
	Tenant    string           `json:"tenant"`
	Container string           `json:"container,omitempty" doc:"Empty while the claim waits for one."`
	Revision  string           `json:"revision,omitempty" doc:"Of the workload, when the container was created."`
	State     State            `json:"state"`
	Source    Source           `json:"source,omitempty"`
	Endpoint  runtime.Endpoint `json:"endpoint"`
	// Health is the container's. A claimed container that exited stays claimed
	// until it is released.
	Health string        `json:"health,omitempty"`
	Hooks  []HookSummary `json:"hooks" doc:"The hook runs of the claim in order, one entry per attempt."`
	// Actor is who claimed: see activity.Actor.
	Actor    string             `json:"actor,omitempty" doc:"Who claimed."`
	Timings  map[string]float64 `json:"timings" doc:"Milliseconds per step."`
	Warnings []string           `json:"warnings"`
	// Reason is why the claim failed or was released, or why its release failed.
	Reason string `json:"reason,omitempty"`
	// ReasonChain is what was being done when what Reason has went wrong.
	ReasonChain []string `json:"reason_chain,omitempty" doc:"What was being done when that went wrong, outermost first."`
	// Fence orders the claims of a tenant on a workload: a later claim has a
	// greater fence, independent of the clock.
	Fence int64 `json:"-"`
	// Owner is the server that changed the claim last. While the claim is
	// pending or releasing, that server works on it. Empty with a single server.
	Owner string `json:"-"`
	// Request is the id of the request that created it, or "".
	Request string `json:"-"`
	// Traceparent is that of the request for which its hooks run, or "".
	Traceparent string `json:"-"`
	// ContainerFence is the container's fence (see pool.Container.Fence) at the
	// time when the flow that holds this record became responsible.
	ContainerFence int64 `json:"-"`
	// EventCommands and Forced are those of its container, like Health.
	EventCommands bool        `json:"-"`
	Forced        pool.Forced `json:"-"`
	// EnvironmentDigest is on record while the claim is live. Empty: it has no
	// environment.
	EnvironmentDigest string     `json:"-"`
	Snapshot          string     `json:"snapshot,omitempty" doc:"Of the tenant's state: the one that was downloaded, or uploaded last."`
	SyncedAt          *time.Time `json:"synced_at,omitempty" doc:"When the tenant's state was last uploaded."`
	// A different reason resets the count of failures.
	Failures      int           `json:"failures,omitempty" doc:"Consecutive failures of the release, for the same reason."`
	FailureReason FailureReason `json:"failure_reason,omitempty" doc:"Why its release fails: tenant (the files in the container are unreadable or too large), sink, stale (a later claim of the tenant has uploaded its state), or version (only an older server can read the container)."`
	FailedAt      *time.Time    `json:"failed_at,omitempty" doc:"When its release first failed for this reason."`
	RetryAt       *time.Time    `json:"retry_at,omitempty" doc:"When the failed release is retried; omitted when it is not retried automatically."`
	// Waits is changed with the waits themselves, like KeptSignals.
	Waits       int `json:"waits,omitempty" doc:"Its open waits. While there is one, it is not idle."`
	KeptSignals int `json:"-"`
	// Discard is set when the tenant's files must not be kept.
	Discard   bool       `json:"discard,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	ActiveAt  *time.Time `json:"active_at,omitempty"`
	TouchedAt *time.Time `json:"touched_at,omitempty" doc:"When the tenant last claimed or touched it, or its program reported an activity that counts as use, where the pool has a claim_idle_ttl."`
	// What the tenant's program reports to do is untrusted.
	Activity     string     `json:"activity,omitempty" doc:"What the tenant's program last reported to do."`
	ActivityTool string     `json:"activity_tool,omitempty" doc:"The tool that it reported to use. It is untrusted."`
	ActivityAt   *time.Time `json:"activity_at,omitempty" doc:"When the activity or the tool last changed."`
	// IdleExpiresAt is not recorded. It is computed from the current pool.
	IdleExpiresAt *time.Time `json:"idle_expires_at,omitempty" doc:"When it is released unless the tenant touches it or changes its files, where the pool has a claim_idle_ttl."`
	// ExpiresAt counts from the activation. A pending claim has one that counts from
	// its creation.
	ExpiresAt *time.Time        `json:"expires_at,omitempty" doc:"When its lifetime ends and it is released, whatever its use."`
	Labels    map[string]string `json:"labels,omitempty"`
	// Parameters has Hidden for a secret one, whose encrypted value is in Sealed
	// until the claim ends.
	Parameters map[string]string `json:"parameters,omitempty" doc:"Those of the request, and defaults. ••• stands for a secret."`
	Sealed     map[string]string `json:"-"`
	ReleasedAt *time.Time        `json:"released_at,omitempty" doc:"When it was released or failed."`
}

// Held is an active claim with its container.
type Held struct {
	Claim, Container string
	Fence            int64 // the container's
}

// LastActive returns when the tenant was last active, as recorded.
func (c Claim) LastActive() time.Time {
	if c.TouchedAt != nil {
		return *c.TouchedAt
	}
	if c.ActiveAt != nil {
		return *c.ActiveAt
	}
	return c.CreatedAt
}

// Subject returns the subject of the claim's hooks.
func (c Claim) Subject() runner.Subject {
	return runner.Subject{
		Workload: c.Workload, Container: c.Container, Fence: c.ContainerFence,
		Claim: c.ID, Tenant: c.Tenant, Source: string(c.Source), Reason: c.Reason, Activity: c.Activity,
		Traceparent: c.Traceparent, Parameters: c.Parameters, Sealed: c.Sealed,
	}
}

// HookSummary is one attempt of a hook in a response. The run's record has the
// output.
type HookSummary struct {
	Run      string         `json:"run"`
	Point    hooks.Point    `json:"point"`
	Hook     string         `json:"hook"`
	Attempt  int            `json:"attempt"`
	State    hooks.RunState `json:"state"`
	ExitCode *int           `json:"exit_code,omitempty"`
	Duration float64        `json:"duration_ms"`
}

// Summaries returns the summaries of runs for a response.
func Summaries(runs []hooks.Run) []HookSummary {
	out := make([]HookSummary, 0, len(runs))
	for _, r := range runs {
		out = append(out, HookSummary{
			Run: r.ID, Point: r.Point, Hook: r.Hook, Attempt: r.Attempt,
			State: r.State, ExitCode: r.ExitCode, Duration: r.Duration,
		})
	}
	return out
}
