package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/wait"
)

// Signals for which no wait is open are kept. The claim's row has their number, and
// is locked by every change of them. They are in the order of their times, which are
// different: the clocks of the servers that made the ids may be.
const (
	selectSignal  = `SELECT id, data FROM signals WHERE claim = $1 AND name = $2 ORDER BY created_at LIMIT 1`
	insertSignal  = `INSERT INTO signals (id, claim, name, data, created_at) VALUES ($1, $2, $3, $4, $5)`
	deleteSignal  = `DELETE FROM signals WHERE id = $1`
	deleteSignals = `DELETE FROM signals WHERE claim = $1`
	countSignals  = `SELECT count(*), COALESCE(max(created_at), 0) FROM signals WHERE claim = $1 AND name = $2`
)

// SendSignal gives a signal to a wait, or keeps it.
func (db *DB) SendSignal(ctx context.Context, s wait.Signal) (w *wait.Wait, kept int, err error) {
	err = db.update(ctx, func(t *tx) (err error) {
		w, kept, err = db.sendSignal(t, s)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("signal claim %s: %w", s.Claim, err)
	}
	return w, kept, nil
}

func (db *DB) sendSignal(t *tx, s wait.Signal) (*wait.Wait, int, error) {
	c, err := scanClaim(t.query(selectClaim+forUpdate, s.Claim))
	if err != nil {
		return nil, 0, err
	}
	if c.State != claim.Active {
		return nil, 0, fmt.Errorf("%w: it is %s", claim.ErrNotActive, c.State)
	}
	now, err := db.leaseTime(t)
	if err != nil {
		return nil, 0, err
	}
	w, err := scanWait(t.query(openWaitNamed, s.Claim, s.Name))
	if err != nil && !errors.Is(err, wait.ErrNotFound) {
		return nil, 0, err
	}
	if err == nil && w.State == wait.Waiting {
		events := w.Receive(s.Data, now)
		return &w, 0, saveWait(t, c, w, events)
	}
	var kept, newest int64
	err = t.query(countSignals, s.Claim, s.Name).Scan(&kept, &newest)
	switch {
	case err != nil:
		return nil, 0, translateError(err)
	case kept >= wait.MaxKeptPerName:
		return nil, 0, fmt.Errorf("%w: %d signals of the name are kept", wait.ErrTooMany, kept)
	case c.KeptSignals >= wait.MaxKept:
		return nil, 0, fmt.Errorf("%w: %d signals are kept for the claim", wait.ErrTooMany, c.KeptSignals)
	}
	c.KeptSignals++
	if err := t.execLater(insertSignal, s.ID, s.Claim, s.Name, string(s.Data), max(toNanos(now), newest+1)); err != nil {
		return nil, 0, err
	}
	return nil, int(kept) + 1, t.execLater(saveCounts, c.ID, c.Waits, c.KeptSignals, toNanos(t.now))
}

// takeSignal gives the oldest kept signal of its name to a wait that waits.
func takeSignal(t *tx, c *claim.Claim, w *wait.Wait, now time.Time) ([]activity.Event, error) {
	if w.State != wait.Waiting || c.KeptSignals == 0 {
		return nil, nil
	}
	var id, data string
	err := t.query(selectSignal, w.Claim, w.Name).Scan(&id, &data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, translateError(err)
	}
	c.KeptSignals--
	return w.Receive([]byte(data), now), t.execLater(deleteSignal, id)
}
