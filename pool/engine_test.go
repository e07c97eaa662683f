package pool_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

const engineWorkload = `
id: w
image: box
command: [box, idle]
pool: { min_idle: 1, max_size: 3, reuse: never }
`

// hangEngine has each call of the engine hang until its context ends, or until the
// returned function is called: from the first call of an operation on, "" for any.
func hangEngine(h *flowtest.Harness, from string) (continues func()) {
	hung := make(chan struct{})
	var begun atomic.Bool
	repair := h.RT.Before("", func(ctx context.Context, call fake.Call) error {
		if from == "" || call.Op == from {
			begun.Store(true)
		}
		if !begun.Load() {
			return nil
		}
		select {
		case <-hung:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return func() { repair(); close(hung) }
}

// While the engine hangs, a claim ends with that reason when its wait has passed, an idle
// container is not given out, and a claim without a wait fails at once. The tenant's
// own claim is shown. When the engine responds again, a claim that waits gets the
// container.
func TestEngineHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(engineWorkload)
		held := h.Claim("w", "ada")
		h.AwaitIdle("w", 1)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.Pools.Engine.Run(ctx) }()
		synctest.Wait()
		require.NoError(t, h.Pools.Engine.Err())
		continues := hangEngine(h, "")
		<-time.After(5 * time.Second)
		require.ErrorIs(t, h.Pools.Engine.Err(), runtime.ErrUnavailable, "it is logged by then")
		require.ErrorIs(t, h.Pools.Engine.Probe(t.Context()), runtime.ErrUnavailable)
		<-time.After(5 * time.Second)
		require.ErrorIs(t, h.Pools.Engine.Down(), runtime.ErrUnavailable)

		for _, r := range []claim.Request{{Wait: 5 * time.Second}, {}, {NoWait: true}} {
			r.Workload, r.Tenant = "w", "bob"
			begun := time.Now()
			_, _, err := h.Claims.Claim(t.Context(), r)
			require.ErrorIs(t, err, runtime.ErrUnavailable)
			require.Equal(t, r.Wait, time.Since(begun))
		}
		again, created, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", NoWait: true})
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, held.ID, again.ID)

		got := make(chan error)
		go func() {
			_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "eve", Wait: time.Minute})
			got <- err
		}()
		<-time.After(10 * time.Second)
		continues()
		require.NoError(t, <-got)
		require.NoError(t, h.Pools.Engine.Err())
		stop()
		require.NoError(t, <-ended)
	})
}

// A claim that has begun its work ends when the engine hangs, once its wait has passed.
func TestEngineHangsDuringClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(engineWorkload, "command:", "hooks: { post_claim: [{ name: h, command: [box, echo, hi] }] }\ncommand:"))
		h.AwaitIdle("w", 1)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.Pools.Engine.Run(ctx) }()
		synctest.Wait()
		continues := hangEngine(h, "exec")
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", Wait: 5 * time.Second})
		failed := new(claim.FailedError)
		require.ErrorAs(t, err, &failed)
		require.ErrorIs(t, failed.Err, runtime.ErrUnavailable)
		require.Equal(t, "post_claim", failed.Step)
		continues()
		stop()
		require.NoError(t, <-ended)
	})
}
