package release_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
)

// The hook run of a terminated server is left to the flow that resumes it, and
// ended when there is none: post_claim resumes only for a pending claim,
// pre_release only for a releasing one, pre_destroy only for a container that
// is being destroyed.
func TestTakeOverResumesHookRuns(t *testing.T) {
	h := flowtest.NewStopped(t)
	revision := h.Apply(hookedWorkload).Record.Revision
	ctx := t.Context()
	// The runs are started before the claims and containers change state.
	claimOf := func(state claim.State) (string, string, func()) {
		id := "claim-" + string(state)
		require.NoError(t, h.DB.AddContainer(ctx, pool.Container{ID: "of-" + id, Workload: "w", Revision: revision, State: pool.Creating}, 100))
		_, err := h.DB.UpdateContainer(ctx, pool.Transition{ID: "of-" + id, From: []pool.State{pool.Creating}, To: pool.Idle, Set: func(c *pool.Container) { c.Health = pool.Healthy }})
		require.NoError(t, err)
		c, err := h.DB.Reserve(ctx, claim.Reservation{Claim: id, Workload: "w", Tenant: string(state), Revision: revision})
		require.NoError(t, err)
		return id, c.Container, func() {
			from := claim.Pending
			for _, to := range map[claim.State][]claim.State{
				claim.Pending: {}, claim.Active: {claim.Active}, claim.Releasing: {claim.Active, claim.Releasing},
				claim.ReleaseFailed: {claim.Active, claim.Releasing, claim.ReleaseFailed},
				claim.Released:      {claim.Active, claim.Releasing, claim.Released}, claim.Failed: {claim.Failed},
			}[state] {
				_, err := h.DB.UpdateClaim(ctx, claim.Transition{ID: id, From: []claim.State{from}, To: to})
				require.NoError(t, err)
				from = to
			}
			require.Equal(t, state, from)
		}
	}
	containerIn := func(state pool.State) (string, func()) {
		id := "box-" + string(state)
		require.NoError(t, h.DB.AddContainer(ctx, pool.Container{ID: id, Workload: "w", Revision: revision, State: pool.Creating}, 100))
		return id, func() {
			if state == pool.Destroyed {
				_, err := h.DB.UpdateContainer(ctx, pool.BeginDestroy(id, []pool.State{pool.Creating}, "test"))
				require.NoError(t, err)
			}
			_, err := h.DB.UpdateContainer(ctx, pool.Transition{ID: id, From: []pool.State{pool.Creating, pool.Destroying}, To: state})
			require.NoError(t, err)
		}
	}
	resumed := []string{"post_claim pending", "pre_release releasing", "pre_destroy destroying", "pre_destroy of another server"}
	var ids []string
	startRun := func(p hooks.Point, what, claim, container string) {
		id := fmt.Sprintf("%s %s", p, what)
		ids = append(ids, id)
		require.NoError(t, h.DB.RunStarted(ctx, hooks.Run{
			ID: id, Attempt: 1, Point: p, Hook: "h", Kind: hooks.KindCommand, Workload: "w",
			Claim: claim, Container: container, State: hooks.Running, StartedAt: time.Now(),
		}))
	}
	startTest := func(state claim.State, claim, container string) {
		run := hooks.Run{
			ID: "test " + string(state), Attempt: 1, Point: hooks.PostClaim, Hook: "h", Kind: hooks.KindCommand, Workload: "w",
			Claim: claim, Container: container, State: hooks.Running, StartedAt: time.Now(),
		}
		ids = append(ids, run.ID)
		require.NoError(t, h.DB.RunStarted(ctx, run.AsTest()))
	}
	for _, state := range claim.States() {
		id, container, move := claimOf(state)
		startTest(state, id, container)
		startRun(hooks.PostClaim, string(state), id, container)
		startRun(hooks.PreRelease, string(state), id, container)
		move()
	}
	for _, state := range []pool.State{pool.Creating, pool.Idle, pool.Destroying, pool.Destroyed} {
		id, move := containerIn(state)
		startRun(hooks.PostCreate, string(state), "", id)
		startRun(hooks.PreDestroy, string(state), "", id)
		move()
	}
	startRun(hooks.PostClaim, "of none", "none", "none")
	startRun(hooks.PreRelease, "of none", "none", "none")
	startRun(hooks.PreDestroy, "of none", "", "none")
	startRun(hooks.PreDestroy, "of another server", "", "none")

	require.NoError(t, h.Releases.TakeOver(ctx, nil, ids[:len(ids)-1]))
	runs, err := h.DB.Runs(ctx, hooks.RunFilter{})
	require.NoError(t, err)
	require.Len(t, runs, len(ids))
	for _, run := range runs {
		want := hooks.Unknown
		if slices.Contains(resumed, run.ID) {
			want = hooks.Running
		}
		require.Equal(t, want, run.State, run.ID)
	}
}

// halfTakenOver is a store in which this server can take over one claim only.
type halfTakenOver struct{ claim.Store }

func (halfTakenOver) UpdateClaim(_ context.Context, m claim.Transition) (claim.Claim, error) {
	if m.ID == "second" {
		return claim.Claim{}, errors.New("database unavailable")
	}
	return claim.Claim{ID: m.ID}, nil
}

// The releases that were taken over before an error are completed: they are not taken
// over again.
func TestTakeOverAfterError(t *testing.T) {
	h := flowtest.NewStopped(t)
	releases := release.NewService(halfTakenOver{}, h.Claims, h.Pools, h.RT, nil, slog.New(slog.DiscardHandler))
	require.Error(t, releases.TakeOver(t.Context(), []string{"first", "second"}, nil))
	require.Len(t, releases.Interrupted(), 1)
}
