package release_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
)

// running has the loops of releases run until the test ends.
func running(t *testing.T, y *flowtest.Yard) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { return y.Releases.Run(ctx) })
	g.Go(func() error { return y.Releases.Finish(ctx) })
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Errorf("the loops of releases ended with %v", err)
		}
	})
}

// A claim whose tenant shows no sign of life is released after the pool's
// claim_idle_ttl, hooks and all; asking for it again, and Touch, are such signs.
func TestIdleClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(file, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 10m", 1))
		running(t, y)
		idle, busy := y.Claim("w", "idle"), y.Claim("w", "busy")
		<-time.After(6 * time.Minute)
		_, err := y.Claims.Touch(t.Context(), busy.ID)
		require.NoError(t, err)
		<-time.After(5 * time.Minute)
		ended, err := y.DB.Claim(t.Context(), idle.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Released, ended.State)
		require.Contains(t, ended.Reason, "idle for 10m")
		require.Len(t, y.Events(activity.HookCompleted), 1)

		again := y.Claim("w", "busy")
		require.Equal(t, busy.ID, again.ID)
		<-time.After(9 * time.Minute)
		held, err := y.DB.Claim(t.Context(), busy.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Active, held.State, "asked for nine minutes ago")
		<-time.After(2 * time.Minute)
		held, err = y.DB.Claim(t.Context(), busy.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Released, held.State)
	})
}

// An engine that goes away in the middle of a release costs nothing: the claim
// stays releasing, with its container as it is, and is finished by itself.
func TestEngineAwayAtRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(file, "reuse: wipe", "reuse: same_tenant", 1))
		running(t, y)
		c := y.Claim("w", "ada")
		mend := y.RT.Break("restart", runtime.ErrUnavailable)
		_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		_, _, err = y.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorIs(t, err, claim.ErrReleasing)
		mend()
		y.Until("the release to be finished", func() bool { return len(y.Events(activity.ClaimReleased)) == 1 })
		require.Len(t, y.Events(activity.HookStarted), 1, "pre_release does not run again")
		again := y.Claim("w", "ada")
		require.Equal(t, c.Container, again.Container, "and what is in the container is kept")
	})
}

// A second caller who wants the container discarded gets that, though the
// first did not ask for it.
func TestDiscardJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(file)
		c := y.Claim("w", "ada")
		reached, unblock := y.RT.Block("restart")
		var g errgroup.Group
		g.Go(func() error {
			_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
			return err
		})
		<-reached
		g.Go(func() error {
			_, err := y.Releases.Release(t.Context(), c.ID, release.Request{Discard: true})
			return err
		})
		synctest.Wait()
		unblock()
		require.NoError(t, g.Wait())
		require.Contains(t, gone(y, c.Container), "discarded")
		require.Empty(t, y.Events(activity.ContainerReleased), "it is never anybody's in between")
	})
}

// Who wants a release to discard while another one is about to begin it has that
// as well.
func TestDiscardJoinsAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(file)
		c := y.Claim("w", "ada")
		var g errgroup.Group
		var once sync.Once
		var releases *release.Service
		var got claim.Claim
		releases = release.NewService(interposed{y.DB, func() {
			once.Do(func() {
				g.Go(func() (err error) {
					got, err = releases.Release(t.Context(), c.ID, release.Request{Discard: true})
					return err
				})
				synctest.Wait() // it has joined
			})
		}}, y.Claims, y.Pools, y.RT, hooks.NewRunner(y.RT, y.DB), slog.New(slog.DiscardHandler))
		_, err := releases.Release(t.Context(), c.ID, release.Request{})
		require.NoError(t, err)
		require.NoError(t, g.Wait())
		require.True(t, got.Discard)
		require.Contains(t, gone(y, c.Container), "discarded")
	})
}

// Tenants whom nobody could hear, for the server was down, have time to show
// themselves to the next one; those who do not are idle since they were.
func TestNobodyHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(file, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 10m", 1))
		quiet, alive := y.Claim("w", "quiet"), y.Claim("w", "alive")
		<-time.After(time.Hour)
		running(t, y)
		<-time.After(30 * time.Second)
		_, err := y.Claims.Touch(t.Context(), alive.ID)
		require.NoError(t, err)
		<-time.After(time.Minute)
		for c, state := range map[string]claim.State{quiet.ID: claim.Released, alive.ID: claim.Active} {
			now, err := y.DB.Claim(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, state, now.State)
		}
	})
}

// A tenant that writes to its state is not idle.
func TestWritingIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(file, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 10m", 1))
		running(t, y)
		c := y.Claim("w", "ada")
		state := func() claim.State {
			now, err := y.DB.Claim(t.Context(), c.ID)
			require.NoError(t, err)
			return now.State
		}
		<-time.After(8 * time.Minute)
		exec(y, c, "write", "/data/note", "x")
		<-time.After(9 * time.Minute)
		require.Equal(t, claim.Active, state(), "nine minutes since the last write")
		<-time.After(2 * time.Minute)
		require.Equal(t, claim.Released, state())
	})
}

// Nobody is idle whose files could not be looked at; those of a container that
// has ended change no more.
func TestUnknownIsNotIdle(t *testing.T) {
	for err, want := range map[error]claim.State{
		runtime.ErrUnfinished:          claim.Active,
		runtime.ErrUnavailable:         claim.Active,
		errors.New("not heard before"): claim.Active,
		runtime.ErrNotFound:            claim.Released,
		runtime.ErrNotRunning:          claim.Released,
		runtime.ErrLost:                claim.Released,
		runtime.ErrDoomed:              claim.Released,
	} {
		synctest.Test(t, func(t *testing.T) {
			y := flowtest.New(t)
			y.Apply(strings.Replace(file, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 10m", 1))
			running(t, y)
			c := y.Claim("w", "ada")
			mend := y.RT.Break("changed", err)
			state := func() claim.State {
				now, err := y.DB.Claim(t.Context(), c.ID)
				require.NoError(t, err)
				return now.State
			}
			<-time.After(time.Hour)
			require.Equal(t, want, state(), err)
			mend()
			<-time.After(11 * time.Minute)
			require.Equal(t, claim.Released, state(), err)
		})
	}
}

// A tenant that shows itself while the reaper looks at its files, or waits for
// its turn, keeps its claim, and the time at which it did so.
func TestShowingUpInTime(t *testing.T) {
	for _, writes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			y := flowtest.New(t)
			y.Apply(strings.Replace(file, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 10m", 1))
			running(t, y)
			c := y.Claim("w", "ada")
			if writes {
				<-time.After(time.Minute)
				exec(y, c, "write", "/data/note", "x")
			}
			looking, look := y.RT.Block("changed")
			<-looking
			<-time.After(2 * time.Minute)
			again := y.Claim("w", "ada")
			require.Equal(t, c.ID, again.ID)
			look()
			<-time.After(9 * time.Minute)
			now, err := y.DB.Claim(t.Context(), c.ID)
			require.NoError(t, err)
			require.Equal(t, claim.Active, now.State)
			require.Equal(t, again.TouchedAt, now.TouchedAt)
			<-time.After(2 * time.Minute)
			now, err = y.DB.Claim(t.Context(), c.ID)
			require.NoError(t, err)
			require.Equal(t, claim.Released, now.State)
		})
	}
}

// While the engine is away, releases that cannot be finished are tried ever
// more seldom.
func TestPatienceWithTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(file, "reuse: wipe", "reuse: same_tenant", 1))
		running(t, y)
		c := y.Claim("w", "ada")
		mend := y.RT.Break("restart", runtime.ErrUnavailable)
		defer mend()
		_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		y.RT.ForgetCalls()
		<-time.After(10 * time.Minute)
		tries := strings.Count(strings.Join(y.RT.Calls(), "\n"), "restart "+c.Container)
		require.Greater(t, tries, 5)
		require.Less(t, tries, 20)
	})
}

// interposed is storage in which something happens before a release begins.
type interposed struct {
	claim.Store
	before func()
}

func (s interposed) MoveClaim(ctx context.Context, m claim.Move) (claim.Claim, error) {
	if m.To == claim.Releasing {
		s.before()
	}
	return s.Store.MoveClaim(ctx, m)
}

// A tenant that shows itself at the very moment at which its claim would be
// released keeps it; one that asks for the release at that moment has it.
func TestShowingUpAtTheLastMoment(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			y := flowtest.New(t)
			y.Apply(strings.Replace(file, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 10m", 1))
			c := y.Claim("w", "ada")
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var g errgroup.Group
			var once sync.Once
			var releases *release.Service
			releases = release.NewService(interposed{y.DB, func() {
				once.Do(func() {
					if leaves {
						g.Go(func() error {
							got, err := releases.Release(ctx, c.ID, release.Request{})
							require.Equal(t, claim.Released, got.State)
							return err
						})
						synctest.Wait() // it has joined
					}
					require.Equal(t, c.ID, y.Claim("w", "ada").ID)
				})
			}}, y.Claims, y.Pools, y.RT, hooks.NewRunner(y.RT, y.DB), slog.New(slog.DiscardHandler))
			g.Go(func() error { return releases.Run(ctx) })
			<-time.After(15 * time.Minute)
			now, err := y.DB.Claim(t.Context(), c.ID)
			require.NoError(t, err)
			require.Equal(t, map[bool]claim.State{false: claim.Active, true: claim.Released}[leaves], now.State)
			stop()
			require.NoError(t, g.Wait())
		})
	}
}
