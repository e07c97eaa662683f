package pool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// failPending ends a pending claim as another server does on a release: the
// server that creates the claim is not notified.
func failPending(h *flowtest.Harness, c claim.Claim) {
	h.T.Helper()
	destroy := pool.BeginDestroy("", []pool.State{pool.Claimed}, "its claim was released")
	_, err := h.DB.UpdateClaim(h.T.Context(), claim.Transition{
		ID: c.ID, From: []claim.State{claim.Pending}, To: claim.Failed, Container: &destroy,
	})
	require.NoError(h.T, err)
	h.Pools.Wake(c.Workload)
}

// Only one point runs in a container at a time: pre_destroy waits for the hook
// of a claim that was ended while another server created it. It also waits while
// the engine is unavailable.
func TestPreDestroyWaitsForOtherHooks(t *testing.T) {
	for name, tt := range map[string]struct {
		waitErr error // of WaitResult, for the first ten minutes
		after   time.Duration
	}{
		"hook ends":          {nil, time.Minute},
		"engine unavailable": {runtime.ErrUnavailable, 10 * time.Minute},
		"run unknown":        {runtime.ErrUnknownRun, 0},
		"container exited":   {runtime.ErrContainerExited, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(basicYAML + `hooks:
  post_claim: [{ command: [box, echo, first] }, { command: [sleep, 60s], timeout: 2m }]
  pre_destroy: [{ command: [box, echo, bye] }]
`)
				h.AwaitIdle("w", 2)
				claimErr := make(chan error, 1)
				go func() {
					_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
					claimErr <- err
				}()
				h.Until("the hook to run", func() bool { return len(h.Events(activity.HookStarted)) == 2 })
				list, err := h.DB.Claims(t.Context(), claim.Filter{Workload: "w"})
				require.NoError(t, err)
				require.Len(t, list, 1)
				if tt.waitErr != nil {
					time.AfterFunc(10*time.Minute, h.RT.Break("outcome", tt.waitErr))
				}
				start := time.Now()
				failPending(h, list[0])
				var bye []hooks.Run
				h.Until("pre_destroy to end", func() bool {
					bye, err = h.DB.Runs(t.Context(), hooks.RunFilter{Point: hooks.PreDestroy, States: []hooks.RunState{hooks.Succeeded}})
					require.NoError(t, err)
					return len(bye) == 1
				})
				require.Equal(t, list[0].Container, bye[0].Container)
				require.GreaterOrEqual(t, bye[0].StartedAt.Sub(start), tt.after)
				require.Less(t, bye[0].StartedAt.Sub(start), tt.after+2*time.Minute)
				require.ErrorIs(t, <-claimErr, claim.ErrAborted)
			})
		})
	}
}
