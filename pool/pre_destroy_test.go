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
	"github.com/hostler/hostler/workload"
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
		applied string // while it runs: what replaces the request before it; empty: nothing
	}{
		"hook ends":          {nil, time.Minute, ""},
		"engine unavailable": {runtime.ErrUnavailable, 10 * time.Minute, ""},
		"run unknown":        {runtime.ErrUnknownRun, 0, ""},
		"container exited":   {runtime.ErrContainerExited, 0, ""},
		"hooks were added":   {nil, time.Minute, "{ builtin: log }, { builtin: log }, "},
		"hooks were removed": {nil, time.Minute, " "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				source := basicYAML + `hooks:
  post_claim: [{ builtin: log }, { name: slow, command: [sleep, 60s], timeout: 2m }]
  pre_destroy: [{ command: [box, echo, bye] }]
`
				h.Apply(source)
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
				if tt.applied != "" {
					h.Apply(flowtest.Edit(source, "{ builtin: log }, ", tt.applied))
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

// A removal whose pre_destroy hooks had begun continues with their file, also if
// the workload was applied since, without hooks at that point.
func TestPreDestroyKeepsItsFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		hooked := basicYAML + "hooks: { pre_destroy: [{ name: a, builtin: log }, { name: b, builtin: log }] }\n"
		h.Apply(hooked)
		h.AwaitIdle("w", 2)
		idle, err := h.DB.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		begun := hooks.Run{
			ID: "0", Attempt: 1, Hook: "a", Point: hooks.PreDestroy, Kind: hooks.KindBuiltin, Workload: "w", Container: idle[0].ID,
			File: workload.FileID([]byte(hooked)), StartedAt: time.Now(),
		}
		require.NoError(t, h.DB.RunStarted(t.Context(), begun))
		begun.State = hooks.Succeeded
		require.NoError(t, h.DB.RunEnded(t.Context(), begun))
		h.Apply(basicYAML)
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), idle[0].ID, false))
		h.Until("the container to be destroyed", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
		runs, err := h.DB.Runs(t.Context(), hooks.RunFilter{Container: idle[0].ID})
		require.NoError(t, err)
		require.Len(t, runs, 2)
		require.Equal(t, "b", runs[1].Hook)
		require.Equal(t, hooks.Succeeded, runs[1].State)
	})
}
