package claim_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// value is that of the variable of every environment of these tests.
const value = "hunter2-of-ada"

var environment = map[string]string{"TOKEN": value}

var releaseRequest = release.Request{}

// claimWith claims a container of w with an environment.
func claimWith(h *flowtest.Harness, tenant string, environment map[string]string) (claim.Claim, bool, error) {
	return h.Claims.Claim(h.T.Context(), claim.Request{Workload: "w", Tenant: tenant, Environment: environment})
}

// requireNoEnvironment asserts that no idle container has the environment of a
// claim.
func requireNoEnvironment(h *flowtest.Harness) {
	h.T.Helper()
	idle, err := h.Pools.Containers(h.T.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
	require.NoError(h.T, err)
	for _, k := range idle {
		require.NotContains(h.T, h.RT.MainEnvironment(k.ID), "TOKEN", "container %s", k.ID)
	}
}

// A claim with an environment restarts the main process with it, before the
// container is checked and the hooks run. Its release restarts the main process
// without it. A claim without one restarts nothing.
func TestEnvironmentReachesMainProcess(t *testing.T) {
	for _, policy := range []string{"", "restart: never\n"} {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.Apply(flowtest.Edit(hookedWorkload, "max_size: 2", "max_size: 1") + policy)
			h.AwaitIdle("w", 1)
			h.ForgetCalls()
			given := maps.Clone(environment)
			c, created, err := claimWith(h, "ada", given)
			require.NoError(t, err)
			require.True(t, created)
			require.Equal(t, []string{"restart", "exec box echo healthy", "exec box echo migrated"}, trace(h, c.Container))
			require.Equal(t, value, h.RT.MainEnvironment(c.Container)["TOKEN"])
			h.Release(c)
			requireNoEnvironment(h)

			h.ForgetCalls()
			again := h.Claim("w", "ada")
			require.Equal(t, c.Container, again.Container)
			require.NotContains(t, trace(h, c.Container), "restart")
			require.NotContains(t, h.RT.MainEnvironment(c.Container), "TOKEN")
		})
	}
}

// A repeated claim returns the existing one without an environment or with the
// same one. With another it is refused, and nothing changes.
func TestRepeatedClaimWithEnvironment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c, _, err := claimWith(h, "ada", environment)
		require.NoError(t, err)
		plain := h.Claim("w", "bob")
		h.ForgetCalls()
		check := func() {
			for _, same := range []map[string]string{nil, {}, {"TOKEN": value}} {
				again, created, err := claimWith(h, "ada", same)
				require.NoError(t, err)
				require.False(t, created)
				require.Equal(t, c.ID, again.ID)
			}
			for _, other := range []map[string]string{{"TOKEN": "x"}, {"TOKEN": value, "A": ""}, {"OTHER": value}} {
				_, _, err := claimWith(h, "ada", other)
				require.ErrorIs(t, err, claim.ErrOtherEnvironment)
				require.NotContains(t, err.Error(), value)
			}
			_, _, err = claimWith(h, "bob", environment)
			require.ErrorIs(t, err, claim.ErrOtherEnvironment, "it has none")
		}
		check()
		require.Empty(t, trace(h, c.Container))
		require.Empty(t, trace(h, plain.Container))
		h.Restart()
		check()
		require.Equal(t, value, h.RT.MainEnvironment(c.Container)["TOKEN"], "it outlives the server")
		_, err = h.Claims.Touch(t.Context(), c.ID)
		require.NoError(t, err)
		check()
	})
}

// Callers that join a claim in progress get it if its environment is theirs, and
// are refused otherwise.
func TestJoinedClaimWithEnvironment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		h.AwaitIdle("w", 1)
		reached, unblock := h.RT.Block("exec * box echo migrated")
		var g errgroup.Group
		var first claim.Claim
		g.Go(func() (err error) {
			first, _, err = claimWith(h, "ada", environment)
			return err
		})
		<-reached
		results := make([]claim.Claim, 3)
		errs := make([]error, 3)
		for i, e := range []map[string]string{nil, {"TOKEN": value}, {"TOKEN": "x"}} {
			g.Go(func() error {
				results[i], _, errs[i] = claimWith(h, "ada", e)
				return nil
			})
		}
		synctest.Wait()
		unblock()
		require.NoError(t, g.Wait())
		require.Equal(t, []error{nil, nil}, errs[:2])
		require.Equal(t, []string{first.ID, first.ID}, []string{results[0].ID, results[1].ID})
		require.ErrorIs(t, errs[2], claim.ErrOtherEnvironment)
	})
}

// A caller whose environment is another than that of the claim that it has
// joined does not get the failure of that claim.
func TestJoinedClaimFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "max_size: 2", "max_size: 4"))
		h.AwaitIdle("w", 1)
		reached, unblock := h.RT.Block("exec * box echo migrated")
		var g errgroup.Group
		var failed, joined error
		g.Go(func() error { _, _, failed = claimWith(h, "ada", environment); return nil })
		<-reached
		g.Go(func() error { _, _, joined = claimWith(h, "ada", nil); return nil })
		synctest.Wait()
		live, err := h.DB.Claims(t.Context(), claim.Filter{Tenant: "ada"})
		require.NoError(t, err)
		h.RT.Kill(live[0].Container)
		unblock()
		require.NoError(t, g.Wait())
		require.Error(t, failed)
		require.NoError(t, joined)
	})
}

// An invalid environment is refused before anything is recorded.
func TestInvalidEnvironment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		h.AwaitIdle("w", 1)
		_, _, err := claimWith(h, "ada", map[string]string{"HOSTLER_X": value})
		invalid, ok := errors.AsType[*claim.RequestError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "environment", invalid.Field)
		require.Empty(t, h.Events(activity.ClaimRequested))
	})
}

// The values are neither in the database nor in the log of events, and what is on
// record of them ends with the claim.
func TestEnvironmentIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c, _, err := claimWith(h, "ada", environment)
		require.NoError(t, err)
		on, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Len(t, on.EnvironmentDigest, 64)
		page, err := h.DB.Events(t.Context(), activity.Filter{}, 0, 1000)
		require.NoError(t, err)
		require.NotContains(t, fmt.Sprintf("%+v %+v", on, page.Items), value)
		require.Empty(t, h.Release(c).EnvironmentDigest)
		on, err = h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Empty(t, on.EnvironmentDigest)
	})
}

// Whichever call of a claim with an environment is the last one before the server
// is killed, the next server leaves no container with the environment in the
// pool, and no claim becomes active without it.
func TestCrashDuringClaimWithEnvironment(t *testing.T) {
	for _, at := range []string{"wipe *", "restart *", "exec * box echo started", "exec * box echo healthy", "exec * box echo migrated"} {
		for _, when := range []string{"before", "after"} {
			t.Run(strings.ReplaceAll(at+" "+when, "*", ""), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { crashDuringClaim(t, at, when == "after") })
			})
		}
	}
}

func crashDuringClaim(t *testing.T, at string, after bool) {
	h := flowtest.New(t)
	h.Apply(flowtest.Edit(hookedWorkload, "max_size: 2", "max_size: 1") + "  post_start: [{ name: s, command: [box, echo, started] }]\n")
	h.AwaitIdle("w", 1)
	h.Release(h.Claim("w", "bob"))
	killed := errors.New("the server was killed")
	stop := h.RT.Before
	if after {
		stop = h.RT.After
	}
	reached := make(chan struct{}, 16)
	ended := make(chan struct{})
	isKilled := true
	stop(at, func(context.Context, fake.Call) error {
		if !isKilled {
			return nil
		}
		reached <- struct{}{}
		<-ended // nothing of this server continues
		return killed
	})
	var g errgroup.Group
	claims := h.Claims
	g.Go(func() error {
		_, _, _ = claims.Claim(context.Background(), claim.Request{Workload: "w", Tenant: "ada", Environment: environment})
		return nil
	})
	<-reached
	isKilled = false
	h.Restart()
	close(ended)
	require.NoError(t, g.Wait())
	h.Until("no claim is pending", func() bool {
		pending, err := h.DB.Claims(t.Context(), claim.Filter{States: []claim.State{claim.Pending}})
		require.NoError(t, err)
		return len(pending) == 0
	})
	requireNoEnvironment(h)
	active, err := h.DB.Claims(t.Context(), claim.Filter{Tenant: "ada", States: []claim.State{claim.Active}})
	require.NoError(t, err)
	for _, c := range active {
		require.Equal(t, value, h.RT.MainEnvironment(c.Container)["TOKEN"])
	}
	c, _, err := claimWith(h, "ada", environment)
	require.NoError(t, err)
	require.Equal(t, value, h.RT.MainEnvironment(c.Container)["TOKEN"])
}

// A release that the server does not survive leaves no container with the
// environment in the pool.
func TestCrashDuringReleaseOfEnvironment(t *testing.T) {
	for _, at := range []string{"restart *", "exec * box echo bye"} {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.Apply(hookedWorkload + "  pre_release: [{ name: bye, command: [box, echo, bye] }]\n")
			c, _, err := claimWith(h, "ada", environment)
			require.NoError(t, err)
			reached, unblock := h.RT.Block(at)
			var g errgroup.Group
			releases := h.Releases
			g.Go(func() error {
				_, _ = releases.Release(context.Background(), c.ID, releaseRequest)
				return nil
			})
			<-reached
			h.RestartUnfinished()
			requireNoEnvironment(h)
			unblock()
			require.NoError(t, g.Wait())
			_, err = h.Releases.Release(t.Context(), c.ID, releaseRequest)
			require.NoError(t, err)
			requireNoEnvironment(h)
			again := h.Claim("w", "ada")
			require.Equal(t, c.Container, again.Container, "it was returned")
		})
	}
}

// A container of an older server that cannot be given an environment is replaced,
// unless it is the tenant's own: that one stays, with its files, and the claim
// fails.
func TestUnsupportedEnvironment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "pool: { min_idle: 1, max_size: 2, reuse: wipe }", "pool: { min_idle: 1, max_size: 3, reuse: same_tenant }"))
		h.AwaitIdle("w", 1)
		own := h.Claim("w", "ada")
		h.Release(own)
		refused := []string{}
		h.RT.Before("restart *", func(_ context.Context, call fake.Call) error {
			if call.ID == own.Container || len(refused) == 0 {
				refused = append(refused, call.ID)
				return runtime.ErrUnsupported
			}
			return nil
		})
		_, _, err := claimWith(h, "ada", environment)
		require.ErrorIs(t, err, runtime.ErrUnsupported)
		require.Equal(t, []string{own.Container}, refused)
		again := h.Claim("w", "ada")
		require.Equal(t, own.Container, again.Container)

		refused = nil
		c, _, err := claimWith(h, "bob", environment)
		require.NoError(t, err)
		require.Len(t, refused, 1)
		require.NotEqual(t, refused[0], c.Container)
		require.Equal(t, value, h.RT.MainEnvironment(c.Container)["TOKEN"])
	})
}
