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
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
)

const file = `
id: w
image: box
command: [box, idle]
volumes: { state: { target: /data } }
pool: { min_idle: 0, max_size: 2, reuse: wipe }
hooks:
  pre_release: [{ name: flush, command: [box, echo, flushed] }]
`

// gone waits until a container is destroyed, and returns why it was.
func gone(y *flowtest.Yard, id string) string {
	y.T.Helper()
	var c pool.Container
	y.Until("the container to go", func() bool {
		var err error
		c, err = y.Pools.Container(y.T.Context(), id)
		require.NoError(y.T, err)
		return c.State == pool.Gone
	})
	return c.Reason
}

// A release runs pre_release, ends what the tenant left running, and gives the
// container back; releasing twice is the same answer and runs nothing.
func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(file)
		c := y.Claim("w", "ada")
		y.RT.ForgetCalls()
		r := y.Release(c)
		require.Equal(t, claim.Released, r.State)
		require.NotNil(t, r.ReleasedAt)
		require.Empty(t, r.Warnings)
		require.Len(t, r.Hooks, 1)
		for _, step := range []string{"pre_release", "dispose"} {
			require.Contains(t, r.Timings, step)
		}
		require.Equal(t, []string{"status " + c.Container, "exec " + c.Container + " box echo flushed", "restart " + c.Container}, y.RT.Calls())
		k, err := y.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, pool.Idle, k.State)
		require.Empty(t, k.Claim)
		require.Equal(t, "ada", k.Tenant, "whose data is in it is not forgotten")

		y.RT.ForgetCalls()
		require.Equal(t, r, y.Release(c))
		require.Empty(t, y.RT.Calls())
		_, err = y.Releases.Release(t.Context(), "nobody", release.Request{})
		require.ErrorIs(t, err, claim.ErrNoClaim)
	})
}

// Ten releases at once run the hook once, and all get the same answer.
func TestReleaseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(file)
		c := y.Claim("w", "ada")
		var g errgroup.Group
		for range 10 {
			g.Go(func() error {
				r, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
				if err == nil && r.State != claim.Released {
					t.Errorf("a release ended as %s", r.State)
				}
				return err
			})
		}
		require.NoError(t, g.Wait())
		require.Len(t, y.Events(activity.HookStarted), 1)
		require.Len(t, y.Events(activity.ClaimReleased), 1)
	})
}

// Whatever pre_release does, the tenant leaves; what failed is a warning, the
// rest of the point is skipped, and a container of which nobody knows whether
// a hook still runs is destroyed.
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
		"not begun":      {"command: [nothing]", nil, pool.Idle, true, 1, ""},
		"doomed":         {"command: [box, exit, '3'], on_error: continue", runtime.ErrDoomed, pool.Gone, true, 1, "may still run"},
		"engine off":     {"command: [box, exit, '3'], on_error: continue", runtime.ErrUnavailable, pool.Gone, true, 1, `hook "flush" ended as unknown`},
		"container lost": {"command: [box, exit, '3'], on_error: continue", runtime.ErrLost, pool.Gone, true, 1, `hook "flush" ended as lost`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.New(t)
				y.Apply(strings.Replace(file, "command: [box, echo, flushed] }]", tt.hook+" }, { command: [box, echo, second] }]", 1))
				c := y.Claim("w", "ada")
				if tt.err != nil {
					y.RT.Break("exec * box exit", tt.err)
				}
				r := y.Release(c)
				require.Equal(t, claim.Released, r.State)
				require.Len(t, y.Events(activity.HookSkipped), tt.skipped)
				if tt.warns {
					require.Len(t, r.Warnings, 1)
					require.Contains(t, r.Warnings[0], `pre_release hook "flush"`)
				}
				if tt.state == pool.Gone {
					require.Contains(t, gone(y, c.Container), tt.destroyed)
					return
				}
				k, err := y.Pools.Container(t.Context(), c.Container)
				require.NoError(t, err)
				require.Equal(t, tt.state, k.State)
			})
		})
	}
}

// While the engine is away nothing of a release is begun, however long that is:
// what pre_release is to save is saved when the engine is back.
func TestPreReleaseWaitsForTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(file)
		c := y.Claim("w", "ada")
		mendAsk, mendRun := y.RT.Break("status", runtime.ErrUnavailable), y.RT.Break("exec * box echo flushed", runtime.ErrUnavailable)
		for range 3 {
			_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
			require.ErrorIs(t, err, runtime.ErrUnavailable)
			<-time.After(time.Hour)
		}
		require.Empty(t, y.Events(activity.HookStarted))
		mendAsk()
		mendRun()
		r := y.Release(c)
		require.Equal(t, claim.Released, r.State)
		require.Empty(t, r.Warnings)
		require.Len(t, y.Events(activity.HookCompleted), 1)
	})
}

// What cannot or must not be reused is destroyed, with a reason.
func TestNotReused(t *testing.T) {
	tests := map[string]struct {
		file    string
		request release.Request
		before  func(y *flowtest.Yard, c claim.Claim)
		reason  string
	}{
		"reuse never":     {strings.Replace(file, "reuse: wipe", "reuse: never", 1), release.Request{}, nil, "reuse is never"},
		"discarded":       {file, release.Request{Discard: true}, nil, "discarded"},
		"cannot restart":  {file, release.Request{}, func(y *flowtest.Yard, _ claim.Claim) { y.RT.Break("restart", runtime.ErrDoomed) }, "could not be restarted"},
		"dead":            {file, release.Request{}, func(y *flowtest.Yard, c claim.Claim) { kill(y, c) }, "it is dead"},
		"pool is drained": {file, release.Request{}, func(y *flowtest.Yard, _ claim.Claim) { drain(y) }, "draining"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.New(t)
				y.Apply(tt.file)
				c := y.Claim("w", "ada")
				if tt.before != nil {
					tt.before(y, c)
				}
				r, err := y.Releases.Release(t.Context(), c.ID, tt.request)
				require.NoError(t, err)
				require.Equal(t, claim.Released, r.State)
				require.Contains(t, gone(y, c.Container), tt.reason)
				require.Equal(t, name == "dead", strings.Contains(strings.Join(r.Warnings, " "), "pre_release did not run"))
			})
		})
	}
}

func kill(y *flowtest.Yard, c claim.Claim) {
	y.RT.Kill(c.Container)
	y.Until("the death to be noticed", func() bool { return len(y.Events(activity.ContainerDied)) == 1 })
}

func drain(y *flowtest.Yard) {
	_, err := y.Pools.Drain(y.T.Context(), "w")
	require.NoError(y.T, err)
}

// reuse: same_tenant keeps a container for its tenant, and gives it up only
// when another tenant finds no room.
func TestSameTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(strings.Replace(file, "reuse: wipe", "reuse: same_tenant", 1), "max_size: 2", "max_size: 1", 1))
		c := y.Claim("w", "ada")
		y.Release(c)
		again := y.Claim("w", "ada")
		require.Equal(t, c.Container, again.Container)
		require.Equal(t, claim.Affinity, again.Source)
		y.Release(again)
		other := y.Claim("w", "bob")
		require.NotEqual(t, c.Container, other.Container)
		require.Equal(t, claim.Fresh, other.Source)
		require.Contains(t, gone(y, c.Container), "needs its room for other tenants")
	})
}

// A claim that is released while its hook runs is aborted: the hook ends, the
// container is destroyed, pre_release does not run.
func TestReleasePending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(file + "  post_claim: [{ command: [box, hang], timeout: 5m }]\n")
		var g errgroup.Group
		g.Go(func() error {
			_, _, err := y.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
			return err
		})
		y.Until("the hook to run", func() bool { return len(y.Events(activity.HookStarted)) == 1 })
		live, err := y.DB.Claims(t.Context(), claim.Filter{Tenant: "ada"})
		require.NoError(t, err)
		r, err := y.Releases.Release(t.Context(), live[0].ID, release.Request{})
		require.NoError(t, err)
		require.Equal(t, claim.Failed, r.State)
		require.ErrorIs(t, g.Wait(), claim.ErrAborted)
		require.Len(t, y.Events(activity.HookStarted), 1)
		gone(y, r.Container)
	})
}

// A release that a killed server has begun is finished by the next, and a hook
// that has begun does not run again.
func TestCrashInRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(file)
		c := y.Claim("w", "ada")
		_, err := y.DB.MoveClaim(t.Context(), claim.Move{ID: c.ID, From: []claim.State{claim.Active}, To: claim.Releasing})
		require.NoError(t, err)
		y.Crash()
		r, err := y.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Released, r.State)
		require.Len(t, y.Events(activity.HookCompleted), 1)

		// A hook that had begun, and of which the container knows nothing.
		c = y.Claim("w", "ada")
		_, err = y.DB.MoveClaim(t.Context(), claim.Move{ID: c.ID, From: []claim.State{claim.Active}, To: claim.Releasing})
		require.NoError(t, err)
		require.NoError(t, y.DB.RunStarted(t.Context(), hooks.Run{
			ID: "begun", Attempt: 1, Point: hooks.PreRelease, Hook: "flush", Action: "exec", Command: []string{"box"},
			Workload: "w", Container: c.Container, Claim: c.ID, Tenant: "ada", State: hooks.Running, StartedAt: time.Now(),
		}))
		y.Crash()
		r, err = y.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Released, r.State)
		require.Len(t, r.Warnings, 1)
		require.Len(t, y.Events(activity.HookStarted), 2, "begun before: not again")
		require.Len(t, y.Events(activity.HookFailed), 1)
		require.Contains(t, gone(y, c.Container), "ended as unknown")
	})
}

// Whoever releases a claim that has ended does nothing to its container, which
// is another tenant's by now.
func TestStaleRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(file, "max_size: 2", "max_size: 1", 1))
		c := y.Claim("w", "ada")
		_, err := y.DB.MoveClaim(t.Context(), claim.Move{ID: c.ID, From: []claim.State{claim.Active}, To: claim.Releasing})
		require.NoError(t, err)
		y.Release(c)
		other := y.Claim("w", "bob")
		require.Equal(t, c.Container, other.Container)
		y.RT.ForgetCalls()
		ended, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
		require.NoError(t, err)
		require.Equal(t, claim.Released, ended.State)
		require.Empty(t, y.RT.Calls())
	})
}
