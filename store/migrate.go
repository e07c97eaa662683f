package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// migrate brings the schema to the version that this program knows. It leaves a
// schema of a newer program unchanged, because this program does not know what
// it means.
func migrate(ctx context.Context, db *sql.DB, d dialect) error {
	files, err := fs.Sub(migrations, d.migrations)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	p, err := goose.NewProvider(d.goose, db, files,
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("prepare migrations: %w", err)
	}
	have, known, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	if have > known {
		return fmt.Errorf("%w: its schema has version %d, this program knows versions up to %d", ErrSchemaTooNew, have, known)
	}
	if _, err := p.Up(ctx); err != nil {
		if partial, ok := errors.AsType[*goose.PartialError](err); ok {
			err = partial.Err // its own text lists what succeeded at length
		}
		return fmt.Errorf("migrate the schema from version %d: %w", have, err)
	}
	return nil
}
