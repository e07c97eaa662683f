package delivery_test

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
	"github.com/hostler/hostler/delivery"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/runner"
	"github.com/hostler/hostler/internal/dispatch"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

const commandWorkload = `
id: w
image: fake/image
command: [sleep, 1000h]
pool: { min_idle: 1, max_size: 2, reuse: wipe }
hooks:
  events:
    - { name: e, on: [claim.activated], command: [sleep, 20m], timeout: 2m, grace: 0s }
`

// deliverOn runs a service on the harness until the returned function is called.
func deliverOn(t *testing.T, h *flowtest.Harness) (stop func()) {
	t.Helper()
	s := serviceOn(h, h.DB, nil)
	ctx, cancel := context.WithCancel(context.Background())
	d := dispatch.New(h.DB, slog.New(slog.DiscardHandler), s.EventHandlers())
	var g errgroup.Group
	g.Go(func() error { return d.Run(ctx) })
	g.Go(func() error { return s.Run(ctx) })
	return sync.OnceFunc(func() {
		cancel()
		require.NoError(t, g.Wait())
	})
}

// serviceOn returns a service on the harness.
func serviceOn(h *flowtest.Harness, s delivery.Store, onTainted func(ctx context.Context, container, reason string) error) *delivery.Service {
	x := runner.NewCommandExecutor(h.RT)
	return delivery.New(s, delivery.Options{
		Workloads: h.Pools.Catalog, Executors: runner.Executors{hooks.KindCommand: x, hooks.KindScript: x}, OnTainted: onTainted,
		Attempt: flowtest.HookRunner(h.RT, h.DB, nil).EventAttempt, TestAttempt: flowtest.HookRunner(h.RT, h.DB, nil).TestAttempt, WakeFiller: h.Pools.WakeFiller, Log: slog.New(slog.DiscardHandler),
	})
}

func deliveriesOf(t *testing.T, h *flowtest.Harness) []delivery.Delivery {
	t.Helper()
	all, err := h.DB.Deliveries(t.Context(), delivery.Filter{})
	require.NoError(t, err)
	return all
}

// A release ends the command of an event hook that runs in its container, and
// waits for that: the next tenant finds nothing of it.
func TestReleaseEndsCommands(t *testing.T) {
	for _, isForced := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			defer deliverOn(t, h)()
			h.Apply(commandWorkload)
			h.AwaitIdle("w", 1)
			c := h.Claim("w", "ann")
			<-time.After(time.Second)
			synctest.Wait()
			require.Equal(t, delivery.Running, deliveriesOf(t, h)[0].State)
			begin := time.Now()
			if isForced {
				require.NoError(t, h.Pools.DestroyContainer(t.Context(), c.Container, true))
				<-time.After(10 * time.Second)
			} else {
				h.Release(c)
			}
			require.Less(t, time.Since(begin), 30*time.Second)
			synctest.Wait()
			require.Equal(t, delivery.Discarded, deliveriesOf(t, h)[0].State)
			runs, err := h.DB.Run(t.Context(), deliveriesOf(t, h)[0].ID)
			require.NoError(t, err)
			require.Equal(t, hooks.Cancelled, runs[0].State)
		})
	}
}

// A command that was sent before the release, and arrives after another tenant
// has claimed, does not run in that tenant's container.
func TestLateCommandRunsInNoOtherClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		stop := deliverOn(t, h)
		defer stop()
		h.Apply(strings.Replace(commandWorkload, "sleep, 20m", "late", 1))
		h.AwaitIdle("w", 1)
		arrives := make(chan struct{})
		var mu sync.Mutex // guards ran
		ran := 0
		h.RT.Before("exec * late", func(context.Context, fake.Call) error { <-arrives; return nil })
		h.RT.AddProgram("late", func(context.Context, *fake.Proc) int {
			mu.Lock()
			defer mu.Unlock()
			ran++
			return 0
		})
		c := h.Claim("w", "ann")
		<-time.After(time.Second)
		synctest.Wait()
		h.Release(c)
		late, err := h.DB.Container(t.Context(), c.Container)
		require.NoError(t, err)
		next := h.Claim("w", "bob")
		require.NotEqual(t, c.Container, next.Container, "a command may still arrive in the first one, which is %s", late.State)
		synctest.Wait() // the first one is destroyed
		close(arrives)
		<-time.After(time.Minute)
		synctest.Wait()
		h.Release(next)
		stop()
		require.NotEqual(t, pool.Idle, late.State)
		require.Equal(t, 1, ran, "only the second tenant's own command")
	})
}

// A command whose claim has ended before its turn comes is skipped.
func TestCommandOfEndedClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(commandWorkload)
		h.AwaitIdle("w", 1)
		h.Release(h.Claim("w", "ann"))
		h.AwaitIdle("w", 1)
		h.Claim("w", "bob")
		stop := deliverOn(t, h)
		defer stop()
		<-time.After(time.Second)
		synctest.Wait()
		states := map[string]delivery.State{}
		for _, d := range deliveriesOf(t, h) {
			states[d.Tenant] = d.State
		}
		require.Equal(t, map[string]delivery.State{"ann": delivery.Discarded, "bob": delivery.Running}, states)
		h.Release(h.Claim("w", "bob"))
		stop()
	})
}

// A command that was canceled while its container did not answer may still run:
// its outcome is unknown, and an idle container is destroyed.
func TestUnconfirmedCancel(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.executor.end(func(context.Context, runner.Attempt) runner.Result {
			return runner.Result{State: hooks.Cancelled, Err: errors.Join(delivery.ErrClaimEnded, runtime.ErrUnavailable)}
		})
		r.apply(command("h", "pool"))
		addContainer(t, r.db, "a")
		r.record(activity.PoolWarning, "a")
		d := r.only()
		require.Equal(t, delivery.Failed, d.State)
		runs, err := r.db.Run(t.Context(), d.ID)
		require.NoError(t, err)
		require.Equal(t, hooks.Unknown, runs[0].State)
		require.Equal(t, []string{"a"}, r.tainted)
	})
}

// A takeover leaves the attempts of deliveries to the next leader.
func TestTakeoverLeavesDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		stop := deliverOn(t, h)
		defer stop()
		h.Apply(commandWorkload)
		h.AwaitIdle("w", 1)
		c := h.Claim("w", "ann")
		<-time.After(time.Second)
		synctest.Wait()
		id := deliveriesOf(t, h)[0].ID
		require.NoError(t, h.Releases.TakeOver(t.Context(), nil, []string{id}))
		runs, err := h.DB.Run(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, hooks.Running, runs[0].State)
		h.Release(c)
	})
}

// The removal of a container waits for the command of an event hook in it, which
// it ends: one hook runs in a container at a time, and the outcome is known.
func TestRemovalAwaitsCommands(t *testing.T) {
	for event, isForced := range map[string]bool{"container.created": false, "claim.activated": true} {
		for _, preDestroy := range []string{"", "  pre_destroy: [{ command: [box, echo, bye] }]\n", "  pre_destroy: [{ builtin: log }]\n"} {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				defer deliverOn(t, h)()
				h.Apply(flowtest.Edit(commandWorkload, "claim.activated], command: [sleep, 20m], timeout: 2m, grace: 0s", event+"], command: [box, ignore-term], timeout: 2m, grace: 10s") +
					preDestroy)
				h.AwaitIdle("w", 1)
				if isForced {
					h.Claim("w", "ann")
				}
				<-time.After(time.Second)
				synctest.Wait()
				d := deliveriesOf(t, h)[0]
				require.Equal(t, delivery.Running, d.State)
				begin := time.Now()
				require.NoError(t, h.Pools.DestroyContainer(t.Context(), d.Container, isForced))
				<-time.After(time.Minute)
				synctest.Wait()
				runs, err := h.DB.Runs(t.Context(), hooks.RunFilter{Container: d.Container})
				require.NoError(t, err)
				require.Equal(t, hooks.Cancelled, runs[0].State, "%s, %q", event, preDestroy)
				require.Equal(t, 10*time.Second, runs[0].EndedAt.Sub(begin).Truncate(time.Second), "its grace period")
				d, err = h.DB.Delivery(t.Context(), d.ID)
				require.NoError(t, err)
				require.Equal(t, delivery.Discarded, d.State)
				_, err = h.RT.Status(t.Context(), d.Container)
				require.ErrorIs(t, err, runtime.ErrNotFound)
				if preDestroy == "" {
					require.Len(t, runs, 1)
					return
				}
				require.Len(t, runs, 2)
				require.Equal(t, hooks.Succeeded, runs[1].State)
				require.False(t, runs[1].StartedAt.Before(*runs[0].EndedAt), "%s: both run at once", runs[1].StartedAt)
			})
		}
	}
}
