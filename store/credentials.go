package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
)

var _ credential.Store = (*DB)(nil)

var keyColumns = columns[credential.Record]{
	{name: "name", use: key, field: func(r *credential.Record) any { return &r.Name }},
	{name: "hash", use: immutable, field: func(r *credential.Record) any { return &r.Hash }},
	{name: "prefix", use: immutable, field: func(r *credential.Record) any { return &r.Prefix }},
	{name: "grants", use: immutable, field: func(r *credential.Record) any { return object[[]auth.Grant]{&r.Grants} }},
	{name: "created_at", use: immutable, field: func(r *credential.Record) any { return nullNanos{&r.CreatedAt} }},
	{name: "created_by", use: immutable, field: func(r *credential.Record) any { return (*text)(&r.CreatedBy) }},
	{name: "expires_at", use: immutable, field: func(r *credential.Record) any { return nullNanos{&r.ExpiresAt} }},
	{name: "revoked_at", use: mutable, field: func(r *credential.Record) any { return nullNanos{&r.RevokedAt} }},
	{name: "last_used_at", use: immutable, field: func(r *credential.Record) any { return nullNanos{&r.LastUsedAt} }},
	{name: "generation", use: mutable, field: func(r *credential.Record) any { return &r.Generation }},
}

var (
	insertKey   = keyColumns.insert("credential_keys", "operator")
	updateKey   = keyColumns.update("credential_keys")
	selectKeys  = `SELECT ` + keyColumns.names(nil) + ` FROM credential_keys`
	selectKey   = selectKeys + ` WHERE name = $1`
	changedKeys = selectKeys + ` WHERE generation > $1`
)

const (
	selectGeneration = `SELECT value FROM credential_generation WHERE id = 1`
	// nextGeneration serializes the changes of credentials: their generations grow in
	// the order of commits, and none misses what another has added. They are times in
	// milliseconds, so that no change has the generation of one that was lost.
	nextGeneration = `UPDATE credential_generation SET value = CASE WHEN value < $1 THEN $1 ELSE value + 1 END WHERE id = 1 RETURNING value`

	countKeys   = `SELECT count(*) FROM credential_keys`
	hasKey      = `SELECT count(*) FROM credential_keys WHERE name = $1`
	hasOperator = `SELECT (SELECT count(*) FROM credential_keys WHERE operator = 1 AND revoked_at = 0 AND (expires_at = 0 OR expires_at > $1))
		+ (SELECT count(*) FROM credential_bindings WHERE operator = 1)`
	recordUse = `UPDATE credential_keys SET last_used_at = $2 WHERE name = $1 AND last_used_at < $2`

	endedKeys  = `revoked_at > 0 AND revoked_at < $1 OR expires_at > 0 AND expires_at < $1`
	countEnded = `SELECT count(*) FROM credential_keys WHERE ` + endedKeys
	deleteKeys = `DELETE FROM credential_keys WHERE ` + endedKeys

	selectBindings = `SELECT binding FROM credential_bindings ORDER BY name`
	countBindings  = `SELECT count(*), coalesce(max(CASE WHEN name = $1 THEN 1 ELSE 0 END), 0) FROM credential_bindings`
	putBinding     = `INSERT INTO credential_bindings (name, binding, operator) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET binding = excluded.binding, operator = excluded.operator`
	deleteBinding = `DELETE FROM credential_bindings WHERE name = $1`
)

// CredentialGeneration implements credential.Store.
func (db *DB) CredentialGeneration(ctx context.Context) (int64, error) {
	n, err := queryRow(ctx, db, scanNumber, selectGeneration)
	if err != nil {
		return 0, fmt.Errorf("read the generation of credentials: %w", err)
	}
	return n, nil
}

// Credentials implements credential.Store.
func (db *DB) Credentials(ctx context.Context, after int64) (c credential.Credentials, err error) {
	err = db.readTx(ctx, func(t *sql.Tx) error {
		c = credential.Credentials{}
		if err := t.QueryRowContext(ctx, selectGeneration).Scan(&c.Generation); err != nil {
			return err
		}
		if err := t.QueryRowContext(ctx, countKeys).Scan(&c.Count); err != nil {
			return err
		}
		rows, err := t.QueryContext(ctx, changedKeys, after)
		if err != nil {
			return err
		}
		if c.Keys, err = collectRows(rows, keyColumns.scan); err != nil {
			return err
		}
		if rows, err = t.QueryContext(ctx, selectBindings); err != nil {
			return err
		}
		c.Bindings, err = collectRows(rows, scanBinding)
		return err
	})
	for i := range c.Keys {
		c.Keys[i].Source = credential.Database
	}
	if err != nil {
		return credential.Credentials{}, fmt.Errorf("read the credentials: %w", err)
	}
	return c, nil
}

func scanBinding(r row) (b credential.Binding, err error) {
	var text string
	if err := r.Scan(&text); err != nil {
		return b, err
	}
	err = decode(text, &b)
	b.Source = credential.Database
	return b, err
}

// RecordCredential implements credential.Store.
func (db *DB) RecordCredential(ctx context.Context, events ...activity.Event) error {
	err := db.writer.update(ctx, func(t *tx) error { return t.addEvents(events...) })
	if err != nil {
		return fmt.Errorf("record a credential: %w", err)
	}
	return nil
}

// changeCredentials makes a change of credentials with its generation.
func (db *DB) changeCredentials(ctx context.Context, change func(t *tx, generation int64) error) error {
	return db.writer.update(ctx, func(t *tx) error {
		generation, err := scanNumber(t.query(nextGeneration, t.now.UnixMilli()))
		if err != nil {
			return translateError(err)
		}
		return change(t, generation)
	})
}

// checkCondition returns an error unless the condition holds.
func checkCondition(t *tx, c credential.Condition) error {
	if c == credential.Always {
		return nil
	}
	n, err := scanNumber(t.query(hasOperator, toNanos(t.now)))
	switch {
	case err != nil:
		return translateError(err)
	case c == credential.OperatorExists && n == 0:
		return credential.ErrFirst
	case c == credential.NoOperatorExists && n > 0:
		return fmt.Errorf("%w: an operator's credential exists: use it, or the Unix socket of serve --listen-unix if it is lost", credential.ErrInvalid)
	}
	return nil
}

// AddKey implements credential.Store.
func (db *DB) AddKey(ctx context.Context, k credential.Record, c credential.Condition, events ...activity.Event) (credential.Record, error) {
	err := db.changeCredentials(ctx, func(t *tx, generation int64) error {
		if err := checkCondition(t, c); err != nil {
			return err
		}
		if n, err := scanNumber(t.query(hasKey, k.Name)); err != nil || n > 0 {
			return errors.Join(translateError(err), existsIf(n > 0))
		}
		if n, err := scanNumber(t.query(countKeys)); err != nil || n >= credential.MaxKeys {
			return errors.Join(translateError(err), tooManyIf(n >= credential.MaxKeys, "keys", credential.MaxKeys))
		}
		k.Source, k.Generation, k.CreatedAt = credential.Database, generation, new(t.now)
		args, err := insertKey.args(&k)
		if err != nil {
			return err
		}
		if err := t.execLater(insertKey.text, append(args, boolToInt(isOperator(k)))...); err != nil {
			return err
		}
		return t.addEvents(events...)
	})
	if err != nil {
		return credential.Record{}, fmt.Errorf("add key %s: %w", k.Name, err)
	}
	return k, nil
}

func isOperator(k credential.Record) bool {
	return slices.ContainsFunc(k.Grants, func(g auth.Grant) bool { return g.Role == auth.Operator })
}

func existsIf(exists bool) error {
	if exists {
		return credential.ErrExists
	}
	return nil
}

func tooManyIf(tooMany bool, what string, limit int) error {
	if tooMany {
		return fmt.Errorf("%w: there are %d %s", credential.ErrInvalid, limit, what)
	}
	return nil
}

// RevokeKey implements credential.Store.
func (db *DB) RevokeKey(ctx context.Context, name string, events ...activity.Event) (k credential.Record, err error) {
	err = db.changeCredentials(ctx, func(t *tx, generation int64) error {
		stored, err := keyColumns.scan(t.query(selectKey, name))
		if errors.Is(err, sql.ErrNoRows) {
			return credential.ErrNotFound
		}
		if err != nil {
			return translateError(err)
		}
		k = stored
		k.Source = credential.Database
		if k.RevokedAt != nil {
			return nil
		}
		k.RevokedAt, k.Generation = new(t.now), generation
		args, err := updateKey.args(&k)
		if err != nil {
			return err
		}
		if err := t.execLater(updateKey.text, args...); err != nil {
			return err
		}
		return t.addEvents(events...)
	})
	if err != nil {
		return credential.Record{}, fmt.Errorf("revoke key %s: %w", name, err)
	}
	return k, nil
}

// StoredKeys implements credential.Store.
func (db *DB) StoredKeys(ctx context.Context) ([]credential.Key, error) {
	return queryAll(ctx, db, "keys", selectKeys+` ORDER BY name`, nil, func(r row) (credential.Key, error) {
		k, err := keyColumns.scan(r)
		k.Source = credential.Database
		return k.Key, err
	})
}

// RecordKeyUses implements credential.Store.
func (db *DB) RecordKeyUses(ctx context.Context, uses map[string]time.Time) error {
	err := db.writer.update(ctx, func(t *tx) error {
		for _, name := range slices.Sorted(maps.Keys(uses)) { // in one order, so that no two changes deadlock
			if err := t.execLater(recordUse, name, toNanos(uses[name])); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("record the uses of keys: %w", err)
	}
	return nil
}

// PruneKeys implements credential.Store. It writes only if there are any.
func (db *DB) PruneKeys(ctx context.Context, before time.Time) error {
	n, err := queryRow(ctx, db, scanNumber, countEnded, toNanos(before))
	if err == nil && n > 0 {
		err = db.writer.update(ctx, func(t *tx) error { return t.execLater(deleteKeys, toNanos(before)) })
	}
	if err != nil {
		return fmt.Errorf("prune keys: %w", err)
	}
	return nil
}

// PutBinding implements credential.Store.
func (db *DB) PutBinding(ctx context.Context, b credential.Binding, c credential.Condition, events ...activity.Event) (created bool, err error) {
	text, err := encode(b)
	if err != nil {
		return false, err
	}
	err = db.changeCredentials(ctx, func(t *tx, _ int64) error {
		if err := checkCondition(t, c); err != nil {
			return err
		}
		var n, exists int64
		if err := t.query(countBindings, b.Name).Scan(&n, &exists); err != nil {
			return translateError(err)
		}
		created = exists == 0
		if created && n >= credential.MaxBindings {
			return tooManyIf(true, "bindings", credential.MaxBindings)
		}
		if err := t.execLater(putBinding, b.Name, text, boolToInt(b.Role == auth.Operator)); err != nil {
			return err
		}
		return t.addEvents(events...)
	})
	if err != nil {
		return false, fmt.Errorf("put binding %s: %w", b.Name, err)
	}
	return created, nil
}

// DeleteBinding implements credential.Store.
func (db *DB) DeleteBinding(ctx context.Context, name string, events ...activity.Event) error {
	err := db.changeCredentials(ctx, func(t *tx, _ int64) error {
		n, err := t.exec(deleteBinding, name)
		if err != nil {
			return err
		}
		if n == 0 {
			return credential.ErrNotFound
		}
		return t.addEvents(events...)
	})
	if err != nil {
		return fmt.Errorf("delete binding %s: %w", name, err)
	}
	return nil
}
