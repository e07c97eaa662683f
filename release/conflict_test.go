package release_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// A wish that comes with the release is one change with it: no crash comes
// between the two.
func TestDiscardIsRecordedWithRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c := h.Claim("w", "ada")
		repair := h.RT.Break("status", runtime.ErrUnavailable)
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{Discard: true})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		require.True(t, currentClaim(h, c).Discard)
		require.Empty(t, h.Events(activity.ClaimDiscarded), "there was no second change")
		require.Contains(t, string(h.Events(activity.ClaimReleasing)[0].Data), `"discard":true`)
		repair()
	})
}

// A release touches no container that is another claim's by now.
func TestReleaseRejectsContainerOfAnotherClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c := h.Claim("w", "ada")
		_, err := h.DB.UpdateContainer(t.Context(), pool.Transition{
			ID: c.Container, From: []pool.State{pool.Claimed}, To: pool.Claimed,
			Set: func(k *pool.Container) { k.Claim = "another" },
		})
		require.NoError(t, err)
		h.RT.ForgetCalls()
		_, err = h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.ErrorIs(t, err, pool.ErrConflict)
		require.Empty(t, h.RT.Calls())
		k, err := h.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, "another", k.Claim)
	})
}

// A container of an older revision is never idle again.
func TestOutdatedContainerIsDestroyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c := h.Claim("w", "ada")
		h.Apply(strings.Replace(hookedWorkload, "image: box", "image: box2", 1))
		h.Release(c)
		require.Contains(t, awaitDestroyed(h, c.Container), "outdated")
		require.Empty(t, h.Events(activity.ContainerReleased))
	})
}

// A wish that is recorded in the moment in which the upload fails counts: the
// release is not kept back for what nobody wants.
func TestDiscardRacesFailedUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", "x")
		var failed, recorded atomic.Bool
		h.Bucket.Before(func(call snapshottest.Call) error {
			if call.Op != "list" {
				failed.Store(true)
				return errors.New("the sink is unplugged")
			}
			// What is done after a failure, before the release is kept back.
			if failed.Load() && recorded.CompareAndSwap(false, true) {
				_, err := h.DB.UpdateClaim(t.Context(), claim.Transition{
					ID: c.ID, From: []claim.State{claim.Releasing}, Set: func(c *claim.Claim) { c.Discard = true },
				})
				require.NoError(t, err)
			}
			return nil
		})
		r, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.NoError(t, err)
		require.True(t, recorded.Load())
		require.Equal(t, claim.Released, r.State)
		require.Empty(t, h.Events(activity.ClaimReleaseFailed))
		require.Contains(t, awaitDestroyed(h, c.Container), "discarded")
	})
}

// listHookStore is storage in which something happens after the releases that failed
// were listed.
type listHookStore struct {
	claim.Store
	after func([]claim.Claim)
}

func (l listHookStore) Claims(ctx context.Context, f claim.Filter) ([]claim.Claim, error) {
	list, err := l.Store.Claims(ctx, f)
	if len(f.States) == 1 && f.States[0] == claim.ReleaseFailed {
		l.after(list)
	}
	return list, err
}

// A state that its tenant made unreadable is not given up when that has changed
// meanwhile: a sink is waited for.
func TestSinkFailureIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(strings.Replace(syncedWorkload, "reuse: never", "reuse: never, release_failed_ttl: 1h", 1))
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", "x")
		start := time.Now()
		h.Releases = release.NewService(listHookStore{h.DB, func(list []claim.Claim) {
			if len(list) == 0 || time.Since(start) < time.Hour {
				return
			}
			_, err := h.DB.UpdateClaim(context.WithoutCancel(t.Context()), claim.Transition{ // the last list may come as the test ends
				ID: c.ID, From: []claim.State{claim.ReleaseFailed}, Set: func(c *claim.Claim) {
					later := time.Now().Add(100 * time.Hour)
					c.FailureReason, c.RetryAt = claim.FailedBySink, &later
				},
			})
			require.NoError(t, err)
		}}, h.Claims, h.Pools, h.RT, hooks.NewRunner(h.RT, h.DB), slog.New(slog.DiscardHandler))
		startLoops(t, h)
		h.RT.Break("get", runtime.ErrTainted)
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.Error(t, err)
		<-time.After(3 * time.Hour)
		require.Equal(t, claim.ReleaseFailed, currentClaim(h, c).State)
		require.Empty(t, h.Events(activity.ClaimStateLost))
	})
}

// A container that has disappeared is not waited for: its claim ends, and the
// log says what is lost.
func TestReleaseOfMissingContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", "x")
		h.RT.Break("get", runtime.ErrNotFound)
		r := h.Release(c)
		require.Equal(t, claim.Released, r.State)
		lost := h.Events(activity.ClaimStateLost)
		require.Len(t, lost, 1)
		require.Contains(t, lost[0].Message, "since the claim began")
		require.Equal(t, []string{lost[0].Message}, r.Warnings)
		require.Contains(t, awaitDestroyed(h, c.Container), "disappeared")
	})
}

// A container that had to be started again to read what it holds is not handed
// out again: nobody knows why it had ended.
func TestContainerStartedForUploadIsDestroyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(strings.Replace(syncedWorkload, "reuse: never", "reuse: same_tenant", 1))
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", "x")
		h.RT.BreakOnce("get", runtime.ErrNotRunning)
		h.Release(c)
		require.Contains(t, awaitDestroyed(h, c.Container), "had ended before its tenant left")
		require.Equal(t, "x", execTestprog(h, h.Claim("w", "ada"), "read", "/data/note"))
	})
}

// The fence of a container grows from one flow to the next: each release goes
// through, and what an earlier flow still asks for is refused.
func TestFenceGrowsWithEachFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(strings.Replace(hookedWorkload, "max_size: 2", "max_size: 1", 1))
		var first claim.Claim
		for _, tenant := range []string{"ada", "bob", "cyd"} {
			c := h.Claim("w", tenant)
			if first.ID == "" {
				first = currentClaim(h, c)
			}
			require.Equal(t, first.Container, c.Container)
			h.Release(c)
			k, err := h.Pools.Container(t.Context(), c.Container)
			require.NoError(t, err)
			require.Equal(t, pool.Idle, k.State, k.Reason)
		}
		require.ErrorIs(t, h.RT.Restart(t.Context(), first.Container, first.ContainerFence), runtime.ErrStaleFence)
	})
}
