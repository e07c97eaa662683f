package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/memory"
)

var _ memory.Store = (*DB)(nil)

// accessColumns are what decides which memory a claim may use: whether it is in
// use, which is while it is active and while one of its hooks runs at a point
// before or after that, and whether its workload's memory is shared.
const accessColumns = `claims.workload, claims.tenant, claims.state, claims.created_at,
	claims.state = 'active' OR claims.state IN ('pending', 'releasing') AND EXISTS (SELECT 1 FROM runs
		WHERE runs.claim = claims.id AND runs.claim <> '' AND runs.` + runningCondition + ` AND runs.event = ''),
	EXISTS (SELECT 1 FROM workloads WHERE workloads.id = claims.workload AND workloads.shared_memory = 1)`

// memoryAccess is the row of accessColumns.
type memoryAccess struct {
	claim, workload, tenant, state string
	createdAt                      int64
	inUse, shared                  bool
}

func (a *memoryAccess) targets() []any {
	return []any{&a.workload, &a.tenant, &a.state, &a.createdAt, &a.inUse, &a.shared}
}

// check returns an error unless the claim may use the level now.
func (a *memoryAccess) check(err error, level memory.Level) error {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return claim.ErrClaimNotFound
	case err != nil:
		return translateError(err)
	case !a.inUse:
		return fmt.Errorf("%w: it is %s", claim.ErrNotActive, a.state)
	case level == memory.Workload && !a.shared:
		return memory.ErrNotShared
	}
	return nil
}

const (
	lockMemoryAccess = `SELECT ` + accessColumns + ` FROM claims WHERE id = $1` + forShare
	// scopeOfClaim is the condition for the scope of a level, $2, of a claim. A
	// tenant's scope that ended before the claim is not its scope, whether or not
	// it was removed.
	scopeOfClaim = `s.workload = claims.workload AND s.tenant = CASE $2 WHEN 'workload' THEN '' ELSE claims.tenant END
		AND s.claim = CASE $2 WHEN 'claim' THEN claims.id ELSE '' END AND s.ended = 0
		AND (s.level <> 'tenant' OR s.ends_at = 0 OR s.ends_at > claims.created_at)`
	selectMemory = `SELECT ` + accessColumns + `, e.key, e.version, e.bytes, e.updated_at, e.value FROM claims
		LEFT JOIN memory_scopes AS s ON ` + scopeOfClaim + `
		LEFT JOIN memory_entries AS e ON e.scope = s.id AND e.key = $3
		WHERE claims.id = $1`
	listMemory = `SELECT ` + accessColumns + `, e.key, e.version, e.bytes, e.updated_at, NULL FROM claims
		LEFT JOIN memory_scopes AS s ON ` + scopeOfClaim + `
		LEFT JOIN memory_entries AS e ON e.scope = s.id AND e.key > $3 AND e.key >= $4 AND substr(e.key, 1, length($4)) = $4
		WHERE claims.id = $1 ORDER BY e.key LIMIT $5`

	liveScope   = ` WHERE workload = $1 AND tenant = $2 AND claim = $3 AND ended = 0`
	lockScope   = `SELECT id, keys, bytes, version, level = 'tenant' AND ends_at > 0 AND ends_at <= $4 FROM memory_scopes` + liveScope + forUpdate
	insertScope = `INSERT INTO memory_scopes (id, level, workload, tenant, claim, keys, bytes, version, ended, ends_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, 0, 0, $6, 0, 0, $7) ON CONFLICT (workload, tenant, claim) WHERE ended = 0 DO NOTHING`
	updateScope = `UPDATE memory_scopes SET keys = $2, bytes = $3, version = $4, updated_at = $5 WHERE id = $1`
	endScope    = `UPDATE memory_scopes SET ended = 1 WHERE id = $1`

	selectEntry = `SELECT version, bytes FROM memory_entries WHERE scope = $1 AND key = $2`
	putEntry    = `INSERT INTO memory_entries (scope, key, version, bytes, updated_at, value) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (scope, key) DO UPDATE SET version = excluded.version, bytes = excluded.bytes,
			updated_at = excluded.updated_at, value = excluded.value`
	resultOfRequest = `SELECT result FROM memory_requests WHERE claim = $1 AND request = $2`
	addRequest      = `INSERT INTO memory_requests (claim, request, time, result) VALUES ($1, $2, $3, $4)`
	dropOldRequests = `DELETE FROM memory_requests WHERE claim = $1 AND time < $2`
	deleteEntry     = `DELETE FROM memory_entries WHERE scope = $1 AND key = $2`
)

// memoryScope is a row of memory_scopes, locked. Its id is empty if there is none.
type memoryScope struct {
	id      string
	usage   memory.Usage
	version int64
}

// ChangeMemory puts or deletes a value.
func (db *DB) ChangeMemory(ctx context.Context, c memory.Change) (result memory.Changed, err error) {
	c.Claim, c.Request = sanitizeText(c.Claim), sanitizeText(c.Request)
	err = db.writer.update(ctx, func(t *tx) (err error) {
		result, err = changeMemory(t, c)
		return err
	})
	return result, err
}

func changeMemory(t *tx, c memory.Change) (result memory.Changed, err error) {
	a := memoryAccess{claim: c.Claim}
	if err := a.check(t.query(lockMemoryAccess, c.Claim).Scan(a.targets()...), c.Level); err != nil {
		return result, err
	}
	s, err := lockMemoryScope(t, a, c.Level, c.Value != nil)
	if err != nil {
		return result, err
	}
	if c.Request == "" {
		return changeScope(t, s, c)
	}
	// Two of the same request wait for each other at the scope. Without one they
	// conflict, and the second one is made again.
	if result, err = resultOf(t, c); !errors.Is(err, sql.ErrNoRows) {
		return result, err
	}
	if result, err = changeScope(t, s, c); err != nil {
		return result, err
	}
	return result, recordRequest(t, c, result)
}

// memoryResult is the result of a request in its row. The digest is empty if an
// older server has recorded it.
type memoryResult struct {
	memory.Changed
	Digest string
}

// resultOf returns the result of an earlier change with the same request, or
// sql.ErrNoRows.
func resultOf(t *tx, c memory.Change) (result memory.Changed, err error) {
	text, err := scanText(t.query(resultOfRequest, c.Claim, c.Request))
	if err != nil {
		return result, translateError(err)
	}
	var earlier memoryResult
	if err := json.Unmarshal([]byte(text), &earlier); err != nil {
		return result, fmt.Errorf("decode the result of an earlier request: %w", err)
	}
	if earlier.Digest != "" && earlier.Digest != c.Digest() {
		return result, memory.ErrOtherRequest
	}
	return earlier.Changed, nil
}

// recordRequest records the result of a request, and drops older ones of the claim.
func recordRequest(t *tx, c memory.Change, result memory.Changed) error {
	text, err := json.Marshal(memoryResult{Changed: result, Digest: c.Digest()})
	if err != nil {
		return fmt.Errorf("encode the result of a request: %w", err)
	}
	if err := t.execLater(dropOldRequests, c.Claim, toNanos(t.now.Add(-memory.RequestRetention))); err != nil {
		return err
	}
	return t.execLater(addRequest, c.Claim, c.Request, toNanos(t.now), string(text))
}

// changeScope puts or deletes a value of a scope.
func changeScope(t *tx, s memoryScope, c memory.Change) (result memory.Changed, err error) {
	var version, size int64
	if s.id != "" {
		err = t.query(selectEntry, s.id, c.Key).Scan(&version, &size)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return result, translateError(err)
		}
	}
	result.Existed = version != 0
	if err := memory.CheckVersion(c.IfVersion, version); err != nil {
		return result, err
	}
	if c.Value == nil {
		if !result.Existed {
			return result, nil
		}
		return result, s.save(t, -1, -int64(len(c.Key))-size, deleteEntry, s.id, c.Key)
	}
	before := s.usage
	keys, grown := int64(0), int64(len(c.Value))-size
	if !result.Existed {
		keys, grown = 1, grown+int64(len(c.Key))
	}
	if err := c.Quota.Check(c.Level, before, memory.Usage{Keys: before.Keys + keys, Bytes: before.Bytes + grown}); err != nil {
		return result, err
	}
	s.version++
	result.Item = memory.Item{Key: c.Key, Level: c.Level, Version: s.version, Bytes: int64(len(c.Value)), UpdatedAt: t.now}
	return result, s.save(t, keys, grown, putEntry, s.id, c.Key, s.version, len(c.Value), toNanos(t.now), string(c.Value))
}

// save changes an entry, and the scope with it.
func (s memoryScope) save(t *tx, keys, size int64, query string, args ...any) error {
	if err := t.execLater(query, args...); err != nil {
		return err
	}
	return t.execLater(updateScope, s.id, s.usage.Keys+keys, s.usage.Bytes+size, s.version, toNanos(t.now))
}

// lockMemoryScope locks the scope of a level, so that what it holds changes once
// at a time. It adds one if there is none and create is set.
func lockMemoryScope(t *tx, a memoryAccess, level memory.Level, create bool) (s memoryScope, err error) {
	tenant, owner := a.tenant, ""
	switch level {
	case memory.Claim:
		owner = a.claim
	case memory.Workload:
		tenant = ""
	}
	read := func() error {
		var expired bool
		err := t.query(lockScope, a.workload, tenant, owner, a.createdAt).Scan(&s.id, &s.usage.Keys, &s.usage.Bytes, &s.version, &expired)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil && expired {
			err = t.execLater(endScope, s.id)
			s = memoryScope{}
		}
		return translateError(err)
	}
	if err := read(); err != nil || s.id != "" || !create {
		return s, err
	}
	// A tenant's versions must not be those of values that have ended: the clock is
	// ahead of them.
	version := t.now.UnixMilli()
	if level == memory.Claim {
		version = 0
	} else if err := checkExists(t, a.workload); err != nil {
		return s, err
	}
	id := uuid.Must(uuid.NewV7()).String()
	if err := t.execLater(insertScope, id, string(level), a.workload, tenant, owner, version, toNanos(t.now)); err != nil {
		return s, err
	}
	if err := read(); err != nil || s.id != "" {
		return s, err
	}
	return s, errSerialization // another change has added one, which ended
}

// MemoryValue returns a value, or memory.ErrNotFound.
func (db *DB) MemoryValue(ctx context.Context, id string, level memory.Level, key string) (memory.Value, error) {
	return queryRow(ctx, db, func(r row) (v memory.Value, err error) {
		item, value, err := scanMemory(r, level)
		if err == nil && item.Key == "" {
			err = memory.ErrNotFound
		}
		return memory.Value{Item: item, Value: value}, err
	}, selectMemory, sanitizeText(id), string(level), key)
}

// MemoryItems lists keys.
func (db *DB) MemoryItems(ctx context.Context, id string, level memory.Level, prefix, after string, limit int) ([]memory.Item, error) {
	args := []any{sanitizeText(id), string(level), after, prefix, limit}
	items, err := queryAll(ctx, db, "memory", listMemory, args, func(r row) (memory.Item, error) {
		item, _, err := scanMemory(r, level)
		return item, err
	})
	if err == nil && len(items) == 0 {
		err = claim.ErrClaimNotFound
	}
	if err != nil {
		return nil, err
	}
	if items[0].Key == "" { // the claim's row without an entry
		return nil, nil
	}
	return items, nil
}

// scanMemory scans a row of a claim with an entry, whose key is empty if there is
// none.
func scanMemory(r row, level memory.Level) (item memory.Item, value json.RawMessage, err error) {
	var a memoryAccess
	var key, text sql.NullString
	var version, size, updated sql.NullInt64
	err = r.Scan(append(a.targets(), &key, &version, &size, &updated, &text)...)
	if err := a.check(err, level); err != nil {
		return item, nil, err
	}
	item = memory.Item{Key: key.String, Level: level, Version: version.Int64, Bytes: size.Int64, UpdatedAt: fromNanos(updated.Int64)}
	return item, json.RawMessage(text.String), nil
}
