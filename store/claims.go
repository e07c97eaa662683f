package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
)

var _ claim.Store = (*DB)(nil)

// liveCondition is the condition of the indexes on live claims, word for word.
// The database uses them only then.
const liveCondition = `state IN ('pending', 'active', 'releasing', 'release_failed')`

// A claim's health is the health of its container.
const (
	claimColumns = `id, workload, tenant, container, revision, state, source, endpoint, hooks, timings,
		warnings, reason, discard, created_at, active_at, touched_at, released_at,
		snapshot, fence, failures, retry_at, synced_at, failure_reason, failed_at`
	healthColumn = `coalesce((SELECT health FROM containers WHERE containers.id = claims.container), '')`
	fenceColumn  = `coalesce((SELECT fence FROM containers WHERE containers.id = claims.container), 0)`
	selectClaims = `SELECT ` + claimColumns + `, owner, ` + healthColumn + `, ` + fenceColumn + ` FROM claims`
	selectClaim  = selectClaims + ` WHERE id = $1`
	// The fence is the given one, unless the clock was set back since an
	// earlier claim of the tenant.
	insertClaim = `INSERT INTO claims (` + claimColumns + `, owner)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
			coalesce((SELECT fence + 1 FROM claims WHERE workload = $2 AND tenant = $3 AND fence >= $19
				ORDER BY fence DESC LIMIT 1), $19),
			$20, $21, $22, $23, $24, $25)
		RETURNING fence`
	countWaitingClaims = `SELECT count(*) FROM claims
		WHERE workload = $1 AND state = 'pending' AND container = '' AND owner <> $2 AND ` + liveCondition + `
	`
	updateClaim = `UPDATE claims
		SET container = $2, revision = $3, state = $4, source = $5, endpoint = $6, hooks = $7, timings = $8,
			warnings = $9, reason = $10, discard = $11, active_at = $12, touched_at = $13, released_at = $14,
			snapshot = $15, failures = $16, retry_at = $17, synced_at = $18, failure_reason = $19, failed_at = $20, owner = $21
		WHERE id = $1`
)

// UpdateClaim changes one claim and its container.
func (db *DB) UpdateClaim(ctx context.Context, m claim.Transition) (claim.Claim, error) {
	var c claim.Claim
	err := db.update(ctx, func(t *tx) (err error) {
		c, err = moveClaim(t, m)
		return err
	})
	if err != nil {
		return claim.Claim{}, fmt.Errorf("update claim %s to %s: %w", m.ID, m.To, err)
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
	id := before.Container
	setIfEmpty(&id, after.Container)
	if m.Container != nil && id != "" {
		move := *m.Container
		move.ID = id
		k, err := moveContainer(t, move)
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
	if before.State.IsLive() && !after.State.IsLive() {
		if err := endRuns(t, runningOfClaim, before.ID, "its claim ended before its outcome was known"); err != nil {
			return before, err
		}
	}
	return normalized(after), saveClaim(t, after)
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
	if after.State == claim.Active && after.ActiveAt == nil {
		after.ActiveAt = &t.now
	}
	if !after.State.IsLive() && after.ReleasedAt == nil {
		after.ReleasedAt = &t.now
	}
	after.Reason = sanitizeText(after.Reason)
	return normalized(after)
}

// saveClaim writes the mutable columns of a record.
func saveClaim(t *tx, c claim.Claim) error {
	texts, err := claimJSONColumns(c)
	if err != nil {
		return err
	}
	return t.execLater(updateClaim, c.ID, c.Container, c.Revision, string(c.State), string(c.Source),
		texts[0], texts[1], texts[2], texts[3], c.Reason, boolToInt(c.Discard), toNullNanos(c.ActiveAt), toNullNanos(c.TouchedAt), toNullNanos(c.ReleasedAt),
		c.Snapshot, c.Failures, toNullNanos(c.RetryAt), toNullNanos(c.SyncedAt), string(c.FailureReason), toNullNanos(c.FailedAt), c.Owner)
}

// addClaim inserts a record and returns it with its fence.
func addClaim(t *tx, c claim.Claim) (claim.Claim, error) {
	texts, err := claimJSONColumns(c)
	if err != nil {
		return c, err
	}
	err = t.query(insertClaim, c.ID, c.Workload, c.Tenant, c.Container, c.Revision, string(c.State),
		string(c.Source), texts[0], texts[1], texts[2], texts[3], c.Reason, boolToInt(c.Discard),
		toNanos(c.CreatedAt), toNullNanos(c.ActiveAt), toNullNanos(c.TouchedAt), toNullNanos(c.ReleasedAt),
		c.Snapshot, c.Fence, c.Failures, toNullNanos(c.RetryAt), toNullNanos(c.SyncedAt), string(c.FailureReason), toNullNanos(c.FailedAt),
		t.owner).Scan(&c.Fence)
	return c, translateError(err)
}

// claimJSONColumns returns the columns endpoint, hooks, timings and warnings.
func claimJSONColumns(c claim.Claim) (texts [4]string, err error) {
	for i, v := range []any{c.Endpoint, c.Hooks, c.Timings, c.Warnings} {
		if texts[i], err = encode(v); err != nil {
			return texts, err
		}
	}
	return texts, nil
}

// Claim returns one record.
func (db *DB) Claim(ctx context.Context, id string) (claim.Claim, error) {
	c, err := queryRow(ctx, db, scanClaim, selectClaim, sanitizeText(id))
	if err != nil {
		return c, fmt.Errorf("read claim %s: %w", id, err)
	}
	return c, nil
}

// Claims lists the matching records, in order of id.
func (db *DB) Claims(ctx context.Context, f claim.Filter) ([]claim.Claim, error) {
	query, args := claimQuery(f)
	return queryAll(ctx, db, "claims", query, args, scanClaim)
}

func claimQuery(f claim.Filter) (string, []any) {
	var w where
	w.equal("workload", f.Workload)
	w.equal("tenant", f.Tenant)
	w.equal("container", f.Container)
	if len(f.States) > 0 {
		oneOf(&w, "state", f.States)
	}
	order := byID
	if !slices.ContainsFunc(f.States, func(s claim.State) bool { return !s.IsLive() }) {
		w.add(liveCondition)
		order = sortedByID
	}
	if f.After != "" {
		w.add("id > " + w.arg(f.After))
	}
	query := selectClaims + w.String() + order + w.limit(f.Limit)
	return query, w.args
}

func scanClaim(r row) (claim.Claim, error) {
	var c claim.Claim
	var endpoint, hooks, timings, warnings string
	var discard int
	var created, active, touched, released, retry, synced, failed int64
	err := r.Scan(&c.ID, &c.Workload, &c.Tenant, &c.Container, &c.Revision, (*string)(&c.State),
		(*string)(&c.Source), &endpoint, &hooks, &timings, &warnings, &c.Reason,
		&discard, &created, &active, &touched, &released,
		&c.Snapshot, &c.Fence, &c.Failures, &retry, &synced, (*string)(&c.FailureReason), &failed, &c.Owner, &c.Health, &c.ContainerFence)
	if errors.Is(err, sql.ErrNoRows) {
		return claim.Claim{}, claim.ErrClaimNotFound
	}
	if err != nil {
		return claim.Claim{}, translateError(err)
	}
	c.Discard = discard == 1
	c.CreatedAt, c.ActiveAt, c.ReleasedAt = fromNanos(created), fromNullNanos(active), fromNullNanos(released)
	c.TouchedAt, c.RetryAt, c.SyncedAt, c.FailedAt = fromNullNanos(touched), fromNullNanos(retry), fromNullNanos(synced), fromNullNanos(failed)
	err = errors.Join(decode(endpoint, &c.Endpoint), decode(hooks, &c.Hooks),
		decode(timings, &c.Timings), decode(warnings, &c.Warnings))
	return normalized(c), err
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
	c.FailedAt = fromNullNanos(toNullNanos(c.FailedAt))
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
