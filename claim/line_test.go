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
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
)

// Fifty tenants claim at once from a pool of ten and wait: nobody gets two
// containers, no container gets two tenants, and all are served as others
// release.
func TestFiftyTenantsTenContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(small(10))
		var mu sync.Mutex
		holds := map[string]string{} // container: tenant
		var g errgroup.Group
		for i := range 50 {
			g.Go(func() error {
				tenant := fmt.Sprintf("t%02d", i)
				c, created, err := y.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: tenant, Wait: 5 * time.Minute})
				if err != nil {
					return err
				}
				mu.Lock()
				taken := holds[c.Container]
				holds[c.Container] = tenant
				mu.Unlock()
				if taken != "" || !created {
					return fmt.Errorf("container %s is %s's and %s's", c.Container, taken, tenant)
				}
				<-time.After(time.Second)
				mu.Lock()
				delete(holds, c.Container)
				mu.Unlock()
				_, err = y.Releases.Release(t.Context(), c.ID, release.Request{})
				return err
			})
		}
		require.NoError(t, g.Wait())
		require.Len(t, y.Events(activity.ClaimActivated), 50)
	})
}

// The line is first come, first served.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(small(1))
		first := y.Claim("w", "first")
		var mu sync.Mutex
		var order []string
		var g errgroup.Group
		for i := range 5 {
			tenant := fmt.Sprintf("t%d", i)
			g.Go(func() error {
				c, _, err := y.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: tenant, Wait: time.Hour})
				if err != nil {
					return err
				}
				mu.Lock()
				order = append(order, tenant)
				mu.Unlock()
				_, err = y.Releases.Release(t.Context(), c.ID, release.Request{})
				return err
			})
			synctest.Wait()
			require.Equal(t, i+1, y.Pools.Queue.Waiting("w"))
		}
		y.Release(first)
		require.NoError(t, g.Wait())
		require.Equal(t, []string{"t0", "t1", "t2", "t3", "t4"}, order)
	})
}

// Nobody waits in vain, and everybody is told why.
func TestReasons(t *testing.T) {
	unavailable := func(t *testing.T, y *flowtest.Yard, wait time.Duration) *claim.UnavailableError {
		t.Helper()
		_, _, err := y.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "bob", Wait: wait})
		u, ok := errors.AsType[*claim.UnavailableError](err)
		require.True(t, ok, "%v", err)
		require.NotEmpty(t, u.Detail)
		require.Positive(t, u.RetryAfter)
		ended, err := y.DB.Claims(t.Context(), claim.Filter{Tenant: "bob", States: []claim.State{claim.Failed}})
		require.NoError(t, err)
		require.NotEmpty(t, ended)
		require.Zero(t, y.Pools.Queue.Waiting("w"))
		return u
	}
	t.Run("exhausted at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			y := flowtest.New(t)
			y.Apply(small(1))
			y.Claim("w", "ada")
			begin := time.Now()
			u := unavailable(t, y, 0)
			require.Equal(t, claim.Exhausted, u.Reason)
			require.ErrorIs(t, u, pool.ErrFull)
			require.Zero(t, time.Since(begin))
		})
	})
	t.Run("exhausted after the wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			y := flowtest.New(t)
			y.Apply(small(1))
			y.Claim("w", "ada")
			begin := time.Now()
			require.Equal(t, claim.Exhausted, unavailable(t, y, 7*time.Second).Reason)
			require.Equal(t, 7*time.Second, time.Since(begin))
		})
	})
	t.Run("filling fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			y := flowtest.New(t)
			y.RT.Break("create", runtime.ErrImage)
			y.Apply(small(1))
			u := unavailable(t, y, 0)
			require.Equal(t, claim.FillFailing, u.Reason)
			require.Contains(t, u.Detail, runtime.ErrImage.Error())
		})
	})
	t.Run("not ready", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			y := flowtest.New(t)
			_, unblock := y.RT.Block("create")
			defer unblock()
			y.Apply(small(1))
			require.Equal(t, claim.NotReady, unavailable(t, y, time.Second).Reason)
		})
	})
	t.Run("unknown workload, bad tenant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			y := flowtest.New(t)
			_, _, err := y.Claims.Claim(t.Context(), claim.Request{Workload: "nope", Tenant: "ada"})
			require.ErrorIs(t, err, pool.ErrNoWorkload)
			for _, tenant := range []string{"", "../x", "a/b", "a b", "-a", strings.Repeat("a", 129), "a\n"} {
				_, _, err := y.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: tenant})
				require.ErrorIs(t, err, claim.ErrTenant, "%q", tenant)
			}
		})
	})
}

// A caller who leaves does not take along those who wait for the same claim.
func TestLeaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(small(1))
		first := y.Claim("w", "first")
		ctx, leave := context.WithCancel(t.Context())
		var leader, joiner errgroup.Group
		ask := func(ctx context.Context) func() error {
			return func() error {
				_, _, err := y.Claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "ada", Wait: time.Hour})
				return err
			}
		}
		leader.Go(ask(ctx))
		synctest.Wait()
		joiner.Go(ask(t.Context()))
		synctest.Wait()
		leave()
		require.ErrorIs(t, leader.Wait(), context.Canceled)
		synctest.Wait()
		y.Release(first)
		require.NoError(t, joiner.Wait())
	})
}

// gated is storage in which those who ask again for a container wait.
type gated struct {
	claim.Store
	open chan struct{}
}

func (g gated) Reserve(ctx context.Context, r claim.Reservation) (claim.Claim, error) {
	if r.Tenant == "waiting" && !r.Queue {
		<-g.open
	}
	return g.Store.Reserve(ctx, r)
}

// Nor does one who leaves while the database is asked for something: what that
// says then is the end of this caller's request, not of the claim.
func TestLeaderLeavesStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(small(1))
		held := y.Claim("w", "held")
		db := gated{y.DB, make(chan struct{})}
		claims := service(y, db)
		ctx, leave := context.WithCancel(t.Context())
		var leader, joiner errgroup.Group
		ask := func(ctx context.Context) func() error {
			return func() error {
				_, _, err := claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "waiting", Wait: time.Hour})
				return err
			}
		}
		leader.Go(ask(ctx))
		synctest.Wait() // in Reserve
		joiner.Go(ask(t.Context()))
		synctest.Wait()
		leave()
		close(db.open)
		require.ErrorIs(t, leader.Wait(), context.Canceled)
		synctest.Wait()
		y.Release(held)
		require.NoError(t, joiner.Wait())
	})
}

// Who comes while others wait takes the last place, though a container is idle
// at that moment: it is for the first of those who wait.
func TestNobodyOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(small(1))
		held := y.Claim("w", "held")
		db := gated{y.DB, make(chan struct{})}
		claims := service(y, db)
		var g errgroup.Group
		got := make(chan string, 2)
		ask := func(tenant string) {
			g.Go(func() error {
				c, _, err := claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: tenant, Wait: time.Hour})
				if err != nil {
					return err
				}
				got <- tenant
				_, err = y.Releases.Release(t.Context(), c.ID, release.Request{})
				return err
			})
			synctest.Wait()
		}
		place := y.Pools.Queue.Enter("w") // so that the first one waits in line
		ask("waiting")
		place.Leave()
		synctest.Wait()
		y.Release(held)
		synctest.Wait()
		require.Equal(t, 1, y.Count("w", pool.Idle))
		ask("newcomer")
		require.Empty(t, got)
		close(db.open)
		require.NoError(t, g.Wait())
		require.Equal(t, "waiting", <-got)
		require.Equal(t, "newcomer", <-got)
	})
}
