package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/store"
)

// A reader whose cursor points to removed events gets the oldest remaining
// number, and numbers are never reused.
func pruneLog(t *testing.T, s Store) {
	ctx := t.Context()
	addEvents(t, s, 1200)
	cut := time.Now()
	require.NoError(t, s.Append(ctx,
		activity.Event{Type: activity.PoolWarning, Message: "young"},
		activity.Event{Type: activity.PoolWarning, Message: "youngest"}))
	p, err := s.Prune(ctx, store.Retention{Before: cut})
	require.NoError(t, err)
	require.EqualValues(t, 1200, p.Events)

	for after, want := range map[int64]int64{0: 1201, 1199: 1201, 1200: 0, 1201: 0, 1202: 0} {
		page, err := s.Events(ctx, activity.Filter{}, after, 0)
		require.NoError(t, err)
		require.Equal(t, want, page.OldestSeq, "after %d", after)
		require.EqualValues(t, 1202, page.Next)
		require.Len(t, page.Items, int(1202-max(after, 1200)))
	}
	p, err = s.Prune(ctx, store.Retention{Before: cut, Events: 1})
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Events, "only the newest one stays")

	p, err = s.Prune(ctx, store.Retention{Before: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Events)
	require.NoError(t, s.Append(ctx, activity.Event{Type: activity.PoolWarning, Message: "next"}))
	page, err := s.Events(ctx, activity.Filter{}, 0, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1203, page.Items[0].Seq)
	require.EqualValues(t, 1203, page.OldestSeq)
}

// Retention removes ended records, and nothing that may still be needed.
func pruneRecords(t *testing.T, s Store) {
	ctx := t.Context()
	future := store.Retention{Before: time.Now().Add(time.Hour)}
	for _, revision := range []string{oldRev, rev} {
		putWorkload(t, s, pool.Record{ID: web, Revision: revision, Source: []byte("s")})
	}
	outdated := addContainer(t, s, oldRev)
	addIdleContainer(t, s, rev, "")
	c := addActiveClaim(t, s, "ann")
	r := newAttempt("x", 1)
	r.Claim, r.Container = c.ID, c.Container
	require.NoError(t, s.RunStarted(ctx, r))
	unfinished := newAttempt("y", 1)
	require.NoError(t, s.RunStarted(ctx, unfinished))

	p, err := s.Prune(ctx, future)
	require.NoError(t, err)
	require.Equal(t, store.Pruned{Events: p.Events}, p, "all of it is in use")
	require.NoError(t, s.RunEnded(ctx, endedRun(r, hooks.Succeeded, 0)))
	mustUpdateContainer(t, s, destroyingTransition(outdated))
	p, err = s.Prune(ctx, future)
	require.NoError(t, err)
	require.Equal(t, store.Pruned{Events: p.Events}, p, "the run belongs to a live claim")

	mustUpdateContainer(t, s, destroyedTransition(outdated))
	mustUpdateClaim(t, s, releasingTransition(c.ID))
	mustUpdateClaim(t, s, releasedTransition(c.ID))
	mustUpdateContainer(t, s, destroyingTransition(c.Container))
	mustUpdateContainer(t, s, destroyedTransition(c.Container))
	p, err = s.Prune(ctx, store.Retention{Before: time.Now().Add(-time.Hour)})
	require.NoError(t, err)
	require.Equal(t, store.Pruned{Runs: 1}, p, "only the run ended before the limit")
	p, err = s.Prune(ctx, future)
	require.NoError(t, err)
	require.Equal(t, store.Pruned{Events: p.Events, Containers: 2, Claims: 1, Revisions: 1}, p)

	_, err = s.Revision(ctx, web, rev)
	require.NoError(t, err, "the current one")
	runs := runningRuns(t, s)
	require.Equal(t, []hooks.Run{unfinished}, runs)
}
