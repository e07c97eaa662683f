package release_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// taintTimeout is how long a container may be unresponsive, as in the backends'
// sessions.
const taintTimeout = 2 * time.Minute

// makeUnresponsive makes a claim's container unresponsive while the engine
// reports it as running. After taintTimeout it is tainted.
func makeUnresponsive(h *flowtest.Harness, c claim.Claim) {
	start := time.Now()
	for _, op := range []string{"exec", "outcome", "restart", "stop", "scan_tree"} {
		h.RT.Before(op+" "+c.Container, func(ctx context.Context, _ fake.Call) error {
			select {
			case <-time.After(min(15*time.Second, max(taintTimeout-time.Since(start), 0))):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if time.Since(start) < taintTimeout {
				return runtime.ErrUnresponsive
			}
			return runtime.ErrTainted
		})
	}
}

// An unresponsive container holds its claim and its slot only until it is
// tainted, also when hooks must run in it. Then it is destroyed, or retained
// for its unread state without occupying a slot.
func TestReleaseOfUnresponsiveContainer(t *testing.T) {
	hook := "hooks: { pre_release: [{ command: [box, echo, flushed], timeout: 30s }] }"
	for name, tt := range map[string]struct {
		file  string
		state claim.State
	}{
		"without state":       {strings.Split(syncedWorkload, "sync:")[0], claim.Released},
		"hook, without state": {strings.Split(syncedWorkload, "sync:")[0] + hook, claim.Released},
		"with state":          {syncedWorkload, claim.ReleaseFailed},
		"hook, with state":    {syncedWorkload + hook, claim.ReleaseFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				startLoops(t, h)
				h.Apply(flowtest.Edit(tt.file, "reuse: never", "reuse: same_tenant, release_failed_ttl: 2h", "max_size: 2", "max_size: 1"))
				c := h.Claim("w", "ada")
				start := time.Now()
				makeUnresponsive(h, c)
				_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
				if err != nil {
					require.ErrorIs(t, err, runtime.ErrUnresponsive)
					require.Equal(t, claim.Releasing, currentClaim(h, c).State)
				}
				h.Until("the release to end", func() bool { return currentClaim(h, c).State == tt.state })
				require.Less(t, time.Since(start), 2*taintTimeout)
				h.Claim("w", "bob") // it does not wait long
				require.Less(t, time.Since(start), 3*taintTimeout)
				if tt.state == claim.Released {
					require.Equal(t, pool.Destroyed, claimContainer(h, c).State)
					return
				}
				require.Equal(t, claim.FailedByTenant, currentClaim(h, c).FailureReason)
				require.Equal(t, pool.Claimed, claimContainer(h, c).State, "it holds the only copy")
				<-time.After(time.Hour)
				synctest.Wait()
				require.Equal(t, pool.Claimed, claimContainer(h, c).State)
				h.Until("the retention to expire", func() bool { return currentClaim(h, c).State == claim.Released })
				require.Len(t, h.Events(activity.ClaimStateLost), 1)
				runs, err := h.DB.Runs(t.Context(), hooks.RunFilter{Claim: c.ID})
				require.NoError(t, err)
				require.LessOrEqual(t, len(runs), 1, "a hook is not started again")
			})
		})
	}
}

// claimContainer returns the record of a claim's container.
func claimContainer(h *flowtest.Harness, c claim.Claim) pool.Container {
	h.T.Helper()
	k, err := h.Pools.Container(h.T.Context(), c.Container)
	require.NoError(h.T, err)
	return k
}
