package claim

import (
	"context"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/workload"
)

// Store is the storage of claims and releases. Each call is one transaction:
// the change and its events are both durable when it returns nil, and neither
// is applied when it returns an error, except by Reserve with ErrNoIdleContainer.
type Store interface {
	// Reserve finds or adds the tenant's claim, and reserves a container for it.
	//
	// When the tenant has a live claim on the workload with another ID than
	// r.Claim, that claim is returned unchanged (compare IDs). Otherwise the
	// claim r.Claim is added as Pending with the event claim.requested, unless
	// it exists. If it has no container, one is reserved for it: the container
	// becomes Claimed, with this tenant and claim; the claim gets its Container,
	// Revision, Endpoint and Source; the event is container.claimed.
	//
	// Idle and healthy containers are preferred in this order: this tenant's own
	// of the current revision (unless r.Reuse is never); never claimed ones of
	// the current revision; with r.Reuse wipe, other tenants' of the current
	// revision; all of these with this server's protocol version. Then never
	// claimed ones of older revisions, or of an older version that this server
	// supports. Within each group the longest idle is first. Without a match the
	// error is ErrNoIdleContainer: the Pending claim stays, and is returned with
	// the error. With r.EnqueueOnly no container is reserved, and with r.OwnOnly
	// only one of this tenant's own.
	//
	// A claim that would exceed a quota is not added: *quota.ExceededError.
	Reserve(ctx context.Context, r Reservation) (Claim, error)
	// UpdateClaim applies a change if the claim is in one of the states m.From
	// and m.If returns true. Otherwise the error is pool.ErrConflict. A change
	// that makes the caller responsible for a container of a newer server, or
	// moves that container, is runtime.ErrNewer. UpdateClaim returns the new
	// record. When the claim ends, its hook runs that are recorded as running
	// end as unknown. A change of state that State.CanBecome does not allow is
	// an error of the program and changes nothing.
	UpdateClaim(ctx context.Context, m Transition) (Claim, error)
	// Claim returns one record, or ErrClaimNotFound.
	Claim(ctx context.Context, id string) (Claim, error)
	// Claims returns the records that match, oldest first.
	Claims(ctx context.Context, f Filter) ([]Claim, error)
	// NextExpiry returns when the lifetime of an active claim ends next, of those that
	// end after a time; zero if there is none.
	NextExpiry(ctx context.Context, after time.Time) (time.Time, error)
	// Self returns this server's ID, as in Claim.Owner.
	Self() string
}

// Reservation is a request for a container.
type Reservation struct {
	Claim       string // the ID of the claim, new or pending
	Traceparent string // of a new claim
	Environment string // Claim.EnvironmentDigest of a new claim
	Actor       string // who claims
	Request     string // Claim.Request of a new claim
	Workload    string
	Tenant      string
	Revision    string // the workload's current one
	Reuse       workload.Reuse
	// Of a new claim.
	Labels, Parameters, Sealed map[string]string
	Lifetime                   time.Duration // 0: no limit
	// Refusal is returned instead of adding a claim. nil adds it.
	Refusal     error
	EnqueueOnly bool // add the claim but reserve no container: others wait before it
	OwnOnly     bool // reserve only the tenant's own container
}

// Filter selects claims. Empty fields match all.
type Filter struct {
	Workload  string
	Tenant    string
	Container string
	States    []State // empty: the live ones
	After     string  // only IDs after this one, in order of ID
	IDPart    string  // only IDs that begin or end with it
	Newest    bool    // in the reverse order; After: only IDs before this one
	Limit     int     // 0: no limit
	// Scope is what the reader may see. nil: everything.
	Scope *activity.Scope
	// Labels selects the claims that have all of them.
	Labels map[string]string
	// ExpiresBefore selects the active claims whose lifetime ends until then. The zero time
	// selects all.
	ExpiresBefore time.Time
}
