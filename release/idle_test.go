package release_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/release/schedule"
	"github.com/hostler/hostler/runtime"
)

// newSchedule returns the loops that start releases on a harness.
func newSchedule(h *flowtest.Harness, releases *release.Service) *schedule.Scheduler {
	return schedule.New(h.DB, h.Claims, h.Pools, h.RT, releases, slog.New(slog.DiscardHandler))
}

// follow returns what has a scheduler learn of events, until its context ends.
func follow(h *flowtest.Harness, s *schedule.Scheduler) func(context.Context) error {
	return dispatch.New(h.DB, slog.New(slog.DiscardHandler), s.EventHandlers()).Run
}

// startLoops runs the loops of releases until the test ends.
func startLoops(t *testing.T, h *flowtest.Harness) {
	t.Helper()
	startLoopsOn(t, h, h.DB)
}

// startLoopsOn is startLoops with another store.
func startLoopsOn(t *testing.T, h *flowtest.Harness, store claim.Store) {
	t.Helper()
	runSchedule(t, h, schedule.New(store, h.Claims, h.Pools, h.RT, h.Releases, slog.New(slog.DiscardHandler)))
}

// runSchedule runs the loops of a scheduler until the test ends.
func runSchedule(t *testing.T, h *flowtest.Harness, s *schedule.Scheduler) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { return follow(h, s)(ctx) })
	g.Go(func() error { return s.Run(ctx) })
	g.Go(func() error { return s.RunResumes(ctx) })
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Errorf("the loops of releases ended with %v", err)
		}
	})
}

// An idle claim is released after the pool's claim_idle_ttl, including its
// hooks. A repeated claim and Touch count as activity.
func TestIdleClaimsAreReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 10m"))
		startLoops(t, h)
		idle, busy := h.Claim("w", "idle"), h.Claim("w", "busy")
		<-time.After(6 * time.Minute)
		_, err := h.Claims.Touch(t.Context(), busy.ID)
		require.NoError(t, err)
		<-time.After(5 * time.Minute)
		ended, err := h.DB.Claim(t.Context(), idle.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Released, ended.State)
		require.Contains(t, ended.Reason, "idle for 10m")
		require.Len(t, h.Events(activity.HookCompleted), 1)

		again := h.Claim("w", "busy")
		require.Equal(t, busy.ID, again.ID)
		<-time.After(9 * time.Minute)
		held, err := h.DB.Claim(t.Context(), busy.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Active, held.State, "claimed again nine minutes ago")
		<-time.After(2 * time.Minute)
		held, err = h.DB.Claim(t.Context(), busy.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Released, held.State)
	})
}

// When the engine becomes unavailable during a release, the claim stays
// releasing with its container unchanged, and is completed automatically.
func TestEngineUnavailableAtRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: same_tenant"))
		startLoops(t, h)
		c := h.Claim("w", "ada")
		repair := h.RT.Break("restart", runtime.ErrUnavailable)
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		_, _, err = h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorIs(t, err, claim.ErrReleasing)
		repair()
		h.Until("the release to be finished", func() bool { return len(h.Events(activity.ClaimReleased)) == 1 })
		require.Len(t, h.Events(activity.HookStarted), 1, "pre_release does not run again")
		again := h.Claim("w", "ada")
		require.Equal(t, c.Container, again.Container, "the container and its files are kept")
	})
}

// A second caller's discard applies to the release in progress.
func TestDiscardJoinsRunningRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c := h.Claim("w", "ada")
		reached, unblock := h.RT.Block("restart")
		var g errgroup.Group
		g.Go(func() error {
			_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
			return err
		})
		<-reached
		g.Go(func() error {
			_, err := h.Releases.Release(t.Context(), c.ID, release.Request{Discard: true})
			return err
		})
		synctest.Wait()
		unblock()
		require.NoError(t, g.Wait())
		require.Contains(t, awaitDestroyed(h, c.Container), "discarded")
		require.Empty(t, h.Events(activity.ContainerReleased), "it never returned to the pool")
	})
}

// A discard applies when it is requested while another caller is about to start
// the release.
func TestDiscardRacesReleaseStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c := h.Claim("w", "ada")
		var g errgroup.Group
		var once sync.Once
		var releases *release.Service
		var got claim.Claim
		releases = release.NewService(hookedStore{h.DB, func() {
			once.Do(func() {
				g.Go(func() (err error) {
					got, err = releases.Release(t.Context(), c.ID, release.Request{Discard: true})
					return err
				})
				synctest.Wait() // it has joined
			})
		}}, h.Claims, h.Pools, h.RT, flowtest.HookRunner(h.RT, h.DB, nil), slog.New(slog.DiscardHandler))
		_, err := releases.Release(t.Context(), c.ID, release.Request{})
		require.NoError(t, err)
		require.NoError(t, g.Wait())
		require.True(t, got.Discard)
		require.Contains(t, awaitDestroyed(h, c.Container), "discarded")
	})
}

// After a server downtime, tenants have a grace period to show activity. Those
// without activity count as idle since their last one.
func TestIdleGraceAfterServerDowntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 10m"))
		quiet, alive := h.Claim("w", "quiet"), h.Claim("w", "alive")
		<-time.After(time.Hour)
		startLoops(t, h)
		<-time.After(30 * time.Second)
		_, err := h.Claims.Touch(t.Context(), alive.ID)
		require.NoError(t, err)
		<-time.After(time.Minute)
		for c, state := range map[string]claim.State{quiet.ID: claim.Released, alive.ID: claim.Active} {
			current, err := h.DB.Claim(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, state, current.State)
		}
	})
}

// A tenant that writes to its state is not idle.
func TestWritingTenantIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 10m"))
		startLoops(t, h)
		c := h.Claim("w", "ada")
		state := func() claim.State {
			current, err := h.DB.Claim(t.Context(), c.ID)
			require.NoError(t, err)
			return current.State
		}
		<-time.After(8 * time.Minute)
		execTestprog(h, c, "write", "/data/note", "x")
		<-time.After(9 * time.Minute)
		synctest.Wait()
		require.Equal(t, claim.Active, state(), "nine minutes since the last write")
		<-time.After(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, claim.Released, state())
	})
}

// A claim whose files cannot be read counts as active. The files of an exited
// container no longer change.
func TestUnreadableStateIsNotIdle(t *testing.T) {
	for err, want := range map[error]claim.State{
		runtime.ErrScanIncomplete:   claim.Active,
		runtime.ErrUnavailable:      claim.Active,
		errors.New("unknown error"): claim.Active,
		runtime.ErrNotFound:         claim.Released,
		runtime.ErrNotRunning:       claim.Released,
		runtime.ErrContainerExited:  claim.Released,
		runtime.ErrTainted:          claim.Released,
	} {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.Apply(flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 10m"))
			startLoops(t, h)
			c := h.Claim("w", "ada")
			repair := h.RT.Break("changed", err)
			state := func() claim.State {
				current, err := h.DB.Claim(t.Context(), c.ID)
				require.NoError(t, err)
				return current.State
			}
			<-time.After(time.Hour)
			synctest.Wait()
			require.Equal(t, want, state(), err)
			repair()
			<-time.After(11 * time.Minute)
			synctest.Wait()
			require.Equal(t, claim.Released, state(), err)
		})
	}
}

// A tenant that is active while its files are scanned, or while its release
// waits for a slot, keeps its claim and the time of that activity.
func TestTouchDuringIdleCheckKeepsClaim(t *testing.T) {
	for _, writes := range []bool{false, true} {
		t.Run(fmt.Sprint("writes ", writes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 10m"))
				startLoops(t, h)
				c := h.Claim("w", "ada")
				if writes {
					<-time.After(time.Minute)
					execTestprog(h, c, "write", "/data/note", "x")
				}
				reached, unblock := h.RT.Block("changed")
				<-reached
				<-time.After(2 * time.Minute)
				again := h.Claim("w", "ada")
				require.Equal(t, c.ID, again.ID)
				unblock()
				<-time.After(9 * time.Minute)
				current, err := h.DB.Claim(t.Context(), c.ID)
				require.NoError(t, err)
				require.Equal(t, claim.Active, current.State)
				require.Equal(t, again.TouchedAt, current.TouchedAt)
				<-time.After(2 * time.Minute)
				current, err = h.DB.Claim(t.Context(), c.ID)
				require.NoError(t, err)
				require.Equal(t, claim.Released, current.State)
			})
		})
	}
}

// While the engine is unavailable, releases are retried with backoff.
func TestReleaseBacksOffWhileEngineUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: same_tenant"))
		startLoops(t, h)
		c := h.Claim("w", "ada")
		repair := h.RT.Break("restart", runtime.ErrUnavailable)
		defer repair()
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		h.ForgetCalls()
		<-time.After(10 * time.Minute)
		tries := strings.Count(strings.Join(h.RT.Calls(), "\n"), "restart "+c.Container)
		require.Greater(t, tries, 5)
		require.Less(t, tries, 20)
	})
}

// hookedStore is a store that calls a function before a release starts.
type hookedStore struct {
	claim.Store
	before func()
}

func (s hookedStore) UpdateClaim(ctx context.Context, m claim.Transition) (claim.Claim, error) {
	if m.To == claim.Releasing {
		s.before()
	}
	return s.Store.UpdateClaim(ctx, m)
}

// A tenant that is active just before its idle release keeps its claim. One
// that requests the release at that time gets it.
func TestTouchRacesIdleRelease(t *testing.T) {
	for _, tenantReleases := range []bool{false, true} {
		t.Run(fmt.Sprint("tenantReleases ", tenantReleases), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 10m"))
				c := h.Claim("w", "ada")
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var g errgroup.Group
				var once sync.Once
				var releases *release.Service
				releases = release.NewService(hookedStore{h.DB, func() {
					once.Do(func() {
						if tenantReleases {
							g.Go(func() error {
								got, err := releases.Release(ctx, c.ID, release.Request{})
								assert.Equal(t, claim.Released, got.State)
								return err
							})
							synctest.Wait() // it has joined
						}
						kept, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
						assert.NoError(t, err)
						assert.Equal(t, c.ID, kept.ID)
					})
				}}, h.Claims, h.Pools, h.RT, flowtest.HookRunner(h.RT, h.DB, nil), slog.New(slog.DiscardHandler))
				g.Go(func() error { return newSchedule(h, releases).Run(ctx) })
				<-time.After(15 * time.Minute)
				current, err := h.DB.Claim(t.Context(), c.ID)
				require.NoError(t, err)
				require.Equal(t, map[bool]claim.State{false: claim.Active, true: claim.Released}[tenantReleases], current.State)
				stop()
				require.NoError(t, g.Wait())
			})
		})
	}
}
