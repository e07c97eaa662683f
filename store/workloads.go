package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

var _ pool.Workloads = (*DB)(nil)

var workloadColumns = columns[pool.Record]{
	{name: "id", use: key, field: func(r *pool.Record) any { return &r.ID }},
	{name: "revision", field: func(r *pool.Record) any { return &r.Revision }},
	{name: "source", field: func(r *pool.Record) any { return &r.Source }},
	{name: "dir", field: func(r *pool.Record) any { return &r.Dir }},
	{name: "min_idle", field: func(r *pool.Record) any { return &r.MinIdle }},
	{name: "max_size", field: func(r *pool.Record) any { return &r.MaxSize }},
	{name: "draining", field: func(r *pool.Record) any { return (*flag)(&r.Draining) }},
	{name: "event_hooks", field: func(r *pool.Record) any { return object[map[string]int64]{&r.EventHooks} }},
	{name: "shared_memory", field: func(r *pool.Record) any { return (*flag)(&r.SharedMemory) }},
	{name: "deleting", field: func(r *pool.Record) any { return (*flag)(&r.Deleting) }},
	{name: "created_at", use: immutable, field: func(r *pool.Record) any { return (*nanos)(&r.CreatedAt) }},
	{name: "updated_at", field: func(r *pool.Record) any { return (*nanos)(&r.UpdatedAt) }},
}

var (
	selectWorkloads = `SELECT ` + workloadColumns.names(nil) + ` FROM workloads`
	selectWorkload  = selectWorkloads + ` WHERE id = $1`
	putWorkload     = workloadColumns.upsert("workloads")
)

const (
	putRevision = `INSERT INTO revisions (workload, revision, source, dir, updated_at)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (workload, revision) DO UPDATE SET source = excluded.source, dir = excluded.dir,
			updated_at = excluded.updated_at`
	// touchOldRevision records when a revision was last current.
	touchOldRevision = `UPDATE revisions SET updated_at = $2
		WHERE workload = $1 AND revision = (SELECT revision FROM workloads WHERE id = $1)`
	putFile = `INSERT INTO files (workload, file, source, updated_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (workload, file) DO UPDATE SET updated_at = excluded.updated_at`
	selectFile     = `SELECT source FROM files WHERE workload = $1 AND file = $2`
	deleteFiles    = `DELETE FROM files WHERE workload = $1`
	selectRevision = `SELECT source, dir, updated_at FROM revisions WHERE workload = $1 AND revision = $2`
	// A workload that was applied again in the meantime is no longer being
	// deleted.
	deleteWorkload = `DELETE FROM workloads WHERE id = $1 AND deleting = 1`
	// lockRecord has the removal of the workload wait, and see what was added.
	lockRecord = `SELECT 1 FROM workloads WHERE id = $1` + forShare
	// lockRevision has that of the revision wait, too.
	lockRevision = `SELECT 1 FROM workloads JOIN revisions ON revisions.workload = workloads.id
		WHERE workloads.id = $1 AND revisions.revision = $2` + forShare
	selectVersion   = `SELECT updated_at, event_hooks NOT IN ('{}', 'null') FROM workloads WHERE id = $1`
	deleteRevisions = `DELETE FROM revisions WHERE workload = $1`
)

// PutWorkload adds or replaces the record. A revision's source stays when
// another becomes current, until it has no container and retention removes it.
func (db *DB) PutWorkload(ctx context.Context, r pool.Record, events ...activity.Event) error {
	if r.Source == nil {
		r.Source = []byte{}
	}
	err := db.writer.update(ctx, func(t *tx) error {
		hadEventHooks, err := checkUnchanged(t, r)
		if err != nil {
			return err
		}
		if err := t.execLater(touchOldRevision, r.ID, toNanos(t.now)); err != nil {
			return err
		}
		changed := r
		changed.CreatedAt, changed.UpdatedAt = t.now, t.now
		hooks := eventHooksChange{before: hadEventHooks, after: len(r.EventHooks) > 0}
		if changed.EventHooks, err = hooks.begin(t, r.EventHooks); err != nil {
			return err
		}
		if err := execLater(t, putWorkload, &changed); err != nil {
			return err
		}
		if err := hooks.end(t); err != nil {
			return err
		}
		if err := keepReplacedFile(t, r); err != nil {
			return err
		}
		if err := t.execLater(putRevision, r.ID, r.Revision, r.Source, r.Dir, toNanos(t.now)); err != nil {
			return err
		}
		if err := t.execLater(putFile, r.ID, workload.FileID(r.Source), r.Source, toNanos(t.now)); err != nil {
			return err
		}
		return addWorkloadEvents(t, r.ID, events)
	})
	if err != nil {
		return fmt.Errorf("put workload %s: %w", r.ID, err)
	}
	return nil
}

// keepReplacedFile keeps the file of the revision that r replaces: a point may have
// begun with it. Retention may have removed it, or it is of a server that kept none.
func keepReplacedFile(t *tx, r pool.Record) error {
	replaced, err := scanRevision(t.query(selectRevision, r.ID, r.Revision))
	if errors.Is(err, sql.ErrNoRows) || err == nil && len(replaced.Source) == 0 {
		return nil
	}
	if err != nil {
		return translateError(err)
	}
	return t.execLater(putFile, r.ID, workload.FileID(replaced.Source), replaced.Source, toNanos(t.now)-1) // it is not the current one
}

// checkUnchanged returns an error if the record has changed since the caller
// read it, and locks it against other changes. It reports whether the record has
// event hooks.
func checkUnchanged(t *tx, r pool.Record) (hasEventHooks bool, err error) {
	if err := t.lockWorkload(r.ID); err != nil {
		return false, err
	}
	var at int64
	err = t.query(selectVersion, r.ID).Scan(&at, &hasEventHooks)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, translateError(err)
	}
	if at != toNanos(r.UpdatedAt) {
		return false, fmt.Errorf("%w: it was changed concurrently", pool.ErrConflict)
	}
	return hasEventHooks, nil
}

// checkExists returns pool.ErrWorkloadNotFound if the workload was removed, and has
// a removal wait until the end of the change. What is added to a removed one would
// never end.
func checkExists(t *tx, id string) error {
	_, err := scanNumber(t.query(lockRecord, id))
	if errors.Is(err, sql.ErrNoRows) {
		return pool.ErrWorkloadNotFound
	}
	return translateError(err)
}

// checkRevision returns pool.ErrWorkloadNotFound if the workload was removed, or
// applied again since without this revision: the hooks of a container of it would be
// lost. It has the removal of either wait until the end of the change.
func checkRevision(t *tx, id, revision string) error {
	_, err := scanNumber(t.query(lockRevision, id, revision))
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: revision %s is not on record", pool.ErrWorkloadNotFound, revision)
	}
	return translateError(err)
}

// Workload returns one record.
func (db *DB) Workload(ctx context.Context, id string) (pool.Record, error) {
	r, err := queryRow(ctx, db, scanWorkload, selectWorkload, sanitizeText(id))
	if err != nil {
		return r, readError(err, pool.ErrWorkloadNotFound, "read workload", id)
	}
	return r, nil
}

// Workloads lists all records by id.
func (db *DB) Workloads(ctx context.Context) ([]pool.Record, error) {
	return queryAll(ctx, db, "workloads", selectWorkloads+byID, nil, scanWorkload)
}

// Revision returns the source and the seed directory of a revision.
func (db *DB) Revision(ctx context.Context, workload, revision string) (pool.Record, error) {
	r, err := queryRow(ctx, db, scanRevision, selectRevision, sanitizeText(workload), sanitizeText(revision))
	if errors.Is(err, sql.ErrNoRows) {
		err = pool.ErrWorkloadNotFound
	}
	if err != nil {
		return pool.Record{}, fmt.Errorf("read revision %s of workload %s: %w", revision, workload, err)
	}
	r.ID, r.Revision = workload, revision
	return r, nil
}

// File returns the content of a workload file that was applied.
func (db *DB) File(ctx context.Context, workload, file string) ([]byte, error) {
	source, err := queryRow(ctx, db, scanSource, selectFile, sanitizeText(workload), file)
	if errors.Is(err, sql.ErrNoRows) {
		err = pool.ErrWorkloadNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read file %s of workload %s: %w", file, workload, err)
	}
	return source, nil
}

func scanSource(r row) (source []byte, err error) { return source, r.Scan(&source) }

// RemoveWorkload removes the record of a workload that has no container.
func (db *DB) RemoveWorkload(ctx context.Context, id string, events ...activity.Event) error {
	err := db.writer.update(ctx, func(t *tx) error {
		if err := t.lockWorkload(id); err != nil { // no container is added concurrently
			return err
		}
		var left int
		if err := t.query(countContainers, id).Scan(&left); err != nil {
			return translateError(err)
		}
		if left > 0 {
			return fmt.Errorf("%w: %d containers are left", pool.ErrInUse, left)
		}
		hooks, err := eventHooksToRemove(t, id)
		if err != nil {
			return err
		}
		n, err := t.exec(deleteWorkload, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return pool.ErrWorkloadNotFound
		}
		if err := t.execLater(deleteRevisions, id); err != nil {
			return err
		}
		if err := t.execLater(deleteFiles, id); err != nil {
			return err
		}
		if err := t.execLater(deleteBreaker, id); err != nil {
			return err
		}
		if err := t.execLater(dropStateBytes, id); err != nil {
			return err
		}
		if err := t.execLater(endWorkloadMemory, id); err != nil {
			return err
		}
		if err := hooks.end(t); err != nil {
			return err
		}
		return addWorkloadEvents(t, id, events)
	})
	if err != nil {
		return fmt.Errorf("remove workload %s: %w", id, err)
	}
	return nil
}

// addWorkloadEvents adds events about the workload to the change.
func addWorkloadEvents(t *tx, id string, events []activity.Event) error {
	for _, e := range events {
		setIfEmpty(&e.Workload, id)
		if err := t.addEvents(e); err != nil {
			return err
		}
	}
	return nil
}

func scanRevision(r row) (w pool.Record, err error) {
	var updated int64
	err = r.Scan(&w.Source, &w.Dir, &updated)
	w.UpdatedAt = fromNanos(updated)
	return w, err
}

func scanWorkload(r row) (pool.Record, error) {
	w, err := workloadColumns.scan(r)
	if errors.Is(err, sql.ErrNoRows) {
		return pool.Record{}, pool.ErrWorkloadNotFound
	}
	return w, translateError(err)
}
