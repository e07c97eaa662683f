package claim_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// callTimeout is how long an unresponsive container blocks one call,
// taintTimeout how long it may be unresponsive, as in the backends' sessions.
const (
	callTimeout  = 15 * time.Second
	taintTimeout = 2 * time.Minute
)

// makeUnresponsive makes a container unresponsive from now on, while the engine
// reports it as running: each call takes callTimeout, and after taintTimeout
// the container is tainted. An empty ID means every container.
func makeUnresponsive(h *flowtest.Harness, id string) {
	h.T.Helper()
	var since atomic.Pointer[time.Time]
	unresponsive := func(ctx context.Context, call fake.Call) error {
		if id != "" && call.ID != id {
			return nil
		}
		start := time.Now()
		since.CompareAndSwap(nil, &start)
		if time.Since(*since.Load()) < taintTimeout {
			select {
			case <-time.After(callTimeout):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if time.Since(*since.Load()) >= taintTimeout {
			return runtime.ErrTainted
		}
		return runtime.ErrUnresponsive
	}
	for _, op := range []string{"exec", "outcome", "restart", "stop", "wipe", "baseline", "changed"} {
		h.RT.Before(op, unresponsive)
	}
}

// longestIdle returns the container that a claim gets first.
func longestIdle(h *flowtest.Harness) pool.Container {
	h.T.Helper()
	idle, err := h.Pools.Containers(h.T.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
	require.NoError(h.T, err)
	first := idle[0]
	for _, c := range idle {
		if c.ChangedAt.Before(first.ChangedAt) {
			first = c
		}
	}
	return first
}

// A claim skips an unresponsive container and takes another one. The skipped
// one is unmodified, so it returns to the pool behind all others. When it has
// been unresponsive for too long, it is destroyed.
func TestUnresponsiveContainerIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "min_idle: 1, max_size: 2", "min_idle: 2, max_size: 4", "retries: 1", "retries: 3"))
		h.AwaitIdle("w", 2)
		unresponsive := longestIdle(h)
		makeUnresponsive(h, unresponsive.ID)
		<-time.After(11 * time.Second) // a check is due
		start := time.Now()
		c := h.Claim("w", "ada")
		require.NotEqual(t, unresponsive.ID, c.Container)
		require.LessOrEqual(t, time.Since(start), callTimeout)
		k, err := h.Pools.Container(t.Context(), unresponsive.ID)
		require.NoError(t, err)
		require.Equal(t, pool.Idle, k.State)
		require.Empty(t, k.Tenant)
		require.True(t, k.ChangedAt.After(unresponsive.ChangedAt), "it moved behind the others")
		h.Until("it to be destroyed", func() bool {
			k, err = h.Pools.Container(t.Context(), unresponsive.ID)
			require.NoError(t, err)
			return k.State == pool.Destroyed
		})
		require.Less(t, time.Since(start), 2*taintTimeout)
		h.AwaitIdle("w", 2)
	})
}

// When every container is unresponsive, a claim fails before the deadline with
// that error. Containers that are unresponsive for too long are replaced.
func TestAllContainersUnresponsive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "min_idle: 1, max_size: 2", "min_idle: 2, max_size: 2"))
		h.AwaitIdle("w", 2)
		<-time.After(5 * time.Second)
		makeUnresponsive(h, "")
		<-time.After(6 * time.Second)
		start := time.Now()
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorIs(t, err, runtime.ErrUnresponsive)
		require.LessOrEqual(t, time.Since(start), 3*callTimeout)
		require.Equal(t, 2, h.Count("w", pool.Idle))
	})
}

// A tenant's own unresponsive container keeps its files until it is tainted:
// the tenant gets the error at once, and later another container.
func TestUnresponsiveAffinityContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: same_tenant", "retries: 1", "retries: 100"))
		c := h.Claim("w", "ada")
		h.Release(c)
		makeUnresponsive(h, c.Container)
		<-time.After(11 * time.Second)
		start := time.Now()
		for {
			requestStart := time.Now()
			again, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
			if err == nil {
				require.NotEqual(t, c.Container, again.Container)
				break
			}
			require.ErrorIs(t, err, runtime.ErrUnresponsive)
			require.LessOrEqual(t, time.Since(requestStart), callTimeout)
			k, err := h.Pools.Container(t.Context(), c.Container)
			require.NoError(t, err)
			require.Equal(t, pool.Idle, k.State)
			require.Equal(t, "ada", k.Tenant)
			<-time.After(10 * time.Second)
		}
		require.LessOrEqual(t, time.Since(start), taintTimeout+2*callTimeout)
	})
}

// A container that becomes unresponsive after its tenant's hook has started is
// destroyed within the hook's timeout, and the claim fails.
func TestUnresponsiveDuringHook(t *testing.T) {
	for _, timeout := range []time.Duration{30 * time.Second, 5 * time.Minute} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(flowtest.Edit(hookedWorkload, "migrated] }", "migrated], timeout: "+timeout.String()+" }"))
				h.AwaitIdle("w", 1)
				unresponsive := longestIdle(h)
				makeUnresponsive(h, unresponsive.ID)
				start := time.Now()
				_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
				failed, ok := errors.AsType[*claim.FailedError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, unresponsive.ID, failed.Claim.Container)
				require.LessOrEqual(t, time.Since(start), min(timeout, taintTimeout)+2*callTimeout)
				h.Until("it to be destroyed", func() bool {
					k, err := h.Pools.Container(t.Context(), unresponsive.ID)
					require.NoError(t, err)
					return k.State == pool.Destroyed
				})
			})
		})
	}
}
