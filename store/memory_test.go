package store

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/memory"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// memoryDB is a database in a bubble, whose clock is the bubble's.
type memoryDB struct {
	*DB
	t *testing.T
}

func newMemoryDB(t *testing.T) memoryDB {
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "hostler.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return memoryDB{db, t}
}

// share puts the workload web, whose memory is shared or not.
func (db memoryDB) share(shared bool) {
	r, err := db.Workload(db.t.Context(), "web")
	if err != nil {
		r = pool.Record{ID: "web", Revision: "r", MaxSize: 1000}
	}
	r.SharedMemory = shared
	require.NoError(db.t, db.PutWorkload(db.t.Context(), r))
}

// claim adds an active claim of a tenant.
func (db memoryDB) claim(tenant string) claim.Claim {
	ctx, id := db.t.Context(), uuid.NewString()
	require.NoError(db.t, db.AddContainer(ctx, pool.Container{ID: id, Workload: "web", Revision: "r"}, 1000))
	_, err := db.UpdateContainer(ctx, pool.Ready(id, func(c *pool.Container) { c.Health = pool.Healthy }))
	require.NoError(db.t, err)
	c, err := db.Reserve(ctx, claim.Reservation{Claim: uuid.NewString(), Workload: "web", Tenant: tenant, Revision: "r", Reuse: workload.ReuseNever})
	require.NoError(db.t, err)
	c, err = db.UpdateClaim(ctx, claim.Activate(c.ID, claim.Fresh, nil))
	require.NoError(db.t, err)
	return c
}

func (db memoryDB) release(c claim.Claim) {
	ctx := db.t.Context()
	_, err := db.UpdateClaim(ctx, claim.BeginRelease(c.ID, "test", false))
	require.NoError(db.t, err)
	finish := claim.Finish(c.ID, activity.ClaimReleasedData{Reason: "test"})
	destroy := pool.BeginDestroy("", []pool.State{pool.Claimed}, "test")
	finish.Container = &destroy
	_, err = db.UpdateClaim(ctx, finish)
	require.NoError(db.t, err)
}

func (db memoryDB) put(c claim.Claim, level memory.Level) int64 {
	done, err := db.ChangeMemory(db.t.Context(), memory.Change{
		Claim: c.ID, Level: level, Key: "k", Value: []byte("1"), Quota: memory.Quota{Keys: 1, Bytes: 10},
	})
	require.NoError(db.t, err)
	return done.Item.Version
}

func (db memoryDB) has(c claim.Claim, level memory.Level) bool {
	_, err := db.MemoryValue(db.t.Context(), c.ID, level, "k")
	if err != nil {
		require.ErrorIs(db.t, err, memory.ErrNotFound)
	}
	return err == nil
}

func (db memoryDB) sweep() {
	require.NoError(db.t, db.EndMemory(db.t.Context()))
	for {
		more, err := db.RemoveMemory(db.t.Context())
		require.NoError(db.t, err)
		if !more {
			return
		}
	}
}

// rows returns how many scopes and entries the database has.
func (db memoryDB) rows() (n int64) {
	n, err := queryRow(db.t.Context(), db.DB, scanNumber,
		`SELECT (SELECT count(*) FROM memory_scopes) + (SELECT count(*) FROM memory_entries)`)
	require.NoError(db.t, err)
	return n
}

// What a tenant holds is kept for 24 h after its last claim: to the moment for its
// next claim, however late it is removed.
func TestTenantMemoryRetention(t *testing.T) {
	for name, c := range map[string]struct {
		wait  time.Duration
		sweep bool
		kept  bool
	}{
		"a moment before":               {memory.TenantRetention - 1, true, true},
		"a moment before, not removed":  {memory.TenantRetention - 1, false, true},
		"the moment":                    {memory.TenantRetention, true, false},
		"the moment, not removed":       {memory.TenantRetention, false, false},
		"a minute later, not removed":   {memory.TenantRetention + time.Minute, false, false},
		"two minutes later and removed": {memory.TenantRetention + 2*time.Minute, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := newMemoryDB(t)
				db.share(false)
				first := db.claim("ann")
				version := db.put(first, memory.Tenant)
				<-time.After(30 * 24 * time.Hour)
				db.sweep()
				require.True(t, db.has(first, memory.Tenant), "its claim is live")
				db.release(first)
				<-time.After(c.wait)
				if c.sweep {
					db.sweep()
				}
				next := db.claim("ann")
				require.Equal(t, c.kept, db.has(next, memory.Tenant))
				<-time.After(48 * time.Hour)
				db.sweep()
				require.Equal(t, c.kept, db.has(next, memory.Tenant), "the claim keeps it")
				require.Greater(t, db.put(next, memory.Tenant), version)
				require.True(t, db.has(next, memory.Tenant))
				db.release(next)
				<-time.After(memory.TenantRetention)
				db.sweep()
				require.NotZero(t, db.rows(), "counted from the last claim")
				<-time.After(memorySweepDelay + 1)
				db.sweep()
				require.Zero(t, db.rows())
			})
		})
	}
}

// What was shared is kept for 24 h after memory.shared was removed from the file.
func TestUnsharedMemoryRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newMemoryDB(t)
		db.share(true)
		c := db.claim("ann")
		db.put(c, memory.Workload)
		<-time.After(30 * 24 * time.Hour)
		db.sweep()
		db.share(false)
		db.sweep()
		<-time.After(memory.UnsharedRetention - time.Minute)
		db.share(true)
		db.sweep()
		require.True(t, db.has(c, memory.Workload))
		<-time.After(time.Hour)
		db.sweep()
		require.True(t, db.has(c, memory.Workload))
		db.share(false)
		db.sweep()
		<-time.After(memory.UnsharedRetention + memorySweepDelay + 1)
		db.sweep()
		require.Zero(t, db.rows())
		db.share(true)
		require.False(t, db.has(c, memory.Workload))
		db.put(c, memory.Workload)
	})
}

// A claim that a server ended without knowing memory leaves nothing for good. This
// can happen while the servers of a database are replaced by new ones.
func TestMemoryOfOlderServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newMemoryDB(t)
		db.share(true)
		c, live := db.claim("ann"), db.claim("bob")
		for _, level := range memory.Levels() {
			db.put(c, level)
		}
		db.put(live, memory.Claim)
		db.put(live, memory.Tenant)
		err := db.writer.update(t.Context(), func(t *tx) error {
			return t.execLater(`UPDATE claims SET state = 'released', released_at = 1 WHERE id = $1`, c.ID)
		})
		require.NoError(t, err)
		next := db.claim("ann")
		db.sweep()
		require.EqualValues(t, 8, db.rows(), "not what the claim had")
		require.True(t, db.has(next, memory.Tenant))
		db.release(next)
		<-time.After(memory.TenantRetention + memorySweepDelay + 1)
		db.sweep()
		require.EqualValues(t, 6, db.rows())
		require.True(t, db.has(live, memory.Workload))
		require.True(t, db.has(live, memory.Claim))
		require.True(t, db.has(live, memory.Tenant))
	})
}

// What has ended is removed in parts, and an interruption after each of them leaves
// the rest.
func TestRemoveMemoryInParts(t *testing.T) {
	db := memoryDB{openTest(t), t}
	more, err := db.RemoveMemory(t.Context())
	require.NoError(t, err)
	require.False(t, more)
	db.share(false)
	c := db.claim("ann")
	const values = 2*memoryChunk + 1
	for i := range values {
		_, err := db.ChangeMemory(t.Context(), memory.Change{
			Claim: c.ID, Level: memory.Claim, Key: string(rune('a' + i)), Value: []byte("1"), Quota: memory.Quota{Keys: values, Bytes: 1 << 20},
		})
		require.NoError(t, err)
	}
	db.release(c)
	for range memoryChunk {
		c := db.claim("ann")
		db.put(c, memory.Claim)
		db.release(c)
	}
	all := db.rows()
	require.EqualValues(t, values+1+2*memoryChunk, all)
	for left := all; left > 0; {
		more, err := db.RemoveMemory(t.Context())
		require.NoError(t, err)
		removed := left - db.rows()
		require.LessOrEqual(t, removed, int64(memoryChunk))
		require.GreaterOrEqual(t, removed, min(left, memoryChunk-1), "several scopes at once")
		left -= removed
		require.Equal(t, left > 0, more)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = db.RemoveMemory(ctx)
	require.Error(t, err)
}

// addWaitingClaim adds a pending claim of a tenant of its own.
func addWaitingClaim(tb testing.TB, db *DB, id string) {
	tb.Helper()
	_, err := db.Reserve(tb.Context(), claim.Reservation{Claim: id, Workload: "web", Tenant: id, EnqueueOnly: true})
	require.ErrorIs(tb, err, claim.ErrNoIdleContainer)
}

// The requests of a claim that ended without this table are removed, wherever it is
// among the others; those of live claims stay.
func TestUnusedRequestsAreRemoved(t *testing.T) {
	for _, e := range databases {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			db, err := Open(t.Context(), e.dsn(t))
			require.NoError(t, err)
			defer db.Close()                          //nolint:errcheck // the test is over
			for name, c := range map[string][]string{ // the claims in order; those in capitals are live
				"nothing":           nil,
				"live only":         {"A", "B", "C"},
				"the first":         {"a", "B", "C"},
				"the last":          {"A", "B", "c"},
				"between":           {"A", "b", "C"},
				"one only":          {"a"},
				"all":               {"a", "b", "c"},
				"all but the first": {"A", "b", "c", "d"},
			} {
				want := addRequests(t, db, c)
				require.NoError(t, db.EndMemory(t.Context()), name)
				left, err := queryAll(t.Context(), db, "requests", `SELECT claim || request FROM memory_requests ORDER BY 1`, nil, scanText)
				require.NoError(t, err)
				require.Equal(t, want, left, name)
				for _, table := range []string{"memory_requests", "claims"} {
					require.NoError(t, db.writer.update(t.Context(), func(t *tx) error { return t.execLater(`DELETE FROM ` + table) }))
				}
			}
		})
	}
}

// addRequests adds three requests of each claim, and the claims in capitals. It
// returns the requests of these, in order.
func addRequests(t *testing.T, db *DB, claims []string) (live []string) {
	t.Helper()
	for _, id := range claims {
		isLive := id == strings.ToUpper(id)
		if isLive {
			addWaitingClaim(t, db, strings.ToLower(id))
		}
		id = strings.ToLower(id)
		for _, request := range []string{"1", "2", "3"} {
			require.NoError(t, db.writer.update(t.Context(), func(t *tx) error { return t.execLater(addRequest, id, request, 0, "{}") }))
			if isLive {
				live = append(live, id+request)
			}
		}
	}
	return live
}
