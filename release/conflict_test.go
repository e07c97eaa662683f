package release_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// A discard that is requested with the release is recorded in the same
// transaction.
func TestDiscardIsRecordedWithRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c := h.Claim("w", "ada")
		repair := h.RT.Break("status", runtime.ErrUnavailable)
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{Discard: true})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		require.True(t, currentClaim(h, c).Discard)
		require.Empty(t, h.Events(activity.ClaimDiscarded), "there was no second transaction")
		require.Contains(t, string(h.Events(activity.ClaimReleasing)[0].Data), `"discard":true`)
		repair()
	})
}

// A release does not touch a container that belongs to another claim.
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
		h.ForgetCalls()
		_, err = h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.ErrorIs(t, err, pool.ErrConflict)
		require.Empty(t, h.RT.Calls())
		k, err := h.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, "another", k.Claim)
	})
}

// A container of an older revision does not return to the pool.
func TestOutdatedContainerIsDestroyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c := h.Claim("w", "ada")
		h.Apply(flowtest.Edit(hookedWorkload, "image: box", "image: box2"))
		h.Release(c)
		require.Contains(t, awaitDestroyed(h, c.Container), "outdated")
		require.Empty(t, h.Events(activity.ContainerReleased))
	})
}

// A discard that is recorded while the upload fails counts: the claim is
// released, not retained.
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
				return errors.New("sink unavailable")
			}
			// This call follows a failure, before the claim is retained.
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

// failedHookStore is a store that calls a function after a claim whose release has
// failed was read.
type failedHookStore struct {
	claim.Store
	after func()
}

func (f failedHookStore) Claim(ctx context.Context, id string) (claim.Claim, error) {
	c, err := f.Store.Claim(ctx, id)
	if c.State == claim.ReleaseFailed {
		f.after()
	}
	return c, err
}

// A claim that is retained because of its tenant is not released without its
// state when the reason has changed to the sink in the meantime.
func TestSinkFailureIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: never, release_failed_ttl: 1h"))
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", "x")
		start := time.Now()
		startLoopsOn(t, h, failedHookStore{h.DB, func() {
			if time.Since(start) < time.Hour {
				return
			}
			_, err := h.DB.UpdateClaim(t.Context(), claim.Transition{
				ID: c.ID, From: []claim.State{claim.ReleaseFailed}, Set: func(c *claim.Claim) {
					later := time.Now().Add(100 * time.Hour)
					c.FailureReason, c.RetryAt = claim.FailedBySink, &later
				},
			})
			require.NoError(t, err)
		}})
		h.RT.Break("scan_tree", runtime.ErrTainted)
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.Error(t, err)
		<-time.After(3 * time.Hour)
		synctest.Wait()
		require.Equal(t, claim.ReleaseFailed, currentClaim(h, c).State)
		require.Empty(t, h.Events(activity.ClaimStateLost))
	})
}

// A release does not wait for a missing container: the claim ends, and an event
// records the lost changes.
func TestReleaseOfMissingContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", "x")
		h.RT.Break("scan_tree", runtime.ErrNotFound)
		r := h.Release(c)
		require.Equal(t, claim.Released, r.State)
		lost := h.Events(activity.ClaimStateLost)
		require.Len(t, lost, 1)
		require.Contains(t, lost[0].Message, "since the claim began")
		require.Equal(t, []string{lost[0].Message}, r.Warnings)
		require.Contains(t, awaitDestroyed(h, c.Container), "disappeared")
	})
}

// A container that has exited, before its release or during the upload, is not
// reused, because the reason of its exit is unknown.
func TestContainerThatExitedIsDestroyed(t *testing.T) {
	for name, exit := range map[string]func(h *flowtest.Harness, c claim.Claim){
		"before, unnoticed": func(h *flowtest.Harness, c claim.Claim) {
			h.RT.Break("watch", runtime.ErrUnavailable)
			h.RT.Break("list", runtime.ErrUnavailable)
			h.RT.Kill(c.Container)
		},
		"during the upload": func(h *flowtest.Harness, _ claim.Claim) { h.RT.BreakOnce("scan_tree", runtime.ErrNotRunning) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: same_tenant"))
				c := h.Claim("w", "ada")
				execTestprog(h, c, "write", "/data/note", "x")
				exit(h, c)
				h.Release(c)
				require.Regexp(t, "exited before its release|main process exited with code 137", awaitDestroyed(h, c.Container))
				require.Equal(t, "x", execTestprog(h, h.Claim("w", "ada"), "read", "/data/note"))
			})
		})
	}
}

// The fence of a container grows with each flow: each release succeeds, and
// requests of an earlier flow are rejected.
func TestFenceGrowsWithEachFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "max_size: 2", "max_size: 1"))
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

// slowStore is a store whose first UpdateClaim blocks until it is opened.
type slowStore struct {
	claim.Store
	once *sync.Once
	open chan struct{}
}

func (s slowStore) UpdateClaim(ctx context.Context, m claim.Transition) (claim.Claim, error) {
	s.once.Do(func() { <-s.open })
	if err := ctx.Err(); err != nil {
		return claim.Claim{}, err
	}
	return s.Store.UpdateClaim(ctx, m)
}

// A caller who cancels while a pending claim is aborted does not cancel the
// callers who wait for the same release.
func TestJoinersOfReleaseSurviveCanceledCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		synctest.Wait() // the harness's own service has swept
		pending, err := h.DB.Reserve(t.Context(), claim.Reservation{Claim: "c", Workload: "w", Tenant: "ada", EnqueueOnly: true})
		require.ErrorIs(t, err, claim.ErrNoIdleContainer)
		log, hookRunner := slog.New(slog.DiscardHandler), flowtest.HookRunner(h.RT, h.DB, nil)
		db := slowStore{h.DB, new(sync.Once), make(chan struct{})}
		claims := claim.NewService(db, h.Pools, h.RT, hookRunner, nil, log)
		releases := release.NewService(h.DB, claims, h.Pools, h.RT, hookRunner, log)
		ctx, cancel := context.WithCancel(t.Context())
		var firstCaller, joiner errgroup.Group
		releaseWith := func(ctx context.Context) func() error {
			return func() error {
				_, err := releases.Release(ctx, pending.ID, release.Request{})
				return err
			}
		}
		firstCaller.Go(releaseWith(ctx))
		synctest.Wait()
		joiner.Go(releaseWith(t.Context()))
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(db.open)
		require.ErrorIs(t, firstCaller.Wait(), context.Canceled)
		require.NoError(t, joiner.Wait())
	})
}
