package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

var (
	selectLive = selectClaims + ` WHERE workload = $1 AND tenant = $2 AND ` + liveCondition + forUpdate

	// The conditions are those of the indexes on idle containers.
	selectCandidates = selectContainers + `
		WHERE state = 'idle' AND health IN ('', 'healthy') AND workload = $1`
	// The container that the tenant used last has its latest files.
	lastUsed = ` ORDER BY changed_at DESC LIMIT 1`
	// Fresh containers are interchangeable: one that another transaction has
	// locked is skipped.
	longestFree = ` ORDER BY changed_at LIMIT 1` + skipLocked
)

// preference is one kind of container that a claim may get.
type preference struct {
	source claim.Source
	// query selects one of several.
	query string
	// args returns the query's arguments; nil when this reservation does not
	// accept the kind.
	args func(claim.Reservation, runtime.Protocols) []any
}

// preferences are in the order in which they are tried.
var preferences = []preference{
	{ // The tenant's own, as it was left. If locked, it is waited for, not skipped.
		claim.Affinity,
		selectCandidates + ` AND tenant = $2 AND revision = $3 AND protocol = $4` + lastUsed + forUpdate,
		func(r claim.Reservation, p runtime.Protocols) []any {
			if r.Reuse == workload.ReuseNever {
				return nil
			}
			return []any{r.Workload, r.Tenant, r.Revision, p.Current}
		},
	},
	{ // Never claimed.
		claim.Fresh,
		selectCandidates + ` AND tenant = '' AND revision = $2 AND protocol = $3` + longestFree,
		func(r claim.Reservation, p runtime.Protocols) []any { return []any{r.Workload, r.Revision, p.Current} },
	},
	{ // Another tenant's, to be wiped.
		claim.Recycled,
		selectCandidates + ` AND tenant <> '' AND tenant <> $2 AND revision = $3 AND protocol = $4` + longestFree,
		func(r claim.Reservation, p runtime.Protocols) []any {
			if r.Reuse != workload.ReuseWipe {
				return nil
			}
			return []any{r.Workload, r.Tenant, r.Revision, p.Current}
		},
	},
	{ // Outdated but never claimed.
		claim.Fresh,
		selectCandidates + ` AND tenant = '' AND (revision <> $2 OR protocol <> $4) AND protocol BETWEEN $3 AND $4` + longestFree,
		func(r claim.Reservation, p runtime.Protocols) []any {
			return []any{r.Workload, r.Revision, p.Oldest, p.Current}
		},
	},
}

// Reserve finds or creates the tenant's claim and reserves a container for it.
func (db *DB) Reserve(ctx context.Context, r claim.Reservation) (claim.Claim, error) {
	var c claim.Claim
	err := db.update(ctx, func(t *tx) (err error) {
		c, err = reserve(t, r)
		return err
	})
	if err != nil {
		return claim.Claim{}, fmt.Errorf("reserve a container of %s: %w", r.Workload, err)
	}
	if c.ID == r.Claim && c.Container == "" {
		// As an error within the change it would undo the claim.
		return c, claim.ErrNoIdleContainer
	}
	return c, nil
}

func reserve(t *tx, r claim.Reservation) (claim.Claim, error) {
	c, err := scanClaim(t.query(selectLive, r.Workload, r.Tenant))
	isNew := errors.Is(err, claim.ErrClaimNotFound)
	if err != nil && !isNew {
		return c, err
	}
	if !isNew && (c.ID != r.Claim || c.Container != "") {
		return c, nil
	}
	if isNew && r.Refusal != nil {
		return c, r.Refusal
	}
	if isNew {
		c, err = addPendingClaim(t, normalized(claim.Claim{
			ID: r.Claim, Workload: r.Workload, Tenant: r.Tenant, State: claim.Pending,
			CreatedAt: t.now, Fence: toNanos(t.now), Owner: t.owner, Traceparent: r.Traceparent, EnvironmentDigest: r.Environment, Actor: sanitizeText(r.Actor), Request: r.Request,
			Labels: r.Labels, Parameters: r.Parameters, Sealed: r.Sealed, ExpiresAt: expiryOf(t, r),
		}))
		if err != nil {
			return c, err
		}
	}
	if r.EnqueueOnly {
		return c, nil
	}
	if err := pickContainer(t, r, &c); err != nil || c.Container == "" {
		return c, err
	}
	return c, execLater(t, updateClaim, &c)
}

// addPendingClaim adds the claim before a container is picked. If another
// transaction is creating a claim for this tenant, this one waits for it
// without a locked container that others would skip.
func addPendingClaim(t *tx, c claim.Claim) (claim.Claim, error) {
	if err := checkQuotas(t, c); err != nil {
		return c, err
	}
	c, err := addClaim(t, c)
	if errors.Is(err, ErrExists) {
		return c, fmt.Errorf("%w: claim %s has ended", pool.ErrConflict, c.ID)
	}
	if errors.Is(err, pool.ErrConflict) {
		return c, fmt.Errorf("%w: %w", errSerialization, err)
	}
	if err != nil {
		return c, err
	}
	if err := addLabels(t, c); err != nil {
		return c, err
	}
	return c, t.addEvents(requestedEvent(c))
}

// expiryOf returns when the lifetime of a new claim ends, nil if it has none.
func expiryOf(t *tx, r claim.Reservation) *time.Time {
	if r.Lifetime <= 0 {
		return nil
	}
	at := t.now.Add(r.Lifetime)
	return &at
}

// pickContainer reserves the most preferred container for the claim, if there
// is one.
func pickContainer(t *tx, r claim.Reservation, c *claim.Claim) error {
	for _, p := range preferences {
		args := p.args(r, t.protocols)
		if args == nil || r.OwnOnly && p.source != claim.Affinity {
			continue
		}
		k, err := scanContainer(t.query(p.query, args...))
		if errors.Is(err, pool.ErrContainerNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		return claimContainer(t, k, p.source, c)
	}
	return nil
}

// claimContainer assigns the container to the claim. The contents of a
// container that must be wiped belong to its last tenant until the wipe is
// done.
func claimContainer(t *tx, k pool.Container, source claim.Source, c *claim.Claim) error {
	k.State, k.Claim, k.ChangedAt = pool.Claimed, c.ID, t.now
	if source != claim.Recycled {
		k.Tenant = c.Tenant
	}
	k.Fence++
	if err := saveContainer(t, &k); err != nil {
		return err
	}
	c.Container, c.Revision, c.Endpoint, c.Source = k.ID, k.Revision, k.Endpoint, source
	c.Health, c.ContainerFence, c.EventCommands = string(k.Health), k.Fence, k.EventCommands
	return t.addEvents(fillFromContainer(k, activity.Event{
		Type: activity.ContainerClaimed, Tenant: c.Tenant, Message: "container is claimed (" + string(source) + ")",
		Data: activity.Data(activity.ContainerClaimedData{Source: string(source)}),
	}))
}
