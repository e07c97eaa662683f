package store

import (
	"bytes"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"text/template"

	"github.com/pressly/goose/v3"
)

// migrations has one file for each version of the schema. A file is the same for
// both databases except for what it writes as a field of sqlTypes: a type, or
// {{if .SQLite}} ... {{else}} ... {{end}} around what only one of them can do.
//
//go:embed migrations
var migrations embed.FS

// sqlTypes has what a migration writes differently for each database.
type sqlTypes struct {
	Key    string // text that is compared as bytes: ids, names and revisions
	Int    string // an integer; one that is the primary key orders SQLite's table
	Blob   string // bytes
	SQLite bool
}

// migrationFiles returns the migrations as SQL of one database.
func migrationFiles(d dialect) (fs.FS, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return dialectFS{files, d.types}, nil
}

// dialectFS expands the SQL files that it opens.
type dialectFS struct {
	files fs.FS
	types sqlTypes
}

// Open implements fs.FS.
func (d dialectFS) Open(name string) (fs.File, error) {
	file, err := d.files.Open(name)
	if err != nil || path.Ext(name) != ".sql" {
		return file, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	parsed, err := template.New(name).Parse(string(text))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	var expanded bytes.Buffer
	if err := parsed.Execute(&expanded, d.types); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return expandedFile{file, &expanded}, nil
}

// expandedFile is a file with another content.
type expandedFile struct {
	fs.File
	content io.Reader
}

// Read implements fs.File.
func (f expandedFile) Read(p []byte) (int, error) { return f.content.Read(p) }

// newMigrations returns what brings a database's schema from one version to the
// next.
func newMigrations(db *sql.DB, d dialect) (*goose.Provider, error) {
	files, err := migrationFiles(d)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(d.goose, db, files, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
}

// migrate brings the schema to the version that this program knows. It leaves a
// schema of a newer program unchanged, because this program does not know what
// it means.
func migrate(ctx context.Context, db *sql.DB, d dialect) error {
	p, err := newMigrations(db, d)
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
