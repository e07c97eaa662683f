package store

import (
	"context"
	"errors"
	"fmt"
)

// The conditions of the indexes on what tenants do with their containers, word for
// word.
var useConditions = []string{
	`type IN ('exec.started', 'exec.completed', 'exec.failed')`,
	`type IN ('file.read', 'file.written', 'file.removed')`,
	`type IN ('request.completed')`,
}

func usesOf(condition string) surplus {
	return surplus{
		claims:     `SELECT claim FROM events WHERE ` + condition + ` GROUP BY claim HAVING count(*) > $1`,
		oldestKept: `SELECT seq FROM events WHERE claim = $1 AND ` + condition + ` ORDER BY seq DESC LIMIT 1 OFFSET $2`,
		events: `SELECT seq, time, request <> '' FROM events WHERE claim = $1 AND ` + condition +
			` AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4`,
	}
}

// PruneUses removes events of what tenants do with their containers, also from
// between other events: of each kind the oldest ones of a claim that has more than
// perClaim. It keeps those that a cursor has not passed, and those that are still to
// be delivered. It may be called again at any time, and may be interrupted at any
// time. It returns how many it has removed.
func (db *DB) PruneUses(ctx context.Context, perClaim int) (removed int64, err error) {
	for _, condition := range useConditions {
		found, fErr := db.hasRow(ctx, `SELECT seq FROM events WHERE `+condition+` LIMIT 1`)
		if fErr == nil && found {
			p := publishedPruner{db: db, removal: `DELETE FROM events WHERE seq = $1 AND ` + condition}
			if fErr = p.prepare(ctx); fErr == nil {
				fErr = p.removeSurplus(ctx, perClaim, usesOf(condition))
			}
			removed += p.removed
		}
		err = errors.Join(err, fErr)
	}
	if err != nil {
		return removed, fmt.Errorf("prune events of what tenants do: %w", err)
	}
	return removed, nil
}
