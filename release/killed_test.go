package release_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// killAt kills each container at a part of a call, n times.
func killAt(h *flowtest.Harness, part string, n int32) (killed *atomic.Int32) {
	killed = new(atomic.Int32)
	h.T.Cleanup(h.RT.Before(part, func(_ context.Context, call fake.Call) error {
		if killed.Load() < n {
			killed.Add(1)
			h.RT.Kill(call.ID)
		}
		return nil
	}))
	return killed
}

// keptWorkload returns a workload whose containers stay with their tenants.
func keptWorkload(pairs ...string) string {
	return flowtest.Edit(syncedWorkload, append([]string{"reuse: never", "reuse: same_tenant", "{ type: file } }", "{ type: file }, policy: { manual: true } }"}, pairs...)...)
}

// A container that is killed while the state of its release is read is read once
// more, and is not used again. Nothing is lost.
func TestContainerKilledDuringUpload(t *testing.T) {
	for _, part := range []string{"scan_tree", "scan_next", "scan_read"} {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.Apply(keptWorkload())
			c := h.Claim("w", "ada")
			execTestprog(h, c, "write", "/data/note", "1")
			killed := killAt(h, part, 1)
			require.Equal(t, claim.Released, h.Release(c).State, part)
			require.Equal(t, int32(1), killed.Load(), part)
			next := h.Claim("w", "ada")
			require.NotEqual(t, c.Container, next.Container, part)
			require.Equal(t, "1", execTestprog(h, next, "read", "/data/note"), part)
			require.Len(t, h.Events(activity.SyncFailed), 1, part)
			require.Empty(t, h.Events(activity.ClaimStateLost), part)
		})
	}
}

// A container that is killed whenever its state is read fails its release, which
// describes that and keeps the container. Nothing is lost once that ends.
func TestContainerAlwaysKilledDuringUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(keptWorkload())
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", "1")
		killAt(h, "scan_next", 2)
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		failed, ok := errors.AsType[*release.FailedError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, []any{claim.ReleaseFailed, claim.FailedByTenant}, []any{failed.Claim.State, failed.Claim.FailureReason})
		require.Contains(t, failed.Claim.Reason, "exited")
		require.NotNil(t, failed.Claim.RetryAt)
		_, err = tryClaim(h, "ada")
		require.ErrorIs(t, err, claim.ErrReleasing)
		require.Len(t, h.Events(activity.SyncFailed), 2)
		h.Release(c)
		require.Equal(t, "1", execTestprog(h, h.Claim("w", "ada"), "read", "/data/note"))
	})
}

// A container that is killed during an upload on request makes no snapshot. What
// it had is uploaded by the release.
func TestContainerKilledDuringSync(t *testing.T) {
	for _, part := range []string{"scan_tree", "scan_next", "scan_read"} {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.Apply(keptWorkload())
			c := h.Claim("w", "ada")
			execTestprog(h, c, "write", "/data/note", "1")
			_, first, err := h.Claims.Sync(t.Context(), c.ID)
			require.NoError(t, err)
			execTestprog(h, c, "write", "/data/note", "2")
			killAt(h, part, 1)
			_, _, err = h.Claims.Sync(t.Context(), c.ID)
			require.Error(t, err, part)
			list, err := h.Claims.Snapshots(t.Context(), "w", "ada")
			require.NoError(t, err)
			require.Equal(t, first.Snapshot.ID, list[0].ID, part)
			require.Len(t, list, 1, part)
			h.Release(c)
			require.Equal(t, "2", execTestprog(h, h.Claim("w", "ada"), "read", "/data/note"), part)
		})
	}
}

// Of a container that is killed while the state is written into it, no tenant sees
// anything: the claim gets all of it in another one. It fails if each is killed.
func TestContainerKilledDuringRestore(t *testing.T) {
	for _, part := range []string{"fill_tree", "fill_create", "fill_close"} {
		for _, kills := range []int32{1, 3} {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(syncedWorkload)
				c := h.Claim("w", "ada")
				execTestprog(h, c, "write", "/data/a", "1")
				execTestprog(h, c, "write", "/data/b", "1")
				h.Release(c)
				killed := killAt(h, part, kills)
				next, err := tryClaim(h, "ada")
				require.Equal(t, kills, killed.Load(), part)
				if kills == 3 {
					failed, ok := errors.AsType[*claim.FailedError](err)
					require.True(t, ok, "%s: %v", part, err)
					require.Equal(t, "download", failed.Step)
					require.Regexp(t, "exited|not running", failed.Claim.Reason)
					require.Empty(t, failed.Claim.Container)
					next = h.Claim("w", "ada")
				} else {
					require.NoError(t, err, part)
				}
				require.Equal(t, "1", execTestprog(h, next, "read", "/data/a"), part)
				require.Equal(t, "1", execTestprog(h, next, "read", "/data/b"), part)
				require.Len(t, h.Events(activity.SyncFailed), int(kills), part)
				destroyed := 0
				for _, e := range h.Events(activity.ContainerDestroying) {
					if strings.Contains(e.Message, "unusable for a claim") {
						destroyed++
					}
				}
				require.Equal(t, int(kills), destroyed, part)
			})
		}
	}
}

// A tenant's own container that is killed while an older snapshot is made of a
// newer one is destroyed: the tenant gets the older one, and no mixture.
func TestContainerKilledDuringUpdate(t *testing.T) {
	for _, part := range []string{"scan_next", "fill_create", "fill_remove", "fill_close"} {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.Apply(keptWorkload())
			c := h.Claim("w", "ada")
			execTestprog(h, c, "write", "/data/a", "1")
			execTestprog(h, c, "write", "/data/c", "1")
			h.Release(c)
			c = h.Claim("w", "ada")
			require.Equal(t, claim.Affinity, c.Source)
			execTestprog(h, c, "write", "/data/a", "2")
			execTestprog(h, c, "write", "/data/b", "2")
			execTestprog(h, c, "remove", "/data/c")
			h.Release(c)
			list, err := h.Claims.Snapshots(t.Context(), "w", "ada")
			require.NoError(t, err)
			_, err = h.Claims.Restore(t.Context(), "w", "ada", list[1].ID)
			require.NoError(t, err)
			killed := killAt(h, part, 1)
			next := h.Claim("w", "ada")
			require.Equal(t, int32(1), killed.Load(), part)
			require.NotEqual(t, c.Container, next.Container, part)
			require.Equal(t, "1", execTestprog(h, next, "read", "/data/a"), part)
			require.Equal(t, "1", execTestprog(h, next, "read", "/data/c"), part)
			newer, err := h.RT.Exec(t.Context(), next.Container, runtime.Command{Args: []string{"box", "read", "/data/b"}})
			require.NoError(t, err)
			require.False(t, newer.OK(), part)
		})
	}
}
