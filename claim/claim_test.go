package claim_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

const hookedWorkload = `
id: w
image: box
command: [box, idle]
volumes: { state: { target: /data } }
healthcheck: { test: [CMD, box, echo, healthy], interval: 10s, retries: 1, start_period: 1s }
pool: { min_idle: 1, max_size: 2, reuse: wipe }
hooks:
  post_claim: [{ name: migrate, command: [box, echo, migrated] }]
`

func smallWorkload(maxSize int) string {
	return fmt.Sprintf("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 0, max_size: %d, reuse: wipe }\n", maxSize)
}

// trace returns the calls for a container, without the IDs.
func trace(h *flowtest.Harness, id string) []string {
	var calls []string
	for _, c := range h.RT.Calls() {
		if strings.Contains(c, id) && !strings.HasPrefix(c, "status") {
			calls = append(calls, strings.ReplaceAll(c, " "+id, ""))
		}
	}
	return calls
}

// The order of a claim's steps is the contract. A container of another tenant
// is reserved, wiped, restarted, checked, and then the hook runs. A fresh
// container is only checked.
func TestClaimStepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "max_size: 2", "max_size: 1"))
		h.AwaitIdle("w", 1)
		h.ForgetCalls()
		c := h.Claim("w", "ada")
		require.Equal(t, claim.Fresh, c.Source)
		require.Equal(t, []string{"exec box echo migrated"}, trace(h, c.Container), "a fresh one was healthy recently: only the hook")
		require.Equal(t, "migrate", c.Hooks[0].Hook)
		require.Contains(t, c.Timings, "post_claim")
		require.NotNil(t, c.ActiveAt)
		h.Release(c)

		h.ForgetCalls()
		again := h.Claim("w", "ada")
		require.Equal(t, claim.Affinity, again.Source)
		require.Equal(t, c.Container, again.Container)
		require.Equal(t, []string{"exec box echo healthy", "exec box echo migrated"}, trace(h, c.Container), "the release restarted it")
		h.Release(again)

		h.ForgetCalls()
		var states []pool.State
		h.RT.Before("wipe", func(ctx context.Context, call fake.Call) error {
			k, err := h.Pools.Container(ctx, call.ID)
			states = append(states, k.State)
			return err
		})
		other := h.Claim("w", "bob")
		require.Equal(t, claim.Recycled, other.Source)
		require.Equal(t, c.Container, other.Container)
		require.Equal(t, []string{"wipe", "restart", "exec box echo healthy", "exec box echo migrated"}, trace(h, c.Container))
		require.Equal(t, []pool.State{pool.Claimed}, states, "the wipe comes after the reservation")
		require.Len(t, h.Events(activity.ContainerWiped), 1)
	})
}

// A repeated claim returns the existing one and runs nothing.
func TestRepeatedClaimReturnsExisting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		h.AwaitIdle("w", 1)
		c := h.Claim("w", "ada")
		h.AwaitIdle("w", 1)
		h.ForgetCalls()
		again, created, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, c, again)
		require.Empty(t, trace(h, c.Container))
		require.Len(t, h.Events(activity.HookStarted), 1)
	})
}

// Twenty concurrent calls for one tenant make one claim and run its hook once,
// and every caller gets it.
func TestConcurrentClaimsOfOneTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		h.AwaitIdle("w", 1)
		var g errgroup.Group
		var mu sync.Mutex
		ids, created := map[string]int{}, 0
		for range 20 {
			g.Go(func() error {
				c, fresh, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
				mu.Lock()
				defer mu.Unlock()
				ids[c.ID]++
				if fresh {
					created++
				}
				return err
			})
		}
		require.NoError(t, g.Wait())
		require.Len(t, ids, 1)
		require.Equal(t, 1, created)
		require.Len(t, h.Events(activity.HookStarted), 1)
	})
}

// A failed post_claim hook fails the claim. The error names the hook, the
// container is destroyed, the tenant can claim again at once, and nothing is
// leaked.
func TestPostClaimFails(t *testing.T) {
	tests := map[string]struct {
		policy string
		fails  bool
		runs   int
	}{
		"fail":     {"on_error: fail", true, 1},
		"continue": {"on_error: continue", false, 1},
		"retry":    {"on_error: retry, retries: 2", true, 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(flowtest.Edit(hookedWorkload, "command: [box, echo, migrated]", "command: [box, exit, '3'], "+tt.policy))
				h.AwaitIdle("w", 1)
				c, created, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
				require.Len(t, h.Events(activity.HookStarted), tt.runs)
				require.Len(t, h.Events(activity.HookFailed), tt.runs)
				if !tt.fails {
					require.NoError(t, err)
					require.True(t, created)
					require.Len(t, c.Warnings, 1)
					return
				}
				failed, ok := errors.AsType[*claim.FailedError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, "post_claim", failed.Step)
				hook, ok := errors.AsType[*hooks.Error](err)
				require.True(t, ok)
				require.Equal(t, 3, *hook.Run.ExitCode)
				require.Equal(t, claim.Failed, failed.Claim.State)
				require.Contains(t, failed.Claim.Reason, `hook "migrate"`)
				h.AwaitIdle("w", 1)
				require.Zero(t, h.Count("w", pool.Claimed))
				containers, err := h.RT.List(t.Context())
				require.NoError(t, err)
				require.Len(t, containers, 1)
			})
		})
	}
}

// A container that is unusable before any hook has run is destroyed, with the
// reason in its event, and the claim gets another.
func TestUnusableContainerIsReplaced(t *testing.T) {
	for _, call := range []string{"wipe", "restart", "exec * box echo healthy"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(flowtest.Edit(hookedWorkload, "min_idle: 1", "min_idle: 0"))
				first := h.Claim("w", "ada")
				h.Release(first)
				h.RT.BreakOnce(call, fmt.Errorf("%w: /app/server is new or has changed", runtime.ErrWipeUnverified))
				c := h.Claim("w", "bob")
				require.Equal(t, claim.Fresh, c.Source)
				require.NotEqual(t, first.Container, c.Container)
				h.Until("the unusable one to be destroyed", func() bool {
					k, err := h.Pools.Container(t.Context(), first.Container)
					require.NoError(t, err)
					return k.State == pool.Destroyed
				})
				require.Len(t, h.Events(activity.HookStarted), 2, "one for each claim")
				events := h.Events(activity.ContainerDestroying)
				require.Contains(t, events[len(events)-1].Message, "/app/server is new or has changed")
			})
		})
	}
}

// A claim whose containers are all unusable fails, and leaves none behind.
func TestClaimFailsWhenEveryContainerIsUnusable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "retries: 1, start_period: 1s }", "retries: 1, start_period: 1s }\nrestart: always"))
		h.AwaitIdle("w", 1)
		h.RT.Break("restart", runtime.ErrContainerExited)
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		failed, ok := errors.AsType[*claim.FailedError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "restart", failed.Step)
		h.AwaitIdle("w", 1)
		require.Zero(t, h.Count("w", pool.Claimed))
	})
}

// A caller who cancels during a hook leaves an active claim. One who cancels
// while waiting leaves nothing.
func TestCallerCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "max_size: 2", "max_size: 1"))
		h.AwaitIdle("w", 1)
		ctx, cancel := context.WithCancel(t.Context())
		reached, unblock := h.RT.Block("exec * box echo migrated")
		var g errgroup.Group
		g.Go(func() error {
			_, _, err := h.Claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "ada"})
			return err
		})
		<-reached
		cancel()
		unblock()
		require.NoError(t, g.Wait())
		c := h.Claim("w", "ada")
		require.Equal(t, claim.Active, c.State)
		require.Len(t, h.Events(activity.HookStarted), 1)

		ctx, cancel = context.WithCancel(t.Context())
		g.Go(func() error {
			_, _, err := h.Claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "bob", Wait: time.Hour})
			return err
		})
		synctest.Wait()
		require.Equal(t, 1, h.Pools.Queue.Waiting("w"))
		cancel()
		require.Error(t, g.Wait())
		live, err := h.DB.Claims(t.Context(), claim.Filter{Tenant: "bob"})
		require.NoError(t, err)
		require.Empty(t, live)
	})
}

// After a server is killed during a claim's hooks, the next server completes
// the claim: the running hook keeps its result, and the next hook runs.
func TestCrashDuringHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "post_claim: [", "post_claim: [{ name: long, command: [box, echo, long] }, "))
		h.AwaitIdle("w", 1)
		reached, unblock := h.RT.Block("exec * box echo long")
		var g errgroup.Group
		g.Go(func() error { // the previous server's call; its result is not used
			_, _, _ = h.Claims.Claim(context.Background(), claim.Request{Workload: "w", Tenant: "ada"})
			return nil
		})
		<-reached
		resultReached, unblockResult := h.RT.Block("outcome *")
		h.Restart()
		<-resultReached
		pending, err := h.DB.Claims(t.Context(), claim.Filter{Tenant: "ada"})
		require.NoError(t, err)
		require.Len(t, pending, 1)
		unblock()
		require.NoError(t, g.Wait())
		unblockResult()
		c, created, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, pending[0].ID, c.ID)
		require.Equal(t, claim.Active, c.State)
		require.Equal(t, pending[0].Container, c.Container)
		require.Len(t, h.Events(activity.HookStarted), 2)
		require.Len(t, h.Events(activity.HookCompleted), 2, "every started run has exactly one end")
	})
}

// A claim interrupted before its hooks started fails: no caller waits for it,
// and the state of its container is unknown.
func TestCrashBeforeHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		revision := h.Apply(hookedWorkload).Record.Revision
		h.AwaitIdle("w", 1)
		_, err := h.DB.Reserve(t.Context(), claim.Reservation{Claim: "partial", Workload: "w", Tenant: "ada", Revision: revision})
		require.NoError(t, err)
		h.Restart()
		h.AwaitIdle("w", 1)
		require.Zero(t, h.Count("w", pool.Claimed))
		require.Empty(t, h.Events(activity.HookStarted))
		require.Contains(t, h.Events(activity.ClaimFailed)[0].Message, "the server stopped")
	})
}

// A pending claim whose failure could not be recorded is stale: the next claim
// of the tenant fails it and makes another.
func TestStalePendingClaimIsFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		h.AwaitIdle("w", 1)
		stale, err := h.DB.Reserve(t.Context(), claim.Reservation{Claim: "stale", Workload: "w", Tenant: "ada", Revision: h.Apply(hookedWorkload).Record.Revision})
		require.NoError(t, err)
		c, created, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.NoError(t, err)
		require.True(t, created)
		require.NotEqual(t, stale.Container, c.Container)
		ended, err := h.DB.Claim(t.Context(), "stale")
		require.NoError(t, err)
		require.Equal(t, claim.Failed, ended.State)
	})
}

// An unavailable engine costs no container that was not modified.
func TestEngineUnavailableAtClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "pool: { min_idle: 1, max_size: 2, reuse: wipe }", "pool: { min_idle: 0, max_size: 1, reuse: same_tenant }"))
		c := h.Claim("w", "ada")
		h.Release(c)
		repair := h.RT.Break("exec * box echo healthy", runtime.ErrUnavailable)
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		repair()
		again := h.Claim("w", "ada")
		require.Equal(t, c.Container, again.Container)
		require.Equal(t, claim.Affinity, again.Source)
	})
}

// A server checks every container after its start: one that exited in the
// meantime is not assigned.
func TestHealthReprobedAfterServerStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(smallWorkload(2), "min_idle: 0", "min_idle: 1"))
		h.AwaitIdle("w", 1)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		// The watch must not detect it first.
		h.RT.Block("watch")
		h.Restart()
		h.RT.Kill(idle[0].ID)
		c := h.Claim("w", "ada")
		require.NotEqual(t, idle[0].ID, c.Container)
	})
}
