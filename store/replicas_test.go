package store_test

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/membership"
	"github.com/hostler/hostler/membership/membershiptest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/postgrestest"
	"github.com/hostler/hostler/store/storetest"
)

func register(t *testing.T, db *store.DB) membership.Replica {
	t.Helper()
	r, err := db.Register(t.Context(), "here")
	require.NoError(t, err)
	return r
}

// makeExpired sets a server's lease to have expired long ago.
func makeExpired(t *testing.T, target string, r membership.Replica) {
	t.Helper()
	postgrestest.Exec(t, target, fmt.Sprintf(`UPDATE replicas SET expires_at = 1 WHERE id = '%s'`, r.ID))
}

// A server whose lease has expired is taken over once, and can no longer write.
func TestFenceExpiredReplica(t *testing.T) {
	target := postgrestest.Schema(t)
	ctx := t.Context()
	slow, quick := openDB(t, target), openDB(t, target)
	s := register(t, slow)
	register(t, quick)
	_, err := quick.Fence(ctx, s.ID, time.Now())
	require.ErrorIs(t, err, membership.ErrNotExpired)
	expired, err := quick.Expired(ctx)
	require.NoError(t, err)
	require.Empty(t, expired)

	makeExpired(t, target, s)
	_, err = slow.Renew(ctx, false)
	require.NoError(t, err, "before the deadline")
	_, err = quick.Fence(ctx, s.ID, time.Now())
	require.ErrorIs(t, err, membership.ErrNotExpired)

	makeExpired(t, target, s)
	expired, err = quick.Expired(ctx)
	require.NoError(t, err)
	require.Len(t, expired, 1)
	taken, err := quick.Fence(ctx, s.ID, time.Now())
	require.NoError(t, err)
	require.Equal(t, s.Epoch+1, taken.Epoch)
	_, err = quick.Fence(ctx, s.ID, time.Now())
	require.ErrorIs(t, err, membership.ErrNotExpired, "only one server takes over")

	for name, write := range map[string]func() error{
		"renew":  func() error { _, err := slow.Renew(ctx, false); return err },
		"append": func() error { return slow.Append(ctx, warning("late")) },
		"meta":   func() error { return slow.SetMeta(ctx, "k", "v") },
		"add": func() error {
			return slow.AddContainer(ctx, pool.Container{ID: "k", Workload: "w", Revision: "r"}, 1)
		},
		"cursor": func() error {
			_, err := slow.Advance(ctx, "c", 1, func(store.Tx, []activity.Event) error { return nil })
			return err
		},
		"lead": func() error { _, err := slow.Campaign(ctx, time.Now()); return err },
	} {
		require.ErrorIs(t, write(), membership.ErrFenced, name)
	}
	last, err := quick.LastSeq(ctx)
	require.NoError(t, err)
	require.Zero(t, last)
	require.NoError(t, quick.RemoveReplica(ctx, taken))
	require.ErrorIs(t, quick.RemoveReplica(ctx, taken), membership.ErrReplicaNotFound)
	require.ErrorIs(t, slow.SetMeta(ctx, "k", "v"), membership.ErrFenced)
	_, err = quick.Fence(ctx, s.ID, time.Now())
	require.ErrorIs(t, err, membership.ErrReplicaNotFound)
}

// A server changes nothing after it was taken over: what the server that takes
// over finds is final.
func TestFencedReplicaWritesNothing(t *testing.T) {
	target := postgrestest.Schema(t)
	quick := openDB(t, target)
	register(t, quick)
	for range 5 {
		slow := openDB(t, target)
		s := register(t, slow)
		var g errgroup.Group
		for w := range 4 {
			g.Go(func() error {
				for n := 0; ; n++ {
					err := slow.Append(t.Context(), warning(fmt.Sprint(w, n)))
					if errors.Is(err, membership.ErrFenced) {
						return nil
					}
					if err != nil {
						return err
					}
				}
			})
		}
		changed := quick.Changed()
		<-changed // it writes
		makeExpired(t, target, s)
		_, err := quick.Fence(t.Context(), s.ID, time.Now())
		require.NoError(t, err)
		found, err := quick.LastSeq(t.Context())
		require.NoError(t, err)
		require.NoError(t, g.Wait())
		stayed, err := quick.LastSeq(t.Context())
		require.NoError(t, err)
		require.Equal(t, found, stayed)
	}
}

// One server leads. Another one leads when the lease has expired, if it may judge
// that, or at once when the leader has resigned.
func TestLeaderLease(t *testing.T) {
	target := postgrestest.Schema(t)
	ctx := t.Context()
	a, b, c := openDB(t, target), openDB(t, target), openDB(t, target)
	_, err := a.Campaign(ctx, time.Now())
	require.ErrorContains(t, err, "not registered")
	register(t, a)
	register(t, b)
	register(t, c)
	campaign := func(db *store.DB, judge bool, want int64) {
		t.Helper()
		asOf := time.Time{}
		if judge {
			asOf = time.Now()
		}
		term, err := db.Campaign(ctx, asOf)
		require.NoError(t, err)
		require.Equal(t, want, term)
	}
	campaign(a, false, 1)
	campaign(b, true, 0)
	campaign(a, false, 1)
	postgrestest.Exec(t, target, `UPDATE leases SET expires_at = 1`)
	campaign(b, false, 0)
	campaign(b, true, 2)
	_, err = a.Campaign(ctx, time.Now())
	require.ErrorIs(t, err, membership.ErrFenced)
	campaign(c, true, 0)
	require.NoError(t, c.Resign(ctx))
	campaign(c, true, 0)
	require.NoError(t, b.Resign(ctx))
	campaign(c, false, 3)
}

// A leader renews while another server campaigns, which had read that the
// leadership has expired. The leader stays.
func TestCampaignDuringRenewal(t *testing.T) {
	ctx := t.Context()
	target := postgrestest.Schema(t)
	name := "challenger" + uuid.NewString()
	leader, challenger := openDB(t, target), openDB(t, target+"&application_name="+name)
	r := register(t, leader)
	register(t, challenger)
	_, err := leader.Campaign(ctx, time.Now())
	require.NoError(t, err)
	makeExpired(t, target, r)
	postgrestest.Exec(t, target, `UPDATE leases SET expires_at = 1`)
	// The renewal is slow, and the campaign waits for it.
	await, resume := postgrestest.Stall(t, target, "replicas", "WHEN (OLD.epoch = NEW.epoch)")
	var g errgroup.Group
	g.Go(func() error { _, err := leader.Renew(ctx, true); return err })
	await()
	term := int64(-1)
	g.Go(func() (err error) { term, err = challenger.Campaign(ctx, time.Now()); return err })
	postgrestest.AwaitPositive(t, target, fmt.Sprintf(
		`SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s' AND cardinality(pg_blocking_pids(pid)) > 0`, name))
	resume()
	require.NoError(t, g.Wait())
	require.Zero(t, term)
	_, err = leader.Renew(ctx, true)
	require.NoError(t, err, "it was not fenced")
}

// A leader's renewal and the campaign of a server that replaces it exclude each
// other: either the leader renews and keeps its leadership, or it is fenced.
func TestCampaignRacesRenewal(t *testing.T) {
	ctx := t.Context()
	target := postgrestest.Schema(t)
	challenger := openDB(t, target)
	register(t, challenger)
	for range 20 {
		leader := openDB(t, target)
		r := register(t, leader)
		term, err := leader.Campaign(ctx, time.Now())
		require.NoError(t, err)
		require.NotZero(t, term)
		makeExpired(t, target, r)
		postgrestest.Exec(t, target, `UPDATE leases SET expires_at = 1`)
		var g errgroup.Group
		var renewed error
		g.Go(func() error { _, renewed = leader.Renew(ctx, true); return nil })
		next, err := challenger.Campaign(ctx, time.Now())
		require.NoError(t, err)
		require.NoError(t, g.Wait())
		if next == 0 {
			require.NoError(t, renewed)
			require.NoError(t, leader.Deregister(ctx))
			continue
		}
		require.Equal(t, term+1, next)
		_, err = leader.Renew(ctx, true)
		require.ErrorIs(t, err, membership.ErrFenced)
		require.NoError(t, challenger.Resign(ctx))
		fenced, err := challenger.Fence(ctx, r.ID, time.Time{})
		require.NoError(t, err)
		require.NoError(t, challenger.RemoveReplica(ctx, fenced))
	}
}

// The database is a store of package membership, by its own clock alone: a
// server whose clock is wrong neither loses its lease nor takes over from others.
func TestMembership(t *testing.T) {
	membershiptest.TestStore(t, func(t *testing.T) (func() membership.Store, func(time.Duration)) {
		target := shiftedClock(t, "")
		return func() membership.Store { return openDB(t, target) }, func(by time.Duration) {
			// The servers' clocks are wrong from here on. Register requires that they
			// agree, so the last servers of a case register before.
			shiftClock(t, target, fmt.Sprintf("+ interval '%f seconds'", by.Seconds()))
		}
	})
}

// On a file that this process has locked, every other server counts as dead at
// once.
func TestFileReplicasExpireAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hostler.db")
	first := openURL(t, path)
	dead := register(t, first)
	term, err := first.Campaign(t.Context(), time.Now())
	require.NoError(t, err)
	require.NotZero(t, term)
	require.NoError(t, first.Close())

	second := openDB(t, path)
	register(t, second)
	expired, err := second.Expired(t.Context())
	require.NoError(t, err)
	require.Len(t, expired, 1)
	require.Equal(t, dead, expired[0])
	term, err = second.Campaign(t.Context(), time.Now())
	require.NoError(t, err)
	require.NotZero(t, term)
	r, err := second.Fence(t.Context(), dead.ID, time.Now())
	require.NoError(t, err)
	require.NoError(t, second.RemoveReplica(t.Context(), r))
	_, err = second.Renew(t.Context(), false)
	require.NoError(t, err)
}

// A server owns what it has begun until another one resumes it, on both
// databases.
func TestOwnedRecords(t *testing.T) {
	for name, dsn := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "hostler.db") },
		"postgres": func(t *testing.T) string { return postgrestest.Schema(t) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			db := openDB(t, dsn(t))
			storetest.PutWorkloads(t, db, "w")
			early := reservation("early")
			_, err := db.Reserve(ctx, early)
			require.ErrorIs(t, err, claim.ErrNoIdleContainer)
			r := register(t, db)
			late := reservation("late")
			_, err = db.Reserve(ctx, late)
			require.ErrorIs(t, err, claim.ErrNoIdleContainer)
			require.NoError(t, db.AddContainer(ctx, pool.Container{ID: "k", Workload: "w", Revision: "r", Claim: early.Claim}, 1))
			run := hooks.Run{ID: "run", Attempt: 1, Point: hooks.PostCreate, StartedAt: r.StartedAt}
			require.NoError(t, db.RunStarted(ctx, run))

			mine, err := db.OwnedBy(ctx, r.ID)
			require.NoError(t, err)
			require.Equal(t, store.OwnedRecords{
				Containers: []string{"k"}, Claims: []string{early.Claim, late.Claim}, Runs: []string{"run"},
			}, mine, "its own, and those without an owner")
			before, err := db.OwnedBy(ctx, "")
			require.NoError(t, err)
			require.Equal(t, store.OwnedRecords{Claims: []string{early.Claim}}, before,
				"creating a container for a claim does not change its owner")

			_, err = db.UpdateContainer(ctx, pool.Transition{ID: "k", From: []pool.State{pool.Creating}, To: pool.Idle})
			require.NoError(t, err)
			run.State = hooks.Succeeded
			require.NoError(t, db.RunEnded(ctx, run))
			mine, err = db.OwnedBy(ctx, r.ID)
			require.NoError(t, err)
			require.Equal(t, store.OwnedRecords{Claims: []string{early.Claim, late.Claim}}, mine)
		})
	}
}

// A server that exits is removed when it leaves no unfinished work, and
// otherwise taken over without waiting. Work of a removed server is found.
func TestDeregister(t *testing.T) {
	ctx := t.Context()
	target := postgrestest.Schema(t)
	first, second, third := openDB(t, target), openDB(t, target), openDB(t, target)
	idle, busy := register(t, first), register(t, second)
	register(t, third)
	late := reservation("late")
	_, err := second.Reserve(ctx, late)
	require.ErrorIs(t, err, claim.ErrNoIdleContainer)

	require.NoError(t, first.Deregister(ctx))
	require.NoError(t, second.Deregister(ctx))
	dead, err := third.Expired(ctx)
	require.NoError(t, err)
	require.Len(t, dead, 1)
	require.Equal(t, busy.ID, dead[0].ID)
	require.True(t, dead[0].HasLeft())
	require.ErrorIs(t, second.SetMeta(ctx, "k", "v"), membership.ErrFenced, "it is fenced from then on")
	_, err = third.Fence(ctx, idle.ID, time.Now())
	require.ErrorIs(t, err, membership.ErrReplicaNotFound)

	fenced, err := third.Fence(ctx, busy.ID, time.Now())
	require.NoError(t, err)
	require.NoError(t, third.RemoveReplica(ctx, fenced))
	nobodys, err := third.OwnedBy(ctx, "")
	require.NoError(t, err)
	require.Equal(t, []string{late.Claim}, nobodys.Claims)
	require.NoError(t, second.Deregister(ctx), "it was taken over")
}

// A server whose clock is far from the database's cannot register, because the
// others would always take over from it.
func TestClockSkewIsRefused(t *testing.T) {
	for skew, reason := range map[string]string{
		"- interval '4 seconds'": "", "+ interval '4 seconds'": "",
		// It is known for certain to be less by the time that the query took.
		"+ interval '60 seconds'": "this one is (1m0s|[345][0-9]s) behind", "- interval '60 seconds'": "this one is (1m0s|[345][0-9]s) ahead",
	} {
		_, err := openDB(t, shiftedClock(t, skew)).Register(t.Context(), "here")
		if reason == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, store.ErrClockSkew)
		require.Regexp(t, reason, err.Error())
	}
}

// shiftedClock returns the URL of an empty schema whose clock is shifted.
func shiftedClock(t *testing.T, by string) string {
	t.Helper()
	u, err := url.Parse(postgrestest.Schema(t))
	require.NoError(t, err)
	query := u.Query()
	// So objects in the schema take precedence over those of the system catalog.
	query.Set("search_path", query.Get("search_path")+",pg_catalog")
	u.RawQuery = query.Encode()
	shiftClock(t, u.String(), by)
	return u.String()
}

// shiftClock changes by how much the clock of such a schema is shifted.
func shiftClock(t *testing.T, target, by string) {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	schema, _, _ := strings.Cut(u.Query().Get("search_path"), ",")
	postgrestest.Exec(t, target, `CREATE OR REPLACE FUNCTION `+schema+`.clock_timestamp() RETURNS timestamptz
		LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() `+strings.ReplaceAll(by, "'", "''")+`'`)
}
