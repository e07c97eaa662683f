package claim

import (
	"context"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// Store is what claims and releases need of storage. Each call is one
// transaction: the change and its events are both durable when it returns nil,
// and neither happened when it does not.
type Store interface {
	// Reserve finds or makes the tenant's claim and a container for it.
	//
	// When the tenant has a live claim on the workload with another id than
	// r.Claim, it is returned as it is (compare ids) and nothing changes. Else
	// the claim r.Claim is added as Pending with the event claim.requested,
	// unless it is there, and if it has no container yet one is reserved for
	// it: the row becomes Claimed, its Tenant this tenant, its Claim this
	// claim, the claim gets its Container, Revision, Endpoint and Source, with
	// the event container.claimed.
	//
	// The order of preference, among idle and healthy containers: this
	// tenant's own of the current revision (unless r.Reuse is never), never
	// claimed ones of the current revision, with r.Reuse wipe other tenants' of
	// the current revision, all of this server's protocol version; then never
	// claimed ones of older revisions, or of an older version that this server
	// speaks; the longest idle first. With none it is ErrNoIdleContainer: the Pending claim
	// stays, and is returned with the error. With r.Queue no container is looked for.
	Reserve(ctx context.Context, r Reservation) (Claim, error)
	// UpdateClaim makes a change, if the claim is still in one of the states
	// m.From and m.If has nothing against it; if not, it is pool.ErrConflict. A
	// change that makes the caller responsible for a container of a newer server, or
	// moves that container, is runtime.ErrNewer. It returns the new record. The hook
	// runs of a claim that ends and that are on record as running end with it, as
	// unknown.
	UpdateClaim(ctx context.Context, m Transition) (Claim, error)
	// Claim is one record; ErrClaimNotFound.
	Claim(ctx context.Context, id string) (Claim, error)
	// Claims lists the records that match, oldest first.
	Claims(ctx context.Context, f Filter) ([]Claim, error)
	// Self is this server's id, as Claim.Owner has it.
	Self() string
}

// Reservation asks for a container.
type Reservation struct {
	Claim       string // the id of the claim to be made
	Workload    string
	Tenant      string
	Revision    string // the workload's current one
	Reuse       workload.Reuse
	EnqueueOnly bool // add the claim and look for no container: others wait before it
}

// Transition is a change of one claim and, in the same transaction, of its container.
type Transition struct {
	ID   string
	From []State // never empty
	To   State   // empty: it stays in the state that it is in, and its owner's
	// If says of the record as it is whether the change is still to be made. It
	// runs as Set does. nil: it is.
	If func(Claim) bool
	// Set changes the record beyond its state; it runs within the transaction,
	// must be quick and must not block. nil changes nothing.
	Set func(*Claim)
	// Container, when not nil, also moves the claim's container. It is looked at
	// after Set, which may still change it. Its ID is filled in from the claim; a
	// claim without a container skips it. When the
	// container is in none of the states Container.From the whole call is
	// pool.ErrConflict.
	Container *pool.Transition
	// Events tell of the change. Workload, Container, Tenant and Claim are
	// filled in from the record as it was before the change.
	Events []activity.Event
}

// Filter says which claims to list. Empty fields match all.
type Filter struct {
	Workload  string
	Tenant    string
	Container string
	States    []State // empty: the live ones
	After     string  // ids after this one, in order of id
	Limit     int     // 0: no limit
}
