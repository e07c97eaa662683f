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
	"github.com/hostler/hostler/runtime"
)

var _ pool.Containers = (*DB)(nil)

var containerColumns = columns[pool.Container]{
	{name: "id", use: key, field: func(c *pool.Container) any { return &c.ID }},
	{name: "workload", use: immutable, field: func(c *pool.Container) any { return &c.Workload }},
	{name: "revision", use: immutable, field: func(c *pool.Container) any { return &c.Revision }},
	{name: "state", field: func(c *pool.Container) any { return (*string)(&c.State) }},
	{name: "health", field: func(c *pool.Container) any { return (*string)(&c.Health) }},
	{name: "tenant", field: func(c *pool.Container) any { return &c.Tenant }},
	{name: "claim", field: func(c *pool.Container) any { return &c.Claim }},
	{name: "endpoint", field: func(c *pool.Container) any { return object[runtime.Endpoint]{&c.Endpoint} }},
	{name: "node", field: func(c *pool.Container) any { return &c.Node }},
	{name: "reason", field: func(c *pool.Container) any { return (*text)(&c.Reason) }},
	{name: "reason_chain", field: func(c *pool.Container) any { return (*list)(&c.ReasonChain) }},
	{name: "output", field: func(c *pool.Container) any { return (*string)(&c.Output) }},
	{name: "forced", field: func(c *pool.Container) any { return (*string)(&c.Forced) }},
	{name: "snapshot", field: func(c *pool.Container) any { return &c.Snapshot }},
	{name: "fence", field: func(c *pool.Container) any { return &c.Fence }},
	{name: "created_at", use: immutable, field: func(c *pool.Container) any { return (*nanos)(&c.CreatedAt) }},
	{name: "changed_at", field: func(c *pool.Container) any { return (*nanos)(&c.ChangedAt) }},
	{name: "wiped_at", field: func(c *pool.Container) any { return nullNanos{&c.WipedAt} }},
	{name: "protocol", use: immutable, field: func(c *pool.Container) any { return &c.Protocol }},
	{name: "image_hooks", field: func(c *pool.Container) any { return object[[]runtime.ImageHook]{&c.ImageHooks} }},
	{name: "event_commands", use: immutable, field: func(c *pool.Container) any { return (*flag)(&c.EventCommands) }}, // set by permitCommand
}

// The owner of a container is the server that changed it last.
var (
	selectContainers = `SELECT ` + containerColumns.names(nil) + ` FROM containers`
	selectContainer  = selectContainers + ` WHERE id = $1`
	insertContainer  = containerColumns.insert("containers", "owner")
	updateContainer  = containerColumns.update("containers", "owner")
)

const (
	// forcedCondition is the condition of the index on forced destructions, word
	// for word.
	forcedCondition = `forced IN ('after_hooks', 'now')`
	countContainers = `SELECT count(*) FROM containers WHERE workload = $1 AND state <> 'destroyed'`
	// The claim keeps its owner, even when another server creates the
	// container.
	assignClaim = `UPDATE claims SET container = $2, revision = $3, source = $4 WHERE id = $1`
	// raiseFence is for a flow that becomes responsible for a container and
	// changes nothing else in its record.
	raiseFence = `UPDATE containers SET fence = fence + 1 WHERE id = $1 RETURNING fence, protocol`
)

// AddContainer records a container that is about to be created.
func (db *DB) AddContainer(ctx context.Context, c pool.Container, maxSize int) error {
	err := db.update(ctx, func(t *tx) error { return addContainer(t, c, maxSize) })
	if err != nil {
		return fmt.Errorf("add container %s: %w", c.ID, err)
	}
	return nil
}

func addContainer(t *tx, c pool.Container, maxSize int) error {
	if err := t.lockWorkload(c.Workload); err != nil { // two concurrent calls would count the same
		return err
	}
	if err := checkRevision(t, c.Workload, c.Revision); err != nil {
		return err
	}
	var n int
	if err := t.query(countContainers, c.Workload).Scan(&n); err != nil {
		return translateError(err)
	}
	if n >= maxSize {
		// Only a full pool needs the number of containers that do not count.
		var kept int
		if err := t.query(countRetainedClaims, c.Workload).Scan(&kept); err != nil {
			return translateError(err)
		}
		if pool.EffectiveSize(n, kept, maxSize) >= maxSize {
			return pool.ErrFull
		}
	}
	c.State, c.Fence, c.CreatedAt, c.ChangedAt = pool.Creating, pool.FirstFence, t.now, t.now
	c.Protocol = t.protocols.Current
	if c.Claim != "" {
		if err := assignContainer(t, &c); err != nil {
			return err
		}
	}
	if err := execLater(t, insertContainer, &c, t.owner); err != nil {
		return err
	}
	return t.addEvents(fillFromContainer(c, activity.Event{
		Type: activity.ContainerCreating, Message: "container is being created",
	}))
}

// assignContainer assigns a container that is about to be created to the
// pending claim that it is created for.
func assignContainer(t *tx, c *pool.Container) error {
	k, err := scanClaim(t.query(selectClaim+forUpdate, c.Claim))
	if err != nil {
		return err
	}
	if k.State != claim.Pending || k.Container != "" || k.Workload != c.Workload {
		return pool.ErrConflict // it already has a container, or no longer needs one
	}
	c.Tenant = k.Tenant
	return t.execLater(assignClaim, k.ID, c.ID, c.Revision, string(claim.Fresh))
}

// UpdateContainer changes one container.
func (db *DB) UpdateContainer(ctx context.Context, m pool.Transition) (pool.Container, error) {
	var c pool.Container
	err := db.update(ctx, func(t *tx) (err error) {
		c, err = moveContainer(t, m, "")
		return err
	})
	if err != nil {
		return pool.Container{}, changeError(err, pool.ErrContainerNotFound, "container", m.ID, string(m.To))
	}
	return c, nil
}

// moveContainer performs a transition. Its events are those of the tenant, unless that
// is empty.
func moveContainer(t *tx, m pool.Transition, tenant string) (pool.Container, error) {
	before, err := scanContainer(t.query(selectContainer+forUpdate, m.ID))
	if err != nil {
		return before, err
	}
	if !slices.Contains(m.From, before.State) {
		return before, fmt.Errorf("%w: it is %s", pool.ErrConflict, before.State)
	}
	if m.If != nil && !m.If(before) {
		return before, fmt.Errorf("%w: it is %s, and has changed", pool.ErrConflict, before.State)
	}
	if err := t.checkProtocol(before.Protocol); err != nil {
		return before, err
	}
	if m.To == before.State && m.Set == nil && m.Output == nil && len(m.Events) == 0 {
		return before, nil // only If was asked
	}
	if !before.State.CanBecome(m.To) {
		return before, fmt.Errorf("a container that is %s cannot become %s", before.State, m.To)
	}
	if m.To == pool.Idle && before.Forced != pool.NotForced {
		return before, fmt.Errorf("%w: its destruction is forced", pool.ErrConflict)
	}
	after := before
	after.Endpoint.Ports = slices.Clone(before.Endpoint.Ports)
	if m.Set != nil {
		m.Set(&after)
	}
	after.ID, after.Workload, after.Revision, after.CreatedAt = before.ID, before.Workload, before.Revision, before.CreatedAt
	after.State, after.ChangedAt, after.Protocol = m.To, before.ChangedAt, before.Protocol
	if after.State != before.State {
		after.ChangedAt = t.now
	}
	if after.State == pool.Idle || after.State == pool.Destroyed {
		after.Claim = "" // no claim can hold it
	}
	after.Fence = before.Fence
	if after.State != before.State || after.Claim != before.Claim || after.Forced != before.Forced {
		after.Fence++ // another flow owns it from here on
	}
	if err := saveContainer(t, &after); err != nil {
		return before, err
	}
	if m.Output != nil {
		if err := putOutput(t, before, *m.Output); err != nil {
			return before, err
		}
	}
	for _, e := range m.Events {
		setIfEmpty(&e.Tenant, tenant)
		if err := fillTenant(t, before, &e); err != nil {
			return before, err
		}
		if e = fillFromContainer(before, e); m.Output != nil && m.Output.Tenant != e.Tenant {
			e = e.WithoutOutput() // it was printed for the tenant before, and the event is the claim's
		}
		if err := t.addEvents(e); err != nil {
			return before, err
		}
	}
	if after.State == pool.Destroyed && before.State != pool.Destroyed {
		return after, endRuns(t, runningInContainer, before.ID, "its container was destroyed before its outcome was known")
	}
	return after, nil
}

// saveContainer writes the mutable columns of a record.
func saveContainer(t *tx, c *pool.Container) error {
	c.Reason = sanitizeText(c.Reason)
	return execLater(t, updateContainer, c, t.owner)
}

// fillTenant sets the tenant of an event of a claimed container: that of the claim.
// Until it is wiped, the record has another one, which must not see the claim.
func fillTenant(t *tx, c pool.Container, e *activity.Event) error {
	if c.Claim == "" || e.Tenant != "" {
		return nil
	}
	err := t.query(tenantOfClaim, c.Claim).Scan(&e.Tenant)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return translateError(err)
}

const tenantOfClaim = `SELECT tenant FROM claims WHERE id = $1`

// fillFromContainer fills the event's empty fields from the record.
func fillFromContainer(c pool.Container, e activity.Event) activity.Event {
	e.Container = c.ID
	setIfEmpty(&e.Workload, c.Workload)
	setIfEmpty(&e.Tenant, c.Tenant)
	setIfEmpty(&e.Claim, c.Claim)
	return e
}

// setIfEmpty sets a field that is empty.
func setIfEmpty(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// Container returns one record.
func (db *DB) Container(ctx context.Context, id string) (pool.Container, error) {
	c, err := queryRow(ctx, db, scanContainer, selectContainer, sanitizeText(id))
	if err != nil {
		return c, readError(err, pool.ErrContainerNotFound, "read container", id)
	}
	return c, nil
}

// Containers lists the matching records, in order of id.
func (db *DB) Containers(ctx context.Context, f pool.ContainerFilter) ([]pool.Container, error) {
	query, args := containerQuery(f)
	return queryAll(ctx, db, "containers", query, args, scanContainer)
}

// ownCondition leaves out containers that another tenant's claim has, and that are
// not wiped yet.
const ownCondition = `(claim = '' OR EXISTS (SELECT 1 FROM claims WHERE claims.id = containers.claim AND claims.tenant = containers.tenant))`

func containerQuery(f pool.ContainerFilter) (string, []any) {
	var w where
	w.equal("workload", f.Workload)
	w.equal("tenant", f.Tenant)
	w.scope(f.Scope, "claim")
	if f.Scope != nil && slices.ContainsFunc(*f.Scope, func(s activity.Selector) bool { return s.Tenant != activity.Anything }) {
		w.add(ownCondition)
	}
	if len(f.States) > 0 {
		oneOf(&w, "state", f.States)
	}
	if f.IsForced {
		w.add(forcedCondition)
	}
	if f.IsTerminating {
		w.equal("health", string(pool.Unhealthy))
		w.equal("reason", pool.TerminatingReason)
	}
	if f.NoWorkload {
		w.add(`NOT EXISTS (SELECT 1 FROM workloads WHERE workloads.id = containers.workload)`)
	}
	order := byID
	if !slices.Contains(f.States, pool.Destroyed) {
		w.add("state <> 'destroyed'") // word for word the condition of the index
		order = sortedByID
	}
	w.idPart(f.IDPart)
	w.beyond(f.After, f.Newest)
	query := selectContainers + w.String() + ordered(order, f.Newest) + w.limit(f.Limit)
	return query, w.args
}

const countByKind = `SELECT revision, protocol, state, tenant <> '', health IN ('', 'healthy'), count(*)
	FROM containers WHERE workload = $1 AND state <> 'destroyed' GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5`

// Counts counts the workload's containers that are not destroyed.
func (db *DB) Counts(ctx context.Context, workload string) ([]pool.Count, error) {
	return queryAll(ctx, db, "counts of containers of "+workload, countByKind, []any{workload}, scanCount)
}

func scanCount(r row) (n pool.Count, err error) {
	err = r.Scan(&n.Revision, &n.Protocol, &n.State, &n.Used, &n.Healthy, &n.N)
	return n, err
}

func scanContainer(r row) (pool.Container, error) {
	c, err := containerColumns.scan(r)
	if errors.Is(err, sql.ErrNoRows) {
		return pool.Container{}, pool.ErrContainerNotFound
	}
	return c, translateError(err)
}
