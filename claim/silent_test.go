package claim_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// How long a silent container holds up one request, and for how long it may be
// silent, as the sessions of a backend have it.
const (
	unanswered = 15 * time.Second
	limit      = 2 * time.Minute
)

// silence has a container answer nothing from now on, while the engine says
// that it runs: each call takes its time, and from the limit on it is tainted.
// Of an empty id it is every container that there is.
func silence(y *flowtest.Yard, id string) {
	y.T.Helper()
	var since atomic.Pointer[time.Time]
	trap := func(ctx context.Context, call fake.Call) error {
		if id != "" && call.ID != id {
			return nil
		}
		begun := time.Now()
		since.CompareAndSwap(nil, &begun)
		if time.Since(*since.Load()) < limit {
			select {
			case <-time.After(unanswered):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if time.Since(*since.Load()) >= limit {
			return runtime.ErrDoomed
		}
		return runtime.ErrUnresponsive
	}
	for _, op := range []string{"exec", "outcome", "restart", "stop", "wipe", "baseline", "changed"} {
		y.RT.Before(op, trap)
	}
}

// longestIdle is the container that a claim is offered first.
func longestIdle(y *flowtest.Yard) pool.Container {
	y.T.Helper()
	idle, err := y.Pools.Containers(y.T.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
	require.NoError(y.T, err)
	first := idle[0]
	for _, c := range idle {
		if c.ChangedAt.Before(first.ChangedAt) {
			first = c
		}
	}
	return first
}

// A claim that meets a container which does not answer takes another one, and
// leaves that one as it is, behind all others, for nothing was done to it. When
// it has been silent for too long, it is destroyed.
func TestSilentContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.NewReplacer("min_idle: 1, max_size: 2", "min_idle: 2, max_size: 4", "retries: 1", "retries: 3").Replace(hooked))
		y.Idle("w", 2)
		silent := longestIdle(y)
		silence(y, silent.ID)
		<-time.After(11 * time.Second) // a check is due
		begun := time.Now()
		c := y.Claim("w", "ada")
		require.NotEqual(t, silent.ID, c.Container)
		require.LessOrEqual(t, time.Since(begun), unanswered)
		k, err := y.Pools.Container(t.Context(), silent.ID)
		require.NoError(t, err)
		require.Equal(t, pool.Idle, k.State)
		require.Empty(t, k.Tenant)
		require.True(t, k.ChangedAt.After(silent.ChangedAt), "others come first")
		y.Until("it to go", func() bool {
			k, err = y.Pools.Container(t.Context(), silent.ID)
			require.NoError(t, err)
			return k.State == pool.Gone
		})
		require.Less(t, time.Since(begun), 2*limit)
		y.Idle("w", 2)
	})
}

// Where no container answers, a claim fails in time, and says why; when they
// have been silent for too long, they are replaced.
func TestAllSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(hooked, "min_idle: 1, max_size: 2", "min_idle: 2, max_size: 2", 1))
		y.Idle("w", 2)
		<-time.After(5 * time.Second)
		silence(y, "")
		<-time.After(6 * time.Second)
		begun := time.Now()
		_, _, err := y.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.ErrorIs(t, err, runtime.ErrUnresponsive)
		require.LessOrEqual(t, time.Since(begun), 3*unanswered)
		require.Equal(t, 2, y.Count("w", pool.Idle))
	})
}

// A tenant's own container that does not answer keeps what is in it until it is
// tainted: the tenant is told so at once, and then gets another one.
func TestOwnSilentContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.NewReplacer("reuse: wipe", "reuse: same_tenant", "retries: 1", "retries: 100").Replace(hooked))
		c := y.Claim("w", "ada")
		y.Release(c)
		silence(y, c.Container)
		<-time.After(11 * time.Second)
		begun := time.Now()
		for {
			asked := time.Now()
			again, _, err := y.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
			if err == nil {
				require.NotEqual(t, c.Container, again.Container)
				break
			}
			require.ErrorIs(t, err, runtime.ErrUnresponsive)
			require.LessOrEqual(t, time.Since(asked), unanswered)
			k, err := y.Pools.Container(t.Context(), c.Container)
			require.NoError(t, err)
			require.Equal(t, pool.Idle, k.State)
			require.Equal(t, "ada", k.Tenant)
			<-time.After(10 * time.Second)
		}
		require.LessOrEqual(t, time.Since(begun), limit+2*unanswered)
	})
}

// A container that falls silent after its tenant's hook has begun is given up
// within the hook's timeout, and the claim with it.
func TestSilentAtItsHook(t *testing.T) {
	for _, timeout := range []time.Duration{30 * time.Second, 5 * time.Minute} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.New(t)
				y.Apply(strings.Replace(hooked, "migrated] }", "migrated], timeout: "+timeout.String()+" }", 1))
				y.Idle("w", 1)
				silent := longestIdle(y)
				silence(y, silent.ID)
				begun := time.Now()
				_, _, err := y.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
				failed, ok := errors.AsType[*claim.FailedError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, silent.ID, failed.Claim.Container)
				require.LessOrEqual(t, time.Since(begun), min(timeout, limit)+2*unanswered)
				y.Until("it to go", func() bool {
					k, err := y.Pools.Container(t.Context(), silent.ID)
					require.NoError(t, err)
					return k.State == pool.Gone
				})
			})
		})
	}
}
