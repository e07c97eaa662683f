package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/publish"
)

// The statements that remove what tenants' programs have published.
const (
	fullClaims = `SELECT claim FROM events WHERE untrusted = 1 GROUP BY claim HAVING count(*) > $1`
	// oldestKept is the oldest of the newest events of a claim.
	oldestKept      = `SELECT seq FROM events WHERE claim = $1 AND untrusted = 1 ORDER BY seq DESC LIMIT 1 OFFSET $2`
	publishedOf     = `SELECT seq, time, request <> '' FROM events WHERE claim = $1 AND untrusted = 1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4`
	publishedByAll  = `SELECT seq, time, request <> '' FROM events WHERE untrusted = 1 AND seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3`
	removePublished = `DELETE FROM events WHERE seq = $1 AND untrusted = 1`
	// firstRepeatable is the first event whose request may be repeated.
	firstRepeatable = `SELECT min(seq) FROM events WHERE untrusted = 1 AND seq > $1 AND seq <= $2 AND request <> '' AND time BETWEEN $3 AND $4`
	// undelivered are the published events that are still to be delivered.
	undelivered     = `SELECT DISTINCT seq FROM deliveries WHERE ` + liveDelivery + ` AND priority <= $1`
	passedByCursors = `SELECT COALESCE((SELECT min(seq) FROM cursors), (SELECT last FROM log WHERE id = 1))`
	// Where nothing is published, retention writes nothing and reads one index.
	anyPublished = `SELECT seq FROM events WHERE untrusted = 1 LIMIT 1`
	isUnused     = ` FROM allowances WHERE events < $1 AND bytes < $1 AND NOT EXISTS
		(SELECT 1 FROM claims WHERE kind = 'claim' AND claims.id = allowances.id AND claims.` + liveCondition + `)`
	anyUnused        = `SELECT 1` + isUnused + ` LIMIT 1`
	unusedAllowances = `DELETE` + isUnused
	// oldestPublished is the first published event, or an allowance that was not used
	// since, of a claim that is not live.
	oldestPublished = `SELECT COALESCE(min(at), 0) FROM (
		SELECT time AS at FROM events WHERE seq = (SELECT min(seq) FROM events WHERE untrusted = 1)
		UNION ALL SELECT CASE WHEN events > bytes THEN events ELSE bytes END FROM allowances WHERE NOT EXISTS
			(SELECT 1 FROM claims WHERE kind = 'claim' AND claims.id = allowances.id AND claims.` + liveCondition + `)) AS oldest`
)

// PublishedRetention selects what PrunePublished may remove.
type PublishedRetention struct {
	Before   time.Time // older events
	PerClaim int       // how many events of a claim are kept at most
}

// PrunePublished removes events that tenants' programs have published, also from
// between other events: old ones, and the oldest of a claim that has many. It keeps
// those that a cursor has not passed, those that are still to be delivered, and those
// whose requests may be repeated, which the limits of what is published bound. It
// may be called again at any time, and may be interrupted at any time. It returns
// how many it has removed.
func (db *DB) PrunePublished(ctx context.Context, r PublishedRetention) (removed int64, err error) {
	p := publishedPruner{db: db, removal: removePublished}
	p.repeatableSince, p.repeatableUntil = repeatable()
	found, err := db.hasRow(ctx, anyPublished)
	if err == nil && found {
		if err = p.prepare(ctx); err == nil {
			err = errors.Join(p.removeOld(ctx, r.Before), p.removeSurplus(ctx, r.PerClaim, surplus{fullClaims, oldestKept, publishedOf}))
		}
	}
	if err == nil {
		err = db.removeAllowances(ctx, r.Before)
	}
	if err != nil {
		return p.removed, fmt.Errorf("prune published events: %w", err)
	}
	return p.removed, nil
}

// OldestPublished returns since when something is kept that PrunePublished removes for
// its age; zero if there is nothing.
func (db *DB) OldestPublished(ctx context.Context) (time.Time, error) {
	at, err := queryRow(ctx, db, scanNumber, oldestPublished)
	return fromNanos(at), err
}

// repeatable returns the times between which an event was published whose request may
// be repeated: it is kept, so that the request is recognised. One from the future was
// published by a clock that was ahead, and is not kept until that time.
func repeatable() (since, until int64) {
	now := time.Now()
	return toNanos(now.Add(-publish.RequestRetention)), toNanos(now.Add(publish.RequestRetention))
}

// removeAllowances removes those that nothing has used since a time, unless their
// claims are live.
func (db *DB) removeAllowances(ctx context.Context, before time.Time) error {
	found, err := db.hasRow(ctx, anyUnused, toNanos(before))
	if err != nil || !found {
		return err
	}
	return db.writer.update(ctx, func(t *tx) error { return t.execLater(unusedAllowances, toNanos(before)) })
}

// hasRow reports whether a query for a number returns a row.
func (db *DB) hasRow(ctx context.Context, query string, args ...any) (bool, error) {
	_, err := queryRow(ctx, db, scanNumber, query, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// publishedPruner removes published events.
type publishedPruner struct {
	db      *DB
	removal string         // removes an event of the kind
	passed  int64          // by all cursors
	needed  map[int64]bool // events that are still to be delivered
	// Of events between these times, the requests may be repeated.
	repeatableSince, repeatableUntil int64

	removed int64
}

// publishedEvent is what a pruner reads of an event.
type publishedEvent struct {
	seq, time  int64
	hasRequest bool
}

// mayRemove reports whether an event is from before a time and not needed any more.
func (p *publishedPruner) mayRemove(e publishedEvent, before int64) bool {
	isRepeatable := e.hasRequest && e.time >= p.repeatableSince && e.time <= p.repeatableUntil
	return e.time < before && !p.needed[e.seq] && !isRepeatable
}

// prepare reads what must be kept. The cursors are read first: the deliveries of
// what they have passed were added with them. A cursor that is added later begins
// at the end of the log. A delivery that an operator retries or replays in the
// meantime finds its event removed.
func (p *publishedPruner) prepare(ctx context.Context) (err error) {
	if p.passed, err = queryRow(ctx, p.db, scanNumber, passedByCursors); err != nil {
		return err
	}
	seqs, err := queryAll(ctx, p.db, "undelivered events", undelivered, []any{delivery.MaxTenantPriority}, scanNumber)
	p.needed = make(map[int64]bool, len(seqs))
	for _, seq := range seqs {
		p.needed[seq] = true
	}
	return err
}

// removeOld removes the events before a time. The log is in the order of its
// times, except for the duration of transactions.
func (p *publishedPruner) removeOld(ctx context.Context, before time.Time) error {
	return p.removeAll(ctx, p.passed, toNanos(before), publishedByAll)
}

// surplus has the queries that find the claims with many events of a kind, the oldest
// of the newest of such a claim, and its events.
type surplus struct{ claims, oldestKept, events string }

// removeSurplus removes the oldest events of claims that have more than limit.
func (p *publishedPruner) removeSurplus(ctx context.Context, limit int, of surplus) error {
	claims, err := queryAll(ctx, p.db, "claims with many events", of.claims, []any{limit}, scanText)
	for _, id := range claims {
		kept, kErr := queryRow(ctx, p.db, scanNumber, of.oldestKept, id, limit-1)
		if kErr == nil {
			kErr = p.removeAll(ctx, min(p.passed, kept-1), math.MaxInt64, of.events, id)
		}
		err = errors.Join(err, kErr)
	}
	return err
}

// removeAll removes the events up to last, and before a time, of those that a
// query returns.
func (p *publishedPruner) removeAll(ctx context.Context, last, before int64, query string, args ...any) error {
	for after := int64(0); ; {
		page, err := queryAll(ctx, p.db, "published events", query, slices.Concat(args, []any{after, last, pruneChunk}), func(r row) (e publishedEvent, err error) {
			err = r.Scan(&e.seq, &e.time, &e.hasRequest)
			return e, err
		})
		if err != nil {
			return err
		}
		var seqs []int64
		for _, e := range page {
			if p.mayRemove(e, before) {
				seqs = append(seqs, e.seq)
			}
			after = e.seq
		}
		if err := p.remove(ctx, seqs); err != nil {
			return err
		}
		if len(page) < pruneChunk || page[len(page)-1].time >= before {
			return nil
		}
	}
}

// remove removes events in one change.
func (p *publishedPruner) remove(ctx context.Context, seqs []int64) error {
	if len(seqs) == 0 {
		return nil
	}
	err := p.db.writer.update(ctx, func(t *tx) error {
		for _, seq := range seqs {
			if err := t.execLater(p.removal, seq); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.removed += int64(len(seqs))
	p.db.buffer.remove(seqs)
	return nil
}
