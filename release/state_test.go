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
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// syncedWorkload is a workload with sync.
const syncedWorkload = `
id: w
image: box
command: [box, idle]
volumes: { state: { target: /data } }
pool: { min_idle: 0, max_size: 2, reuse: never }
sync: { sink: { type: file } }
`

// execTestprog runs the test program in a claim's container, and returns its
// output.
func execTestprog(h *flowtest.Harness, c claim.Claim, args ...string) string {
	h.T.Helper()
	result, err := h.RT.Exec(h.T.Context(), c.Container, runtime.Command{Args: append([]string{"box"}, args...)})
	require.NoError(h.T, err)
	require.True(h.T, result.OK(), "%v: %+v", args, result)
	return result.Stdout.String()
}

// tryClaim claims for a tenant.
func tryClaim(h *flowtest.Harness, tenant string) (claim.Claim, error) {
	c, _, err := h.Claims.Claim(h.T.Context(), claim.Request{Workload: "w", Tenant: tenant})
	return c, err
}

// breakSink makes the sink fail until the function that it returns is called.
func breakSink(h *flowtest.Harness) func() {
	var back atomic.Bool
	h.Bucket.Before(func(snapshottest.Call) error {
		if back.Load() {
			return nil
		}
		return errors.New("sink unavailable")
	})
	return func() { back.Store(true) }
}

// A tenant finds its state in another container, and no other tenant does.
func TestStateFollowsTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		ada := h.Claim("w", "ada")
		execTestprog(h, ada, "write", "/data/note", "ada was here")
		h.Release(ada)
		again := h.Claim("w", "ada")
		require.NotEqual(t, ada.Container, again.Container, "reuse is never")
		require.Equal(t, "ada was here", execTestprog(h, again, "read", "/data/note"))
		require.NotEmpty(t, again.Snapshot)
		bob := h.Claim("w", "bob")
		result, err := h.RT.Exec(t.Context(), bob.Container, runtime.Command{Args: []string{"box", "read", "/data/note"}})
		require.NoError(t, err)
		require.False(t, result.OK(), "bob must not read ada's state")
		require.Len(t, h.Events(activity.SyncStarted), 4)
		require.Len(t, h.Events(activity.SyncCompleted), 4)
	})
}

// The main process is restarted after a download, unless no files changed or
// the workload disables it.
func TestRestartAfterDownload(t *testing.T) {
	for _, tt := range []struct {
		policy string
		want   bool
	}{{"on_change", true}, {"never", false}, {"always", true}} {
		t.Run(tt.policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(syncedWorkload + "restart: " + tt.policy)
				c := h.Claim("w", "ada")
				execTestprog(h, c, "write", "/data/note", "x")
				h.Release(c)
				h.ForgetCalls()
				c = h.Claim("w", "ada")
				require.Equal(t, tt.want, strings.Contains(strings.Join(h.RT.Calls(), "\n"), "restart "+c.Container))
			})
		})
	}
}

// A container that holds its tenant's latest state is used unchanged; one with
// an outdated state gets what differs, and keeps what is no state.
func TestOutdatedAffinityContainerIsUpdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: wipe"))
		first := h.Claim("w", "ada")
		execTestprog(h, first, "write", "/data/note", "1")
		execTestprog(h, first, "write", "/data/old", "1")
		h.Release(first)
		h.ForgetCalls()
		again := h.Claim("w", "ada")
		require.Equal(t, claim.Affinity, again.Source)
		require.NotContains(t, strings.Join(h.RT.Calls(), "\n"), "fill_tree", "it holds the latest")
		execTestprog(h, again, "write", "/data/note", "2")
		execTestprog(h, again, "remove", "/data/old")
		h.Release(again)

		list, err := h.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		require.Len(t, list, 2)
		_, err = h.Claims.Restore(t.Context(), "w", "ada", list[1].ID)
		require.NoError(t, err)
		h.ForgetCalls()
		back := h.Claim("w", "ada")
		require.Equal(t, first.Container, back.Container)
		calls := strings.Join(h.RT.Calls(), "\n")
		require.NotContains(t, calls, "wipe")
		require.Regexp(t, `(?s)stop .*fill_tree .*restart `, calls)
		require.Equal(t, "1", execTestprog(h, back, "read", "/data/note"))
		require.Equal(t, "1", execTestprog(h, back, "read", "/data/old"))
		_, err = h.Claims.Restore(t.Context(), "w", "ada", list[0].ID)
		require.ErrorIs(t, err, claim.ErrClaimExists)
	})
}

// When the upload fails, the claim retains its container with all files, and
// its release is retried until the upload succeeds.
func TestFailedUploadRetainsContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		startLoops(t, h)
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", "the last copy")
		repairSink := breakSink(h)
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		failed, ok := errors.AsType[*release.FailedError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, claim.ReleaseFailed, failed.Claim.State)
		require.NotNil(t, failed.Claim.RetryAt)
		_, err = tryClaim(h, "ada")
		require.ErrorIs(t, err, claim.ErrReleasing)
		<-time.After(time.Minute) // fake time: a few retries
		current, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Greater(t, current.Failures, 1)
		container, err := h.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, pool.Claimed, container.State)
		repairSink()
		h.Until("the release to succeed", func() bool {
			current, err = h.DB.Claim(t.Context(), c.ID)
			require.NoError(t, err)
			return current.State == claim.Released
		})
		require.Zero(t, current.Failures)
		require.Equal(t, "the last copy", execTestprog(h, h.Claim("w", "ada"), "read", "/data/note"))
	})
}

// A failed release ends by a discard, or by a retry after a server restart.
func TestFailedReleaseCanEnd(t *testing.T) {
	for name, end := range map[string]func(h *flowtest.Harness, c claim.Claim){
		"discard": func(h *flowtest.Harness, c claim.Claim) {
			_, err := h.Releases.Release(h.T.Context(), c.ID, release.Request{Discard: true})
			require.NoError(h.T, err)
		},
		"crash": func(h *flowtest.Harness, c claim.Claim) {
			h.Restart()
			startLoops(h.T.(*testing.T), h)
			h.Until("the release to succeed", func() bool {
				current, err := h.DB.Claim(h.T.Context(), c.ID)
				require.NoError(h.T, err)
				return current.State == claim.Released
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(syncedWorkload)
				c := h.Claim("w", "ada")
				execTestprog(h, c, "write", "/data/note", "x")
				repairSink := breakSink(h)
				_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
				require.Error(t, err)
				repairSink()
				end(h, c)
				next := h.Claim("w", "ada")
				require.Equal(t, name == "discard", next.Snapshot == "")
			})
		})
	}
}

// A claim whose download fails returns its unmodified container to the pool.
func TestFailedDownloadReturnsContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "min_idle: 0", "min_idle: 1"))
		h.AwaitIdle("w", 1)
		repairSink := breakSink(h)
		_, err := tryClaim(h, "ada")
		unsynced, ok := errors.AsType[*claim.SyncError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "download", unsynced.Direction)
		h.AwaitIdle("w", 1)
		require.Empty(t, h.Events(activity.ContainerDestroying))
		repairSink()
		_, err = tryClaim(h, "ada")
		require.NoError(t, err)
	})
}

// The state of a container that exited before its release is uploaded. The event
// of the release has the exit code, and that of another container none.
func TestUploadFromExitedContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", "x")
		h.RT.Kill(c.Container)
		h.Until("its exit", func() bool { return len(h.Events(activity.ContainerDied)) == 1 })
		h.Release(c)
		next := h.Claim("w", "ada")
		require.Equal(t, "x", execTestprog(h, next, "read", "/data/note"))
		h.Release(next)
		released := h.Events(activity.ClaimReleased)
		require.Contains(t, string(released[0].Data), `"exit_code":137`)
		require.NotContains(t, string(released[1].Data), "exit_code")
	})
}

// The state of an active claim is uploaded at intervals and on request.
func TestPeriodicAndManualUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "{ type: file } }", "{ type: file }, policy: { interval: 1m, manual: true } }"))
		startLoops(t, h)
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", "1")
		h.Until("the state to be uploaded", func() bool {
			current, err := h.DB.Claim(t.Context(), c.ID)
			require.NoError(t, err)
			return current.SyncedAt != nil
		})
		execTestprog(h, c, "write", "/data/note", "2")
		_, transfer, err := h.Claims.Sync(t.Context(), c.ID)
		require.NoError(t, err)
		require.False(t, transfer.Unchanged)
		_, transfer, err = h.Claims.Sync(t.Context(), c.ID)
		require.NoError(t, err)
		require.True(t, transfer.Unchanged)
		h.Release(c)
		_, _, err = h.Claims.Sync(t.Context(), c.ID)
		require.ErrorIs(t, err, claim.ErrNotActive)
		list, err := h.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		require.Len(t, list, 2, "an unchanged state makes no second snapshot")
	})
}

// Without uploads on release, the container holds changes that no snapshot has,
// and its tenant finds them at every later claim.
func TestAffinityWithoutUploadOnRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: same_tenant", "{ type: file } }",
			"{ type: file }, policy: { on_release: false, manual: true } }"))
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", "1")
		_, _, err := h.Claims.Sync(t.Context(), c.ID)
		require.NoError(t, err)
		for _, note := range []string{"2", "3", "4"} {
			execTestprog(h, c, "write", "/data/note", note)
			h.Release(c)
			c = h.Claim("w", "ada")
			require.Equal(t, claim.Affinity, c.Source)
			require.Equal(t, note, execTestprog(h, c, "read", "/data/note"))
		}
	})
}

// A container that was wiped for a tenant without state is not wiped again at
// the tenant's next claim.
func TestNoRepeatedWipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: wipe", "max_size: 2", "max_size: 1", "{ type: file } }",
			"{ type: file }, policy: { on_release: false, manual: true } }"))
		c := h.Claim("w", "ada")
		_, _, err := h.Claims.Sync(t.Context(), c.ID)
		require.NoError(t, err)
		h.Release(c)
		bob := h.Claim("w", "bob")
		require.Equal(t, claim.Recycled, bob.Source)
		execTestprog(h, bob, "write", "/data/note", "bob was here")
		h.Release(bob)
		bob = h.Claim("w", "bob")
		require.Equal(t, claim.Affinity, bob.Source)
		require.Equal(t, "bob was here", execTestprog(h, bob, "read", "/data/note"))
	})
}

// When uploads take longer than their interval, every claim is still uploaded.
func TestPeriodicUploadsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "max_size: 2", "max_size: 12", "{ type: file } }",
			"{ type: file }, policy: { interval: 10s } }"))
		claims := map[string]bool{}
		for _, tenant := range strings.Split("abcdefghijkl", "") {
			claims[h.Claim("w", tenant).ID] = true
		}
		defer h.RT.Before("scan_tree", func(context.Context, fake.Call) error {
			<-time.After(20 * time.Second)
			return nil
		})()
		startLoops(t, h)
		<-time.After(5 * time.Minute)
		for _, e := range h.Events(activity.SyncCompleted) {
			if strings.HasPrefix(e.Message, "upload") {
				delete(claims, e.Claim)
			}
		}
		require.Empty(t, claims, "never uploaded")
	})
}
