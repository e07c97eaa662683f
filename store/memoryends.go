package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/memory"
)

// How memory ends. A scope that has ended is marked in the transaction of what
// ended it, and its entries are removed by RemoveMemory.
const (
	// endClaimMemory ends the scope of a claim, and has that of its tenant end later.
	endClaimMemory = `UPDATE memory_scopes SET ended = CASE level WHEN 'claim' THEN 1 ELSE 0 END, ends_at = $4
		WHERE workload = $1 AND tenant = $2 AND claim IN ('', $3) AND ended = 0`
	// endWorkloadMemory ends those of a workload and of its tenants.
	endWorkloadMemory = `UPDATE memory_scopes SET ended = 1 WHERE workload = $1 AND claim = '' AND ended = 0`

	isShared     = ` EXISTS (SELECT 1 FROM workloads WHERE workloads.id = memory_scopes.workload AND workloads.shared_memory = 1)`
	hasLiveClaim = ` EXISTS (SELECT 1 FROM claims WHERE claims.workload = memory_scopes.workload AND claims.tenant = memory_scopes.tenant
		AND memory_scopes.claim IN ('', claims.id) AND claims.` + liveCondition + `)`

	// Each of these conditions has a level and a time: the index has them in this order.
	//
	// sharedAgain and unshared are the conditions for the scopes of workloads whose
	// file has changed.
	sharedAgain = `ended = 0 AND level = 'workload' AND ends_at > 0 AND` + isShared
	unshared    = `ended = 0 AND level = 'workload' AND ends_at = 0 AND NOT` + isShared
	// lost is the condition for what a server has left that does not know memory:
	// while servers are replaced by new ones, such a one may have ended the claim.
	lost = `ended = 0 AND level IN ('claim', 'tenant') AND ends_at = 0 AND NOT` + hasLiveClaim
	// due is the condition for the scopes that end by now and that no claim can use:
	// a tenant's live claim keeps its scope.
	due = `ended = 0 AND level IN ('claim', 'tenant', 'workload') AND ends_at > 0 AND ends_at < $1 AND NOT` + hasLiveClaim

	// nextEnding reads one entry of the index for each level.
	nextEnding = `SELECT COALESCE(min(ends_at), 0) FROM (
		SELECT min(ends_at) AS ends_at FROM memory_scopes WHERE ended = 0 AND level = 'claim' AND ends_at > $1
		UNION ALL SELECT min(ends_at) FROM memory_scopes WHERE ended = 0 AND level = 'tenant' AND ends_at > $1
		UNION ALL SELECT min(ends_at) FROM memory_scopes WHERE ended = 0 AND level = 'workload' AND ends_at > $1) AS ending`
	// countEndings stops at the first.
	countEndings = `SELECT count(*) FROM (SELECT 1 FROM memory_scopes WHERE ` + sharedAgain + `
		UNION ALL SELECT 1 FROM memory_scopes WHERE ` + unshared + `
		UNION ALL SELECT 1 FROM memory_scopes WHERE ` + lost + `
		UNION ALL SELECT 1 FROM memory_scopes WHERE ` + due + ` LIMIT 1) AS ending`
	keepShared  = `UPDATE memory_scopes SET ends_at = 0 WHERE ` + sharedAgain
	endUnshared = `UPDATE memory_scopes SET ends_at = $1 WHERE ` + unshared
	endLost     = `UPDATE memory_scopes SET ended = CASE level WHEN 'claim' THEN 1 ELSE 0 END, ends_at = $1 WHERE ` + lost
	endDue      = `UPDATE memory_scopes SET ended = 1 WHERE ` + due

	endRequests    = `DELETE FROM memory_requests WHERE claim = $1`
	unusedRequests = `DELETE FROM memory_requests WHERE claim IN (` + endedRequesters + `)`
	// countUnusedRequests stops at the first.
	countUnusedRequests = `SELECT count(*) FROM (` + endedRequesters + ` LIMIT 1) AS requester`
	// endedRequesters are the claims with requests on record that are not live. The
	// index leads from each claim to the next one: it takes no longer if each has
	// many.
	endedRequesters = `WITH RECURSIVE requesters(claim) AS (
			SELECT min(claim) FROM memory_requests
			UNION ALL
			SELECT (SELECT min(claim) FROM memory_requests WHERE claim > requesters.claim)
				FROM requesters WHERE requesters.claim IS NOT NULL
		)
		SELECT claim FROM requesters WHERE claim IS NOT NULL
			AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.id = requesters.claim AND claims.` + liveCondition + `)`

	endedScope    = `SELECT id FROM memory_scopes WHERE ended = 1 ORDER BY id LIMIT 1`
	deleteEntries = `DELETE FROM memory_entries WHERE scope = $1
		AND key IN (SELECT key FROM memory_entries WHERE scope = $1 ORDER BY key LIMIT $2)`
	deleteScope = `DELETE FROM memory_scopes WHERE id = $1 AND ended = 1`
)

const (
	// memorySweepDelay is how much later than due a scope is ended. A claim that was
	// requested before that is in the database by then.
	memorySweepDelay = time.Minute
	// memoryChunk bounds how many values and scopes one change removes: few enough
	// that no claim waits long behind it.
	memoryChunk = 100
)

// endMemoryOf ends the memory of a claim that ends.
func endMemoryOf(t *tx, workload, tenant, claim string) error {
	if err := t.execLater(endRequests, claim); err != nil {
		return err
	}
	return t.execLater(endClaimMemory, workload, tenant, claim, toNanos(t.now.Add(memory.TenantRetention)))
}

// NextMemoryEnd implements memory.Store.
func (db *DB) NextMemoryEnd(ctx context.Context, after time.Time) (time.Time, error) {
	at, err := queryRow(ctx, db, scanNumber, nextEnding, toNanos(after.Add(-memorySweepDelay)))
	if err != nil || at == 0 {
		return time.Time{}, err
	}
	return fromNanos(at).Add(memorySweepDelay + 1), nil
}

// EndMemory ends the scopes that are due. It writes only if there are any.
func (db *DB) EndMemory(ctx context.Context) error {
	n, err := queryRow(ctx, db, scanNumber, countEndings, toNanos(time.Now().Add(-memorySweepDelay)))
	if err == nil && n > 0 {
		err = db.writer.update(ctx, endMemory)
	}
	if err == nil {
		n, err = queryRow(ctx, db, scanNumber, countUnusedRequests)
	}
	if err == nil && n > 0 { // of a claim that a server without this table has ended
		err = db.writer.update(ctx, func(t *tx) error { return t.execLater(unusedRequests) })
	}
	if err != nil {
		return fmt.Errorf("end memory: %w", err)
	}
	return nil
}

func endMemory(t *tx) error {
	if err := t.execLater(keepShared); err != nil {
		return err
	}
	if err := t.execLater(endUnshared, toNanos(t.now.Add(memory.UnsharedRetention))); err != nil {
		return err
	}
	if err := t.execLater(endLost, toNanos(t.now.Add(memory.TenantRetention))); err != nil {
		return err
	}
	return t.execLater(endDue, toNanos(t.now.Add(-memorySweepDelay)))
}

// RemoveMemory removes some of the entries of scopes that have ended.
func (db *DB) RemoveMemory(ctx context.Context) (more bool, err error) {
	_, err = queryRow(ctx, db, scanText, endedScope)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err == nil {
		err = db.writer.update(ctx, func(t *tx) (err error) {
			more, err = removeMemory(t)
			return err
		})
	}
	if err != nil {
		return false, fmt.Errorf("remove ended memory: %w", err)
	}
	return more, nil
}

func removeMemory(t *tx) (more bool, err error) {
	for limit := int64(memoryChunk); limit > 0; limit-- {
		id, err := scanText(t.query(endedScope))
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		if err != nil {
			return false, translateError(err)
		}
		removed, err := t.exec(deleteEntries, id, limit)
		if err != nil {
			return false, err
		}
		if limit -= removed; limit == 0 {
			break // there may be more of it
		}
		if err := t.execLater(deleteScope, id); err != nil {
			return false, err
		}
	}
	return true, nil
}

// memoryUsage has the sums as integers, which PostgreSQL's are not.
const memoryUsage = `SELECT level, count(*), CAST(sum(keys) AS BIGINT), CAST(sum(bytes) AS BIGINT) FROM memory_scopes WHERE ended = 0 GROUP BY level`

// MemoryUsage returns what is held at each level.
func (db *DB) MemoryUsage(ctx context.Context) (map[memory.Level]memory.Usage, error) {
	usage := map[memory.Level]memory.Usage{}
	_, err := queryAll(ctx, db, "the usage of memory", memoryUsage, nil, func(r row) (u memory.Usage, err error) {
		var level string
		err = r.Scan(&level, &u.Scopes, &u.Keys, &u.Bytes)
		usage[memory.Level(level)] = u
		return u, err
	})
	return usage, err
}
