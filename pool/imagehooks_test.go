package pool_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
	"github.com/hostler/hostler/workload"
)

const imageHooksYAML = basicYAML + "image_hooks: true\n"

// withImageHooks gives the images a hook at each point, which succeeds.
func withImageHooks(rt *fake.Runtime, digest string, refused ...string) {
	found := runtime.ImageHooks{Refused: refused}
	for _, p := range append(hooks.PointsOfImageHooks(), "pre_start") {
		path := runtime.ImageHooksDir + "/" + p
		found.Hooks = append(found.Hooks, runtime.ImageHook{Point: p, Path: path, Digest: digest})
		rt.AddProgram(path, func(context.Context, *fake.Proc) int { return 0 })
	}
	rt.SetImageHooks(found)
}

// ended returns the hooks of runs in order, with their states.
func ended(t *testing.T, h *flowtest.Harness, f hooks.RunFilter) []string {
	t.Helper()
	runs, err := h.DB.Runs(t.Context(), f)
	require.NoError(t, err)
	all := []string{}
	for _, r := range runs {
		all = append(all, fmt.Sprintf("%s %s %s", r.Point, r.Hook, r.State))
	}
	return all
}

// The hooks of the image run at every point of a container's life at which commands
// can run, before those of the file.
func TestImageHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		withImageHooks(h.RT, "d", "a is refused")
		h.Apply(imageHooksYAML + "hooks: { post_claim: [{ name: own, command: [box, echo, a] }] }\n")
		h.AwaitIdle("w", 2)
		warnings := h.Events(activity.HookWarning)
		require.Len(t, warnings, 2)
		require.Contains(t, warnings[0].Message, "a is refused")
		require.NotEmpty(t, warnings[0].Container)
		c := h.Claim("w", "ada")
		h.Release(c)
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), c.Container, false))
		h.Until("the container to be destroyed", func() bool { return len(h.Events(activity.ContainerDestroyed)) == 1 })
		require.Equal(t, []string{
			"post_start image:post_start succeeded", "post_create image:post_create succeeded",
			"post_claim image:post_claim succeeded", "post_claim own succeeded",
			"pre_release image:pre_release succeeded", "pre_destroy image:pre_destroy succeeded",
		}, ended(t, h, hooks.RunFilter{Container: c.Container}))
	})
}

// A claim that restarts the main process runs post_start again.
func TestImageHooksAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		withImageHooks(h.RT, "d")
		h.Apply(flowtest.Edit(imageHooksYAML, "min_idle: 2, max_size: 4", "min_idle: 1, max_size: 1"))
		h.AwaitIdle("w", 1)
		h.Release(h.Claim("w", "ada"))
		c := h.Claim("w", "bob")
		require.Equal(t, claim.Recycled, c.Source)
		require.Equal(t, []string{
			"post_start image:post_start succeeded", "post_claim image:post_claim succeeded",
		}, ended(t, h, hooks.RunFilter{Claim: c.ID}))
	})
}

// A workload without image_hooks has none.
func TestNoImageHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		withImageHooks(h.RT, "d")
		h.Apply(basicYAML)
		h.AwaitIdle("w", 2)
		require.Empty(t, ended(t, h, hooks.RunFilter{}))
	})
}

// What a tenant puts in the place of a hook does not run, and neither does a hook
// that a tenant adds: the record from before the first tenant decides.
func TestImageHookOfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		withImageHooks(h.RT, "d")
		h.Apply(imageHooksYAML)
		h.AwaitIdle("w", 2)
		c := h.Claim("w", "ada")
		ran := 0
		withImageHooks(h.RT, "of a tenant")
		h.RT.AddProgram(runtime.ImageHooksDir+"/pre_release", func(context.Context, *fake.Proc) int { ran++; return 0 })
		released := h.Release(c)
		require.Len(t, released.Warnings, 1)
		require.Contains(t, released.Warnings[0], "was changed since the container was created")
		require.Zero(t, ran)
		require.Equal(t, []string{"pre_release image:pre_release start_failed"}, ended(t, h, hooks.RunFilter{Claim: c.ID, Point: hooks.PreRelease}))

		h.RT.SetImageHooks(runtime.ImageHooks{})
		h.Apply(imageHooksYAML + "name: other\n")
		list, err := h.DB.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		for _, k := range list {
			require.Len(t, k.ImageHooks, 8)
		}
	})
}

// A creation whose list cannot be read or recorded is discarded: no hook is
// forgotten.
func TestImageHooksAreListedBeforeIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		withImageHooks(h.RT, "d")
		repair := h.RT.Break("image_hooks", errors.New("the shim has failed"))
		h.Apply(imageHooksYAML)
		h.Until("a creation to fail", func() bool { return len(h.Events(activity.ContainerDestroying)) > 0 })
		require.Zero(t, h.Count("w", pool.Idle))
		require.Empty(t, ended(t, h, hooks.RunFilter{Point: hooks.PostStart}))
		repair()
		h.AwaitIdle("w", 2)
	})
}

// A claim that a new server resumes continues after the hook of the image that had
// ended when the server was killed.
func TestCrashAfterImageHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		withImageHooks(h.RT, "d")
		source := imageHooksYAML + "hooks: { post_claim: [{ name: own, command: [box, echo, a] }] }\n"
		revision := h.Apply(source).Record.Revision
		h.AwaitIdle("w", 2)
		c, err := h.DB.Reserve(t.Context(), claim.Reservation{Claim: "partial", Workload: "w", Tenant: "ada", Revision: revision})
		require.NoError(t, err)
		begun := hooks.Run{
			ID: "0", Attempt: 1, Hook: "image:post_claim", Point: hooks.PostClaim, Kind: hooks.KindCommand, Workload: "w",
			Container: c.Container, Claim: c.ID, Tenant: "ada", File: workload.FileID([]byte(source)), StartedAt: time.Now(),
		}
		require.NoError(t, h.DB.RunStarted(t.Context(), begun))
		begun.State = hooks.Succeeded
		require.NoError(t, h.DB.RunEnded(t.Context(), begun))
		h.Restart()
		synctest.Wait()
		c, err = h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Active, c.State)
		require.Equal(t, []string{"post_claim image:post_claim succeeded", "post_claim own succeeded"}, ended(t, h, hooks.RunFilter{Claim: c.ID}))
	})
}

// A creation that hangs fails after the time that all hooks of the image have
// together, and not after what 64 of them could need.
func TestImageHooksTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.RT.Before("create", func(ctx context.Context, _ fake.Call) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		h.Apply(imageHooksYAML)
		<-time.After(24 * time.Minute)
		status, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Empty(t, status.Fill.LastError)
		<-time.After(2 * time.Minute)
		status, err = h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Contains(t, status.Fill.LastError, "it took longer than 25m")
	})
}
