package pool_test

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// A pre_destroy hook that runs in a claimed container when its server is killed
// is continued by the next one: it has all of its time, and its outcome is on
// record.
func TestForcedHookContinuesAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(forcedYAML, "[box, echo, d]", "[box, echo, d], timeout: 1m"))
		c := h.Claim("w", "ada")
		wait := leaveRunning(h, c.Container, hooks.PreDestroy, "idle")
		_, err := h.DB.UpdateContainer(t.Context(), pool.Note(c.Container, pool.Claimed, func(k *pool.Container) {
			k.Forced, k.Health, k.Reason = pool.ForcedAfterHooks, pool.Exited, "forced"
		}))
		require.NoError(t, err)
		begin := time.Now()
		h.RestartUnfinished()
		awaitRemoved(h, c.Container)
		require.NoError(t, wait(), "it has ended before the container")
		require.GreaterOrEqual(t, time.Since(begin), time.Minute)
		require.Equal(t, "first timed_out, notify skipped", states(h, hooks.PreDestroy))
	})
}

// A container whose destruction is forced does not return to the pool when its
// claim gives it up: the destruction would be forgotten, or hit the next claim.
func TestForcedContainerDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(forcedYAML, "min_idle: 0", "min_idle: 1") + "volumes: { state: { target: /data } }\nsync: { sink: { type: file } }\n")
		h.AwaitIdle("w", 1)
		var id string
		h.Bucket.Before(func(snapshottest.Call) error {
			claimed, err := h.DB.Containers(t.Context(), pool.ContainerFilter{States: []pool.State{pool.Claimed}})
			if err == nil && id == "" {
				id = claimed[0].ID
				err = h.Pools.DestroyContainer(t.Context(), id, true)
			}
			return errors.Join(err, errors.New("sink unavailable"))
		})
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.Error(t, err)
		h.Bucket.ClearFailures()
		require.Empty(t, h.Events(activity.ContainerReleased))
		for _, tenant := range []string{"bob", "eve"} {
			require.NotEqual(t, id, h.Claim("w", tenant).Container)
		}
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, pool.Destroyed, containerOf(h, id).State, "%+v", containerOf(h, id))
		require.Equal(t, "first succeeded, notify succeeded", states(h, hooks.PreDestroy))
	})
}

// A server knows whose hooks are ended by force before it continues the flows of an
// earlier one: the end of such a hook is not a failure of its own.
func TestRecoverEndsForcedHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(forcedYAML)
		c := h.Claim("w", "ada")
		h.RT.Break("destroy", runtime.ErrUnavailable)
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), c.Container, true))
		hookRunner := flowtest.HookRunner(h.RT, h.DB, nil)
		pools := pool.New(h.DB, h.RT, hookRunner, nil, slog.New(slog.DiscardHandler))
		w, _, err := pools.Catalog.Current(t.Context(), "w")
		require.NoError(t, err)
		require.NoError(t, pools.Recover(t.Context(), nil))
		_, err = hookRunner.Fire(t.Context(), hooks.PostClaim, w, runner.Subject{Workload: "w", Container: c.Container, Claim: c.ID, Tenant: "ada"})
		require.ErrorContains(t, err, "by force")
	})
}
