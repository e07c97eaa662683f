// Package postgrestest provides each test with its own PostgreSQL schema. It
// uses the server that .ci/postgres has started, or the one at
// HOSTLER_TEST_POSTGRES. The contents of the schema are up to the test.
package postgrestest

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// Server returns the URL of a server for tests. Without one the test is
// skipped, or fails when REQUIRE names postgres.
func Server(tb testing.TB) string {
	tb.Helper()
	server := serverURL()
	reason := "start one with .ci/postgres start, or name one in HOSTLER_TEST_POSTGRES"
	if server != "" {
		conn, err := pgx.Connect(tb.Context(), server)
		if err == nil {
			require.NoError(tb, conn.Close(tb.Context()))
			return server
		}
		reason = err.Error()
	}
	testenv.Skip(tb, "postgres", "there is no PostgreSQL server: %s", reason)
	return ""
}

func serverURL() string {
	if server := os.Getenv("HOSTLER_TEST_POSTGRES"); server != "" {
		return server
	}
	dir := os.Getenv("HOSTLER_POSTGRES_DIR")
	if dir == "" {
		dir = "/tmp/hostler-postgres"
	}
	text, err := os.ReadFile(filepath.Join(dir, "url"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Schema returns the URL of a new, empty schema, which is dropped with its
// contents when the test has ended.
func Schema(tb testing.TB) string {
	tb.Helper()
	server := Server(tb)
	name := "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	Exec(tb, server, "CREATE SCHEMA "+name)
	tb.Cleanup(func() { Exec(tb, server, "DROP SCHEMA "+name+" CASCADE") })
	u, err := url.Parse(server)
	require.NoError(tb, err)
	query := u.Query()
	query.Set("search_path", name)
	u.RawQuery = query.Encode()
	return u.String()
}

// Exec runs statements that must succeed, on a separate connection.
func Exec(tb testing.TB, server, statements string) {
	tb.Helper()
	withConn(tb, server, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statements)
		return err
	})
}

// QueryInt returns the result of a query for a number.
func QueryInt(tb testing.TB, server, query string) (n int64) {
	tb.Helper()
	withConn(tb, server, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, query).Scan(&n)
	})
	return n
}

func withConn(tb testing.TB, server string, f func(context.Context, *pgx.Conn) error) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context()) // for cleanups too
	conn, err := pgx.Connect(ctx, server)
	require.NoError(tb, err)
	defer conn.Close(ctx) //nolint:errcheck // nothing can be lost any more
	require.NoError(tb, f(ctx, conn))
}
