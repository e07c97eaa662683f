// Package postgrestest gives tests a PostgreSQL schema of their own. It knows
// where .ci/postgres keeps the URL of the server that it has started; another
// server is named by HOSTLER_TEST_POSTGRES. It leaves to others what is in a
// schema.
package postgrestest

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// timeout bounds what is asked of the server.
const timeout = 30 * time.Second

// Server is the URL of a server for tests. Without one the test is skipped, or
// fails when REQUIRE names postgres.
func Server(tb testing.TB) string {
	tb.Helper()
	server := serverURL()
	reason := "start one with .ci/postgres start, or name one in HOSTLER_TEST_POSTGRES"
	if server != "" {
		ctx, cancel := context.WithTimeout(tb.Context(), timeout)
		defer cancel()
		conn, err := pgx.Connect(ctx, server)
		if err == nil {
			require.NoError(tb, conn.Close(ctx))
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

// Schema is the URL of a new and empty schema, which is dropped with all that
// is in it when the test has ended.
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

// Exec runs statements that must succeed, on a connection of its own.
func Exec(tb testing.TB, server, statements string) {
	tb.Helper()
	withConn(tb, server, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statements)
		return err
	})
}

// QueryInt is what a query for a number finds.
func QueryInt(tb testing.TB, server, query string) (n int64) {
	tb.Helper()
	withConn(tb, server, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, query).Scan(&n)
	})
	return n
}

func withConn(tb testing.TB, server string, f func(context.Context, *pgx.Conn) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), timeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	require.NoError(tb, err)
	defer conn.Close(ctx) //nolint:errcheck // it was only used
	require.NoError(tb, f(ctx, conn))
}
