package store

import (
	"context"
	"database/sql"
	"strings"
)

// sqliteSession runs the statements of all changes on the one connection that
// writes. It is used by the writer's goroutine only.
type sqliteSession struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

func (s *sqliteSession) exec(query string, args ...any) (int64, error) {
	stmt, err := s.prepare(query)
	if err != nil {
		return 0, err
	}
	res, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, translateError(err)
	}
	n, err := res.RowsAffected()
	return n, translateError(err)
}

func (s *sqliteSession) query(query string, args ...any) row {
	stmt, err := s.prepare(query)
	if err != nil {
		return failedRow{err}
	}
	return stmt.QueryRowContext(context.Background(), args...)
}

func (s *sqliteSession) execLater(query string, args ...any) error {
	_, err := s.exec(query, args...)
	return err
}

// lockWorkload does nothing: changes are made one at a time.
func (s *sqliteSession) lockWorkload(string) error { return nil }

// lockQuota does nothing, for the same reason.
func (s *sqliteSession) lockQuota(string) error { return nil }

// prepare compiles a statement once. The texts are a closed set: none contains
// a caller's value.
func (s *sqliteSession) prepare(query string) (*sql.Stmt, error) {
	if stmt, ok := s.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := s.conn.PrepareContext(context.Background(), withoutLocks(query))
	if err != nil {
		return nil, translateError(err)
	}
	s.stmts[query] = stmt
	return stmt, nil
}

// withoutLocks returns the query without its locks, which are unnecessary where
// changes are made one at a time.
func withoutLocks(query string) string {
	text, _, _ := strings.Cut(query, forUpdate)
	text, _, _ = strings.Cut(text, forShare)
	return text
}
