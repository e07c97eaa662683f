package store

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"

	"github.com/hostler/hostler/pool"
)

const (
	lockCursor = selectCursor + forUpdate
	// removeCursor ends the reading of the log when no workload has event hooks.
	removeCursor = `DELETE FROM cursors WHERE name = $1
		AND NOT EXISTS (SELECT 1 FROM workloads WHERE event_hooks NOT IN ('{}', 'null'))`
	hasEventHooks = `SELECT event_hooks NOT IN ('{}', 'null') FROM workloads WHERE id = $1`
)

// eventHooksChange is a change of whether a workload has event hooks. While one
// has, there is a cursor: events since then are delivered.
type eventHooksChange struct{ before, after bool }

// begin returns the event hooks with their numbers. It holds the cursor's row and
// the log's until the end of the change, if a workload gets or loses hooks: the
// first keeps the order of locks, and with the second no event is recorded and
// no other workload gets or loses hooks in the meantime.
func (c eventHooksChange) begin(t *tx, all map[string]int64) (map[string]int64, error) {
	if !c.before && !c.after {
		return nil, nil
	}
	last, err := lockLog(t)
	if err != nil {
		return nil, err
	}
	all = maps.Clone(all) // the change may run again
	for name, since := range all {
		if since == pool.NewEventHook {
			all[name] = last
		}
	}
	if c.after {
		return all, t.execLater(addCursor, deliveryCursorName, last)
	}
	return all, nil
}

// end removes the cursor if it was the last workload with event hooks. It is
// called when the workload's row has changed.
func (c eventHooksChange) end(t *tx) error {
	if !c.before || c.after {
		return nil
	}
	return t.execLater(removeCursor, deliveryCursorName)
}

// lockLog locks the cursor of deliveries, if there is one, and then the log, and
// returns the number of the last event.
func lockLog(t *tx) (last int64, err error) {
	if _, err := scanNumber(t.query(lockCursor, deliveryCursorName)); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, translateError(err)
	}
	last, err = scanNumber(t.query(selectLast + forUpdate))
	return last, translateError(err)
}

// eventHooksToRemove returns the change of a workload that is removed, or
// pool.ErrInUse if events are still to be delivered to its hooks.
func eventHooksToRemove(t *tx, workload string) (c eventHooksChange, err error) {
	err = t.query(hasEventHooks, workload).Scan(&c.before)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return c, translateError(err)
	}
	if c.before {
		if _, err := lockLog(t); err != nil {
			return c, err
		}
		behind, err := scanNumber(t.query(eventsAfterCursor, workload, deliveryCursorName))
		if err != nil {
			return c, translateError(err)
		}
		if behind > 0 {
			return c, fmt.Errorf("%w: %d events are still to be delivered", pool.ErrInUse, behind)
		}
	}
	live, err := scanNumber(t.query(countLiveOf, workload))
	if err != nil {
		return c, translateError(err)
	}
	if live > 0 {
		return c, fmt.Errorf("%w: %d deliveries are left", pool.ErrInUse, live)
	}
	return c, nil
}
