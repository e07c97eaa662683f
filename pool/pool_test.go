package pool_test

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

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/workload"
)

const plain = `
id: w
image: box
command: [box, idle]
pool: { min_idle: 2, max_size: 4, reuse: wipe }
`

// A pool is filled to min_idle at once, and again whenever a claim takes one.
func TestFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		applied := y.Apply(plain)
		require.True(t, applied.Created)
		y.Idle("w", 2)
		y.Claim("w", "ada")
		y.Idle("w", 2)
		require.Equal(t, 1, y.Count("w", pool.Claimed))
		y.Claim("w", "bob")
		y.Claim("w", "cyd")
		y.Claim("w", "dan")
		require.Equal(t, 4, y.Count("w", pool.Claimed))
		require.Zero(t, y.Count("w", pool.Idle), "max_size is 4")

		again := y.Apply(plain)
		require.False(t, again.Changed, "applying the same file again changes nothing")
		require.Len(t, y.Events(activity.PoolCreated), 1)
	})
}

// Whatever call of the making of a container fails: the container is
// destroyed, nothing is left in the engine, the pool says why, and it is
// filled once the cause is gone.
func TestCreateUndoes(t *testing.T) {
	const hooked = plain + `
healthcheck: { test: [CMD, box, echo, healthy], interval: 1s, start_period: 1s, retries: 1 }
hooks:
  post_create: [{ command: [box, echo, created] }]
`
	for _, call := range []string{"create", "start", "exec * box echo healthy", "exec * box echo created", "baseline"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.New(t)
				broken := errors.New("broken on purpose")
				mend := y.RT.Break(call, broken)
				y.Apply(hooked)
				y.Until("a warning", func() bool { return len(y.Events(activity.PoolWarning)) > 0 })
				status, err := y.Pools.Status(t.Context(), "w")
				require.NoError(t, err)
				require.Equal(t, pool.BackingOff, status.Fill.State)
				require.Contains(t, status.Fill.LastError, "broken on purpose")
				mend()
				y.Idle("w", 2)
				there, err := y.RT.List(t.Context())
				require.NoError(t, err)
				require.Len(t, there, 2, "what failed is gone from the engine")
				require.NotEmpty(t, y.Events(activity.PoolRecovered))
				status, err = y.Pools.Status(t.Context(), "w")
				require.NoError(t, err)
				require.Equal(t, pool.FillIdle, status.Fill.State)
				require.Empty(t, status.Fill.LastError)
			})
		})
	}
}

// The baseline of later wipes is taken after the hooks, and starts the main
// process anew: the container is idle only when it is healthy again.
func TestSealThenHealth(t *testing.T) {
	const checked = `
id: w
image: box
pool: { min_idle: 1, max_size: 1, reuse: wipe }
healthcheck: { test: [CMD, box, echo, healthy], interval: 1s, start_period: 1s, retries: 1 }
hooks:
  post_create: [{ command: [box, echo, created] }]
`
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		var mend func()
		y.RT.After("baseline", func(context.Context, fake.Call) error {
			if mend == nil {
				mend = y.RT.Break("exec * box echo healthy", errors.New("broken on purpose"))
			}
			return nil
		})
		y.Apply(checked)
		y.Until("a warning", func() bool { return len(y.Events(activity.PoolWarning)) > 0 })
		require.Empty(t, y.Events(activity.ContainerCreated), "none is idle that is not healthy")
		mend()
		y.Idle("w", 1)
	})
}

// A post_create hook that always fails makes no hot loop: ten minutes see a
// bounded number of containers, and the pool says what is wrong. A changed
// spec is tried at once.
func TestNoHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(plain + "hooks: { post_create: [{ name: setup, command: [box, exit, '3'] }] }\n")
		<-time.After(10 * time.Minute)
		made := len(y.Events(activity.ContainerCreating))
		require.Less(t, made, 25, "1 s, 2 s, 4 s, ... then one a minute")
		require.Greater(t, made, 5)
		status, err := y.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, pool.FillFailing, status.Fill.State)
		require.Contains(t, status.Fill.LastError, `post_create hook "setup" exited with code 3`)
		require.NotNil(t, status.Fill.NextTry)

		y.Apply(plain)
		y.Idle("w", 2)
		require.Equal(t, made+2, len(y.Events(activity.ContainerCreating)))
	})
}

// An idle container that dies is replaced at once; a claimed one is reported
// and stays its tenant's.
func TestDeaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(plain)
		y.Idle("w", 2)
		c := y.Claim("w", "ada")
		y.Idle("w", 2)
		idle, err := y.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)

		y.RT.Kill(idle[0].ID)
		y.Until("a death", func() bool { return len(y.Events(activity.ContainerDied)) == 1 })
		y.Idle("w", 2)
		gone, err := y.Pools.Container(t.Context(), idle[0].ID)
		require.NoError(t, err)
		require.Equal(t, pool.Gone, gone.State)
		require.Contains(t, gone.Reason, "exit code 137", "every destroy has a reason")

		y.RT.KillForMemory(c.Container)
		y.Until("a death", func() bool { return len(y.Events(activity.ContainerDied)) == 2 })
		died := y.Events(activity.ContainerDied)[1]
		require.Equal(t, "ada", died.Tenant)
		require.Equal(t, c.ID, died.Claim)
		require.Contains(t, died.Message, "out of memory")
		held, err := y.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Active, held.State)
		require.Equal(t, string(pool.Dead), held.Health)

		released := y.Release(c)
		require.Equal(t, claim.Released, released.State)
		y.Until("its removal", func() bool { return y.Count("w", pool.Claimed)+y.Count("w", pool.Destroying) == 0 })
	})
}

// Containers that fail their health check are replaced when idle and reported
// when claimed, and a check that was mended clears the report.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		var sick sync.Map
		y.RT.Before("exec * box echo healthy", func(_ context.Context, call fake.Call) error {
			if _, ok := sick.Load(call.ID); ok {
				return fmt.Errorf("%w", runtime.ErrDoomed)
			}
			return nil
		})
		y.Apply(plain + "healthcheck: { test: [CMD, box, echo, healthy], interval: 10s, retries: 2 }\n")
		y.Idle("w", 2)
		c := y.Claim("w", "ada")
		y.Idle("w", 2)
		idle, err := y.Pools.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		sick.Store(c.Container, true)
		sick.Store(idle[1].ID, true)
		begin := time.Now()
		y.Until("two reports", func() bool { return len(y.Events(activity.ContainerUnhealthy)) == 2 })
		require.Less(t, time.Since(begin), 31*time.Second, "retries are 2, the interval 10 s")
		y.Idle("w", 2)
		gone, err := y.Pools.Container(t.Context(), idle[1].ID)
		require.NoError(t, err)
		require.Equal(t, pool.Gone, gone.State)

		held, err := y.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, pool.Unhealthy, held.Health)
		require.Equal(t, pool.Claimed, held.State)
		sick.Delete(c.Container)
		<-time.After(11 * time.Second)
		held, err = y.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, pool.Healthy, held.Health)
	})
}

// A changed spec rolls the pool over: the old idle ones serve until the new
// are ready, claims are not disturbed, and what they release is not reused.
func TestRollover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		before := y.Apply(plain)
		y.Idle("w", 2)
		c := y.Claim("w", "ada")
		y.Idle("w", 2)

		reached, unblock := y.RT.Block("create")
		after := y.Apply(strings.Replace(plain, "image: box", "image: box2", 1))
		require.NotEqual(t, before.Record.Revision, after.Record.Revision)
		<-reached
		early := y.Claim("w", "bob")
		require.Equal(t, before.Record.Revision, early.Revision, "the old serve until the new are ready")
		unblock()
		y.Until("only new ones idle", func() bool {
			status, err := y.Pools.Status(t.Context(), "w")
			require.NoError(t, err)
			return status.Outdated == 2 && status.Containers[pool.Idle] == 2 && status.Containers[pool.Creating] == 0
		})
		late := y.Claim("w", "cyd")
		require.Equal(t, after.Record.Revision, late.Revision)

		held, err := y.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Active, held.State)
		y.Release(c)
		y.Until("its removal", func() bool {
			k, err := y.Pools.Container(t.Context(), c.Container)
			require.NoError(t, err)
			return k.State == pool.Gone
		})
	})
}

// A broken new spec leaves the old containers to serve.
func TestRolloverToABrokenSpec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(plain)
		y.Idle("w", 2)
		y.Apply(plain + "hooks: { post_create: [{ command: [box, exit, '1'] }] }\n")
		<-time.After(5 * time.Minute)
		require.Equal(t, 2, y.Count("w", pool.Idle))
		c := y.Claim("w", "ada")
		require.Equal(t, claim.Active, c.State)
	})
}

// Scaling, draining and deleting destroy what is idle and disturb no claim.
func TestScaleDrainDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		ctx := t.Context()
		y.Apply(plain)
		y.Idle("w", 2)
		c := y.Claim("w", "ada")
		n := func(i int) *int { return &i }
		_, err := y.Pools.Scale(ctx, "w", pool.Scale{MinIdle: n(5)})
		require.ErrorIs(t, err, pool.ErrScale)
		_, err = y.Pools.Scale(ctx, "w", pool.Scale{MinIdle: n(3)})
		require.NoError(t, err)
		y.Idle("w", 3)
		_, err = y.Pools.Scale(ctx, "w", pool.Scale{MinIdle: n(1)})
		require.NoError(t, err)
		y.Idle("w", 1)
		require.False(t, y.Apply(plain).Changed)
		y.Idle("w", 1)

		_, err = y.Pools.Drain(ctx, "w")
		require.NoError(t, err)
		y.Idle("w", 0)
		_, _, err = y.Claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "bob", Wait: time.Minute})
		refused, ok := errors.AsType[*claim.UnavailableError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, claim.Draining, refused.Reason)
		_, err = y.Pools.Scale(ctx, "w", pool.Scale{MinIdle: n(2)})
		require.NoError(t, err)
		y.Idle("w", 2)

		require.NoError(t, y.Pools.Delete(ctx, "w"))
		y.Idle("w", 0)
		_, err = y.Pools.Workload(ctx, "w")
		require.NoError(t, err, "a claim still holds a container")
		require.Equal(t, claim.Released, y.Release(c).State)
		y.Until("the workload to go", func() bool {
			_, err := y.Pools.Workload(ctx, "w")
			return errors.Is(err, pool.ErrNoWorkload)
		})
		there, err := y.RT.List(ctx)
		require.NoError(t, err)
		require.Empty(t, there)
	})
}

// An operator may destroy what is idle, and what is claimed only by force; the
// claim stays until its tenant releases it.
func TestDestroyContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		ctx := t.Context()
		y.Apply(plain)
		y.Idle("w", 2)
		c := y.Claim("w", "ada")
		require.ErrorIs(t, y.Pools.DestroyContainer(ctx, c.Container, false), pool.ErrInUse)
		require.ErrorIs(t, y.Pools.DestroyContainer(ctx, "nobody", false), pool.ErrNoContainer)
		require.NoError(t, y.Pools.DestroyContainer(ctx, c.Container, true))
		held, err := y.DB.Claim(ctx, c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Active, held.State)
		require.Equal(t, string(pool.Dead), held.Health)
		r, err := y.Releases.Release(ctx, c.ID, release.Request{})
		require.NoError(t, err)
		require.Equal(t, claim.Released, r.State)
		y.Idle("w", 2)
	})
}

// Idle containers above min_idle go when they have been idle for idle_timeout.
func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(plain, "max_size: 4", "max_size: 4, idle_timeout: 10m", 1))
		y.Idle("w", 2)
		c := y.Claim("w", "ada")
		y.Idle("w", 2)
		y.Release(c)
		y.Idle("w", 3)
		<-time.After(9 * time.Minute)
		require.Equal(t, 3, y.Count("w", pool.Idle))
		<-time.After(2 * time.Minute)
		require.Equal(t, 2, y.Count("w", pool.Idle))
	})
}

// A workload whose tenants could be taken for another's is refused.
func TestApplyRefusesPrefixesThatMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		apply := func(id, prefix string) error {
			_, err := y.Pools.Apply(t.Context(), []byte(strings.Replace(plain, "id: w\n", "id: "+id+"\n", 1)+
				"volumes: { state: { target: /data } }\nsync: { sink: { type: s3, bucket: b, prefix: '"+prefix+"' } }\n"), id+".yaml", "")
			return err
		}
		require.NoError(t, apply("a", "tenants/${tenantId}/"))
		require.NoError(t, apply("b", "tenants/${tenantId}/"))
		faults, ok := errors.AsType[workload.Faults](apply("c", "${tenantId}/"))
		require.True(t, ok)
		require.Equal(t, "sync.sink.prefix", faults[0].Field)
		require.Contains(t, faults[0].Message, "workload a")
		require.NotEmpty(t, faults[0].Remedy)
		require.NoError(t, apply("c", "other/${tenantId}/"))
	})
}

// What a server cannot do yet, and a seed that is not there, are faults of the
// file with a remedy.
func TestApplyRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Pools.OpenSink = func(context.Context, *workload.Sync) error { return errors.New("this folder is not allowed") }
		for file, field := range map[string]string{
			plain + "volumes: { state: { target: /data } }\nsync: { sink: { type: file, path: /tmp } }\n": "sync.sink",
			plain + "volumes: { state: { target: /data, seed: ./nowhere } }\n":                            "volumes.state.seed",
			"id: w\n": "image",
		} {
			_, err := y.Pools.Apply(t.Context(), []byte(file), "w.yaml", "")
			faults, ok := errors.AsType[workload.Faults](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, field, faults[0].Field)
			require.NotEmpty(t, faults[0].Remedy)
		}
	})
}
