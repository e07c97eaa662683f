package store

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/store/postgrestest"
)

// The database server knows the outcome of its own transactions, and its answer
// about those of the server that it replaced is not trusted.
func TestTxStatus(t *testing.T) {
	db, err := Open(t.Context(), postgrestest.Schema(t))
	require.NoError(t, err)
	defer db.Close() //nolint:errcheck // it only reads
	w := db.writer.(*postgresWriter)
	id, err := w.transact(t.Context(), func(t *tx) error { return t.execLater(putMeta, "k", "v") })
	require.NoError(t, err)
	undone, err := w.transact(t.Context(), func(t *tx) error { return t.execLater(insertLogTwice) })
	require.Error(t, err)

	status := func(id txID) (status *string) {
		require.NoError(t, w.pool.QueryRow(t.Context(), txStatus, id.number, id.timeline).Scan(&status))
		return status
	}
	require.Equal(t, "committed", *status(id))
	require.Equal(t, "aborted", *status(undone))
	elsewhere := txID{number: id.number, timeline: "FFFFFFFF"}
	require.Nil(t, status(elsewhere))
	future := txID{number: "999999999999", timeline: "FFFFFFFF"}
	require.Nil(t, status(future))
	require.ErrorIs(t, w.resolveUnknownCommit(t.Context(), elsewhere, errCommitUnknown), errCommitUnknown)
	require.ErrorIs(t, w.resolveUnknownCommit(t.Context(), undone, errCommitUnknown), errSerialization)
	require.NoError(t, w.resolveUnknownCommit(t.Context(), id, errCommitUnknown))
}

// An attempt to renew a lease has 4 s, in package membership. Two checks of silent
// connections fit into it, and so does the end of an earlier attempt whose connection
// was lost.
func TestRenewalFitsItsTime(t *testing.T) {
	t.Parallel()
	db, err := Open(t.Context(), postgrestest.Schema(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	leases := db.leases.(*postgresWriter).pool
	var idle string
	require.NoError(t, leases.QueryRow(t.Context(), `SHOW idle_in_transaction_session_timeout`).Scan(&idle))
	require.Equal(t, "2s", idle)
	require.Less(t, 2*leases.Config().PingTimeout, 4*time.Second)
}

// A lost connection is closed at once, so that another one can take its place: the
// driver would wait for the answer of the database server.
func TestLostConnectionIsClosed(t *testing.T) {
	t.Parallel()
	proxy := postgrestest.NewProxy(t, postgrestest.Schema(t))
	db, err := Open(t.Context(), proxy.URL())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	leases := db.leases.(*postgresWriter).pool
	conn, err := leases.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	proxy.Silence()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = conn.Exec(ctx, `SELECT 1`)
	require.Error(t, err)
	socket := conn.Conn().PgConn().Conn()
	leases.Config().BeforeClose(conn.Conn())
	require.ErrorIs(t, socket.SetDeadline(time.Time{}), net.ErrClosed)
}

const insertLogTwice = `INSERT INTO log (id, last, pruned) VALUES (1, 0, 0)`
