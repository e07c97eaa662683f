package release_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/wait"
)

// A claim whose tenant waits is not idle, and the end of the wait is activity.
func TestWaitIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: wipe, claim_idle_ttl: 2m"))
		startLoops(t, h)
		c := h.Claim("w", "ada")
		_, _, err := h.Waits.Start(t.Context(), c.ID, wait.Request{Type: "review", Timeout: 5 * time.Minute})
		require.NoError(t, err)
		state := func() claim.State {
			now, err := h.DB.Claim(t.Context(), c.ID)
			require.NoError(t, err)
			return now.State
		}
		<-time.After(6 * time.Minute)
		synctest.Wait()
		require.Equal(t, claim.Active, state())
		<-time.After(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, claim.Released, state())
	})
}

// The release of a claim ends the hooks of its waits before pre_release.
func TestReleaseEndsHooksOfWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(strings.Split(hookedWorkload, "hooks:")[0] + `hooks:
  wait_start: [{ command: [box, hang], timeout: 1m }]
  pre_release: [{ command: [box, echo, released] }]
`)
		c := h.Claim("w", "ada")
		_, _, err := h.Waits.Start(t.Context(), c.ID, wait.Request{Type: "review", Timeout: time.Minute})
		require.NoError(t, err)
		<-time.After(time.Second)
		begin := time.Now()
		h.Release(c)
		require.Less(t, time.Since(begin), 20*time.Second)
		runs, err := h.DB.Runs(t.Context(), hooks.RunFilter{Claim: c.ID})
		require.NoError(t, err)
		require.Len(t, runs, 2)
		require.Equal(t, []hooks.RunState{hooks.Cancelled, hooks.Succeeded}, []hooks.RunState{runs[0].State, runs[1].State})
		require.False(t, runs[1].StartedAt.Before(*runs[0].EndedAt))
	})
}

// A request of a hook of a wait ends before pre_release as well. It holds nothing of
// the container: if it does not end, the release continues.
func TestReleaseAwaitsRequestsOfWaits(t *testing.T) {
	for _, ends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := flowtest.New(t)
			h.Apply(strings.Split(hookedWorkload, "hooks:")[0] + `hooks:
  wait_start: [{ http: { url: "https://registry.example/" } }]
  pre_release: [{ command: [box, echo, released] }]
`)
			c := h.Claim("w", "ada")
			begin := time.Now()
			run := hooks.Run{
				ID: "r", Attempt: 1, Point: hooks.WaitStart, Wait: "w.1", Hook: "register", Kind: hooks.KindHTTP,
				Workload: c.Workload, Container: c.Container, Claim: c.ID, Tenant: c.Tenant, StartedAt: begin,
			}
			require.NoError(t, h.DB.RunStarted(t.Context(), run))
			_, _, err := h.DB.StartWait(t.Context(), wait.Wait{ID: "w", Claim: c.ID, Type: "review", TimeoutMS: 1000, Points: []hooks.Point{hooks.WaitStart}})
			require.NoError(t, err)
			if ends {
				time.AfterFunc(3*time.Second, func() {
					run.State = hooks.Cancelled
					_ = h.DB.RunEnded(t.Context(), run) // else the release waits for a minute
				})
			}
			h.Release(c)
			runs, err := h.DB.Runs(t.Context(), hooks.RunFilter{Claim: c.ID, Point: hooks.PreRelease})
			require.NoError(t, err)
			require.Len(t, runs, 1)
			require.Equal(t, ends, runs[0].StartedAt.Sub(begin) < time.Minute)
			require.GreaterOrEqual(t, runs[0].StartedAt.Sub(begin), 3*time.Second)
			k, err := h.DB.Container(t.Context(), c.Container)
			require.NoError(t, err)
			require.Equal(t, pool.Idle, k.State, "%+v", k)
		})
	}
}
