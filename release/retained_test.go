package release_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
	"github.com/hostler/hostler/snapshot"
	"github.com/hostler/hostler/snapshot/snapshottest"
)

// currentClaim is a claim as it is on record.
func currentClaim(h *flowtest.Harness, c claim.Claim) claim.Claim {
	h.T.Helper()
	c, err := h.DB.Claim(h.T.Context(), c.ID)
	require.NoError(h.T, err)
	return c
}

// A wish that nothing be kept counts in every state of a release, also when it
// comes to another server or after a restart: it is on record with an event
// once it is accepted, nothing is uploaded, and the container goes.
func TestDiscardIsDurable(t *testing.T) {
	discard := func(h *flowtest.Harness, c claim.Claim) {
		r, err := h.Releases.Release(h.T.Context(), c.ID, release.Request{Discard: true})
		require.NoError(h.T, err)
		require.True(h.T, r.Discard)
	}
	for name, tt := range map[string]struct {
		first error // of the restart that ends the first release
		wish  func(h *flowtest.Harness, c claim.Claim, repair func())
	}{
		"waits for its next try": {runtime.ErrUnavailable, func(h *flowtest.Harness, c claim.Claim, repair func()) {
			repair()
			discard(h, c)
		}},
		"the server is killed right after": {runtime.ErrUnavailable, func(h *flowtest.Harness, c claim.Claim, repair func()) {
			_, err := h.Releases.Release(h.T.Context(), c.ID, release.Request{Discard: true})
			require.NoError(h.T, err, "nothing is restarted of what is discarded")
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
				tt.wish(h, c, repair)
				require.Equal(t, claim.Released, currentClaim(h, c).State)
				require.True(t, currentClaim(h, c).Discard)
				require.Contains(t, awaitDestroyed(h, c.Container), "discarded")
				require.Len(t, h.Events(activity.ClaimDiscarded), 1)
			})
		})
	}
}

// While the engine is away for the whole container, the wish is accepted all
// the same, and stands when the engine is back.
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

// Who wants nothing kept does not wait for an upload under way, and no snapshot
// is made current after that.
func TestDiscardDuringUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/note", "nobody shall read this")
		reached, unblock := h.RT.Block("get")
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

// A wish that comes as an upload has just failed is not forgotten.
func TestDiscardAfterFailedUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		c := h.Claim("w", "ada")
		h.Bucket.Before(func(snapshottest.Call) error { return errors.New("the sink is unplugged") })
		reached, unblock := h.RT.Block("get")
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

// What a tenant has made unreadable is tried five times, then kept, and given
// up in the end with an event that says what is lost; the last good snapshot
// stays. A sink is tried for as long as it takes, and what is stale is left to
// whoever releases it.
func TestReleaseFailureReasons(t *testing.T) {
	unreadable := func(h *flowtest.Harness) func() { return h.RT.Break("get", runtime.ErrTainted) }
	noStart := func(why error) func(h *flowtest.Harness) func() {
		return func(h *flowtest.Harness) func() {
			start := h.RT.Break("start", why)
			get := h.RT.Break("get", runtime.ErrNotRunning)
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
		tries  int // in an hour; 0: many
		lost   bool
	}{
		"out of control": {unreadable, claim.FailedByTenant, 5, true},
		"breaks off":     {func(h *flowtest.Harness) func() { return h.RT.Break("get", errors.New("a leaf cannot be read")) }, claim.FailedByTenant, 5, true},
		"does not start": {noStart(runtime.ErrNotRunning), claim.FailedByTenant, 5, true},
		"is refused":     {noStart(runtime.ErrInvalid), claim.FailedByTenant, 5, true},
		"has no program": {noStart(&runtime.StartError{Reason: runtime.StartBinaryNotFound, Detail: "/app"}), claim.FailedByTenant, 5, true},
		"sink":           {sink(errors.New("the sink is unplugged")), claim.FailedBySink, 0, false},
		"stale":          {sink(fmt.Errorf("put: %w", snapshot.ErrStale)), claim.FailedStale, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(strings.Replace(syncedWorkload, "reuse: never", "reuse: never, release_failed_ttl: 2h", 1))
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
				require.Equal(t, claim.ReleaseFailed, currentClaim(h, c).State)
				require.Empty(t, h.Events(activity.ClaimStateLost))
				<-time.After(10 * time.Minute)
				require.Equal(t, tt.lost, currentClaim(h, c).State == claim.Released, currentClaim(h, c).State)
				if !tt.lost {
					return
				}
				lost := h.Events(activity.ClaimStateLost)
				require.Len(t, lost, 1)
				require.Contains(t, lost[0].Message, "since snapshot "+currentClaim(h, c).Snapshot)
				require.Contains(t, currentClaim(h, c).Warnings, lost[0].Message)
				require.Contains(t, awaitDestroyed(h, c.Container), "could not be kept")
				repair()
				require.Equal(t, "good", execTestprog(h, h.Claim("w", "ada"), "read", "/data/note"))
			})
		})
	}
}

// A pool says for how long what is unreadable is kept: 0 is for ever. And a try
// that is due later than that is not waited for.
func TestReleaseFailedTTL(t *testing.T) {
	for ttl, left := range map[string]bool{"0": false, "7s": true} {
		t.Run(ttl, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(strings.Replace(syncedWorkload, "reuse: never", "reuse: never, release_failed_ttl: "+ttl, 1))
				startLoops(t, h)
				c := h.Claim("w", "ada")
				h.RT.Break("get", runtime.ErrTainted)
				_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
				require.Error(t, err)
				<-time.After(map[string]time.Duration{"0": 3 * time.Hour, "7s": 2 * time.Minute}[ttl])
				require.Equal(t, left, currentClaim(h, c).State == claim.Released)
			})
		})
	}
}

// Failures are counted for one reason at a time: a sink that was away a hundred
// times leaves a tenant's fault its tries.
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
		h.RT.Break("get", runtime.ErrTainted)
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.Error(t, err)
		require.Equal(t, 1, currentClaim(h, c).Failures)
		require.NotNil(t, currentClaim(h, c).RetryAt)
		require.True(t, currentClaim(h, c).FailedAt.After(*since))
	})
}

// Containers of releases that have failed leave their places to others, as many
// as the pool may have; those beyond that do not. Nothing idle is given up when
// their release is tried again.
func TestRetainedContainersFreeSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(strings.Replace(syncedWorkload, "min_idle: 0", "min_idle: 1", 1))
		startLoops(t, h)
		repair := h.RT.Break("get", runtime.ErrTainted)
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
		stuck("c") // the third of two counts
		h.AwaitIdle("w", 1)
		stuck("d")
		<-time.After(time.Hour)
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

// A container that dies or falls ill while its claim is being released does not
// go back to the pool.
func TestUnhealthyDuringReleaseIsDestroyed(t *testing.T) {
	for _, health := range []pool.Health{pool.Unhealthy, pool.Exited} {
		t.Run(string(health), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(strings.Replace(syncedWorkload, "reuse: never", "reuse: same_tenant", 1))
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
