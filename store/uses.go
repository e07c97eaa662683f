package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/access"
	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
)

var _ access.UseStore = (*DB)(nil)

var openColumns = columns[access.OpenCommand]{
	{name: "claim", use: key, field: func(c *access.OpenCommand) any { return &c.Claim }},
	{name: "id", use: key, field: func(c *access.OpenCommand) any { return &c.ID }},
	{name: "workload", use: immutable, field: func(c *access.OpenCommand) any { return &c.Workload }},
	{name: "container", use: immutable, field: func(c *access.OpenCommand) any { return &c.Container }},
	{name: "tenant", use: immutable, field: func(c *access.OpenCommand) any { return &c.Tenant }},
	{name: "fence", use: immutable, field: func(c *access.OpenCommand) any { return &c.Fence }},
	{name: "program", use: immutable, field: func(c *access.OpenCommand) any { return (*text)(&c.Program) }},
	{name: "terminal", use: immutable, field: func(c *access.OpenCommand) any { return (*flag)(&c.Terminal) }},
	{name: "actor", use: immutable, field: func(c *access.OpenCommand) any { return &c.Actor }},
	{name: "started_at", use: immutable, field: func(c *access.OpenCommand) any { return (*nanos)(&c.Started) }},
}

var (
	insertOpen = openColumns.insert("open_execs")
	selectOpen = `SELECT ` + openColumns.names(nil) + ` FROM open_execs WHERE started_at < $1
		AND (claim > $2 OR claim = $2 AND id > $3) ORDER BY claim, id LIMIT $4`
	firstOpen  = `SELECT ` + openColumns.names(nil) + ` FROM open_execs WHERE claim = $1 ORDER BY id LIMIT 1` + forUpdate
	deleteOpen = `DELETE FROM open_execs WHERE claim = $1 AND id = $2`
	removeOpen = deleteOpen + ` RETURNING ` + openColumns.names(nil)
)

const (
	// lockState locks the claim: it cannot end while a command is added, and no other
	// command is counted.
	lockState = `SELECT state, container FROM claims WHERE id = $1` + forUpdate
	countOpen = `SELECT count(*), coalesce(max(CASE WHEN id = $2 THEN 1 ELSE 0 END), 0) FROM open_execs WHERE claim = $1`
)

// StartCommand implements access.UseStore.
func (db *DB) StartCommand(ctx context.Context, c access.OpenCommand, omitted int64) (added bool, err error) {
	c.Claim, c.ID = sanitizeText(c.Claim), sanitizeText(c.ID)
	err = db.writer.update(ctx, func(t *tx) (err error) {
		added, err = startCommand(t, c, omitted)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("record the start of command %s of claim %s: %w", c.ID, c.Claim, err)
	}
	return added, nil
}

func startCommand(t *tx, c access.OpenCommand, omitted int64) (added bool, err error) {
	var state claim.State
	var container string
	err = t.query(lockState, c.Claim).Scan((*string)(&state), &container)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, claim.ErrClaimNotFound
	case err != nil:
		return false, translateError(err)
	case state != claim.Active || container != c.Container:
		return false, fmt.Errorf("%w: it is %s", claim.ErrNotActive, state)
	}
	var n, isOpen int64
	if err := t.query(countOpen, c.Claim, c.ID).Scan(&n, &isOpen); err != nil {
		return false, translateError(err)
	}
	if isOpen == 1 {
		return false, nil
	}
	if n >= access.MaxOpenCommands {
		return false, access.ErrTooManyOpen
	}
	c.Started, c.Actor = t.now, t.actor.Name
	if err := execLater(t, insertOpen, &c); err != nil {
		return false, err
	}
	return true, t.addEvents(c.StartEvent(omitted))
}

// RecordUses implements access.UseStore.
func (db *DB) RecordUses(ctx context.Context, uses []access.Use) (recorded []activity.Event, err error) {
	err = db.writer.update(ctx, func(t *tx) (err error) {
		recorded, err = recordUses(t, uses)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("record what tenants do: %w", err)
	}
	return recorded, nil
}

// endKey names a command.
type endKey struct{ claim, id string }

func recordUses(t *tx, uses []access.Use) (recorded []activity.Event, err error) {
	var ends []endKey
	for _, u := range uses {
		if u.End != nil {
			ends = append(ends, endKey{u.End.Claim, u.End.ID})
		}
	}
	// In this order, so that no two changes wait for each other.
	slices.SortFunc(ends, func(a, b endKey) int { return cmp.Or(cmp.Compare(a.claim, b.claim), cmp.Compare(a.id, b.id)) })
	open := map[endKey]access.OpenCommand{}
	for _, k := range slices.Compact(ends) {
		c, err := openColumns.scan(t.query(removeOpen, k.claim, k.id))
		if err == nil {
			open[k] = c
		} else if !errors.Is(err, sql.ErrNoRows) {
			return nil, translateError(err)
		}
	}
	for _, u := range uses {
		e := u.Event
		if u.End != nil {
			k := endKey{u.End.Claim, u.End.ID}
			c, isOpen := open[k]
			if !isOpen {
				continue
			}
			delete(open, k)
			e = endEvent(c, *u.End, t.now)
		}
		recorded = append(recorded, e)
	}
	return recorded, t.addEvents(recorded...)
}

// endEvent returns the event of the end of a command. Its actor is that of the start:
// the change may be of another one.
func endEvent(c access.OpenCommand, end access.CommandEnd, now time.Time) activity.Event {
	e := c.EndEvent(end, now)
	e.Actor = c.Actor
	return e
}

// endCommands records the ends of the commands of a claim that ends.
func endCommands(t *tx, claimID string) error {
	for {
		c, err := openColumns.scan(t.query(firstOpen, claimID))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return translateError(err)
		}
		if err := t.execLater(deleteOpen, c.Claim, c.ID); err != nil {
			return err
		}
		if err := t.addEvents(endEvent(c, c.EndedWithClaim(), t.now)); err != nil {
			return err
		}
	}
}

// OpenCommands implements access.UseStore.
func (db *DB) OpenCommands(ctx context.Context, before time.Time, after access.OpenCommand, limit int) ([]access.OpenCommand, error) {
	args := []any{toNanos(before), sanitizeText(after.Claim), sanitizeText(after.ID), limit}
	return queryAll(ctx, db, "open commands", selectOpen, args, openColumns.scan)
}
