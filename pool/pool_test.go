package pool_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/workload"
)

const basicYAML = `
id: w
image: box
command: [box, idle]
pool: { min_idle: 2, max_size: 4, reuse: wipe }
`

// A pool is filled to min_idle immediately, and again after each claim.
func TestFillToMinIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		applied := h.Apply(basicYAML)
		require.True(t, applied.Created)
		h.AwaitIdle("w", 2)
		h.Claim("w", "ada")
		h.AwaitIdle("w", 2)
		require.Equal(t, 1, h.Count("w", pool.Claimed))
		h.Claim("w", "bob")
		h.Claim("w", "cyd")
		h.Claim("w", "dan")
		require.Equal(t, 4, h.Count("w", pool.Claimed))
		require.Zero(t, h.Count("w", pool.Idle), "max_size is 4")

		again := h.Apply(basicYAML)
		require.False(t, again.Changed, "applying the same file again changes nothing")
		require.Len(t, h.Events(activity.PoolCreated), 1)
	})
}

// If any call of the creation of a container fails, the container is destroyed,
// nothing is left in the engine, the pool reports the reason, and it is filled
// once the cause is fixed.
func TestCreateFailureIsRolledBack(t *testing.T) {
	const hooked = basicYAML + `
healthcheck: { test: [CMD, box, echo, healthy], interval: 1s, start_period: 1s, retries: 1 }
hooks:
  post_create: [{ command: [box, echo, created] }]
`
	for _, call := range []string{"create", "start", "exec * box echo healthy", "exec * box echo created", "baseline"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				broken := errors.New("broken on purpose")
				restore := h.RT.Break(call, broken)
				h.Apply(hooked)
				h.Until("a warning", func() bool { return len(h.Events(activity.PoolWarning)) > 0 })
				status, err := h.Pools.Status(t.Context(), "w")
				require.NoError(t, err)
				require.Equal(t, pool.BackingOff, status.Fill.State)
				require.Contains(t, status.Fill.LastError, "broken on purpose")
				restore()
				h.AwaitIdle("w", 2)
				listed, err := h.RT.List(t.Context())
				require.NoError(t, err)
				require.Len(t, listed, 2, "failed containers are removed from the engine")
				require.NotEmpty(t, h.Events(activity.PoolRecovered))
				status, err = h.Pools.Status(t.Context(), "w")
				require.NoError(t, err)
				require.Equal(t, pool.FillIdle, status.Fill.State)
				require.Empty(t, status.Fill.LastError)
			})
		})
	}
}

// The baseline of later wipes is recorded after the hooks and restarts the main
// process: the container is idle only when it is healthy again.
func TestHealthyAfterBaselineBeforeIdle(t *testing.T) {
	const checked = `
id: w
image: box
pool: { min_idle: 1, max_size: 1, reuse: wipe }
healthcheck: { test: [CMD, box, echo, healthy], interval: 1s, start_period: 1s, retries: 1 }
hooks:
  post_create: [{ command: [box, echo, created] }]
`
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		var restore func()
		h.RT.After("baseline", func(context.Context, fake.Call) error {
			if restore == nil {
				restore = h.RT.Break("exec * box echo healthy", errors.New("broken on purpose"))
			}
			return nil
		})
		h.Apply(checked)
		h.Until("a warning", func() bool { return len(h.Events(activity.PoolWarning)) > 0 })
		require.Empty(t, h.Events(activity.ContainerCreated), "an unhealthy container does not become idle")
		restore()
		h.AwaitIdle("w", 1)
	})
}

// A post_create hook that always fails does not cause a hot loop: the number of
// containers in ten minutes is limited, and the pool reports the error. A
// changed spec is tried immediately.
func TestCreateFailuresBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML + "hooks: { post_create: [{ name: setup, command: [box, exit, '3'] }] }\n")
		<-time.After(10 * time.Minute)
		made := len(h.Events(activity.ContainerCreating))
		require.Less(t, made, 25, "1 s, 2 s, 4 s, ... then one a minute")
		require.Greater(t, made, 5)
		status, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, pool.FillFailing, status.Fill.State)
		require.Contains(t, status.Fill.LastError, `post_create hook "setup" exited with code 3`)
		require.NotNil(t, status.Fill.NextTry)

		h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		require.Equal(t, made+2, len(h.Events(activity.ContainerCreating)))
	})
}

// An idle container that exits is replaced immediately; a claimed one is
// reported and still belongs to its tenant.
func TestContainerExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		c := h.Claim("w", "ada")
		h.AwaitIdle("w", 2)
		idle, err := h.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)

		h.RT.Kill(idle[0].ID)
		h.Until("an exit", func() bool { return len(h.Events(activity.ContainerDied)) == 1 })
		h.AwaitIdle("w", 2)
		destroyed, err := h.Pools.Container(t.Context(), idle[0].ID)
		require.NoError(t, err)
		require.Equal(t, pool.Destroyed, destroyed.State)
		require.Contains(t, destroyed.Reason, "exited with code 137", "every destroy has a reason")

		h.RT.OOMKill(c.Container)
		h.Until("an exit", func() bool { return len(h.Events(activity.ContainerDied)) == 2 })
		exited := h.Events(activity.ContainerDied)[1]
		require.Equal(t, "ada", exited.Tenant)
		require.Equal(t, c.ID, exited.Claim)
		require.Contains(t, exited.Message, "out of memory")
		active, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Active, active.State)
		require.Equal(t, string(pool.Exited), active.Health)

		released := h.Release(c)
		require.Equal(t, claim.Released, released.State)
		h.Until("its removal", func() bool { return h.Count("w", pool.Claimed)+h.Count("w", pool.Destroying) == 0 })
	})
}

// A changed spec rolls the pool over: the old idle containers are assigned until
// the new ones are ready, claims are not affected, and their containers are not
// reused after the release.
func TestRollover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		before := h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		c := h.Claim("w", "ada")
		h.AwaitIdle("w", 2)

		reached, unblock := h.RT.Block("create")
		after := h.Apply(flowtest.Edit(basicYAML, "image: box", "image: box2"))
		require.NotEqual(t, before.Record.Revision, after.Record.Revision)
		<-reached
		early := h.Claim("w", "bob")
		require.Equal(t, before.Record.Revision, early.Revision, "the old ones are assigned until the new ones are ready")
		unblock()
		h.Until("only new ones idle", func() bool {
			status, err := h.Pools.Status(t.Context(), "w")
			require.NoError(t, err)
			return status.Outdated == 2 && status.Containers[pool.Idle] == 2 && status.Containers[pool.Creating] == 0
		})
		late := h.Claim("w", "cyd")
		require.Equal(t, after.Record.Revision, late.Revision)

		active, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Active, active.State)
		h.Release(c)
		h.Until("its removal", func() bool {
			k, err := h.Pools.Container(t.Context(), c.Container)
			require.NoError(t, err)
			return k.State == pool.Destroyed
		})
	})
}

// If the new spec is broken, the old containers are kept and assigned.
func TestRolloverToABrokenSpec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		h.Apply(basicYAML + "hooks: { post_create: [{ command: [box, exit, '1'] }] }\n")
		<-time.After(5 * time.Minute)
		synctest.Wait()
		require.Equal(t, 2, h.Count("w", pool.Idle))
		c := h.Claim("w", "ada")
		require.Equal(t, claim.Active, c.State)
	})
}

// Scaling, draining and deleting destroy idle containers and do not affect
// claims.
func TestScaleDrainDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		ctx := t.Context()
		h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		c := h.Claim("w", "ada")
		n := func(i int) *int { return &i }
		_, err := h.Pools.Scale(ctx, "w", pool.Scale{MinIdle: n(5)})
		require.ErrorIs(t, err, pool.ErrInvalidScale)
		_, err = h.Pools.Scale(ctx, "w", pool.Scale{MinIdle: n(3)})
		require.NoError(t, err)
		h.AwaitIdle("w", 3)
		_, err = h.Pools.Scale(ctx, "w", pool.Scale{MinIdle: n(1)})
		require.NoError(t, err)
		h.AwaitIdle("w", 1)
		require.False(t, h.Apply(basicYAML).Changed)
		h.AwaitIdle("w", 1)

		_, err = h.Pools.Drain(ctx, "w")
		require.NoError(t, err)
		h.AwaitIdle("w", 0)
		_, _, err = h.Claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "bob", Wait: time.Minute})
		refused, ok := errors.AsType[*claim.UnavailableError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, claim.Draining, refused.Reason)
		_, err = h.Pools.Scale(ctx, "w", pool.Scale{MinIdle: n(2)})
		require.NoError(t, err)
		h.AwaitIdle("w", 2)

		require.NoError(t, h.Pools.Delete(ctx, "w"))
		h.AwaitIdle("w", 0)
		_, err = h.Pools.Workload(ctx, "w")
		require.NoError(t, err, "a claim still has a container")
		require.Equal(t, claim.Released, h.Release(c).State)
		h.Until("the workload to be removed", func() bool {
			_, err := h.Pools.Workload(ctx, "w")
			return errors.Is(err, pool.ErrWorkloadNotFound)
		})
		listed, err := h.RT.List(ctx)
		require.NoError(t, err)
		require.Empty(t, listed)
	})
}

// An operator may destroy an idle container, and a claimed one only by force;
// the claim remains until its tenant releases it.
func TestDestroyContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		ctx := t.Context()
		h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		c := h.Claim("w", "ada")
		require.ErrorIs(t, h.Pools.DestroyContainer(ctx, c.Container, false), pool.ErrInUse)
		require.ErrorIs(t, h.Pools.DestroyContainer(ctx, "unknown", false), pool.ErrContainerNotFound)
		require.NoError(t, h.Pools.DestroyContainer(ctx, c.Container, true))
		active, err := h.DB.Claim(ctx, c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Active, active.State)
		require.Equal(t, string(pool.Exited), active.Health)
		r, err := h.Releases.Release(ctx, c.ID, release.Request{})
		require.NoError(t, err)
		require.Equal(t, claim.Released, r.State)
		h.AwaitIdle("w", 2)
	})
}

// Containers above min_idle are destroyed after idle_timeout.
func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(basicYAML, "max_size: 4", "max_size: 4, idle_timeout: 10m"))
		h.AwaitIdle("w", 2)
		c := h.Claim("w", "ada")
		h.AwaitIdle("w", 2)
		h.Release(c)
		h.AwaitIdle("w", 3)
		<-time.After(9 * time.Minute)
		synctest.Wait()
		require.Equal(t, 3, h.Count("w", pool.Idle))
		<-time.After(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, 2, h.Count("w", pool.Idle))
	})
}

// A workload whose prefix overlaps with another's is rejected.
func TestApplyRejectsOverlappingPrefixes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		apply := func(id, prefix string) error {
			_, err := h.Pools.Apply(t.Context(), []byte(flowtest.Edit(basicYAML, "id: w\n", "id: "+id+"\n")+
				"volumes: { state: { target: /data } }\nsync: { sink: { type: s3, bucket: b, prefix: '"+prefix+"' } }\n"), id+".yaml", "")
			return err
		}
		require.NoError(t, apply("a", "tenants/${tenantId}/"))
		require.NoError(t, apply("b", "tenants/${tenantId}/"))
		invalid, ok := errors.AsType[workload.ValidationErrors](apply("c", "${tenantId}/"))
		require.True(t, ok)
		require.Equal(t, "sync.sink.prefix", invalid[0].Field)
		require.Contains(t, invalid[0].Message, "workload a")
		require.NotEmpty(t, invalid[0].Hint)
		require.NoError(t, apply("c", "other/${tenantId}/"))
	})
}

// A feature that the server does not support, and a missing seed, are validation
// errors with a hint.
func TestApplyValidatesForServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		checkSink := func(context.Context, *workload.Sync) error { return errors.New("this directory is not allowed") }
		pools := pool.New(h.DB, h.RT, flowtest.HookRunner(h.RT, h.DB, nil), checkSink, slog.New(slog.DiscardHandler))
		for file, field := range map[string]string{
			basicYAML + "volumes: { state: { target: /data } }\nsync: { sink: { type: file, path: /tmp } }\n": "sync.sink",
			basicYAML + "volumes: { state: { target: /data, seed: ./nowhere } }\n":                            "volumes.state.seed",
			"id: w\n": "image",
		} {
			_, err := pools.Apply(t.Context(), []byte(file), "w.yaml", "")
			invalid, ok := errors.AsType[workload.ValidationErrors](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, field, invalid[0].Field)
			require.NotEmpty(t, invalid[0].Hint)
		}
	})
}
