package claim_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// containerRecord returns the record of a container.
func containerRecord(h *flowtest.Harness, id string) pool.Container {
	h.T.Helper()
	k, err := h.Pools.Container(h.T.Context(), id)
	require.NoError(h.T, err)
	return k
}

// A container is destroyed once a step that modifies it has started, even if
// the engine is unavailable. Only an unmodified container returns to the pool.
func TestInterruptedStepDestroysContainer(t *testing.T) {
	for call, source := range map[string]string{
		"wipe":    smallWorkload(1),
		"restart": flowtest.Edit(smallWorkload(1), "reuse: wipe }", "reuse: same_tenant }\nrestart: always"),
	} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(source)
				first := h.Claim("w", "ada")
				h.Release(first)
				h.RT.BreakOnce(call+" "+first.Container, runtime.ErrUnavailable)
				tenant := map[string]string{"wipe": "bob", "restart": "ada"}[call]
				next := h.Claim("w", tenant)
				require.NotEqual(t, first.Container, next.Container)
				require.Contains(t, containerRecord(h, first.Container).Reason, "unusable")
				require.NotEqual(t, pool.Idle, containerRecord(h, first.Container).State)
			})
		})
	}
}

// A fresh container that returns to the pool unused is available to any tenant.
func TestReturnedContainerIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "min_idle: 0", "min_idle: 1"))
		h.AwaitIdle("w", 1)
		h.Bucket.Before(func(snapshottest.Call) error { return errors.New("sink unavailable") })
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorContains(t, err, "sink unavailable")
		h.Bucket.ClearFailures()
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		require.Len(t, idle, 1)
		require.Empty(t, idle[0].Tenant)
		require.Empty(t, idle[0].Claim)
		bob := h.Claim("w", "bob")
		require.Equal(t, idle[0].ID, bob.Container)
		require.Equal(t, claim.Fresh, bob.Source)
	})
}

// A claim tries at most three containers.
func TestClaimTriesAtMostThreeContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(smallWorkload(2) + "restart: always\n")
		tried := map[string]bool{}
		h.RT.Before("restart", func(_ context.Context, call fake.Call) error {
			tried[call.ID] = true
			return runtime.ErrContainerExited
		})
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorIs(t, err, runtime.ErrContainerExited)
		require.Len(t, tried, 3)
	})
}

// A container that was seeded for one snapshot does not get another one that
// became current since: files that the seed omitted for the first may be
// missing in the second.
func TestSnapshotChangedAfterSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSeeded(t, seededFile)
		ada := h.Claim("w", "ada")
		h.Release(ada) // with sessions/example
		ada = h.Claim("w", "ada")
		execTestprog(h, ada, "remove", "/data/sessions/example")
		h.Release(ada)
		h.Release(h.Claim("w", "bob")) // the container is not ada's last one anymore
		w, _, err := h.Pools.Catalog.Current(t.Context(), "w")
		require.NoError(t, err)
		sink, owner := snapshot.New(h.Bucket, w.Sync), snapshot.Owner{Workload: "w", Tenant: "ada"}
		list, err := sink.List(t.Context(), owner)
		require.NoError(t, err)
		require.Len(t, list, 2)
		restore := sync.OnceValue(func() error {
			_, err := sink.Restore(t.Context(), owner, list[1].ID)
			return err
		})
		h.RT.Before("put", func(context.Context, fake.Call) error { return restore() })
		ada = h.Claim("w", "ada")
		require.Equal(t, [4]string{"seed", "seed", "seed", "seed"}, readFiles(h, ada))
		events := h.Events(activity.ContainerDestroying)
		require.Len(t, events, 1)
		require.Contains(t, events[0].Message, "after the container was seeded")
	})
}
