package claim

import (
	"time"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// State is where a claim is in its life.
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

// States lists every state, in the order of a claim's life.
func States() []State {
	return []State{Pending, Active, Releasing, ReleaseFailed, Released, Failed}
}

// IsLive says whether a claim in this state holds its container.
func (s State) IsLive() bool {
	return s == Pending || s == Active || s == Releasing || s == ReleaseFailed
}

// FailureReason is to whom it is due that a tenant's state could not be kept.
type FailureReason string

// Why a tenant's state could not be kept.
const (
	FailedByTenant  FailureReason = "tenant"  // what is in its container cannot be read, or is too much
	FailedBySink    FailureReason = "sink"    // the sink, or the way there
	FailedStale     FailureReason = "stale"   // a later claim of the tenant has kept its state
	FailedByVersion FailureReason = "version" // its container is too old for this server, which cannot read it
)

// Source is what a claim's container was before.
type Source string

// Where a container comes from.
const (
	Fresh    Source = "fresh"    // never claimed
	Affinity Source = "affinity" // this tenant's last one, as it was left
	Recycled Source = "recycled" // another tenant's, wiped
)

// Claim is a tenant's hold on a container.
type Claim struct {
	ID        string           `json:"id"`
	Workload  string           `json:"workload"`
	Tenant    string           `json:"tenant"`
	Container string           `json:"container,omitempty" doc:"Empty while it waits for one."`
	Revision  string           `json:"revision,omitempty" doc:"Of the workload, as its container was made."`
	State     State            `json:"state"`
	Source    Source           `json:"source,omitempty"`
	Endpoint  runtime.Endpoint `json:"endpoint"`
	// Health is the container's: a claimed container that died stays claimed
	// until it is released.
	Health   string             `json:"health,omitempty"`
	Hooks    []HookSummary      `json:"hooks" doc:"What ran for it, in order, each attempt."`
	Timings  map[string]float64 `json:"timings" doc:"Milliseconds by step."`
	Warnings []string           `json:"warnings"`
	// Reason is why it failed or was released, or could not be released yet.
	Reason string `json:"reason,omitempty"`
	// Fence orders the claims of a tenant on a workload: that of a later one is
	// greater, whatever the clock does.
	Fence int64 `json:"-"`
	// Owner is the server that changed it last: while it is pending or
	// releasing, the one that works on it. Empty where there is only one.
	Owner string `json:"-"`
	// ContainerFence is the container's, see pool.Container.Fence, as it was
	// when the flow that has this record became responsible.
	ContainerFence int64      `json:"-"`
	Snapshot       string     `json:"snapshot,omitempty" doc:"Of its tenant's state: the one that was put in, or was taken last."`
	SyncedAt       *time.Time `json:"synced_at,omitempty" doc:"When its tenant's state was last taken into a snapshot."`
	// A different reason resets the count of failures.
	Failures      int           `json:"failures,omitempty" doc:"How often its release has failed in a row, for the same reason."`
	FailureReason FailureReason `json:"failure_reason,omitempty" doc:"Why its release fails: the tenant (what is in its container cannot be read or kept), the sink, stale: a later claim of the tenant has kept its state; or version: only an older server can read its container."`
	FailedAt      *time.Time    `json:"failed_at,omitempty" doc:"Since when its release fails for this reason."`
	RetryAt       *time.Time    `json:"retry_at,omitempty" doc:"When a release that failed is tried again; left out when it is not tried again by itself."`
	// Discard says that nothing of what the tenant left may stay.
	Discard   bool       `json:"discard,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	ActiveAt  *time.Time `json:"active_at,omitempty"`
	TouchedAt *time.Time `json:"touched_at,omitempty" doc:"When its tenant last asked for it or touched it, where the pool has a claim_idle_ttl."`
	// IdleExpiresAt is not recorded: it follows from the pool as it is now.
	IdleExpiresAt *time.Time `json:"idle_expires_at,omitempty" doc:"When it is released unless its tenant shows itself or changes its files, where the pool has a claim_idle_ttl."`
	ReleasedAt    *time.Time `json:"released_at,omitempty" doc:"When it ended, released or failed."`
}

// LastActive is when the tenant of an active claim last showed itself.
func (c Claim) LastActive() time.Time {
	if c.TouchedAt != nil {
		return *c.TouchedAt
	}
	if c.ActiveAt != nil {
		return *c.ActiveAt
	}
	return c.CreatedAt
}

// Subject is what the hooks of the claim's points are about.
func (c Claim) Subject() hooks.Subject {
	return hooks.Subject{
		Workload: c.Workload, Container: c.Container,
		Claim: c.ID, Tenant: c.Tenant, Source: string(c.Source),
	}
}

// HookSummary is one attempt of a hook as an answer shows it; the run's record
// has the output.
type HookSummary struct {
	Run      string         `json:"run"`
	Point    hooks.Point    `json:"point"`
	Hook     string         `json:"hook"`
	Attempt  int            `json:"attempt"`
	State    hooks.RunState `json:"state"`
	ExitCode *int           `json:"exit_code,omitempty"`
	Duration float64        `json:"duration_ms"`
}
