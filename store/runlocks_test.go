package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/store/postgrestest"
)

// The end of a hook that is recorded with the start of the next waits for the claim,
// which another server ends, before it locks the run: that server locks the claim
// first, and neither waits for the other.
func TestRunFollowedLocksClaimFirst(t *testing.T) {
	target := postgrestest.Schema(t)
	db, err := Open(t.Context(), target)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	memoryDB{db, t}.share(false)
	c := memoryDB{db, t}.claim("ada")
	run := func(id string) hooks.Run {
		return hooks.Run{
			ID: id, Attempt: 1, Point: hooks.PostClaim, Hook: id, Kind: hooks.KindCommand, Workload: "web",
			Container: c.Container, Claim: c.ID, Tenant: "ada", State: hooks.Running, StartedAt: time.Now(),
		}
	}
	done := run("a")
	require.NoError(t, db.RunStarted(t.Context(), done))
	done.State = hooks.Succeeded

	followed := make(chan error, 1)
	isWaiting, isFree := false, false
	require.NoError(t, db.writer.update(t.Context(), func(x *tx) error {
		if _, err := x.exec(`SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
			return err
		}
		if _, err := scanClaim(x.query(selectClaim+forUpdate, c.ID)); err != nil {
			return err
		}
		var pid int
		if err := x.query(`SELECT pg_backend_pid()`).Scan(&pid); err != nil {
			return err
		}
		go func() { followed <- db.RunFollowed(t.Context(), done, run("b")) }()
		waits := fmt.Sprintf(`SELECT count(*) FROM pg_stat_activity WHERE %d = ANY (pg_blocking_pids(pid))`, pid)
		for !isWaiting {
			isWaiting = postgrestest.QueryInt(t, target, waits) > 0
		}
		isFree = postgrestest.QueryInt(t, target, `SELECT count(*) FROM (SELECT 1 FROM runs WHERE id = 'a' FOR UPDATE SKIP LOCKED) AS run`) == 1
		return nil
	}))
	require.NoError(t, <-followed)
	require.True(t, isWaiting)
	require.True(t, isFree, "the run is locked before the claim")
}
