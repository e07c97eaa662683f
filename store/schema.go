package store

import (
	"context"
	"database/sql"
	_ "embed" // the schema
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template"
)

// schemaNumber is the number of the schema in schema.sql. Until the first release
// a change of that file raises it, and a database with another number is refused.
const schemaNumber = 39

// schemaText makes the tables of both databases. It is the same for both except
// for what it writes as a field of sqlTypes: a type, or {{if .SQLite}} ...
// {{else}} ... {{end}} around what only one of them can do.
//
//go:embed schema.sql
var schemaText string

// sqlTypes has what the schema writes differently for each database.
type sqlTypes struct {
	Key    string // text that is compared as bytes: ids, names and revisions
	Int    string // an integer; one that is the primary key orders SQLite's table
	Blob   string // bytes
	Real   string // a number with a fraction
	SQLite bool
}

// schemaSQL returns the statements that make the tables in one of the databases.
func schemaSQL(types sqlTypes) (string, error) {
	parsed, err := template.New("schema.sql").Parse(schemaText)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = parsed.Execute(&text, struct {
		sqlTypes
		Number int
	}{types, schemaNumber})
	return text.String(), err
}

// prepareSchema creates the tables in an empty database, and refuses a database
// with the tables of another version. All is done in one transaction, which begins
// with the statements of lock.
func prepareSchema(ctx context.Context, db *sql.DB, d dialect, lock string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // without effect after the commit
	if lock != "" {
		if _, err := tx.ExecContext(ctx, lock); err != nil {
			return fmt.Errorf("wait for another server that creates the tables: %w", err)
		}
	}
	var exists bool
	if err := tx.QueryRowContext(ctx, d.hasTables).Scan(&exists); err != nil {
		return fmt.Errorf("look for the tables: %w", err)
	}
	if exists {
		return checkSchema(ctx, tx, d)
	}
	text, err := schemaSQL(d.types)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, text); err != nil {
		return fmt.Errorf("create the tables: %w", err)
	}
	return tx.Commit()
}

// queryer is a connection to a database, or a transaction.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// checkSchema refuses tables of another version. The first versions recorded no
// number.
func checkSchema(ctx context.Context, q queryer, d dialect) error {
	number, err := scanText(q.QueryRowContext(ctx, selectMeta, "schema"))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("read the schema's number: %w", err)
	}
	if number == strconv.Itoa(schemaNumber) {
		return nil
	}
	if number == "" {
		number = "an older schema"
	} else {
		number = "schema " + number
	}
	return fmt.Errorf("%w: it has %s, this program needs schema %d; start the version that created it, or %s (docs/operating.md, \"A database of another version\")",
		ErrSchema, number, schemaNumber, d.replace)
}
