package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/publish"
)

var _ publish.Store = (*DB)(nil)

const (
	addAllowance    = `INSERT INTO allowances (kind, id, events, bytes, dropped) VALUES ($1, $2, 0, 0, 0) ON CONFLICT (kind, id) DO NOTHING`
	selectAllowance = `SELECT events, bytes, dropped FROM allowances WHERE kind = $1 AND id = $2` + forUpdate
	saveAllowance   = `UPDATE allowances SET events = $3, bytes = $4, dropped = $5 WHERE kind = $1 AND id = $2`
	// isForEvent counts the attempts of a run, if it is one for an event or a test.
	// runningForEvent counts those that run in a container.
	isForEvent      = `SELECT count(*) FROM runs WHERE id = $1 AND event <> ''`
	runningForEvent = `SELECT count(*) FROM runs WHERE container = $1 AND event <> '' AND ` + runningCondition
	eventOfRequest  = `SELECT type, time, data, priority FROM events WHERE claim = $1 AND request = $2 AND request <> ''`
)

// Publish makes a change that a tenant's program requests.
func (db *DB) Publish(ctx context.Context, p publish.Publication) (r publish.Result, err error) {
	p.Claim, p.Run, p.ID = sanitizeText(p.Claim), sanitizeText(p.Run), sanitizeText(p.ID)
	err = db.writer.update(ctx, func(t *tx) error {
		r = publish.Result{}
		return db.publish(t, p, &r)
	})
	if err != nil {
		return r, fmt.Errorf("publish for claim %s: %w", p.Claim, err)
	}
	return r, nil
}

// publish sets r to what the change was, or would have been.
func (db *DB) publish(t *tx, p publish.Publication, r *publish.Result) (err error) {
	c, err := scanClaim(t.query(selectClaim+forUpdate, p.Claim))
	if err != nil {
		return err
	}
	before := c
	if r.Now, err = db.leaseTime(t); err != nil {
		return err
	}
	e, isChanged := p.Change(&c, t.now)
	if e.Publication = p.ID; p.ID != "" {
		row := t.query(eventOfRequest, p.Claim, p.ID)
		if r.Event, err = publishedEarlier(row, e); err != nil {
			return err
		}
	}
	switch {
	case r.Event != nil:
		r.Claim = before
		return nil
	case !slices.Contains(p.States, before.State) || before.Container == "":
		return fmt.Errorf("it is %s: %w", before.State, claim.ErrNotActive)
	case !isChanged:
		r.Claim = before
		return nil
	}
	r.Claim = normalized(c)
	if e.Depth, err = depthOf(t, p, c.Container); err != nil {
		return err
	}
	// In this order, so that no two claims of a tenant wait for each other.
	if r.ByClaim, err = takeAllowance(t, "claim", c.ID, e, r.Now, p.Dropped); err == nil {
		r.ByTenant, err = takeAllowance(t, "tenant", c.Tenant, e, r.Now, 0)
	}
	if err != nil {
		return err
	}
	if c.Activity != before.Activity || c.ActivityTool != before.ActivityTool {
		if err := execLater(t, updateClaim, &c); err != nil {
			return err
		}
	}
	e.Claim, e.Container, e.Workload, e.Tenant = c.ID, c.Container, c.Workload, c.Tenant
	e = e.CausedBy(t.actor)
	e.Time, r.Event = t.now, &e
	return t.addEvents(e)
}

// PublishedEarlier returns the event that the same request has published, or nil.
func (db *DB) PublishedEarlier(ctx context.Context, claimID, requestID string, e activity.Event) (*activity.Event, error) {
	return queryRow(ctx, db, func(r row) (*activity.Event, error) {
		return publishedEarlier(r, e)
	}, eventOfRequest, sanitizeText(claimID), sanitizeText(requestID))
}

// publishedEarlier returns the event in a row of eventOfRequest, or nil without a row.
func publishedEarlier(r row, e activity.Event) (*activity.Event, error) {
	var earlier activity.Event
	err := r.Scan((*string)(&earlier.Type), (*nanos)(&earlier.Time), (*rawObject)(&earlier.Data), &earlier.Priority)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, translateError(err)
	}
	e.Data = json.RawMessage(sanitizeText(string(e.Data))) // as it is recorded
	if !publish.IsRepeated(earlier, e) {
		return nil, publish.ErrOtherRequest
	}
	return &earlier, nil
}

// depthOf returns the depth of an event that is published: 1 if a delivery, or a
// test of a hook, has caused it.
func depthOf(t *tx, p publish.Publication, container string) (int, error) {
	query, id := isForEvent, p.Run
	switch {
	case !p.FromHook:
		return 0, nil
	case p.Run == "":
		query, id = runningForEvent, container
	}
	n, err := scanNumber(t.query(query, id))
	return int(min(n, 1)), translateError(err)
}

// takeAllowance uses an allowance for an event.
func takeAllowance(t *tx, kind, id string, e activity.Event, now time.Time, dropped int64) (a publish.Allowance, err error) {
	if err := t.execLater(addAllowance, kind, id); err != nil {
		return a, err
	}
	err = t.query(selectAllowance, kind, id).Scan((*nanos)(&a.Events), (*nanos)(&a.Bytes), &a.Dropped)
	if err != nil {
		return a, translateError(err)
	}
	if wait := a.Take(now, publish.Size(e)); wait > 0 {
		return a, &publish.LimitError{Of: kind, RetryAfter: wait}
	}
	a.Dropped += dropped
	return a, t.execLater(saveAllowance, kind, id, toNanos(a.Events), toNanos(a.Bytes), a.Dropped)
}
