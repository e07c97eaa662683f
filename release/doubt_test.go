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
func TestDiscardIsOneChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(file)
		c := y.Claim("w", "ada")
		mend := y.RT.Break("status", runtime.ErrUnavailable)
		_, err := y.Releases.Release(t.Context(), c.ID, release.Request{Discard: true})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		require.True(t, now(y, c).Discard)
		require.Empty(t, y.Events(activity.ClaimDiscarded), "there was no second change")
		require.Contains(t, string(y.Events(activity.ClaimReleasing)[0].Data), `"discard":true`)
		mend()
	})
}

// A release touches no container that is another claim's by now.
func TestContainerOfAnotherClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(file)
		c := y.Claim("w", "ada")
		_, err := y.DB.MoveContainer(t.Context(), pool.Move{
			ID: c.Container, From: []pool.State{pool.Claimed}, To: pool.Claimed,
			Set: func(k *pool.Container) { k.Claim = "another" },
		})
		require.NoError(t, err)
		y.RT.ForgetCalls()
		_, err = y.Releases.Release(t.Context(), c.ID, release.Request{})
		require.ErrorIs(t, err, pool.ErrMoved)
		require.Empty(t, y.RT.Calls())
		k, err := y.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, "another", k.Claim)
	})
}

// A container of an older revision is never idle again.
func TestOldRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(file)
		c := y.Claim("w", "ada")
		y.Apply(strings.Replace(file, "image: box", "image: box2", 1))
		y.Release(c)
		require.Contains(t, gone(y, c.Container), "outdated")
		require.Empty(t, y.Events(activity.ContainerReleased))
	})
}

// A wish that is recorded in the moment in which the upload fails counts: the
// release is not kept back for what nobody wants.
func TestDiscardAsTheUploadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(kept)
		c := y.Claim("w", "ada")
		exec(y, c, "write", "/data/note", "x")
		var failed, told atomic.Bool
		y.Bucket.Before(func(call snapshottest.Call) error {
			if call.Op != "list" {
				failed.Store(true)
				return errors.New("the sink is unplugged")
			}
			// What is done after a failure, before the release is kept back.
			if failed.Load() && told.CompareAndSwap(false, true) {
				_, err := y.DB.MoveClaim(t.Context(), claim.Move{
					ID: c.ID, From: []claim.State{claim.Releasing}, Set: func(c *claim.Claim) { c.Discard = true },
				})
				require.NoError(t, err)
			}
			return nil
		})
		r, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
		require.NoError(t, err)
		require.True(t, told.Load())
		require.Equal(t, claim.Released, r.State)
		require.Empty(t, y.Events(activity.ClaimReleaseFailed))
		require.Contains(t, gone(y, c.Container), "discarded")
	})
}

// listed is storage in which something happens after the releases that failed
// were listed.
type listed struct {
	claim.Store
	after func([]claim.Claim)
}

func (l listed) Claims(ctx context.Context, f claim.Filter) ([]claim.Claim, error) {
	list, err := l.Store.Claims(ctx, f)
	if len(f.States) == 1 && f.States[0] == claim.ReleaseFailed {
		l.after(list)
	}
	return list, err
}

// A state that its tenant made unreadable is not given up when that has changed
// meanwhile: a sink is waited for.
func TestNotGivenUpForASink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(kept, "reuse: never", "reuse: never, release_failed_ttl: 1h", 1))
		c := y.Claim("w", "ada")
		exec(y, c, "write", "/data/note", "x")
		begun := time.Now()
		y.Releases = release.NewService(listed{y.DB, func(list []claim.Claim) {
			if len(list) == 0 || time.Since(begun) < time.Hour {
				return
			}
			_, err := y.DB.MoveClaim(context.WithoutCancel(t.Context()), claim.Move{ // the last list may come as the test ends
				ID: c.ID, From: []claim.State{claim.ReleaseFailed}, Set: func(c *claim.Claim) {
					later := time.Now().Add(100 * time.Hour)
					c.FailureReason, c.RetryAt = claim.FailedBySink, &later
				},
			})
			require.NoError(t, err)
		}}, y.Claims, y.Pools, y.RT, hooks.NewRunner(y.RT, y.DB), slog.New(slog.DiscardHandler))
		running(t, y)
		y.RT.Break("get", runtime.ErrDoomed)
		_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
		require.Error(t, err)
		<-time.After(3 * time.Hour)
		require.Equal(t, claim.ReleaseFailed, now(y, c).State)
		require.Empty(t, y.Events(activity.ClaimStateLost))
	})
}

// A container that has disappeared is not waited for: its claim ends, and the
// log says what is lost.
func TestContainerDisappeared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(kept)
		c := y.Claim("w", "ada")
		exec(y, c, "write", "/data/note", "x")
		y.RT.Break("get", runtime.ErrNotFound)
		r := y.Release(c)
		require.Equal(t, claim.Released, r.State)
		lost := y.Events(activity.ClaimStateLost)
		require.Len(t, lost, 1)
		require.Contains(t, lost[0].Message, "since the claim began")
		require.Equal(t, []string{lost[0].Message}, r.Warnings)
		require.Contains(t, gone(y, c.Container), "disappeared")
	})
}

// A container that had to be started again to read what it holds is not handed
// out again: nobody knows why it had ended.
func TestStartedToBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(kept, "reuse: never", "reuse: same_tenant", 1))
		c := y.Claim("w", "ada")
		exec(y, c, "write", "/data/note", "x")
		y.RT.BreakOnce("get", runtime.ErrNotRunning)
		y.Release(c)
		require.Contains(t, gone(y, c.Container), "had ended before its tenant left")
		require.Equal(t, "x", exec(y, y.Claim("w", "ada"), "read", "/data/note"))
	})
}

// The fence of a container grows from one flow to the next: each release goes
// through, and what an earlier flow still asks for is refused.
func TestFencesOfReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(file, "max_size: 2", "max_size: 1", 1))
		var first claim.Claim
		for _, tenant := range []string{"ada", "bob", "cyd"} {
			c := y.Claim("w", tenant)
			if first.ID == "" {
				first = now(y, c)
			}
			require.Equal(t, first.Container, c.Container)
			y.Release(c)
			k, err := y.Pools.Container(t.Context(), c.Container)
			require.NoError(t, err)
			require.Equal(t, pool.Idle, k.State, k.Reason)
		}
		require.ErrorIs(t, y.RT.Restart(t.Context(), first.Container, first.ContainerFence), runtime.ErrStaleFence)
	})
}
