package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/quota"
	"github.com/hostler/hostler/runtime"
)

var _ claim.Store = (*DB)(nil)

// liveCondition is the condition of the indexes on live claims, word for word.
// The database uses them only then.
const liveCondition = `state IN ('pending', 'active', 'releasing', 'release_failed')`

var claimColumns = columns[claim.Claim]{
	{name: "id", use: key, field: func(c *claim.Claim) any { return &c.ID }},
	{name: "workload", use: immutable, field: func(c *claim.Claim) any { return &c.Workload }},
	{name: "tenant", use: immutable, field: func(c *claim.Claim) any { return &c.Tenant }},
	{name: "actor", use: immutable, field: func(c *claim.Claim) any { return &c.Actor }},
	{name: "request_id", use: immutable, field: func(c *claim.Claim) any { return &c.Request }},
	{name: "container", field: func(c *claim.Claim) any { return &c.Container }},
	{name: "revision", field: func(c *claim.Claim) any { return &c.Revision }},
	{name: "state", field: func(c *claim.Claim) any { return (*string)(&c.State) }},
	{name: "source", field: func(c *claim.Claim) any { return (*string)(&c.Source) }},
	{name: "endpoint", field: func(c *claim.Claim) any { return object[runtime.Endpoint]{&c.Endpoint} }},
	{name: "hooks", field: func(c *claim.Claim) any { return object[[]claim.HookSummary]{&c.Hooks} }},
	{name: "timings", field: func(c *claim.Claim) any { return object[map[string]float64]{&c.Timings} }},
	{name: "warnings", field: func(c *claim.Claim) any { return object[[]string]{&c.Warnings} }},
	{name: "reason", field: func(c *claim.Claim) any { return &c.Reason }},
	{name: "reason_chain", field: func(c *claim.Claim) any { return (*list)(&c.ReasonChain) }},
	{name: "discard", field: func(c *claim.Claim) any { return (*flag)(&c.Discard) }},
	{name: "created_at", use: immutable, field: func(c *claim.Claim) any { return (*nanos)(&c.CreatedAt) }},
	{name: "active_at", field: func(c *claim.Claim) any { return nullNanos{&c.ActiveAt} }},
	{name: "touched_at", field: func(c *claim.Claim) any { return nullNanos{&c.TouchedAt} }},
	{name: "released_at", field: func(c *claim.Claim) any { return nullNanos{&c.ReleasedAt} }},
	{name: "snapshot", field: func(c *claim.Claim) any { return &c.Snapshot }},
	// The fence is the given one, unless the clock was set back since an
	// earlier claim of the tenant.
	{
		name: "fence", use: immutable, field: func(c *claim.Claim) any { return &c.Fence },
		expr: `coalesce((SELECT fence + 1 FROM claims WHERE workload = $workload AND tenant = $tenant AND fence >= $fence
			ORDER BY fence DESC LIMIT 1), $fence)`,
	},
	{name: "failures", field: func(c *claim.Claim) any { return &c.Failures }},
	{name: "retry_at", field: func(c *claim.Claim) any { return nullNanos{&c.RetryAt} }},
	{name: "synced_at", field: func(c *claim.Claim) any { return nullNanos{&c.SyncedAt} }},
	{name: "failure_reason", field: func(c *claim.Claim) any { return (*string)(&c.FailureReason) }},
	{name: "failed_at", field: func(c *claim.Claim) any { return nullNanos{&c.FailedAt} }},
	{name: "activity", field: func(c *claim.Claim) any { return &c.Activity }},
	{name: "activity_tool", field: func(c *claim.Claim) any { return (*text)(&c.ActivityTool) }},
	{name: "activity_at", field: func(c *claim.Claim) any { return nullNanos{&c.ActivityAt} }},
	{name: "traceparent", field: func(c *claim.Claim) any { return &c.Traceparent }},
	{name: "owner", field: func(c *claim.Claim) any { return &c.Owner }},
	{name: "environment", field: func(c *claim.Claim) any { return &c.EnvironmentDigest }},
	{name: "waits", field: func(c *claim.Claim) any { return &c.Waits }},
	{name: "signals", field: func(c *claim.Claim) any { return &c.KeptSignals }},
	{name: "labels", use: immutable, field: func(c *claim.Claim) any { return (*pairs)(&c.Labels) }},
	{name: "parameters", use: immutable, field: func(c *claim.Claim) any { return (*pairs)(&c.Parameters) }},
	{name: "sealed", field: func(c *claim.Claim) any { return (*pairs)(&c.Sealed) }},
	{name: "expires_at", field: func(c *claim.Claim) any { return nullNanos{&c.ExpiresAt} }},
	// A claim's health is the health of its container.
	{
		name: "health", use: computed, field: func(c *claim.Claim) any { return &c.Health },
		expr: `coalesce((SELECT health FROM containers WHERE containers.id = claims.container), '')`,
	},
	{
		name: "container_fence", use: computed, field: func(c *claim.Claim) any { return &c.ContainerFence },
		expr: `coalesce((SELECT fence FROM containers WHERE containers.id = claims.container), 0)`,
	},
	{
		name: "event_commands", use: computed, field: func(c *claim.Claim) any { return (*flag)(&c.EventCommands) },
		expr: `coalesce((SELECT event_commands FROM containers WHERE containers.id = claims.container), 0)`,
	},
	{
		name: "forced", use: computed, field: func(c *claim.Claim) any { return (*string)(&c.Forced) },
		expr: `coalesce((SELECT forced FROM containers WHERE containers.id = claims.container), '')`,
	},
}

var (
	selectClaims = `SELECT ` + claimColumns.names(nil) + ` FROM claims`
	selectClaim  = selectClaims + ` WHERE id = $1`
	insertClaim  = claimColumns.insert("claims", "quota_key")
	updateClaim  = claimColumns.update("claims")
)

const countWaitingClaims = `SELECT count(*) FROM claims
	WHERE workload = $1 AND state = 'pending' AND container = '' AND owner <> $2 AND ` + liveCondition

// UpdateClaim changes one claim and its container.
func (db *DB) UpdateClaim(ctx context.Context, m claim.Transition) (claim.Claim, error) {
	var c claim.Claim
	err := db.update(ctx, func(t *tx) (err error) {
		c, err = moveClaim(t, m)
		return err
	})
	if err != nil {
		return claim.Claim{}, changeError(err, claim.ErrClaimNotFound, "claim", m.ID, string(m.To))
	}
	return c, nil
}

func moveClaim(t *tx, m claim.Transition) (claim.Claim, error) {
	before, err := scanClaim(t.query(selectClaim+forUpdate, m.ID))
	if err != nil {
		return before, err
	}
	if !slices.Contains(m.From, before.State) {
		return before, fmt.Errorf("%w: it is %s", pool.ErrConflict, before.State)
	}
	if m.If != nil && !m.If(before) {
		return before, fmt.Errorf("%w: it is %s, and has changed", pool.ErrConflict, before.State)
	}
	owner, isNote := t.owner, m.To == ""
	if isNote {
		m.To, owner = before.State, before.Owner // a note is not a transition
	}
	if !before.State.CanBecome(m.To) {
		return before, fmt.Errorf("a claim that is %s cannot become %s", before.State, m.To)
	}
	after := updatedClaim(t, before, m)
	after.Owner = owner
	for _, e := range m.Events {
		e.Claim = before.ID
		setIfEmpty(&e.Workload, before.Workload)
		setIfEmpty(&e.Tenant, before.Tenant)
		setIfEmpty(&e.Container, before.Container)
		setIfEmpty(&e.Container, after.Container)
		if err := t.addEvents(e); err != nil {
			return before, err
		}
	}
	if m.StateBytes != nil {
		if err := putStateSize(t, before, *m.StateBytes); err != nil {
			return before, err
		}
	}
	id := before.Container
	setIfEmpty(&id, after.Container)
	if m.Container != nil && id != "" {
		move := *m.Container
		move.ID = id
		k, err := moveContainer(t, move, before.Tenant)
		if errors.Is(err, pool.ErrContainerNotFound) {
			err = fmt.Errorf("%w: %w", pool.ErrConflict, err)
		}
		if err != nil {
			return before, fmt.Errorf("its container %s to %s: %w", id, move.To, err)
		}
		after.Health, after.ContainerFence = string(k.Health), k.Fence
	} else if id != "" && !isNote && (m.To == claim.Pending || m.To == claim.Releasing) {
		// A flow begins, or another server resumes it.
		var protocol int
		if err := t.query(raiseFence, id).Scan(&after.ContainerFence, &protocol); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return before, translateError(err)
		}
		if err := t.checkProtocol(protocol); err != nil {
			return before, err
		}
	}
	if before.State == claim.Active && after.State != claim.Active {
		if err := endWaits(t, &after); err != nil {
			return before, err
		}
	}
	if before.State.IsLive() && !after.State.IsLive() {
		if err := endWhatClaimHas(t, before); err != nil {
			return before, err
		}
	}
	return normalized(after), execLater(t, updateClaim, &after)
}

// endWhatClaimHas ends what belongs to a claim that ends.
func endWhatClaimHas(t *tx, c claim.Claim) error {
	if err := endRuns(t, runningOfClaim, c.ID, "its claim ended before its outcome was known"); err != nil {
		return err
	}
	if err := endCommands(t, c.ID); err != nil {
		return err
	}
	return endMemoryOf(t, c.Workload, c.Tenant, c.ID)
}

// updatedClaim returns the record after the transition. It shares slices and
// maps with before, which must not be read afterwards.
func updatedClaim(t *tx, before claim.Claim, m claim.Transition) claim.Claim {
	after := before
	if m.Set != nil {
		m.Set(&after)
	}
	after.ID, after.Workload, after.Tenant = before.ID, before.Workload, before.Tenant
	after.CreatedAt, after.Health, after.State = before.CreatedAt, before.Health, m.To
	after.Fence, after.ContainerFence = before.Fence, before.ContainerFence
	after.Actor = before.Actor
	after.Waits, after.KeptSignals = before.Waits, before.KeptSignals
	if after.EnvironmentDigest = before.EnvironmentDigest; !m.To.IsLive() {
		after.EnvironmentDigest = ""
	}
	if after.State == claim.Active && after.ActiveAt == nil {
		after.ActiveAt = &t.now
	}
	after.Labels, after.Parameters, after.Sealed = before.Labels, before.Parameters, before.Sealed
	if !after.State.IsLive() {
		after.Sealed = nil // no hook needs them
	}
	if !after.State.IsLive() && after.ReleasedAt == nil {
		after.ReleasedAt = &t.now
	}
	after.Reason = sanitizeText(after.Reason)
	return normalized(after)
}

// addClaim inserts a record and returns it with its fence.
func addClaim(t *tx, c claim.Claim) (claim.Claim, error) {
	args, err := insertClaim.args(&c, quota.KeyOf(c.Actor))
	if err != nil {
		return c, err
	}
	err = t.query(insertClaim.text+` RETURNING fence`, args...).Scan(&c.Fence)
	return c, translateError(err)
}

// Claim returns one record.
func (db *DB) Claim(ctx context.Context, id string) (claim.Claim, error) {
	c, err := queryRow(ctx, db, scanClaim, selectClaim, sanitizeText(id))
	if err != nil {
		return c, readError(err, claim.ErrClaimNotFound, "read claim", id)
	}
	return c, nil
}

// Claims lists the matching records, in order of id.
func (db *DB) Claims(ctx context.Context, f claim.Filter) ([]claim.Claim, error) {
	query, args := claimQuery(f)
	return queryAll(ctx, db, "claims", query, args, scanClaim)
}

// nextExpiry reads one entry of the index on lifetimes.
const nextExpiry = `SELECT COALESCE(min(expires_at), 0) FROM claims WHERE state = 'active' AND expires_at > 0 AND expires_at > $1`

// NextExpiry implements claim.Store.
func (db *DB) NextExpiry(ctx context.Context, after time.Time) (time.Time, error) {
	at, err := queryRow(ctx, db, scanNumber, nextExpiry, toNanos(after))
	if err != nil {
		return time.Time{}, fmt.Errorf("read when a lifetime ends next: %w", err)
	}
	return fromNanos(at), nil
}

func claimQuery(f claim.Filter) (string, []any) {
	var w where
	w.equal("workload", f.Workload)
	w.equal("tenant", f.Tenant)
	w.equal("container", f.Container)
	w.scope(f.Scope, "id")
	w.labelled("id", f.Labels)
	if !f.ExpiresBefore.IsZero() {
		w.add("state = 'active'") // not an argument: it is the condition of an index
		w.add("expires_at > 0")
		w.add("expires_at <= " + w.arg(toNanos(f.ExpiresBefore)))
	}
	if len(f.States) > 0 {
		oneOf(&w, "state", f.States)
	}
	order := byID
	if !slices.ContainsFunc(f.States, func(s claim.State) bool { return !s.IsLive() }) {
		w.add(liveCondition)
		order = sortedByID
	}
	w.idPart(f.IDPart)
	w.beyond(f.After, f.Newest)
	query := selectClaims + w.String() + ordered(order, f.Newest) + w.limit(f.Limit)
	return query, w.args
}

func scanClaim(r row) (claim.Claim, error) {
	c, err := claimColumns.scan(r)
	if errors.Is(err, sql.ErrNoRows) {
		return claim.Claim{}, claim.ErrClaimNotFound
	}
	if err != nil {
		return claim.Claim{}, translateError(err)
	}
	return normalized(c), nil
}

// normalized returns the record as every reader gets it: lists are empty
// instead of nil, times are as stored, and a claim that holds nothing has
// neither health nor a container fence.
func normalized(c claim.Claim) claim.Claim {
	if c.Hooks == nil {
		c.Hooks = []claim.HookSummary{}
	}
	if c.Timings == nil {
		c.Timings = map[string]float64{}
	}
	if c.Warnings == nil {
		c.Warnings = []string{}
	}
	c.ActiveAt, c.ReleasedAt = fromNullNanos(toNullNanos(c.ActiveAt)), fromNullNanos(toNullNanos(c.ReleasedAt))
	c.TouchedAt, c.RetryAt, c.SyncedAt = fromNullNanos(toNullNanos(c.TouchedAt)), fromNullNanos(toNullNanos(c.RetryAt)), fromNullNanos(toNullNanos(c.SyncedAt))
	c.FailedAt, c.ActivityAt = fromNullNanos(toNullNanos(c.FailedAt)), fromNullNanos(toNullNanos(c.ActivityAt))
	c.ExpiresAt = fromNullNanos(toNullNanos(c.ExpiresAt))
	if !c.State.IsLive() {
		c.Health, c.ContainerFence = "", 0
	}
	return c
}

// requestedEvent returns the event of a new claim.
func requestedEvent(c claim.Claim) activity.Event {
	return activity.Event{
		Type: activity.ClaimRequested, Workload: c.Workload, Tenant: c.Tenant, Claim: c.ID,
		Message: fmt.Sprintf("tenant %q requested a container of %s", c.Tenant, c.Workload),
	}
}

// countRetainedClaims counts the entries of the index on failed releases.
const countRetainedClaims = `SELECT count(*) FROM claims
	WHERE workload = $1 AND state IN ('releasing', 'release_failed') AND failures > 0`

// Kept returns how many containers of a workload are held by failed releases.
func (db *DB) Kept(ctx context.Context, workload string) (int, error) {
	n, err := queryRow(ctx, db, scanNumber, countRetainedClaims, workload)
	if err != nil {
		return 0, fmt.Errorf("count the failed releases of %s: %w", workload, err)
	}
	return int(n), nil
}

// Waiting returns how many claims of a workload wait for a container on other
// servers.
func (db *DB) Waiting(ctx context.Context, workload string) (int, error) {
	if !db.IsShared() {
		return 0, nil
	}
	n, err := queryRow(ctx, db, scanNumber, countWaitingClaims, workload, db.Self())
	if err != nil {
		return 0, fmt.Errorf("count the waiting claims of %s: %w", workload, err)
	}
	return int(n), nil
}
