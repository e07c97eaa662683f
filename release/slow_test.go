package release_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
)

// A release that takes for ever holds up neither those of other idle claims nor
// those that were kept back.
func TestSlowReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.NewReplacer("reuse: never", "reuse: never, claim_idle_ttl: 10m", "max_size: 2", "max_size: 30").Replace(kept))
		y.Apply(strings.NewReplacer("reuse: never", "reuse: never, claim_idle_ttl: 10m", "id: w", "id: other").Replace(kept))
		for _, tenant := range strings.Split("abcdefghijklmnopqrst", "") {
			c := y.Claim("w", tenant)
			_, unblock := y.RT.Block("get " + c.Container)
			defer unblock()
		}
		kept := y.Claim("other", "kept")
		plugIn := unplug(y)
		_, err := y.Releases.Release(t.Context(), kept.ID, release.Request{})
		require.Error(t, err)
		running(t, y)
		<-time.After(9 * time.Minute)
		plugIn()
		<-time.After(2 * time.Minute)
		idle := y.Claim("other", "idle")
		<-time.After(11 * time.Minute)
		for _, c := range []claim.Claim{kept, idle} {
			now, err := y.DB.Claim(t.Context(), c.ID)
			require.NoError(t, err)
			require.Equal(t, claim.Released, now.State, now.Tenant)
		}
		left, err := y.DB.Claims(t.Context(), claim.Filter{Workload: "w"})
		require.NoError(t, err)
		require.Len(t, left, 20)
	})
}

// Nor do those of two workloads.
func TestTwoSlowWorkloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		for _, id := range []string{"w", "v", "other"} {
			y.Apply(strings.NewReplacer("reuse: never", "reuse: never, claim_idle_ttl: 10m", "max_size: 2", "max_size: 30", "id: w", "id: "+id).Replace(kept))
		}
		for _, id := range []string{"w", "v"} {
			for _, tenant := range strings.Split("abcdefghijkl", "") {
				c := y.Claim(id, tenant)
				_, unblock := y.RT.Block("get " + c.Container)
				defer unblock()
			}
		}
		running(t, y)
		<-time.After(5 * time.Minute)
		idle := y.Claim("other", "idle")
		<-time.After(time.Hour)
		now, err := y.DB.Claim(t.Context(), idle.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Released, now.State)
	})
}

// Releases that take for ever, whoever began them, hold up no other that is to
// be finished.
func TestSlowToFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(kept, "max_size: 2", "max_size: 30", 1))
		var g errgroup.Group
		defer g.Wait() //nolint:errcheck // the functions return nil
		for _, tenant := range strings.Split("abcdefghijklmnopqrst", "") {
			c := y.Claim("w", tenant)
			_, unblock := y.RT.Block("get " + c.Container)
			defer unblock()
			g.Go(func() error {
				_, _ = y.Releases.Release(t.Context(), c.ID, release.Request{}) // the test is over
				return nil
			})
		}
		fails := func(tenant string) claim.Claim {
			c := y.Claim("w", tenant)
			defer y.RT.Break("get "+c.Container, runtime.ErrUnavailable)()
			_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
			require.ErrorIs(t, err, runtime.ErrUnavailable)
			return c
		}
		slow := fails("slow")
		reached, unblock := y.RT.Block("get " + slow.Container)
		defer unblock()
		begin := time.Now()
		running(t, y)
		<-reached
		quick := fails("quick")
		<-time.After(time.Minute)
		require.Less(t, time.Since(begin), 2*time.Minute)
		for c, state := range map[string]claim.State{slow.ID: claim.Releasing, quick.ID: claim.Released} {
			now, err := y.DB.Claim(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, state, now.State)
		}
	})
}
