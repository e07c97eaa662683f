package store

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/wait"
)

// waitOfRequest is the wait that a request began. The first request has its ID in
// the wait's row.
var waitOfRequest = selectWaits + ` WHERE claim = $1 AND request = $2 AND request <> ''`

// A request that joined an open wait has a row of its own, which is removed with the
// wait's.
const (
	joinOfRequest = `SELECT wait, digest FROM wait_requests WHERE claim = $1 AND request = $2`
	addJoin       = `INSERT INTO wait_requests (claim, request, wait, digest, created_at) VALUES ($1, $2, $3, $4, $5)`
	countJoins    = `SELECT count(*) FROM wait_requests WHERE wait = $1`
	// countWaitsSince counts what began a wait of a claim, or joined one, but not by a
	// clock that was ahead.
	countWaitsSince = `SELECT count(*) + (SELECT count(*) FROM wait_requests WHERE claim = $1 AND created_at BETWEEN $2 AND $3)
		FROM waits WHERE claim = $1 AND created_at BETWEEN $2 AND $3`
)

// waitOfEarlier returns the wait that an earlier request with the ID of this one
// began or joined, or wait.ErrNotFound. The transaction holds the claim's row.
func waitOfEarlier(t *tx, w wait.Wait) (earlier wait.Wait, err error) {
	earlier, err = scanWait(t.query(waitOfRequest, w.Claim, w.Request))
	digest := earlier.Digest()
	if errors.Is(err, wait.ErrNotFound) {
		var id string
		err = t.query(joinOfRequest, w.Claim, w.Request).Scan(&id, &digest)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return earlier, wait.ErrNotFound
		case err != nil:
			return earlier, translateError(err)
		}
		earlier, err = scanWait(t.query(selectWait, id))
	}
	if err == nil && digest != w.Digest() {
		err = wait.ErrOtherRequest
	}
	return earlier, err
}

// joinWait records that a request joins the open wait of its name: repeated after
// the end of that one, it must not begin another. What is not recorded, because it
// has no ID, has no limit.
func joinWait(t *tx, w, open wait.Wait, now time.Time) error {
	if open.Type != w.Type {
		return wait.ErrNameInUse
	}
	if w.Request == "" {
		return nil
	}
	joined, err := scanNumber(t.query(countJoins, open.ID))
	if err == nil && joined >= wait.MaxJoined {
		err = fmt.Errorf("%w: %d requests have joined the wait", wait.ErrTooMany, joined)
	}
	if err == nil {
		err = checkWaitRate(t, w.Claim, now)
	}
	if err != nil {
		return err
	}
	return t.execLater(addJoin, w.Claim, w.Request, open.ID, w.Digest(), toNanos(now))
}

// checkWaitRate returns an error if the claim has begun and joined too many waits.
func checkWaitRate(t *tx, claim string, now time.Time) error {
	recent, err := scanNumber(t.query(countWaitsSince, claim, toNanos(now.Add(-time.Minute)), toNanos(now.Add(time.Minute))))
	if err == nil && recent >= wait.MaxPerMinute {
		err = fmt.Errorf("%w: the claim began or joined %d waits in a minute", wait.ErrTooMany, recent)
	}
	return err
}
