package pool_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/workload"
)

// A plan is what applying does: its record, and the containers that it replaces,
// by the rule of the pool. It changes nothing.
func TestPlanIsWhatApplyDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		plan := func(source string) (pool.Applied, pool.Plan) {
			applied, p, err := h.Pools.Plan(t.Context(), []byte(source), "w.yaml", "")
			require.NoError(t, err)
			return applied, p
		}
		first := poolYAML(2, 8)
		planned, p := plan(first)
		require.True(t, planned.Created)
		require.Empty(t, p.PreviousRevision)
		require.Empty(t, p.Replaced)
		_, err := h.Pools.Workload(t.Context(), "w")
		require.ErrorIs(t, err, pool.ErrWorkloadNotFound)

		h.Apply(first)
		h.AwaitIdle("w", 2)
		h.Claim("w", "ada")
		h.AwaitIdle("w", 2)
		events := len(h.Events())

		planned, p = plan(first)
		require.False(t, planned.Changed)
		require.Empty(t, p.Changes)
		require.Empty(t, p.Replaced)
		_, p = plan(poolYAML(3, 8))
		require.Empty(t, p.Revised)
		require.Empty(t, p.Replaced, "the pool is no part of the revision")

		second := strings.Replace(first, "idle]", "idle, now]", 1)
		planned, p = plan(second)
		require.True(t, planned.Changed)
		require.Equal(t, []string{"command"}, p.Revised)
		require.Equal(t, "command[2]", p.Changes[0].Field)
		require.Equal(t, []pool.Replaced{{Reason: "its revision is outdated", Idle: 2, Claimed: 1}}, p.Replaced)
		require.Len(t, h.Events(), events, "nothing was changed")

		_, unblock := h.RT.Block("create *") // nothing is replaced before the pool is read
		defer unblock()
		applied := h.Apply(second)
		require.Equal(t, planned.Record.Revision, applied.Record.Revision)
		status, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, p.Replaced[0].Idle+p.Replaced[0].Claimed, status.Outdated)

		_, _, err = h.Pools.Plan(t.Context(), []byte("id: w\nimage: box\nhooks_from: none\n"), "w.yaml", "")
		require.ErrorAs(t, err, new(workload.ValidationErrors), "what Apply rejects")
	})
}
