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

// now is a claim as it is on record.
func now(y *flowtest.Yard, c claim.Claim) claim.Claim {
	y.T.Helper()
	c, err := y.DB.Claim(y.T.Context(), c.ID)
	require.NoError(y.T, err)
	return c
}

// A wish that nothing be kept counts in every state of a release, also when it
// comes to another server or after a restart: it is on record with an event
// once it is accepted, nothing is uploaded, and the container goes.
func TestDiscardIsDurable(t *testing.T) {
	discard := func(y *flowtest.Yard, c claim.Claim) {
		r, err := y.Releases.Release(y.T.Context(), c.ID, release.Request{Discard: true})
		require.NoError(y.T, err)
		require.True(y.T, r.Discard)
	}
	for name, tt := range map[string]struct {
		first error // of the restart that ends the first release
		wish  func(y *flowtest.Yard, c claim.Claim, mend func())
	}{
		"waits for its next try": {runtime.ErrUnavailable, func(y *flowtest.Yard, c claim.Claim, mend func()) {
			mend()
			discard(y, c)
		}},
		"the server is killed right after": {runtime.ErrUnavailable, func(y *flowtest.Yard, c claim.Claim, mend func()) {
			_, err := y.Releases.Release(y.T.Context(), c.ID, release.Request{Discard: true})
			require.NoError(y.T, err, "nothing is restarted of what is discarded")
			y.Crash()
			mend()
		}},
		"after a restart of the server": {runtime.ErrUnavailable, func(y *flowtest.Yard, c claim.Claim, mend func()) {
			mend()
			gone := y.RT.Break("restart", runtime.ErrUnavailable)
			_, err := y.Releases.Release(y.T.Context(), c.ID, release.Request{})
			require.Error(y.T, err)
			gone()
			discard(y, c)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.New(t)
				y.Apply(file)
				c := y.Claim("w", "ada")
				mend := y.RT.Break("restart "+c.Container, tt.first)
				_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
				require.ErrorIs(t, err, runtime.ErrUnavailable)
				require.Equal(t, claim.Releasing, now(y, c).State)
				tt.wish(y, c, mend)
				require.Equal(t, claim.Released, now(y, c).State)
				require.True(t, now(y, c).Discard)
				require.Contains(t, gone(y, c.Container), "discarded")
				require.Len(t, y.Events(activity.ClaimDiscarded), 1)
			})
		})
	}
}

// While the engine is away for the whole container, the wish is accepted all
// the same, and stands when the engine is back.
func TestDiscardIsOnRecordBeforeTheDeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(file)
		c := y.Claim("w", "ada")
		mend := y.RT.Break("status", runtime.ErrUnavailable)
		for _, discard := range []bool{false, true} {
			_, err := y.Releases.Release(t.Context(), c.ID, release.Request{Discard: discard})
			require.ErrorIs(t, err, runtime.ErrUnavailable)
			require.Equal(t, discard, now(y, c).Discard)
		}
		mend()
		y.Crash()
		require.Contains(t, gone(y, c.Container), "discarded")
	})
}

// Who wants nothing kept does not wait for an upload under way, and no snapshot
// is made current after that.
func TestDiscardDuringTheUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(kept)
		c := y.Claim("w", "ada")
		exec(y, c, "write", "/data/note", "nobody shall read this")
		reached, goOn := y.RT.Block("get")
		defer goOn()
		first := make(chan error, 1)
		go func() {
			_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
			first <- err
		}()
		<-reached
		r, err := y.Releases.Release(t.Context(), c.ID, release.Request{Discard: true})
		require.NoError(t, err)
		require.Equal(t, claim.Released, r.State)
		require.NoError(t, <-first)
		list, err := y.Claims.Snapshots(t.Context(), "w", "ada")
		require.NoError(t, err)
		require.Empty(t, list)
		require.Empty(t, y.Events(activity.ClaimReleaseFailed))
	})
}

// A wish that comes as an upload has just failed is not forgotten.
func TestDiscardAfterTheUploadFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(kept)
		c := y.Claim("w", "ada")
		y.Bucket.Before(func(snapshottest.Call) error { return errors.New("the sink is unplugged") })
		reached, goOn := y.RT.Block("get")
		first := make(chan error, 1)
		go func() {
			_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
			first <- err
		}()
		select {
		case <-reached:
		case err := <-first:
			require.Error(t, err)
		}
		goOn()
		r, err := y.Releases.Release(t.Context(), c.ID, release.Request{Discard: true})
		require.NoError(t, err)
		require.Equal(t, claim.Released, r.State)
	})
}

// What a tenant has made unreadable is tried five times, then kept, and given
// up in the end with an event that says what is lost; the last good snapshot
// stays. A sink is tried for as long as it takes, and what is stale is left to
// whoever releases it.
func TestWhyAReleaseFails(t *testing.T) {
	unreadable := func(y *flowtest.Yard) func() { return y.RT.Break("get", runtime.ErrDoomed) }
	ended := func(why error) func(y *flowtest.Yard) func() {
		return func(y *flowtest.Yard) func() {
			start := y.RT.Break("start", why)
			get := y.RT.Break("get", runtime.ErrNotRunning)
			return func() { start(); get() }
		}
	}
	sink := func(err error) func(y *flowtest.Yard) func() {
		return func(y *flowtest.Yard) func() {
			y.Bucket.Before(func(snapshottest.Call) error { return err })
			return func() {}
		}
	}
	for name, tt := range map[string]struct {
		breaks func(y *flowtest.Yard) func()
		reason claim.FailureReason
		tries  int // in an hour; 0: many
		lost   bool
	}{
		"out of control": {unreadable, claim.FailedByTenant, 5, true},
		"breaks off":     {func(y *flowtest.Yard) func() { return y.RT.Break("get", errors.New("a leaf cannot be read")) }, claim.FailedByTenant, 5, true},
		"does not start": {ended(runtime.ErrNotRunning), claim.FailedByTenant, 5, true},
		"is refused":     {ended(runtime.ErrInvalid), claim.FailedByTenant, 5, true},
		"has no program": {ended(&runtime.StartError{Reason: runtime.StartNoBinary, Detail: "/app"}), claim.FailedByTenant, 5, true},
		"sink":           {sink(errors.New("the sink is unplugged")), claim.FailedBySink, 0, false},
		"stale":          {sink(fmt.Errorf("put: %w", snapshot.ErrStale)), claim.FailedStale, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.New(t)
				y.Apply(strings.Replace(kept, "reuse: never", "reuse: never, release_failed_ttl: 2h", 1))
				running(t, y)
				c := y.Claim("w", "ada")
				exec(y, c, "write", "/data/note", "good")
				y.Release(c)
				c = y.Claim("w", "ada")
				exec(y, c, "write", "/data/note", "newer")
				begun := time.Now()
				mend := tt.breaks(y)
				_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
				failed, ok := errors.AsType[*release.FailedError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, tt.reason, failed.Claim.FailureReason)
				<-time.After(time.Hour)
				tries := y.Events(activity.ClaimReleaseFailed)
				if tt.tries == 0 {
					require.Greater(t, len(tries), 10)
				} else {
					require.Len(t, tries, tt.tries)
					require.Nil(t, now(y, c).RetryAt)
				}
				require.Equal(t, len(tries), now(y, c).Failures)
				require.WithinDuration(t, begun, *now(y, c).FailedAt, time.Minute)
				var told struct{ Reason claim.FailureReason }
				require.NoError(t, json.Unmarshal(tries[len(tries)-1].Data, &told))
				require.Equal(t, tt.reason, told.Reason)

				<-time.After(2*time.Hour - time.Since(begun) - time.Minute)
				require.Equal(t, claim.ReleaseFailed, now(y, c).State)
				require.Empty(t, y.Events(activity.ClaimStateLost))
				<-time.After(10 * time.Minute)
				require.Equal(t, tt.lost, now(y, c).State == claim.Released, now(y, c).State)
				if !tt.lost {
					return
				}
				lost := y.Events(activity.ClaimStateLost)
				require.Len(t, lost, 1)
				require.Contains(t, lost[0].Message, "since snapshot "+now(y, c).Snapshot)
				require.Contains(t, now(y, c).Warnings, lost[0].Message)
				require.Contains(t, gone(y, c.Container), "could not be kept")
				mend()
				require.Equal(t, "good", exec(y, y.Claim("w", "ada"), "read", "/data/note"))
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
				y := flowtest.New(t)
				y.Apply(strings.Replace(kept, "reuse: never", "reuse: never, release_failed_ttl: "+ttl, 1))
				running(t, y)
				c := y.Claim("w", "ada")
				y.RT.Break("get", runtime.ErrDoomed)
				_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
				require.Error(t, err)
				<-time.After(map[string]time.Duration{"0": 3 * time.Hour, "7s": 2 * time.Minute}[ttl])
				require.Equal(t, left, now(y, c).State == claim.Released)
			})
		})
	}
}

// Failures are counted for one reason at a time: a sink that was away a hundred
// times leaves a tenant's fault its tries.
func TestFailuresOfAnotherReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(kept)
		c := y.Claim("w", "ada")
		plugIn := unplug(y)
		for range 7 {
			_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
			require.Error(t, err)
		}
		require.Equal(t, 7, now(y, c).Failures)
		since := now(y, c).FailedAt
		<-time.After(time.Hour)
		plugIn()
		y.RT.Break("get", runtime.ErrDoomed)
		_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
		require.Error(t, err)
		require.Equal(t, 1, now(y, c).Failures)
		require.NotNil(t, now(y, c).RetryAt)
		require.True(t, now(y, c).FailedAt.After(*since))
	})
}

// Containers of releases that have failed leave their places to others, as many
// as the pool may have; those beyond that do not. Nothing idle is given up when
// their release is tried again.
func TestKeptContainersLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(kept, "min_idle: 0", "min_idle: 1", 1))
		running(t, y)
		mend := y.RT.Break("get", runtime.ErrDoomed)
		stuck := func(tenant string) claim.Claim {
			c := y.Claim("w", tenant)
			_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
			require.Error(t, err)
			return c
		}
		a, b := stuck("a"), stuck("b")
		y.Idle("w", 1)
		<-time.After(time.Hour)
		y.Idle("w", 1)
		require.Equal(t, 2, y.Count("w", pool.Claimed))
		stuck("c") // the third of two counts
		y.Idle("w", 1)
		stuck("d")
		<-time.After(time.Hour)
		require.Zero(t, y.Count("w", pool.Idle))
		_, err := ask(y, "e")
		full, ok := errors.AsType[*claim.UnavailableError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, claim.Exhausted, full.Reason)
		s, err := y.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, 4, s.Kept)
		mend()
		y.Release(a)
		y.Release(b)
		y.Idle("w", 1)
		_, err = ask(y, "e")
		require.NoError(t, err)
	})
}

// A container that dies or falls ill while its claim is being released does not
// go back to the pool.
func TestHealthDuringTheRelease(t *testing.T) {
	for _, health := range []pool.Health{pool.Unhealthy, pool.Dead} {
		t.Run(string(health), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.New(t)
				y.Apply(strings.Replace(kept, "reuse: never", "reuse: same_tenant", 1))
				c := y.Claim("w", "ada")
				y.RT.Before("restart", func(ctx context.Context, call fake.Call) error {
					_, err := y.DB.MoveContainer(ctx, pool.Move{
						ID: call.ID, From: []pool.State{pool.Claimed}, To: pool.Claimed,
						Set: func(c *pool.Container) { c.Health = health },
					})
					return err
				})
				y.Release(c)
				require.Contains(t, gone(y, c.Container), string(health))
			})
		})
	}
}
