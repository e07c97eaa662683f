package release_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
)

// errStopping is the cause with which these tests close the services.
var errStopping = errors.New("the server is stopping")

// A release that is canceled because the server stops leaves the claim and its
// container unchanged, and the next server completes it: completed steps are
// not repeated, and no data is lost. A running hook runs to its end.
func TestCloseLeavesReleaseToNextServer(t *testing.T) {
	for blockedCall, snapshots := range map[string]int{"status": 0, "exec": 0, "scan_tree": 0, "restart": 1} {
		t.Run(blockedCall, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: same_tenant") +
					"hooks: { pre_release: [{ command: [box, write, /data/flushed, y] }] }")
				c := h.Claim("w", "ada")
				execTestprog(h, c, "write", "/data/note", "the last copy")
				reached, unblock := h.RT.Block(blockedCall)
				var g errgroup.Group
				for range 2 {
					g.Go(func() error {
						_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
						assert.ErrorIs(t, err, errStopping)
						return nil
					})
				}
				<-reached
				synctest.Wait()
				h.Releases.Close(errStopping)
				h.Claims.Close(errStopping)
				synctest.Wait()
				unblock()
				require.NoError(t, g.Wait())
				_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
				require.ErrorIs(t, err, errStopping, "no release is started anymore")
				require.Equal(t, blockedCall == "status", len(h.Events(activity.HookStarted)) == 0)

				current, err := h.DB.Claim(t.Context(), c.ID)
				require.NoError(t, err)
				require.Equal(t, claim.Releasing, current.State)
				container, err := h.Pools.Container(t.Context(), c.Container)
				require.NoError(t, err)
				require.Equal(t, pool.Claimed, container.State)
				list, err := h.Claims.Snapshots(t.Context(), "w", "ada")
				require.NoError(t, err)
				require.Len(t, list, snapshots)

				h.Restart()
				require.Equal(t, claim.Released, h.Release(c).State)
				require.Len(t, h.Events(activity.HookStarted), 1, "pre_release does not run again")
				require.Len(t, h.Events(activity.HookCompleted), 1)
				h.Apply(flowtest.Edit(syncedWorkload, "command: [box, idle]", "command: [box, idle, again]"))
				again := h.Claim("w", "ada")
				require.NotEqual(t, c.Container, again.Container, "the revision differs")
				require.Equal(t, "the last copy", execTestprog(h, again, "read", "/data/note"))
				require.Equal(t, "y", execTestprog(h, again, "read", "/data/flushed"))
			})
		})
	}
}

// The loops end even if a release that they started, or a manual upload, would
// never end.
func TestCloseEndsLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "{ type: file } }", "{ type: file }, policy: { manual: true } }"))
		h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: never, claim_idle_ttl: 1m", "id: w", "id: idle"))
		asked := h.Claim("w", "asked")
		h.Claim("idle", "quiet")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var g errgroup.Group
		_, unblock := h.RT.Block("scan_tree")
		defer unblock()
		s := newSchedule(h, h.Releases)
		g.Go(func() error { return s.Run(ctx) })
		g.Go(func() error { return s.RunResumes(ctx) })
		g.Go(func() error {
			_, _, err := h.Claims.Sync(t.Context(), asked.ID)
			assert.ErrorIs(t, err, errStopping)
			return nil
		})
		<-time.After(150 * time.Second) // less than the timeout of a container
		synctest.Wait()
		require.Len(t, h.Events(activity.ClaimReleasing), 1)
		stop()
		h.Releases.Close(errStopping)
		h.Claims.Close(errStopping)
		require.NoError(t, g.Wait())
		require.Empty(t, h.Events(activity.ClaimReleased, activity.ClaimReleaseFailed))
		require.Len(t, h.Events(activity.SyncFailed), 2)
	})
}
