package release_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// kept is a workload whose tenants' state outlives its containers.
const kept = `
id: w
image: box
command: [box, idle]
volumes: { state: { target: /data } }
pool: { min_idle: 0, max_size: 2, reuse: never }
sync: { sink: { type: file } }
`

// exec runs box in a claim's container, and returns what it prints.
func exec(y *flowtest.Yard, c claim.Claim, args ...string) string {
	y.T.Helper()
	result, err := y.RT.Exec(y.T.Context(), c.Container, runtime.Command{Args: append([]string{"box"}, args...)})
	require.NoError(y.T, err)
	require.True(y.T, result.OK(), "%v: %+v", args, result)
	return result.Stdout.String()
}

// ask claims for a tenant.
func ask(y *flowtest.Yard, tenant string) (claim.Claim, error) {
	c, _, err := y.Claims.Claim(y.T.Context(), claim.Request{Workload: "w", Tenant: tenant})
	return c, err
}

// unplug makes the sink fail until the function that it returns is called.
func unplug(y *flowtest.Yard) func() {
	var back atomic.Bool
	y.Bucket.Before(func(snapshottest.Call) error {
		if back.Load() {
			return nil
		}
		return errors.New("the sink is unplugged")
	})
	return func() { back.Store(true) }
}

// A tenant finds its state in another container, and nobody else does.
func TestStateMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(kept)
		ada := y.Claim("w", "ada")
		exec(y, ada, "write", "/data/note", "ada was here")
		y.Release(ada)
		again := y.Claim("w", "ada")
		require.NotEqual(t, ada.Container, again.Container, "reuse is never")
		require.Equal(t, "ada was here", exec(y, again, "read", "/data/note"))
		require.NotEmpty(t, again.Snapshot)
		bob := y.Claim("w", "bob")
		result, err := y.RT.Exec(t.Context(), bob.Container, runtime.Command{Args: []string{"box", "read", "/data/note"}})
		require.NoError(t, err)
		require.False(t, result.OK(), "bob reads what is ada's")
		require.Len(t, y.Events(activity.SyncStarted), 4)
		require.Len(t, y.Events(activity.SyncCompleted), 4)
	})
}

// The main process is started on the files that were put in, unless there are
// none or the workload wants no restart.
func TestRestartAfterDownload(t *testing.T) {
	for _, tt := range []struct {
		policy string
		want   bool
	}{{"on_change", true}, {"never", false}, {"always", true}} {
		t.Run(tt.policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.New(t)
				y.Apply(kept + "restart: " + tt.policy)
				c := y.Claim("w", "ada")
				exec(y, c, "write", "/data/note", "x")
				y.Release(c)
				y.RT.ForgetCalls()
				c = y.Claim("w", "ada")
				require.Equal(t, tt.want, strings.Contains(strings.Join(y.RT.Calls(), "\n"), "restart "+c.Container))
			})
		})
	}
}

// A container that still holds its tenant's latest state is taken as it is; one
// whose tenant has moved on meanwhile is emptied first.
func TestStateThatMovedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(kept, "reuse: never", "reuse: wipe", 1))
		first := y.Claim("w", "ada")
		exec(y, first, "write", "/data/note", "1")
		exec(y, first, "write", "/data/old", "1")
		y.Release(first)
		y.RT.ForgetCalls()
		again := y.Claim("w", "ada")
		require.Equal(t, claim.Affinity, again.Source)
		require.NotContains(t, strings.Join(y.RT.Calls(), "\n"), "put", "it holds the latest")
		exec(y, again, "write", "/data/note", "2")
		exec(y, again, "remove", "/data/old")
		y.Release(again)

		list, err := y.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		require.Len(t, list, 2)
		_, err = y.Claims.Restore(t.Context(), "w", "ada", list[1].ID)
		require.NoError(t, err)
		back := y.Claim("w", "ada")
		require.Equal(t, first.Container, back.Container)
		require.Equal(t, "1", exec(y, back, "read", "/data/note"))
		require.Equal(t, "1", exec(y, back, "read", "/data/old"))
		_, err = y.Claims.Restore(t.Context(), "w", "ada", list[0].ID)
		require.ErrorIs(t, err, claim.ErrHeld)
	})
}

// When the state cannot be kept, the claim keeps its container with all that
// is in it, and its release is tried again until the state is safe.
func TestUploadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(kept)
		running(t, y)
		c := y.Claim("w", "ada")
		exec(y, c, "write", "/data/note", "the last copy")
		plugIn := unplug(y)
		_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
		failed, ok := errors.AsType[*release.FailedError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, claim.ReleaseFailed, failed.Claim.State)
		require.NotNil(t, failed.Claim.RetryAt)
		_, err = ask(y, "ada")
		require.ErrorIs(t, err, claim.ErrReleasing)
		<-time.After(time.Minute) // the bubble's clock: a few tries
		now, err := y.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Greater(t, now.Failures, 1)
		box, err := y.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, pool.Claimed, box.State)
		plugIn()
		y.Until("the release to succeed", func() bool {
			now, err = y.DB.Claim(t.Context(), c.ID)
			require.NoError(t, err)
			return now.State == claim.Released
		})
		require.Zero(t, now.Failures)
		require.Equal(t, "the last copy", exec(y, y.Claim("w", "ada"), "read", "/data/note"))
	})
}

// Whoever says that the state need not be kept ends a release that fails; so
// does a server that is killed in it, by trying again.
func TestEndsOfAFailedRelease(t *testing.T) {
	for name, end := range map[string]func(y *flowtest.Yard, c claim.Claim){
		"discard": func(y *flowtest.Yard, c claim.Claim) {
			_, err := y.Releases.Release(y.T.Context(), c.ID, release.Request{Discard: true})
			require.NoError(y.T, err)
		},
		"crash": func(y *flowtest.Yard, c claim.Claim) {
			y.Crash()
			running(y.T.(*testing.T), y)
			y.Until("the release to succeed", func() bool {
				now, err := y.DB.Claim(y.T.Context(), c.ID)
				require.NoError(y.T, err)
				return now.State == claim.Released
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.New(t)
				y.Apply(kept)
				c := y.Claim("w", "ada")
				exec(y, c, "write", "/data/note", "x")
				plugIn := unplug(y)
				_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
				require.Error(t, err)
				plugIn()
				end(y, c)
				next := y.Claim("w", "ada")
				require.Equal(t, name == "discard", next.Snapshot == "")
			})
		})
	}
}

// A claim whose state cannot be fetched fails, and costs no container that
// nothing was done to.
func TestDownloadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(kept, "min_idle: 0", "min_idle: 1", 1))
		y.Idle("w", 1)
		plugIn := unplug(y)
		_, err := ask(y, "ada")
		unsynced, ok := errors.AsType[*claim.SyncError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "download", unsynced.Direction)
		y.Idle("w", 1)
		require.Empty(t, y.Events(activity.ContainerDestroying))
		plugIn()
		_, err = ask(y, "ada")
		require.NoError(t, err)
	})
}

// A container that ended before its tenant left is read all the same.
func TestStateOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(kept)
		c := y.Claim("w", "ada")
		exec(y, c, "write", "/data/note", "x")
		y.RT.Kill(c.Container)
		y.Release(c)
		require.Equal(t, "x", exec(y, y.Claim("w", "ada"), "read", "/data/note"))
	})
}

// The state of an active claim is taken at intervals, and when somebody asks.
func TestIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(kept, "{ type: file } }", "{ type: file }, policy: { interval: 1m, manual: true } }", 1))
		running(t, y)
		c := y.Claim("w", "ada")
		exec(y, c, "write", "/data/note", "1")
		y.Until("the state to be taken", func() bool {
			now, err := y.DB.Claim(t.Context(), c.ID)
			require.NoError(t, err)
			return now.SyncedAt != nil
		})
		exec(y, c, "write", "/data/note", "2")
		_, transfer, err := y.Claims.Sync(t.Context(), c.ID)
		require.NoError(t, err)
		require.False(t, transfer.Unchanged)
		_, transfer, err = y.Claims.Sync(t.Context(), c.ID)
		require.NoError(t, err)
		require.True(t, transfer.Unchanged)
		y.Release(c)
		_, _, err = y.Claims.Sync(t.Context(), c.ID)
		require.ErrorIs(t, err, claim.ErrNotActive)
		list, err := y.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		require.Len(t, list, 2, "an unchanged state is not kept twice")
	})
}

// Where releases take no snapshot, the container holds what no snapshot does,
// and its tenant finds that again, however often it comes back.
func TestStateThatOnlyTheContainerHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.NewReplacer("reuse: never", "reuse: same_tenant", "{ type: file } }",
			"{ type: file }, policy: { on_release: false, manual: true } }").Replace(kept))
		c := y.Claim("w", "ada")
		exec(y, c, "write", "/data/note", "1")
		_, _, err := y.Claims.Sync(t.Context(), c.ID)
		require.NoError(t, err)
		for _, note := range []string{"2", "3", "4"} {
			exec(y, c, "write", "/data/note", note)
			y.Release(c)
			c = y.Claim("w", "ada")
			require.Equal(t, claim.Affinity, c.Source)
			require.Equal(t, note, exec(y, c, "read", "/data/note"))
		}
	})
}

// A container that was emptied, for a tenant that has no state to put in, is
// not emptied again and again.
func TestEmptiedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.NewReplacer("reuse: never", "reuse: wipe", "max_size: 2", "max_size: 1", "{ type: file } }",
			"{ type: file }, policy: { on_release: false, manual: true } }").Replace(kept))
		c := y.Claim("w", "ada")
		_, _, err := y.Claims.Sync(t.Context(), c.ID)
		require.NoError(t, err)
		y.Release(c)
		bob := y.Claim("w", "bob")
		require.Equal(t, claim.Recycled, bob.Source)
		exec(y, bob, "write", "/data/note", "bob was here")
		y.Release(bob)
		bob = y.Claim("w", "bob")
		require.Equal(t, claim.Affinity, bob.Source)
		require.Equal(t, "bob was here", exec(y, bob, "read", "/data/note"))
	})
}

// When uploads take longer than their interval, every claim has its turn.
func TestIntervalsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.NewReplacer("max_size: 2", "max_size: 12", "{ type: file } }",
			"{ type: file }, policy: { interval: 10s } }").Replace(kept))
		claims := map[string]bool{}
		for _, tenant := range strings.Split("abcdefghijkl", "") {
			claims[y.Claim("w", tenant).ID] = true
		}
		defer y.RT.Before("get", func(context.Context, fake.Call) error {
			<-time.After(20 * time.Second)
			return nil
		})()
		running(t, y)
		<-time.After(5 * time.Minute)
		for _, e := range y.Events(activity.SyncCompleted) {
			if strings.HasPrefix(e.Message, "upload") {
				delete(claims, e.Claim)
			}
		}
		require.Empty(t, claims, "never taken")
	})
}
