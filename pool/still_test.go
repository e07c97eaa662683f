package pool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// abort ends a pending claim as another server does that is told to release it:
// the server that makes it does not know.
func abort(y *flowtest.Yard, c claim.Claim) {
	y.T.Helper()
	condemn := pool.Condemn("", []pool.State{pool.Claimed}, "its claim was released")
	_, err := y.DB.MoveClaim(y.T.Context(), claim.Move{
		ID: c.ID, From: []claim.State{claim.Pending}, To: claim.Failed, Container: &condemn,
	})
	require.NoError(y.T, err)
	y.Pools.Wake(c.Workload)
}

// One point runs in a container at a time: pre_destroy waits for the hook of a
// claim that was ended while another server made it. While the engine does not
// answer, it waits for that.
func TestPreDestroyWaitsForOtherHooks(t *testing.T) {
	for name, tt := range map[string]struct {
		breaks error // Outcome, for the first ten minutes
		after  time.Duration
	}{
		"it ends":            {nil, time.Minute},
		"the engine is away": {runtime.ErrUnavailable, 10 * time.Minute},
		"nothing is left":    {runtime.ErrNoRun, 0},
		"it is lost":         {runtime.ErrLost, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.New(t)
				y.Apply(plain + `hooks:
  post_claim: [{ command: [box, echo, first] }, { command: [sleep, 60s], timeout: 2m }]
  pre_destroy: [{ command: [box, echo, bye] }]
`)
				y.Idle("w", 2)
				made := make(chan error, 1)
				go func() {
					_, _, err := y.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
					made <- err
				}()
				y.Until("the hook to run", func() bool { return len(y.Events(activity.HookStarted)) == 2 })
				list, err := y.DB.Claims(t.Context(), claim.Filter{Workload: "w"})
				require.NoError(t, err)
				require.Len(t, list, 1)
				if tt.breaks != nil {
					time.AfterFunc(10*time.Minute, y.RT.Break("outcome", tt.breaks))
				}
				begun := time.Now()
				abort(y, list[0])
				var bye []hooks.Run
				y.Until("pre_destroy to end", func() bool {
					bye, err = y.DB.Runs(t.Context(), hooks.RunFilter{Point: hooks.PreDestroy, States: []hooks.RunState{hooks.Succeeded}})
					require.NoError(t, err)
					return len(bye) == 1
				})
				require.Equal(t, list[0].Container, bye[0].Container)
				require.GreaterOrEqual(t, bye[0].StartedAt.Sub(begun), tt.after)
				require.Less(t, bye[0].StartedAt.Sub(begun), tt.after+2*time.Minute)
				require.ErrorIs(t, <-made, claim.ErrAborted)
			})
		})
	}
}
