package pool_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime/fake"
)

// killIdle kills the idle containers of a pool, as an operator does with the engine.
func killIdle(t *testing.T, h *flowtest.Harness) {
	t.Helper()
	idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
	require.NoError(t, err)
	for _, c := range idle {
		h.RT.Kill(c.ID)
	}
}

// Idle containers that are killed soon after their creation, all of a pool at
// once, are replaced: no creation has failed, and a claim waits for a replacement.
func TestLostIdleContainersAreNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(poolYAML(3, 3))
		h.AwaitIdle("w", 3)
		<-time.After(time.Second)
		h.RT.Before("create", func(context.Context, fake.Call) error { <-time.After(5 * time.Second); return nil })
		killIdle(t, h)
		h.Until("the exits to be recorded", func() bool { return len(h.Events(activity.ContainerDied)) == 3 })
		status, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Zero(t, status.Fill.Failures)
		_, _, err = h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.NoError(t, err)
		require.Empty(t, h.Events(activity.PoolWarning))
	})
}

// If the replacement exits as early, that is a failure; containers that are killed
// one at a time, each after it was stable, are none.
func TestEarlyExitOfReplacementIsAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		stable   time.Duration
		failures int
	}{
		"early":  {time.Minute, 2},
		"stable": {3 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(poolYAML(1, 1))
				for i := range 3 {
					h.AwaitIdle("w", 1)
					<-time.After(c.stable)
					killIdle(t, h)
					h.Until("the exit to be recorded", func() bool { return len(h.Events(activity.ContainerDied)) == i+1 })
					synctest.Wait()
				}
				require.Len(t, h.Events(activity.PoolWarning), c.failures)
			})
		})
	}
}

// While the creation after a failed one is in progress, a claim waits for it, and
// one that does not wait is refused with that reason. Once many have failed in a
// row, both are refused at once.
func TestClaimDuringCreationAfterFailure(t *testing.T) {
	for name, c := range map[string]struct {
		failures int
		want     claim.UnavailableReason
	}{
		"one failure":   {1, claim.NotReady},
		"many failures": {5, claim.FillFailing},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				calls, unblocked := 0, make(chan struct{})
				h.RT.Before("create", func(context.Context, fake.Call) error {
					if calls++; calls <= c.failures {
						return errors.New("a hiccup")
					}
					<-unblocked
					return nil
				})
				h.Apply(poolYAML(1, 1))
				h.Until("the next creation", func() bool { return len(h.Events(activity.ContainerCreating)) == c.failures+1 })
				synctest.Wait()
				_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "bob", NoWait: true})
				u, ok := errors.AsType[*claim.UnavailableError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, c.want, u.Reason)
				require.Contains(t, u.Detail, "a hiccup")

				time.AfterFunc(10*time.Second, func() { close(unblocked) })
				start := time.Now()
				_, _, err = h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
				if c.want == claim.FillFailing {
					require.ErrorAs(t, err, &u)
					require.Zero(t, time.Since(start))
					<-unblocked
					return
				}
				require.NoError(t, err)
				require.Equal(t, 10*time.Second, time.Since(start))
			})
		})
	}
}
