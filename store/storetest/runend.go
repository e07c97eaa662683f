package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// addRunningRun adds a running attempt.
func addRunningRun(t *testing.T, s Store, c, container string, n int) hooks.Run {
	t.Helper()
	r := newAttempt(newID(), n)
	r.Claim, r.Container, r.Tenant = c, container, ""
	require.NoError(t, s.RunStarted(t.Context(), r))
	return r
}

// endsAfter returns the runs whose ends the log has after a number.
func endsAfter(t *testing.T, s Store, after int64) map[string]int {
	t.Helper()
	ends := map[string]int{}
	for _, e := range events(t, s, activity.Filter{Types: []activity.Type{activity.HookFailed, activity.HookCompleted}}, after) {
		ends[e.Run]++
	}
	return ends
}

// requireUnknown checks that a run has ended as unknown, with a reason and one
// event, and that its end cannot be recorded again.
func requireUnknown(t *testing.T, s Store, r hooks.Run, after int64) {
	t.Helper()
	require.Equal(t, 1, endsAfter(t, s, after)[r.ID])
	require.NoError(t, s.RunEnded(t.Context(), endedRun(r, hooks.Succeeded, 0)))
	runs, err := s.Run(t.Context(), r.ID)
	require.NoError(t, err)
	require.Len(t, runs, 1)
	require.Equal(t, hooks.Unknown, runs[0].State)
	require.NotNil(t, runs[0].EndedAt)
	require.NotEmpty(t, runs[0].Error)
	require.Nil(t, runs[0].ExitCode)
	require.Equal(t, 1, endsAfter(t, s, after)[r.ID])
}

// Every end of a claim ends its running attempts, in the same transaction, and
// nothing else.
func runEndsWithClaim(t *testing.T, s Store) {
	destroying := destroyingTransition("") // the claim has the id
	for name, end := range map[string]func(id string) claim.Transition{
		"released": releasedTransition,
		"failed": func(id string) claim.Transition {
			return claim.Transition{
				ID: id, From: []claim.State{claim.Pending}, To: claim.Failed,
				Container: &destroying,
				Events:    []activity.Event{{Type: activity.ClaimFailed, Message: "failed"}},
			}
		},
	} {
		addIdleContainer(t, s, rev, "")
		c, err := s.Reserve(t.Context(), newReservation(name))
		require.NoError(t, err)
		other := addRunningRun(t, s, "", c.Container, 1) // of no claim: the claim's end must not end it
		first, second := addRunningRun(t, s, c.ID, c.Container, 1), addRunningRun(t, s, c.ID, c.Container, 2)
		done := addRunningRun(t, s, c.ID, c.Container, 1)
		require.NoError(t, s.RunEnded(t.Context(), endedRun(done, hooks.Succeeded, 0)))
		from := lastSeq(t, s)
		if name == "released" {
			mustUpdateClaim(t, s, activeTransition(c.ID))
			mustUpdateClaim(t, s, releasingTransition(c.ID))
			require.Empty(t, endsAfter(t, s, from), "the claim has not ended")
		}
		stays := end(c.ID)
		stays.If = func(claim.Claim) bool { return false }
		_, err = s.UpdateClaim(t.Context(), stays)
		require.ErrorIs(t, err, pool.ErrConflict)
		require.Empty(t, endsAfter(t, s, from), "nothing has changed")
		mustUpdateClaim(t, s, end(c.ID))
		require.Len(t, endsAfter(t, s, from), 2)
		requireUnknown(t, s, first, from)
		requireUnknown(t, s, second, from)
		runs := runningRuns(t, s)
		require.Len(t, runs, 1)
		require.NoError(t, s.RunEnded(t.Context(), endedRun(other, hooks.Succeeded, 0)))
	}
	requireLogMatchesRecords(t, s)
}

// The end of a container ends its running attempts.
func runEndsWithContainer(t *testing.T, s Store) {
	k := addContainer(t, s, rev)
	r := addRunningRun(t, s, "", k, 1)
	elsewhere := addRunningRun(t, s, "", addContainer(t, s, rev), 1)
	from := lastSeq(t, s)
	mustUpdateContainer(t, s, destroyingTransition(k))
	require.Empty(t, endsAfter(t, s, from), "it may still run")
	mustUpdateContainer(t, s, destroyedTransition(k))
	requireUnknown(t, s, r, from)
	runs := runningRuns(t, s)
	require.Equal(t, []hooks.Run{elsewhere}, runs)
}

// An attempt cannot start after its claim or container has ended, because no
// flow would end it.
func runAfterEnd(t *testing.T, s Store) {
	addIdleContainer(t, s, rev, "")
	c := addActiveClaim(t, s, "ann")
	mustUpdateClaim(t, s, releasingTransition(c.ID))
	mustUpdateClaim(t, s, releasedTransition(c.ID))
	from := lastSeq(t, s)
	r := newAttempt(newID(), 1)
	r.Claim, r.Container = c.ID, c.Container
	require.ErrorIs(t, s.RunStarted(t.Context(), r), pool.ErrConflict)
	alone := newAttempt(newID(), 1)
	alone.Claim, alone.Container = "unknown", "unknown"
	require.NoError(t, s.RunStarted(t.Context(), alone))
	require.ErrorIs(t, s.RunFollowed(t.Context(), endedRun(alone, hooks.Succeeded, 0), r), pool.ErrConflict)
	r.Claim = ""
	mustUpdateContainer(t, s, destroyingTransition(c.Container))
	mustUpdateContainer(t, s, destroyedTransition(c.Container))
	require.ErrorIs(t, s.RunStarted(t.Context(), r), pool.ErrConflict)
	require.Empty(t, endsAfter(t, s, from))
	runs, err := s.Run(t.Context(), r.ID)
	require.NoError(t, err)
	require.Empty(t, runs)
}

// Containers that are retained after a failed release leave room for as many
// others, up to the pool's bound, also while their release is retried.
func retainedCounts(t *testing.T, s Store) {
	ctx := t.Context()
	const max = 2
	fails := func(tenant string) claim.Claim {
		addIdleContainer(t, s, rev, "")
		r := newReservation(tenant)
		r.Reuse = workload.ReuseNever
		c, err := s.Reserve(ctx, r)
		require.NoError(t, err)
		mustUpdateClaim(t, s, activeTransition(c.ID))
		mustUpdateClaim(t, s, releasingTransition(c.ID))
		return mustUpdateClaim(t, s, claim.Transition{
			ID: c.ID, From: []claim.State{claim.Releasing}, To: claim.ReleaseFailed,
			Set: func(c *claim.Claim) { c.Failures++ },
		})
	}
	full := func(kept int) bool {
		n, err := s.Kept(ctx, web)
		require.NoError(t, err)
		require.Equal(t, kept, n)
		k := pool.Container{ID: newID(), Workload: web, Revision: rev}
		err = s.AddContainer(ctx, k, max)
		if err == nil {
			mustUpdateContainer(t, s, destroyingTransition(k.ID))
			mustUpdateContainer(t, s, destroyedTransition(k.ID))
			return false
		}
		require.ErrorIs(t, err, pool.ErrFull)
		return true
	}
	first := fails("a")
	fails("b")
	fails("c") // three of two: one counts
	require.False(t, full(3))
	addContainer(t, s, rev)
	require.True(t, full(3))
	other, err := s.Kept(ctx, "other")
	require.NoError(t, err)
	require.Zero(t, other)

	mustUpdateClaim(t, s, releasingTransition(first.ID))
	require.True(t, full(3), "its release is retried, and may fail again")
	mustUpdateClaim(t, s, releasedTransition(first.ID))
	require.True(t, full(2), "it is idle, and counts")
	mustUpdateContainer(t, s, destroyingTransition(first.Container))
	mustUpdateContainer(t, s, destroyedTransition(first.Container))
	require.False(t, full(2))
}
