package release_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
)

// A release that never ends does not block those of other idle claims or
// retries.
func TestStuckReleasesDoNotBlockIdleOrRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: never, claim_idle_ttl: 10m", "max_size: 2", "max_size: 30"))
		h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: never, claim_idle_ttl: 10m", "id: w", "id: other"))
		for _, tenant := range strings.Split("abcdefghijklmnopqrst", "") {
			c := h.Claim("w", tenant)
			_, unblock := h.RT.Block("scan_tree " + c.Container)
			defer unblock()
		}
		kept := h.Claim("other", "kept")
		repairSink := breakSink(h)
		_, err := h.Releases.Release(t.Context(), kept.ID, release.Request{})
		require.Error(t, err)
		startLoops(t, h)
		<-time.After(9 * time.Minute)
		repairSink()
		<-time.After(2 * time.Minute)
		idle := h.Claim("other", "idle")
		<-time.After(11 * time.Minute)
		for _, c := range []claim.Claim{kept, idle} {
			current, err := h.DB.Claim(t.Context(), c.ID)
			require.NoError(t, err)
			require.Equal(t, claim.Released, current.State, current.Tenant)
		}
		left, err := h.DB.Claims(t.Context(), claim.Filter{Workload: "w"})
		require.NoError(t, err)
		require.Len(t, left, 20)
	})
}

// Stuck releases of two workloads do not block those of others.
func TestTwoStuckWorkloadsDoNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		for _, id := range []string{"w", "v", "other"} {
			h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: never, claim_idle_ttl: 10m", "max_size: 2", "max_size: 30", "id: w", "id: "+id))
		}
		for _, id := range []string{"w", "v"} {
			for _, tenant := range strings.Split("abcdefghijkl", "") {
				c := h.Claim(id, tenant)
				_, unblock := h.RT.Block("scan_tree " + c.Container)
				defer unblock()
			}
		}
		startLoops(t, h)
		<-time.After(5 * time.Minute)
		idle := h.Claim("other", "idle")
		<-time.After(11 * time.Minute)
		current, err := h.DB.Claim(t.Context(), idle.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Released, current.State)
	})
}

// Releases that never end, of any caller, do not block other resumed releases.
func TestStuckReleaseDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "max_size: 2", "max_size: 30"))
		var g errgroup.Group
		defer g.Wait() //nolint:errcheck // the functions return nil
		for _, tenant := range strings.Split("abcdefghijklmnopqrst", "") {
			c := h.Claim("w", tenant)
			_, unblock := h.RT.Block("scan_tree " + c.Container)
			defer unblock()
			g.Go(func() error {
				_, _ = h.Releases.Release(t.Context(), c.ID, release.Request{}) // the test is over
				return nil
			})
		}
		failRelease := func(tenant string) claim.Claim {
			c := h.Claim("w", tenant)
			defer h.RT.Break("scan_tree "+c.Container, runtime.ErrUnavailable)()
			_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
			require.ErrorIs(t, err, runtime.ErrUnavailable)
			return c
		}
		slow := failRelease("slow")
		reached, unblock := h.RT.Block("scan_tree " + slow.Container)
		defer unblock()
		start := time.Now()
		startLoops(t, h)
		<-reached
		quick := failRelease("quick")
		<-time.After(time.Minute)
		synctest.Wait()
		require.Less(t, time.Since(start), 2*time.Minute)
		for c, state := range map[string]claim.State{slow.ID: claim.Releasing, quick.ID: claim.Released} {
			current, err := h.DB.Claim(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, state, current.State)
		}
	})
}

// A container that cannot be stopped, because process 1 does not start again,
// occupies a release for a limited time only, and its tenant is the cause: other
// claims of the workload are released, and its container is given up after
// release_failed_ttl.
func TestHungStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: never, claim_idle_ttl: 10m, release_failed_ttl: 1h", "max_size: 2", "max_size: 30"))
		var hung []claim.Claim
		for _, tenant := range strings.Split("abcdefgh", "") {
			c := h.Claim("w", tenant)
			_, unblock := h.RT.Block("stop " + c.Container)
			defer unblock()
			h.RT.Kill(c.Container)
			hung = append(hung, c)
		}
		startLoops(t, h)
		<-time.After(9 * time.Minute)
		honest := h.Claim("w", "honest")
		<-time.After(time.Hour)
		synctest.Wait()
		require.Equal(t, claim.Released, currentClaim(h, honest).State)
		held := func(c claim.Claim) bool { return currentClaim(h, c).State != claim.Released }
		for limit := time.Now().Add(12 * time.Hour); slices.ContainsFunc(hung, held); {
			require.True(t, time.Now().Before(limit), "all claims are released")
			<-time.After(10 * time.Minute)
		}
	})
}

// So does one that does not restart. It is destroyed.
func TestHungRestartIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: same_tenant"))
		c := h.Claim("w", "ada")
		_, unblock := h.RT.Block("restart " + c.Container)
		defer unblock()
		start := time.Now()
		released, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.NoError(t, err)
		require.Equal(t, claim.Released, released.State)
		require.LessOrEqual(t, time.Since(start), 20*time.Minute)
		require.NotEqual(t, pool.Idle, containerRecord(h, c.Container).State)
	})
}
