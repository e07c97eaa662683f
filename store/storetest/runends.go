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

// begun is an attempt on record as running.
func begun(t *testing.T, s Store, c, container string, n int) hooks.Run {
	t.Helper()
	r := attempt(newID(), n)
	r.Claim, r.Container, r.Tenant = c, container, ""
	require.NoError(t, s.RunStarted(t.Context(), r))
	return r
}

// endsAfter are the runs whose ends the log tells of after a number.
func endsAfter(t *testing.T, s Store, after int64) map[string]int {
	t.Helper()
	ends := map[string]int{}
	for _, e := range events(t, s, activity.Filter{Types: []activity.Type{activity.HookFailed, activity.HookCompleted}}, after) {
		ends[e.Run]++
	}
	return ends
}

// unknown checks that a run has ended as unknown, with a reason and one event,
// and that its end cannot be told another time.
func unknown(t *testing.T, s Store, r hooks.Run, after int64) {
	t.Helper()
	require.Equal(t, 1, endsAfter(t, s, after)[r.ID])
	require.NoError(t, s.RunEnded(t.Context(), ended(r, hooks.Succeeded, 0)))
	runs, err := s.Run(t.Context(), r.ID)
	require.NoError(t, err)
	require.Len(t, runs, 1)
	require.Equal(t, hooks.Unknown, runs[0].State)
	require.NotNil(t, runs[0].EndedAt)
	require.NotEmpty(t, runs[0].Error)
	require.Nil(t, runs[0].ExitCode)
	require.Equal(t, 1, endsAfter(t, s, after)[r.ID])
}

// Whatever ends a claim ends what is on record as running for it, in the same
// transaction, and nothing else.
func runEndsWithClaim(t *testing.T, s Store) {
	condemned := condemn("") // the claim knows which
	for name, end := range map[string]func(id string) claim.Move{
		"released": release,
		"failed": func(id string) claim.Move {
			return claim.Move{
				ID: id, From: []claim.State{claim.Pending}, To: claim.Failed,
				Container: &condemned,
				Events:    []activity.Event{{Type: activity.ClaimFailed, Message: "failed"}},
			}
		},
	} {
		idle(t, s, rev, "")
		c, err := s.Reserve(t.Context(), wish(name))
		require.NoError(t, err)
		other := begun(t, s, "", c.Container, 1) // of no claim: it is not this one's to end
		first, second := begun(t, s, c.ID, c.Container, 1), begun(t, s, c.ID, c.Container, 2)
		done := begun(t, s, c.ID, c.Container, 1)
		require.NoError(t, s.RunEnded(t.Context(), ended(done, hooks.Succeeded, 0)))
		from := last(t, s)
		if name == "released" {
			move(t, s, activate(c.ID))
			move(t, s, releasing(c.ID))
			require.Empty(t, endsAfter(t, s, from), "the claim has not ended")
		}
		stays := end(c.ID)
		stays.If = func(claim.Claim) bool { return false }
		_, err = s.MoveClaim(t.Context(), stays)
		require.ErrorIs(t, err, pool.ErrMoved)
		require.Empty(t, endsAfter(t, s, from), "nothing has changed")
		move(t, s, end(c.ID))
		require.Len(t, endsAfter(t, s, from), 2)
		unknown(t, s, first, from)
		unknown(t, s, second, from)
		runs, err := s.UnfinishedRuns(t.Context())
		require.NoError(t, err)
		require.Len(t, runs, 1)
		require.NoError(t, s.RunEnded(t.Context(), ended(other, hooks.Succeeded, 0)))
	}
	agree(t, s)
}

// Whoever buries a container ends what is on record as running in it.
func runEndsWithContainer(t *testing.T, s Store) {
	k := add(t, s, rev)
	r := begun(t, s, "", k, 1)
	elsewhere := begun(t, s, "", add(t, s, rev), 1)
	from := last(t, s)
	shift(t, s, condemn(k))
	require.Empty(t, endsAfter(t, s, from), "it may still run")
	shift(t, s, bury(k))
	unknown(t, s, r, from)
	runs, err := s.UnfinishedRuns(t.Context())
	require.NoError(t, err)
	require.Equal(t, []hooks.Run{elsewhere}, runs)
}

// An attempt that would begin after the end of what it is for has no end, and
// so no start.
func runTooLate(t *testing.T, s Store) {
	idle(t, s, rev, "")
	c := claimed(t, s, "ann")
	move(t, s, releasing(c.ID))
	move(t, s, release(c.ID))
	from := last(t, s)
	r := attempt(newID(), 1)
	r.Claim, r.Container = c.ID, c.Container
	require.ErrorIs(t, s.RunStarted(t.Context(), r), pool.ErrMoved)
	r.Claim = ""
	shift(t, s, condemn(c.Container))
	shift(t, s, bury(c.Container))
	require.ErrorIs(t, s.RunStarted(t.Context(), r), pool.ErrMoved)
	require.Empty(t, endsAfter(t, s, from))
	runs, err := s.Run(t.Context(), r.ID)
	require.NoError(t, err)
	require.Empty(t, runs)
}

// Containers that hold what could not be kept leave room for as many others,
// up to the pool's bound, also while their release is tried again.
func keptCounts(t *testing.T, s Store) {
	ctx := t.Context()
	const max = 2
	fails := func(tenant string) claim.Claim {
		idle(t, s, rev, "")
		r := wish(tenant)
		r.Reuse = workload.ReuseNever
		c, err := s.Reserve(ctx, r)
		require.NoError(t, err)
		move(t, s, activate(c.ID))
		move(t, s, releasing(c.ID))
		return move(t, s, claim.Move{
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
			shift(t, s, condemn(k.ID))
			shift(t, s, bury(k.ID))
			return false
		}
		require.ErrorIs(t, err, pool.ErrFull)
		return true
	}
	first := fails("a")
	fails("b")
	fails("c") // three of two: one counts
	require.False(t, full(3))
	add(t, s, rev)
	require.True(t, full(3))
	other, err := s.Kept(ctx, "other")
	require.NoError(t, err)
	require.Zero(t, other)

	move(t, s, releasing(first.ID))
	require.True(t, full(3), "its release is tried again, and may fail again")
	move(t, s, release(first.ID))
	require.True(t, full(2), "it is idle, and counts")
	shift(t, s, condemn(first.Container))
	shift(t, s, bury(first.Container))
	require.False(t, full(2))
}
