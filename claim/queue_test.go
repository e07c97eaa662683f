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
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
)

// Fifty tenants claim concurrently from a pool of ten and wait. No tenant gets
// two containers, no container gets two tenants, and all are served as others
// release.
func TestFiftyTenantsTenContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(smallWorkload(10))
		var mu sync.Mutex
		holds := map[string]string{} // container: tenant
		var g errgroup.Group
		for i := range 50 {
			g.Go(func() error {
				tenant := fmt.Sprintf("t%02d", i)
				c, created, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: tenant, Wait: 5 * time.Minute})
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
				_, err = h.Releases.Release(t.Context(), c.ID, release.Request{})
				return err
			})
		}
		require.NoError(t, g.Wait())
		require.Len(t, h.Events(activity.ClaimActivated), 50)
	})
}

// The wait queue is first in, first out.
func TestWaitQueueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(smallWorkload(1))
		first := h.Claim("w", "first")
		var mu sync.Mutex
		var order []string
		var g errgroup.Group
		for i := range 5 {
			tenant := fmt.Sprintf("t%d", i)
			g.Go(func() error {
				c, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: tenant, Wait: time.Hour})
				if err != nil {
					return err
				}
				mu.Lock()
				order = append(order, tenant)
				mu.Unlock()
				_, err = h.Releases.Release(t.Context(), c.ID, release.Request{})
				return err
			})
			synctest.Wait()
			require.Equal(t, i+1, h.Pools.Queue.Waiting("w"))
		}
		h.Release(first)
		require.NoError(t, g.Wait())
		require.Equal(t, []string{"t0", "t1", "t2", "t3", "t4"}, order)
	})
}

// A claim that cannot succeed fails before the deadline, with the reason.
func TestUnavailabilityReasons(t *testing.T) {
	unavailable := func(t *testing.T, h *flowtest.Harness, wait time.Duration) *claim.UnavailableError {
		t.Helper()
		_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "bob", Wait: wait})
		u, ok := errors.AsType[*claim.UnavailableError](err)
		require.True(t, ok, "%v", err)
		require.NotEmpty(t, u.Detail)
		require.Positive(t, u.RetryAfter)
		ended, err := h.DB.Claims(t.Context(), claim.Filter{Tenant: "bob", States: []claim.State{claim.Failed}})
		require.NoError(t, err)
		require.NotEmpty(t, ended)
		require.Zero(t, h.Pools.Queue.Waiting("w"))
		return u
	}
	t.Run("exhausted at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.Apply(smallWorkload(1))
			h.Claim("w", "ada")
			start := time.Now()
			u := unavailable(t, h, 0)
			require.Equal(t, claim.Exhausted, u.Reason)
			require.ErrorIs(t, u, pool.ErrFull)
			require.Zero(t, time.Since(start))
		})
	})
	// A caller that does not wait takes no place in the queue: another one could not
	// get the container that is being created, and none is created for this one.
	t.Run("no wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			_, unblock := h.RT.Block("create")
			h.Apply(flowtest.Edit(smallWorkload(1), "min_idle: 0", "min_idle: 1"))
			start := time.Now()
			_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "bob", NoWait: true})
			u, ok := errors.AsType[*claim.UnavailableError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, claim.NotReady, u.Reason)
			require.Zero(t, time.Since(start))
			require.Zero(t, h.Pools.Queue.Waiting("w"))
			unblock()
			h.AwaitIdle("w", 1)
			_, created, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "bob", NoWait: true})
			require.NoError(t, err)
			require.True(t, created, "an idle one is claimed")
		})
	})
	t.Run("exhausted after the wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.Apply(smallWorkload(1))
			h.Claim("w", "ada")
			start := time.Now()
			require.Equal(t, claim.Exhausted, unavailable(t, h, 7*time.Second).Reason)
			require.Equal(t, 7*time.Second, time.Since(start))
		})
	})
	t.Run("filling fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.RT.Break("create", runtime.ErrImageUnavailable)
			h.Apply(smallWorkload(1))
			u := unavailable(t, h, 0)
			require.Equal(t, claim.FillFailing, u.Reason)
			require.Contains(t, u.Detail, runtime.ErrImageUnavailable.Error())
		})
	})
	t.Run("not ready", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			_, unblock := h.RT.Block("create")
			defer unblock()
			h.Apply(smallWorkload(1))
			require.Equal(t, claim.NotReady, unavailable(t, h, time.Second).Reason)
		})
	})
	t.Run("unknown workload, invalid tenant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "nope", Tenant: "ada"})
			require.ErrorIs(t, err, pool.ErrWorkloadNotFound)
			for _, tenant := range []string{"", "../x", "a/b", "a b", "-a", strings.Repeat("a", 129), "a\n"} {
				_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: tenant})
				require.ErrorIs(t, err, claim.ErrInvalidTenant, "%q", tenant)
			}
		})
	})
}

// A caller who cancels does not cancel the callers who wait for the same claim.
func TestJoinersSurviveCanceledCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(smallWorkload(1))
		first := h.Claim("w", "first")
		ctx, cancel := context.WithCancel(t.Context())
		var firstCaller, joiner errgroup.Group
		claimWith := func(ctx context.Context) func() error {
			return func() error {
				_, _, err := h.Claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "ada", Wait: time.Hour})
				return err
			}
		}
		firstCaller.Go(claimWith(ctx))
		synctest.Wait()
		joiner.Go(claimWith(t.Context()))
		synctest.Wait()
		cancel()
		require.ErrorIs(t, firstCaller.Wait(), context.Canceled)
		synctest.Wait()
		h.Release(first)
		require.NoError(t, joiner.Wait())
	})
}

// gatedStore is a store whose Reserve blocks for queued claims until it is
// opened.
type gatedStore struct {
	claim.Store
	open chan struct{}
}

func (g gatedStore) Reserve(ctx context.Context, r claim.Reservation) (claim.Claim, error) {
	if r.Tenant == "waiting" && !r.EnqueueOnly {
		<-g.open
	}
	return g.Store.Reserve(ctx, r)
}

// A caller who cancels during Reserve does not cancel the claim: the error of
// its context is the end of its own request only.
func TestJoinersSurviveCancelDuringReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(smallWorkload(1))
		held := h.Claim("w", "held")
		db := gatedStore{h.DB, make(chan struct{})}
		claims := newService(h, db)
		ctx, cancel := context.WithCancel(t.Context())
		var firstCaller, joiner errgroup.Group
		claimWith := func(ctx context.Context) func() error {
			return func() error {
				_, _, err := claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "waiting", Wait: time.Hour})
				return err
			}
		}
		firstCaller.Go(claimWith(ctx))
		synctest.Wait() // in Reserve
		joiner.Go(claimWith(t.Context()))
		synctest.Wait()
		cancel()
		close(db.open)
		require.ErrorIs(t, firstCaller.Wait(), context.Canceled)
		synctest.Wait()
		h.Release(held)
		require.NoError(t, joiner.Wait())
	})
}

// A claim that arrives while others wait is queued last, even if a container is
// idle at that time: it is for the first in the queue.
func TestWaitQueueNoOvertaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(smallWorkload(1))
		held := h.Claim("w", "held")
		db := gatedStore{h.DB, make(chan struct{})}
		claims := newService(h, db)
		var g errgroup.Group
		got := make(chan string, 2)
		claimFor := func(tenant string) {
			g.Go(func() error {
				c, _, err := claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: tenant, Wait: time.Hour})
				if err != nil {
					return err
				}
				got <- tenant
				_, err = h.Releases.Release(t.Context(), c.ID, release.Request{})
				return err
			})
			synctest.Wait()
		}
		waiter := h.Pools.Queue.Add("w", time.Now()) // so that the first claim is queued
		claimFor("waiting")
		waiter.Remove()
		synctest.Wait()
		h.Release(held)
		synctest.Wait()
		require.Equal(t, 1, h.Count("w", pool.Idle))
		claimFor("newcomer")
		require.Empty(t, got)
		close(db.open)
		require.NoError(t, g.Wait())
		require.Equal(t, "waiting", <-got)
		require.Equal(t, "newcomer", <-got)
	})
}

// Claims that wait while their workload is applied get a container of the new
// revision, and do not block the claims behind them.
func TestWaitingClaimsFollowTheNewRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(smallWorkload(1))
		held := h.Claim("w", "held")
		var g errgroup.Group
		start := time.Now()
		claimFor := func(tenant string) {
			g.Go(func() error {
				c, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: tenant, Wait: time.Minute})
				if err != nil {
					return fmt.Errorf("%s after %s: %w", tenant, time.Since(start), err)
				}
				<-time.After(time.Second)
				_, err = h.Releases.Release(t.Context(), c.ID, release.Request{})
				return err
			})
			synctest.Wait()
		}
		claimFor("t0")
		claimFor("t1")
		h.Apply(flowtest.Edit(smallWorkload(1), "[box, idle]", "[box, idle, v2]"))
		claimFor("new")
		h.Release(held)
		require.NoError(t, g.Wait())
		require.Less(t, time.Since(start), time.Minute)
	})
}

// A claim that waits does not keep other tenants from the containers that are
// kept for them, which it could not get either.
func TestWaitingClaimDoesNotBlockOwnContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 0, max_size: 3 }\n")
		kept := h.Release(h.Claim("w", "ada"))
		h.RT.Break("create", runtime.ErrImageUnavailable)
		var g errgroup.Group
		g.Go(func() error {
			_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "mallory", Wait: time.Hour})
			if _, unavailable := errors.AsType[*claim.UnavailableError](err); !unavailable {
				return fmt.Errorf("mallory: %w", err)
			}
			return nil
		})
		<-time.After(30 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, h.Pools.Queue.Waiting("w"))
		c, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
		require.NoError(t, err)
		require.Equal(t, []string{string(claim.Affinity), kept.Container}, []string{string(c.Source), c.Container})
		require.NoError(t, g.Wait())
	})
}

// A caller waits no longer than it asked for, also if it waited for another
// caller's claim at first.
func TestJoinerWaitsNoLongerThanItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(smallWorkload(1))
		h.Claim("w", "held")
		unavailable := func(wait time.Duration) error {
			start := time.Now()
			_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", Wait: wait})
			if _, ok := errors.AsType[*claim.UnavailableError](err); !ok || time.Since(start) != wait {
				return fmt.Errorf("after %s: %w", time.Since(start), err)
			}
			return nil
		}
		var g errgroup.Group
		g.Go(func() error { return unavailable(59 * time.Second) })
		synctest.Wait()
		require.NoError(t, unavailable(time.Minute))
		require.NoError(t, g.Wait())
	})
	t.Run("the other caller cancels", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			_, unblock := h.RT.Block("create") // so that a caller without a wait time waits
			defer unblock()
			h.Apply(smallWorkload(1))
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			var g errgroup.Group
			g.Go(func() error {
				_, _, err := h.Claims.Claim(ctx, claim.Request{Workload: "w", Tenant: "ada", Wait: time.Hour})
				if !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("the other caller: %w", err)
				}
				return nil
			})
			synctest.Wait()
			start := time.Now()
			_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada", Wait: time.Minute})
			require.Error(t, err)
			require.Less(t, time.Since(start), 91*time.Second, "one attempt is left")
			require.NoError(t, g.Wait())
		})
	})
}
