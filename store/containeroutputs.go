package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

var _ pool.Outputs = (*DB)(nil)

var keptColumns = columns[pool.Output]{
	{name: "container", use: key, field: func(o *pool.Output) any { return &o.Container }},
	{name: "workload", use: immutable, field: func(o *pool.Output) any { return &o.Workload }},
	{name: "tenant", field: func(o *pool.Output) any { return &o.Tenant }},
	{name: "main", field: func(o *pool.Output) any { return object[runtime.Output]{&o.Main} }},
	{name: "probe", field: func(o *pool.Output) any { return object[runtime.Output]{&o.Check} }},
	{name: "kept_at", field: func(o *pool.Output) any { return (*nanos)(&o.KeptAt) }},
	{name: "large", field: func(o *pool.Output) any { return (*flag)(&o.Large) }},
}

var (
	selectOutputs     = `SELECT ` + keptColumns.names(nil) + ` FROM outputs`
	selectOutput      = selectOutputs + ` WHERE container = $1`
	upsertOutput      = keptColumns.upsert("outputs")
	selectSurplusKept = selectOutputs + ` WHERE workload = $1 AND tenant = $2 AND large = 1
	ORDER BY kept_at DESC, container DESC LIMIT 1 OFFSET $3`
)

// Output returns what is kept of a container that failed.
func (db *DB) Output(ctx context.Context, container string) (pool.Output, error) {
	o, err := queryRow(ctx, db, keptColumns.scan, selectOutput, sanitizeText(container))
	if errors.Is(err, sql.ErrNoRows) {
		err = pool.ErrNoOutput
	}
	if err != nil {
		return pool.Output{}, fmt.Errorf("read the output of container %s: %w", container, err)
	}
	return o, nil
}

// putOutput keeps the output of a container, unless it was printed for a tenant
// whose the container is not any more.
func putOutput(t *tx, c pool.Container, o pool.Output) error {
	if o.Tenant != c.Tenant {
		return nil
	}
	o.Container, o.Workload, o.KeptAt = c.ID, c.Workload, t.now
	if err := saveOutput(t, o); err != nil {
		return err
	}
	for range 2 { // so that an existing surplus shrinks
		old, err := keptColumns.scan(t.query(selectSurplusKept, o.Workload, o.Tenant, maxKeptOutputs))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return translateError(err)
		}
		old.Main, old.Check = truncated(old.Main), truncated(old.Check)
		if err := saveOutput(t, old); err != nil {
			return err
		}
	}
	return nil
}

// saveOutput writes a record. An excerpt whose characters are long in JSON is not
// large: it cannot become smaller.
func saveOutput(t *tx, o pool.Output) error {
	o.Large = o.Main.Size()+o.Check.Size() > largeOutputSize
	args, err := upsertOutput.args(&o)
	if err != nil {
		return err
	}
	_, err = t.exec(upsertOutput.text, args...)
	return err
}
