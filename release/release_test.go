package release_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
)

const hookedWorkload = `
id: w
image: box
command: [box, idle]
volumes: { state: { target: /data } }
pool: { min_idle: 0, max_size: 2, reuse: wipe }
hooks:
  pre_release: [{ name: flush, command: [box, echo, flushed] }]
`

// awaitDestroyed waits until a container is destroyed, and returns the reason.
func awaitDestroyed(h *flowtest.Harness, id string) string {
	h.T.Helper()
	var c pool.Container
	h.Until("the container to be destroyed", func() bool {
		var err error
		c, err = h.Pools.Container(h.T.Context(), id)
		require.NoError(h.T, err)
		return c.State == pool.Destroyed
	})
	return c.Reason
}

// A release runs pre_release, ends the tenant's processes, and returns the
// container to the pool. A repeated release returns the same result and runs
// nothing.
func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c := h.Claim("w", "ada")
		h.ForgetCalls()
		r := h.Release(c)
		require.Equal(t, claim.Released, r.State)
		require.NotNil(t, r.ReleasedAt)
		require.Empty(t, r.Warnings)
		require.Len(t, r.Hooks, 1)
		for _, step := range []string{"pre_release", "dispose"} {
			require.Contains(t, r.Timings, step)
		}
		require.Equal(t, []string{"close_ports " + c.Container, "end_commands " + c.Container, "status " + c.Container, "exec " + c.Container + " box echo flushed", "restart " + c.Container}, h.RT.Calls())
		k, err := h.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, pool.Idle, k.State)
		require.Empty(t, k.Claim)
		require.Equal(t, "ada", k.Tenant, "the owner of the data is still recorded")

		h.ForgetCalls()
		require.Equal(t, r, h.Release(c))
		require.Empty(t, h.RT.Calls())
		_, err = h.Releases.Release(t.Context(), "unknown", release.Request{})
		require.ErrorIs(t, err, claim.ErrClaimNotFound)
	})
}

// Ten concurrent releases run the hook once, and all return the same result.
func TestConcurrentReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c := h.Claim("w", "ada")
		var g errgroup.Group
		for range 10 {
			g.Go(func() error {
				r, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
				if err == nil && r.State != claim.Released {
					t.Errorf("a release ended as %s", r.State)
				}
				return err
			})
		}
		require.NoError(t, g.Wait())
		require.Len(t, h.Events(activity.HookStarted), 1)
		require.Len(t, h.Events(activity.ClaimReleased), 1)
	})
}

// A pre_release hook does not block the release: its failure is a warning, the
// rest of the point is skipped, and a container in which a hook may still run
// is destroyed.
func TestPreReleaseFails(t *testing.T) {
	tests := map[string]struct {
		hook      string
		err       error // of the exec
		state     pool.State
		warns     bool
		skipped   int
		destroyed string
	}{
		"fail":           {"command: [box, exit, '3']", nil, pool.Idle, true, 1, ""},
		"continue":       {"command: [box, exit, '3'], on_error: continue", nil, pool.Idle, false, 0, ""},
		"retry":          {"command: [box, exit, '3'], on_error: retry, retries: 2", nil, pool.Idle, true, 1, ""},
		"timeout":        {"command: [box, ignore-term], timeout: 1s", nil, pool.Idle, true, 1, ""},
		"not started":    {"command: [nothing]", nil, pool.Idle, true, 1, ""},
		"tainted":        {"command: [box, exit, '3'], on_error: continue", runtime.ErrTainted, pool.Destroyed, true, 1, "may still run"},
		"engine off":     {"command: [box, exit, '3'], on_error: continue", runtime.ErrUnavailable, pool.Destroyed, true, 1, `hook "flush" ended as unknown`},
		"container lost": {"command: [box, exit, '3'], on_error: continue", runtime.ErrContainerExited, pool.Destroyed, true, 1, `hook "flush" ended as lost`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(flowtest.Edit(hookedWorkload, "command: [box, echo, flushed] }]", tt.hook+" }, { command: [box, echo, second] }]"))
				c := h.Claim("w", "ada")
				if tt.err != nil {
					h.RT.Break("exec * box exit", tt.err)
				}
				r := h.Release(c)
				require.Equal(t, claim.Released, r.State)
				require.Len(t, h.Events(activity.HookSkipped), tt.skipped)
				if tt.warns {
					require.Len(t, r.Warnings, 1)
					require.Contains(t, r.Warnings[0], `pre_release hook "flush"`)
				}
				if tt.state == pool.Destroyed {
					require.Contains(t, awaitDestroyed(h, c.Container), tt.destroyed)
					return
				}
				k, err := h.Pools.Container(t.Context(), c.Container)
				require.NoError(t, err)
				require.Equal(t, tt.state, k.State)
			})
		})
	}
}

// While the engine is unavailable, a release runs no hook, however long that
// takes: pre_release runs when the engine is available again.
func TestPreReleaseWaitsForEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c := h.Claim("w", "ada")
		repairStatus, repairExec := h.RT.Break("status", runtime.ErrUnavailable), h.RT.Break("exec * box echo flushed", runtime.ErrUnavailable)
		for range 3 {
			_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
			require.ErrorIs(t, err, runtime.ErrUnavailable)
			<-time.After(time.Hour)
		}
		require.Empty(t, h.Events(activity.HookStarted))
		repairStatus()
		repairExec()
		r := h.Release(c)
		require.Equal(t, claim.Released, r.State)
		require.Empty(t, r.Warnings)
		require.Len(t, h.Events(activity.HookCompleted), 1)
	})
}

// A container that cannot or must not be reused is destroyed, with a reason.
func TestDestroyedInsteadOfReused(t *testing.T) {
	tests := map[string]struct {
		file    string
		request release.Request
		before  func(h *flowtest.Harness, c claim.Claim)
		reason  string
	}{
		"reuse never":     {flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: never"), release.Request{}, nil, "reuse is never"},
		"discarded":       {hookedWorkload, release.Request{Discard: true}, nil, "discarded"},
		"cannot restart":  {hookedWorkload, release.Request{}, func(h *flowtest.Harness, _ claim.Claim) { h.RT.Break("restart", runtime.ErrTainted) }, "container is tainted"},
		"exited":          {hookedWorkload, release.Request{}, func(h *flowtest.Harness, c claim.Claim) { kill(h, c) }, "its main process exited with code 137"},
		"pool is drained": {hookedWorkload, release.Request{}, func(h *flowtest.Harness, _ claim.Claim) { drain(h) }, "draining"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(tt.file)
				c := h.Claim("w", "ada")
				if tt.before != nil {
					tt.before(h, c)
				}
				r, err := h.Releases.Release(t.Context(), c.ID, tt.request)
				require.NoError(t, err)
				require.Equal(t, claim.Released, r.State)
				require.Contains(t, awaitDestroyed(h, c.Container), tt.reason)
				require.Equal(t, name == "exited", strings.Contains(strings.Join(r.Warnings, " "), "pre_release did not run"))
			})
		})
	}
}

func kill(h *flowtest.Harness, c claim.Claim) {
	h.RT.Kill(c.Container)
	h.Until("the exit to be recorded", func() bool { return len(h.Events(activity.ContainerDied)) == 1 })
}

func drain(h *flowtest.Harness) {
	_, err := h.Pools.Drain(h.T.Context(), "w")
	require.NoError(h.T, err)
}

// With reuse: same_tenant a container is kept for its tenant, and destroyed
// only when the pool has no room for another tenant.
func TestReuseSameTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(flowtest.Edit(hookedWorkload, "reuse: wipe", "reuse: same_tenant"), "max_size: 2", "max_size: 1"))
		c := h.Claim("w", "ada")
		h.Release(c)
		again := h.Claim("w", "ada")
		require.Equal(t, c.Container, again.Container)
		require.Equal(t, claim.Affinity, again.Source)
		h.Release(again)
		other := h.Claim("w", "bob")
		require.NotEqual(t, c.Container, other.Container)
		require.Equal(t, claim.Fresh, other.Source)
		require.Contains(t, awaitDestroyed(h, c.Container), "needs its room for other tenants")
	})
}

// A claim that is released during its hook is aborted: the hook ends, the
// container is destroyed, and pre_release does not run.
func TestReleasePending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload + "  post_claim: [{ command: [box, hang], timeout: 5m }]\n")
		var g errgroup.Group
		g.Go(func() error {
			_, _, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
			return err
		})
		h.Until("the hook to run", func() bool { return len(h.Events(activity.HookStarted)) == 1 })
		live, err := h.DB.Claims(t.Context(), claim.Filter{Tenant: "ada"})
		require.NoError(t, err)
		r, err := h.Releases.Release(t.Context(), live[0].ID, release.Request{})
		require.NoError(t, err)
		require.Equal(t, claim.Failed, r.State)
		require.ErrorIs(t, g.Wait(), claim.ErrAborted)
		require.Len(t, h.Events(activity.HookStarted), 1)
		awaitDestroyed(h, r.Container)
	})
}

// The next server completes the release of a killed server, and does not repeat
// a hook that was started.
func TestCrashDuringRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(hookedWorkload)
		c := h.Claim("w", "ada")
		_, err := h.DB.UpdateClaim(t.Context(), claim.Transition{ID: c.ID, From: []claim.State{claim.Active}, To: claim.Releasing})
		require.NoError(t, err)
		h.Restart()
		r, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Released, r.State)
		require.Len(t, h.Events(activity.HookCompleted), 1)

		// A hook that was started and is unknown to the container.
		c = h.Claim("w", "ada")
		_, err = h.DB.UpdateClaim(t.Context(), claim.Transition{ID: c.ID, From: []claim.State{claim.Active}, To: claim.Releasing})
		require.NoError(t, err)
		require.NoError(t, h.DB.RunStarted(t.Context(), hooks.Run{
			ID: "started", Attempt: 1, Point: hooks.PreRelease, Hook: "flush", Kind: hooks.KindCommand, Command: []string{"box"},
			Workload: "w", Container: c.Container, Claim: c.ID, Tenant: "ada", State: hooks.Running, StartedAt: time.Now(),
		}))
		h.Restart()
		r, err = h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Released, r.State)
		require.Len(t, r.Warnings, 1)
		require.Len(t, h.Events(activity.HookStarted), 2, "a started hook is not repeated")
		require.Len(t, h.Events(activity.HookFailed), 1)
		require.Contains(t, awaitDestroyed(h, c.Container), "ended as unknown")
	})
}

// The release of an ended claim does not touch its former container, which may
// belong to another tenant.
func TestStaleRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(hookedWorkload, "max_size: 2", "max_size: 1"))
		c := h.Claim("w", "ada")
		_, err := h.DB.UpdateClaim(t.Context(), claim.Transition{ID: c.ID, From: []claim.State{claim.Active}, To: claim.Releasing})
		require.NoError(t, err)
		h.Release(c)
		other := h.Claim("w", "bob")
		require.Equal(t, c.Container, other.Container)
		h.ForgetCalls()
		ended, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.NoError(t, err)
		require.Equal(t, claim.Released, ended.State)
		require.Empty(t, h.RT.Calls())
	})
}
