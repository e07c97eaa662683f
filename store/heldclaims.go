package store

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/claim"
)

const (
	// heldClaims are the active claims with their containers. The owner is the
	// server that has the session for the container's requests.
	heldClaims = `SELECT c.id, c.container, k.fence
		FROM (SELECT id, container, owner FROM claims WHERE state = 'active' AND ` + liveCondition + `) c
		JOIN containers k ON k.id = c.container`
	heldBy      = ` WHERE c.owner = $1`
	orderHeld   = ` ORDER BY c.id || ''` // as sortedByID
	adoptClaims = `UPDATE claims SET owner = $1 WHERE state = 'active' AND ` + liveCondition + `
		AND (owner = $2 OR owner NOT IN (SELECT id FROM replicas))`
)

// HeldClaims lists the active claims of this server: those that it has made
// active, and those that it has adopted.
func (db *DB) HeldClaims(ctx context.Context) ([]claim.Held, error) {
	query, args := heldClaims, []any(nil)
	if db.IsShared() {
		query, args = heldClaims+heldBy, []any{db.Self()}
	}
	return queryAll(ctx, db, "held claims", query+orderHeld, args, scanHeld)
}

func scanHeld(r row) (h claim.Held, err error) {
	err = r.Scan(&h.Claim, &h.Container, &h.Fence)
	return h, err
}

// AdoptClaims makes this server the owner of the active claims of a server that
// it took over from, and of those whose owner no longer uses the database. An
// empty name means the latter only. It returns how many there were.
func (db *DB) AdoptClaims(ctx context.Context, replica string) (n int64, err error) {
	if !db.IsShared() || replica == db.Self() {
		return 0, nil
	}
	err = db.update(ctx, func(t *tx) error {
		n, err = t.exec(adoptClaims, t.owner, replica)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("adopt claims: %w", err)
	}
	return n, nil
}
