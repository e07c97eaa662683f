package release_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
)

// errStopping is why the releases of these tests are cut off.
var errStopping = errors.New("the server stops")

// A release that is cut off, for the server stops, leaves the claim and its
// container as they are, and the next server finishes it: what is over is not
// done again, and every byte is kept. A hook that runs is let run to its end.
func TestClose(t *testing.T) {
	for within, snapshots := range map[string]int{"status": 0, "exec": 0, "get": 0, "restart": 1} {
		t.Run(within, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.New(t)
				y.Apply(strings.Replace(kept, "reuse: never", "reuse: same_tenant", 1) +
					"hooks: { pre_release: [{ command: [box, write, /data/flushed, y] }] }")
				c := y.Claim("w", "ada")
				exec(y, c, "write", "/data/note", "the last copy")
				reached, unblock := y.RT.Block(within)
				var g errgroup.Group
				for range 2 {
					g.Go(func() error {
						_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
						require.ErrorIs(t, err, errStopping)
						return nil
					})
				}
				<-reached
				synctest.Wait()
				y.Releases.Close(errStopping)
				y.Claims.Close(errStopping)
				synctest.Wait()
				unblock()
				require.NoError(t, g.Wait())
				_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
				require.ErrorIs(t, err, errStopping, "nothing is begun any more")
				require.Equal(t, within == "status", len(y.Events(activity.HookStarted)) == 0)

				now, err := y.DB.Claim(t.Context(), c.ID)
				require.NoError(t, err)
				require.Equal(t, claim.Releasing, now.State)
				box, err := y.Pools.Container(t.Context(), c.Container)
				require.NoError(t, err)
				require.Equal(t, pool.Claimed, box.State)
				list, err := y.Claims.Snapshots(t.Context(), "w", "ada")
				require.NoError(t, err)
				require.Len(t, list, snapshots)

				y.Crash()
				require.Equal(t, claim.Released, y.Release(c).State)
				require.Len(t, y.Events(activity.HookStarted), 1, "pre_release does not run again")
				require.Len(t, y.Events(activity.HookCompleted), 1)
				y.Apply(strings.Replace(kept, "command: [box, idle]", "command: [box, idle, again]", 1))
				again := y.Claim("w", "ada")
				require.NotEqual(t, c.Container, again.Container, "of another revision")
				require.Equal(t, "the last copy", exec(y, again, "read", "/data/note"))
				require.Equal(t, "y", exec(y, again, "read", "/data/flushed"))
			})
		})
	}
}

// The loops end though a release that they have begun, or an upload that
// somebody asked for, would take for ever.
func TestCloseEndsTheLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(kept, "{ type: file } }", "{ type: file }, policy: { manual: true } }", 1))
		y.Apply(strings.NewReplacer("reuse: never", "reuse: never, claim_idle_ttl: 1m", "id: w", "id: idle").Replace(kept))
		asked := y.Claim("w", "asked")
		y.Claim("idle", "quiet")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var g errgroup.Group
		_, unblock := y.RT.Block("get")
		defer unblock()
		g.Go(func() error { return y.Releases.Run(ctx) })
		g.Go(func() error { return y.Releases.Finish(ctx) })
		g.Go(func() error {
			_, _, err := y.Claims.Sync(t.Context(), asked.ID)
			require.ErrorIs(t, err, errStopping)
			return nil
		})
		<-time.After(150 * time.Second) // less than a container is waited for
		require.Len(t, y.Events(activity.ClaimReleasing), 1)
		stop()
		y.Releases.Close(errStopping)
		y.Claims.Close(errStopping)
		require.NoError(t, g.Wait())
		require.Empty(t, y.Events(activity.ClaimReleased, activity.ClaimReleaseFailed))
		require.Len(t, y.Events(activity.SyncFailed), 2)
	})
}
