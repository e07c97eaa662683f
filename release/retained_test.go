package release_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// currentClaim returns the record of a claim.
func currentClaim(h *flowtest.Harness, c claim.Claim) claim.Claim {
	h.T.Helper()
	c, err := h.DB.Claim(h.T.Context(), c.ID)
	require.NoError(h.T, err)
	return c
}

// A discard counts in every state of a release, also on another server or after
// a restart. Once accepted it is recorded with an event, nothing is uploaded,
// and the container is destroyed.
func TestDiscardIsDurable(t *testing.T) {
	discard := func(h *flowtest.Harness, c claim.Claim) {
		r, err := h.Releases.Release(h.T.Context(), c.ID, release.Request{Discard: true})
		require.NoError(h.T, err)
		require.True(h.T, r.Discard)
	}
	for name, tt := range map[string]struct {
		first   error // of the restart that ends the first release
		discard func(h *flowtest.Harness, c claim.Claim, repair func())
	}{
		"waits for its retry": {runtime.ErrUnavailable, func(h *flowtest.Harness, c claim.Claim, repair func()) {
			repair()
			discard(h, c)
		}},
		"the server is killed right after": {runtime.ErrUnavailable, func(h *flowtest.Harness, c claim.Claim, repair func()) {
			_, err := h.Releases.Release(h.T.Context(), c.ID, release.Request{Discard: true})
			require.NoError(h.T, err, "a discarded container is not restarted")
			h.Restart()
			repair()
		}},
		"after a restart of the server": {runtime.ErrUnavailable, func(h *flowtest.Harness, c claim.Claim, repair func()) {
			repair()
			repairSecond := h.RT.Break("restart", runtime.ErrUnavailable)
			_, err := h.Releases.Release(h.T.Context(), c.ID, release.Request{})
			require.Error(h.T, err)
			repairSecond()
			discard(h, c)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(hookedWorkload)
				c := h.Claim("w", "ada")
				repair := h.RT.Break("restart "+c.Container, tt.first)
				_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
				require.ErrorIs(t, err, runtime.ErrUnavailable)
				require.Equal(t, claim.Releasing, currentClaim(h, c).State)
				tt.discard(h, c, repair)
				require.Equal(t, claim.Released, currentClaim(h, c).State)
				require.True(t, currentClaim(h, c).Discard)
				require.Contains(t, awaitDestroyed(h, c.Container), "discarded")
				require.Len(t, h.Events(activity.ClaimDiscarded), 1)
			})
		})
	}
}

// A discard is recorded while the engine is unavailable, and applies when it is
// available again.
func TestDiscardIsRecordedBeforeAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c := h.Claim("w", "ada")
		repair := h.RT.Break("status", runtime.ErrUnavailable)
		for _, discard := range []bool{false, true} {
			_, err := h.Releases.Release(t.Context(), c.ID, release.Request{Discard: discard})
			require.ErrorIs(t, err, runtime.ErrUnavailable)
			require.Equal(t, discard, currentClaim(h, c).Discard)
		}
		repair()
		h.Restart()
		require.Contains(t, awaitDestroyed(h, c.Container), "discarded")
	})
}

// A discard does not wait for an upload in progress, and no snapshot is made
// current after it.
func TestDiscardDuringUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", "must not be uploaded")
		reached, unblock := h.RT.Block("scan_tree")
		defer unblock()
		first := make(chan error, 1)
		go func() {
			_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
			first <- err
		}()
		<-reached
		r, err := h.Releases.Release(t.Context(), c.ID, release.Request{Discard: true})
		require.NoError(t, err)
		require.Equal(t, claim.Released, r.State)
		require.NoError(t, <-first)
		list, err := h.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		require.Empty(t, list)
		require.Empty(t, h.Events(activity.ClaimReleaseFailed))
	})
}

// A discard that is requested just after a failed upload applies.
func TestDiscardAfterFailedUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		c := h.Claim("w", "ada")
		h.Bucket.Before(func(snapshottest.Call) error { return errors.New("sink unavailable") })
		reached, unblock := h.RT.Block("scan_tree")
		first := make(chan error, 1)
		go func() {
			_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
			first <- err
		}()
		select {
		case <-reached:
		case err := <-first:
			require.Error(t, err)
		}
		unblock()
		r, err := h.Releases.Release(t.Context(), c.ID, release.Request{Discard: true})
		require.NoError(t, err)
		require.Equal(t, claim.Released, r.State)
	})
}

// A state that the tenant made unreadable is tried five times, retained, and
// finally dropped with an event about the lost changes; the last good snapshot
// remains. A failing sink is retried indefinitely, and a stale state is left to
// an explicit release.
func TestReleaseFailureReasons(t *testing.T) {
	unreadable := func(h *flowtest.Harness) func() { return h.RT.Break("scan_tree", runtime.ErrTainted) }
	noStart := func(why error) func(h *flowtest.Harness) func() {
		return func(h *flowtest.Harness) func() {
			start := h.RT.Break("start", why)
			get := h.RT.Break("scan_tree", runtime.ErrNotRunning)
			return func() { start(); get() }
		}
	}
	sink := func(err error) func(h *flowtest.Harness) func() {
		return func(h *flowtest.Harness) func() {
			h.Bucket.Before(func(snapshottest.Call) error { return err })
			return func() {}
		}
	}
	for name, tt := range map[string]struct {
		breaks func(h *flowtest.Harness) func()
		reason claim.FailureReason
		tries  int // in an hour; 0: more than 10
		lost   bool
	}{
		"tainted":        {unreadable, claim.FailedByTenant, 5, true},
		"interrupted":    {func(h *flowtest.Harness) func() { return h.RT.Break("scan_tree", errors.New("unreadable file")) }, claim.FailedByTenant, 5, true},
		"does not start": {noStart(runtime.ErrNotRunning), claim.FailedByTenant, 5, true},
		"is rejected":    {noStart(runtime.ErrInvalid), claim.FailedByTenant, 5, true},
		"has no program": {noStart(&runtime.StartError{Reason: runtime.StartBinaryNotFound, Detail: "/app"}), claim.FailedByTenant, 5, true},
		"sink":           {sink(errors.New("sink unavailable")), claim.FailedBySink, 0, false},
		"stale":          {sink(fmt.Errorf("put: %w", snapshot.ErrStale)), claim.FailedStale, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: never, release_failed_ttl: 2h"))
				startLoops(t, h)
				c := h.Claim("w", "ada")
				execTestprog(h, c, "write", "/data/note", "good")
				h.Release(c)
				c = h.Claim("w", "ada")
				execTestprog(h, c, "write", "/data/note", "newer")
				start := time.Now()
				repair := tt.breaks(h)
				_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
				failed, ok := errors.AsType[*release.FailedError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, tt.reason, failed.Claim.FailureReason)
				<-time.After(time.Hour)
				tries := h.Events(activity.ClaimReleaseFailed)
				if tt.tries == 0 {
					require.Greater(t, len(tries), 10)
				} else {
					require.Len(t, tries, tt.tries)
					require.Nil(t, currentClaim(h, c).RetryAt)
				}
				require.Equal(t, len(tries), currentClaim(h, c).Failures)
				require.WithinDuration(t, start, *currentClaim(h, c).FailedAt, time.Minute)
				var data struct{ Reason claim.FailureReason }
				require.NoError(t, json.Unmarshal(tries[len(tries)-1].Data, &data))
				require.Equal(t, tt.reason, data.Reason)

				<-time.After(2*time.Hour - time.Since(start) - time.Minute)
				synctest.Wait()
				require.Equal(t, claim.ReleaseFailed, currentClaim(h, c).State)
				require.Empty(t, h.Events(activity.ClaimStateLost))
				<-time.After(10 * time.Minute)
				synctest.Wait()
				require.Equal(t, tt.lost, currentClaim(h, c).State == claim.Released, currentClaim(h, c).State)
				if !tt.lost {
					return
				}
				lost := h.Events(activity.ClaimStateLost)
				require.Len(t, lost, 1)
				require.Contains(t, lost[0].Message, "since snapshot "+currentClaim(h, c).Snapshot)
				require.Contains(t, currentClaim(h, c).Warnings, lost[0].Message)
				require.Contains(t, awaitDestroyed(h, c.Container), "state upload failed")
				repair()
				require.Equal(t, "good", execTestprog(h, h.Claim("w", "ada"), "read", "/data/note"))
			})
		})
	}
}

// release_failed_ttl limits how long a container with an unreadable state is
// retained; 0 is indefinitely. A retry that is due later does not extend it.
func TestReleaseFailedTTL(t *testing.T) {
	for ttl, left := range map[string]bool{"0": false, "7s": true} {
		t.Run(ttl, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: never, release_failed_ttl: "+ttl))
				startLoops(t, h)
				c := h.Claim("w", "ada")
				h.RT.Break("scan_tree", runtime.ErrTainted)
				_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
				require.Error(t, err)
				<-time.After(map[string]time.Duration{"0": 3 * time.Hour, "7s": 2 * time.Minute}[ttl])
				synctest.Wait()
				require.Equal(t, left, currentClaim(h, c).State == claim.Released)
			})
		})
	}
}

// Failures are counted per reason: failures of the sink do not use up the
// retries after an error of the tenant.
func TestFailureCountResetsOnNewReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		c := h.Claim("w", "ada")
		repairSink := breakSink(h)
		for range 7 {
			_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
			require.Error(t, err)
		}
		require.Equal(t, 7, currentClaim(h, c).Failures)
		since := currentClaim(h, c).FailedAt
		<-time.After(time.Hour)
		repairSink()
		h.RT.Break("scan_tree", runtime.ErrTainted)
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.Error(t, err)
		require.Equal(t, 1, currentClaim(h, c).Failures)
		require.NotNil(t, currentClaim(h, c).RetryAt)
		require.True(t, currentClaim(h, c).FailedAt.After(*since))
	})
}

// Retained containers do not occupy slots of the pool, up to max_size of them;
// those beyond that do. A retry of their release does not evict idle
// containers.
func TestRetainedContainersFreeSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "min_idle: 0", "min_idle: 1"))
		startLoops(t, h)
		repair := h.RT.Break("scan_tree", runtime.ErrTainted)
		stuck := func(tenant string) claim.Claim {
			c := h.Claim("w", tenant)
			_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
			require.Error(t, err)
			return c
		}
		a, b := stuck("a"), stuck("b")
		h.AwaitIdle("w", 1)
		<-time.After(time.Hour)
		h.AwaitIdle("w", 1)
		require.Equal(t, 2, h.Count("w", pool.Claimed))
		stuck("c") // beyond max_size, it occupies a slot
		h.AwaitIdle("w", 1)
		stuck("d")
		<-time.After(time.Hour)
		synctest.Wait()
		require.Zero(t, h.Count("w", pool.Idle))
		_, err := tryClaim(h, "e")
		full, ok := errors.AsType[*claim.UnavailableError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, claim.Exhausted, full.Reason)
		s, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, 4, s.Kept)
		repair()
		h.Release(a)
		h.Release(b)
		h.AwaitIdle("w", 1)
		_, err = tryClaim(h, "e")
		require.NoError(t, err)
	})
}

// A container that exits or becomes unhealthy during its release does not
// return to the pool.
func TestUnhealthyDuringReleaseIsDestroyed(t *testing.T) {
	for _, health := range []pool.Health{pool.Unhealthy, pool.Exited} {
		t.Run(string(health), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: same_tenant"))
				c := h.Claim("w", "ada")
				h.RT.Before("restart", func(ctx context.Context, call fake.Call) error {
					_, err := h.DB.UpdateContainer(ctx, pool.Transition{
						ID: call.ID, From: []pool.State{pool.Claimed}, To: pool.Claimed,
						Set: func(c *pool.Container) { c.Health = health },
					})
					return err
				})
				h.Release(c)
				require.Contains(t, awaitDestroyed(h, c.Container), string(health))
			})
		})
	}
}
