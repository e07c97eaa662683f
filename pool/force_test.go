package pool_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

const forcedYAML = `
id: w
image: box
command: [box, idle]
pool: { min_idle: 0, max_size: 2 }
hooks:
  post_claim: [{ name: claim, command: [box, echo, c] }]
  pre_release: [{ name: release, command: [box, echo, r] }]
  pre_destroy: [{ name: first, command: [box, echo, d] }, { name: notify, builtin: log }]
`

// states returns the states of the runs of a point, by hook and attempt.
func states(h *flowtest.Harness, p hooks.Point) string {
	h.T.Helper()
	runs, err := h.DB.Runs(h.T.Context(), hooks.RunFilter{Point: p})
	require.NoError(h.T, err)
	var all []string
	for _, r := range runs {
		all = append(all, r.Hook+" "+string(r.State))
	}
	return strings.Join(all, ", ")
}

func containerOf(h *flowtest.Harness, id string) pool.Container {
	h.T.Helper()
	k, err := h.Pools.Container(h.T.Context(), id)
	require.NoError(h.T, err)
	return k
}

// awaitRemoved returns when a claimed container is removed.
func awaitRemoved(h *flowtest.Harness, id string) {
	h.T.Helper()
	for containerOf(h, id).Forced != pool.ForcedDone {
		<-time.After(100 * time.Millisecond)
	}
	_, err := h.RT.Status(h.T.Context(), id)
	require.ErrorIs(h.T, err, runtime.ErrNotFound)
}

// hanging returns a file with a command that hangs and ignores SIGTERM.
func hanging(file, hook string) string {
	return flowtest.Edit(file, hook, "[box, ignore-term], timeout: 10m")
}

// A claimed container is destroyed by force after its pre_destroy hooks, which
// run once, or with now without them. The claim remains until it is released.
func TestForcedDestruction(t *testing.T) {
	for how, want := range map[pool.Forced]string{
		pool.ForcedAfterHooks: "first succeeded, notify succeeded", pool.ForcedNow: "first skipped, notify skipped",
	} {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.Apply(forcedYAML)
			c := h.Claim("w", "ada")
			for range 2 {
				require.NoError(t, destroy(t.Context(), h, c.Container, how))
			}
			require.NoError(t, h.Pools.DestroyContainer(t.Context(), c.Container, true), "it does not take back --now")
			awaitRemoved(h, c.Container)
			require.Equal(t, want, states(h, hooks.PreDestroy))
			require.Len(t, h.Events(activity.ContainerForced), 1)
			require.Len(t, h.Events(activity.ContainerDied), 1)
			require.NoError(t, destroy(t.Context(), h, c.Container, pool.ForcedNow), "it is gone")
			h.ForgetCalls()
			h.Pools.Wake("w")
			synctest.Wait()
			require.Empty(t, h.RT.Calls(), "nothing is left to do")

			active, err := h.DB.Claim(t.Context(), c.ID)
			require.NoError(t, err)
			require.Equal(t, claim.Active, active.State)
			require.Equal(t, string(pool.Exited), active.Health)
			h.Release(c)
			h.Until("its end", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
			require.Equal(t, want, states(h, hooks.PreDestroy), "they do not run again")
		})
	}
}

func destroy(ctx context.Context, h *flowtest.Harness, id string, how pool.Forced) error {
	if how == pool.ForcedNow {
		return h.Pools.DestroyContainerNow(ctx, id, true)
	}
	return h.Pools.DestroyContainer(ctx, id, true)
}

// A container without a claim is destroyed with now without its hooks, also while
// they run.
func TestDestructionWithoutHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(forcedYAML, "min_idle: 0", "min_idle: 1"))
		h.AwaitIdle("w", 1)
		idle, err := h.DB.Containers(t.Context(), pool.ContainerFilter{States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		require.NoError(t, h.Pools.DestroyContainerNow(t.Context(), idle[0].ID, false))
		h.Until("its end", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
		require.Equal(t, "first skipped, notify skipped", states(h, hooks.PreDestroy))

		c := h.Claim("w", "ada")
		require.ErrorIs(t, h.Pools.DestroyContainerNow(t.Context(), c.Container, false), pool.ErrInUse)
	})
}

// With now, the pre_destroy hook that runs is ended and the rest is skipped: of a
// claimed container, and of one that is destroyed.
func TestDestructionIsCutShort(t *testing.T) {
	for _, claimed := range []bool{true, false} {
		t.Run(fmt.Sprint("claimed ", claimed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(flowtest.Edit(hanging(forcedYAML, "[box, echo, d]"), "max_size: 2", "max_size: 2, reuse: never"))
				c := h.Claim("w", "ada")
				if claimed {
					require.NoError(t, h.Pools.DestroyContainer(t.Context(), c.Container, true))
				} else {
					h.Release(c)
				}
				<-time.After(time.Minute)
				synctest.Wait()
				require.Equal(t, "first running", states(h, hooks.PreDestroy))
				begin := time.Now()
				require.NoError(t, h.Pools.DestroyContainerNow(t.Context(), c.Container, true))
				if claimed {
					awaitRemoved(h, c.Container)
				} else {
					h.Until("its end", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
				}
				require.Equal(t, "first cancelled, notify skipped", states(h, hooks.PreDestroy))
				require.Less(t, time.Since(begin), 30*time.Second)
			})
		})
	}
}

// The hook that runs is ended and recorded as canceled; no other hook of the
// container runs before it has ended. The claim fails, or its release continues.
func TestForceEndsRunningHook(t *testing.T) {
	for _, point := range []hooks.Point{hooks.PostClaim, hooks.PreRelease} {
		t.Run(string(point), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				command := map[hooks.Point]string{hooks.PostClaim: "[box, echo, c]", hooks.PreRelease: "[box, echo, r]"}[point]
				h.Apply(hanging(forcedYAML, command))
				var ended atomic.Bool
				h.RT.After("exec", func(_ context.Context, call fake.Call) error {
					if call.Args[1] == "ignore-term" {
						ended.Store(true)
					}
					assert.True(t, len(call.Args) < 3 || call.Args[2] != "d" || ended.Load(), "pre_destroy waits")
					return nil
				})
				var g errgroup.Group
				g.Go(func() error {
					c, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
					if point == hooks.PostClaim {
						assert.ErrorContains(t, err, "by force")
						return nil
					}
					released, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
					assert.Equal(t, claim.Released, released.State)
					assert.Contains(t, strings.Join(released.Warnings, "\n"), "by force")
					return err
				})
				<-time.After(time.Minute)
				k, err := h.DB.Containers(t.Context(), pool.ContainerFilter{States: []pool.State{pool.Claimed}})
				require.NoError(t, err)
				begin := time.Now()
				h.RT.Before("restart", func(context.Context, fake.Call) error {
					assert.Fail(t, "a restart ends the pre_destroy hooks")
					return nil
				})
				require.NoError(t, h.Pools.DestroyContainer(t.Context(), k[0].ID, true))
				h.Until("its end", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
				require.NoError(t, g.Wait())
				require.Less(t, time.Since(begin), 30*time.Second)
				require.Equal(t, map[hooks.Point]string{hooks.PostClaim: "claim", hooks.PreRelease: "release"}[point]+" cancelled", states(h, point))
				require.Equal(t, "first succeeded, notify succeeded", states(h, hooks.PreDestroy))
			})
		})
	}
}

// The hook of a server that was killed is ended by the next one, which destroys
// the container as the record says: with its pre_destroy hooks, or without them.
func TestForceSurvivesRestart(t *testing.T) {
	for how, want := range map[pool.Forced]string{
		pool.ForcedAfterHooks: "first succeeded, notify succeeded", pool.ForcedNow: "first skipped, notify skipped",
	} {
		for _, broken := range []string{"", "destroy", "status"} {
			t.Run(string(how)+" "+broken, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := flowtest.New(t)
					h.Apply(forcedYAML)
					c := h.Claim("w", "ada")
					repair := func() {}
					if broken != "" {
						repair = h.RT.Break(broken, runtime.ErrUnavailable)
					}
					require.NoError(t, destroy(t.Context(), h, c.Container, how))
					if broken != "" {
						<-time.After(time.Second)
					}
					h.RestartUnfinished()
					repair()
					awaitRemoved(h, c.Container)
					require.Equal(t, want, states(h, hooks.PreDestroy))
					h.RestartUnfinished()
					h.Release(c)
					h.Until("its end", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
					require.Equal(t, want, states(h, hooks.PreDestroy))
				})
			})
		}
	}
}

// The hook that runs has its grace period before the container is removed, and
// its end is known, also where no command of pre_destroy follows.
func TestForceEndsHookBeforeRemoval(t *testing.T) {
	const preDestroy = "{ name: first, command: [box, echo, d] }, { name: notify, builtin: log }"
	for _, others := range []string{"", "{ name: notify, builtin: log }"} {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.Apply(flowtest.Edit(hanging(forcedYAML, "[box, echo, c]"), preDestroy, others))
			claims := make(chan error, 1)
			go func() {
				_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
				claims <- err
			}()
			h.Until("the hook to run", func() bool { return len(h.Events(activity.HookStarted)) == 1 })
			synctest.Wait()
			k, err := h.DB.Containers(t.Context(), pool.ContainerFilter{States: []pool.State{pool.Claimed}})
			require.NoError(t, err)
			require.NoError(t, h.Pools.DestroyContainer(t.Context(), k[0].ID, true))
			h.Until("its end", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
			require.ErrorContains(t, <-claims, "by force")
			require.Equal(t, "claim cancelled", states(h, hooks.PostClaim), "pre_destroy: %q", others)
		})
	}
}

// leaveRunning starts a program as the first hook of a point for a minute, as a
// server that is killed leaves it. wait returns when it has ended.
func leaveRunning(h *flowtest.Harness, container string, p hooks.Point, program string) (wait func() error) {
	h.T.Helper()
	var g errgroup.Group
	g.Go(func() error {
		_, err := h.RT.Exec(h.T.Context(), container, runtime.Command{RunID: "00.1", Args: []string{"box", program}, Timeout: time.Minute})
		return err
	})
	synctest.Wait() // it runs
	require.NoError(h.T, h.DB.RunStarted(h.T.Context(), hooks.Run{
		ID: "00", Attempt: 1, Point: p, Hook: "first", Kind: hooks.KindCommand, StartedAt: time.Now(), Workload: "w", Container: container,
	}))
	return g.Wait
}

// A hook that no server has in memory any more is ended as well. A pre_destroy
// hook is continued, and has all of its time.
func TestForceEndsHookOfTerminatedServer(t *testing.T) {
	for point, want := range map[hooks.Point]string{
		hooks.PostClaim: "first succeeded, notify succeeded", hooks.PreDestroy: "first timed_out, notify skipped",
	} {
		t.Run(string(point), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(flowtest.Edit(forcedYAML, "[box, echo, d]", "[box, echo, d], timeout: 1m"))
				c := h.Claim("w", "ada")
				wait := leaveRunning(h, c.Container, point, "ignore-term")
				begin := time.Now()
				require.NoError(t, h.Pools.DestroyContainer(t.Context(), c.Container, true))
				awaitRemoved(h, c.Container)
				require.NoError(t, wait(), "it has ended before the container")
				require.Equal(t, point == hooks.PreDestroy, time.Since(begin) > time.Minute)
				require.Equal(t, want, states(h, hooks.PreDestroy))
			})
		})
	}
}

// The state of a tenant is not read from a container whose destruction is forced:
// that would end its pre_destroy hooks.
func TestReleaseDuringForcedDestruction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(forcedYAML, "[box, echo, d]", "[box, idle, d], timeout: 1m") +
			"volumes: { state: { target: /data } }\nsync: { sink: { type: file } }\n")
		c := h.Claim("w", "ada")
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), c.Container, true))
		<-time.After(time.Second)
		synctest.Wait()
		require.Equal(t, "first running", states(h, hooks.PreDestroy))
		released := h.Release(c)
		require.Contains(t, strings.Join(released.Warnings, "\n"), "an operator destroyed it while it was claimed")
		require.Len(t, h.Events(activity.ClaimStateLost), 1)
		h.Until("its end", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
		require.Equal(t, "first timed_out, notify skipped", states(h, hooks.PreDestroy), "it had all of its time")
	})
}

// Whatever the container or the engine does not answer, the destruction with now
// needs no answer of the container.
func TestForceNowOfUnresponsiveContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(forcedYAML)
		c := h.Claim("w", "ada")
		for _, call := range []string{"exec", "outcome", "status"} {
			defer h.RT.Break(call+" "+c.Container, runtime.ErrUnresponsive)()
		}
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), c.Container, true))
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, pool.ForcedAfterHooks, containerOf(h, c.Container).Forced)
		require.NoError(t, h.Pools.DestroyContainerNow(t.Context(), c.Container, true))
		for containerOf(h, c.Container).Forced != pool.ForcedDone {
			<-time.After(100 * time.Millisecond)
		}
	})
}
