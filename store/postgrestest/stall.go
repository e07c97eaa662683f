package postgrestest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// Stall makes the updates of a table of a schema wait in the database until resume is
// called. The condition of the trigger may be empty. The function await returns when
// an update waits.
func Stall(tb testing.TB, server, table, condition string) (await, resume func()) {
	tb.Helper()
	key := rand.Int32() // of a lock that all schemas share
	ctx := tb.Context()
	conn, err := pgx.Connect(ctx, server)
	require.NoError(tb, err)
	resume = sync.OnceFunc(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) }) // with it the lock ends
	tb.Cleanup(resume)
	_, err = conn.Exec(ctx, fmt.Sprintf(`SELECT pg_advisory_lock(%d)`, key))
	require.NoError(tb, err)
	Exec(tb, server, fmt.Sprintf(`
		CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(%d); RETURN NEW; END $$;
		CREATE TRIGGER stall AFTER UPDATE ON %s FOR EACH ROW %s EXECUTE FUNCTION stall()`, key, table, condition))
	waiting := fmt.Sprintf(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %d AND NOT granted`, key)
	return func() { tb.Helper(); AwaitPositive(tb, server, waiting) }, resume
}

// AwaitPositive waits until the result of a query is a positive number.
func AwaitPositive(tb testing.TB, server, query string) {
	tb.Helper()
	testenv.AwaitTrue(tb, "a result of "+query, func() bool { return QueryInt(tb, server, query) > 0 })
}
