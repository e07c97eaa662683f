package pool_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// indexed returns the hooks of runs with their indexes and states, in order of the
// indexes.
func indexed(t *testing.T, h *flowtest.Harness, f hooks.RunFilter) []string {
	t.Helper()
	runs, err := h.DB.Runs(t.Context(), f)
	require.NoError(t, err)
	all := []string{}
	for _, r := range runs {
		all = append(all, strconv.Itoa(r.Index)+" "+r.Hook+" "+string(r.State))
	}
	slices.Sort(all)
	return all
}

// A server that is killed while a hook of the image runs: the next one waits for the
// same hook at the same index, and starts the rest of the list with which the point
// began, whatever was applied and whatever is in the image's place since.
func TestCrashDuringImageHook(t *testing.T) {
	own := "hooks: { post_claim: [{ name: own, command: [box, echo, a] }] }\n"
	for name, applied := range map[string]string{
		"nothing":         "",
		"fewer hooks":     imageHooksYAML,
		"more hooks":      imageHooksYAML + "hooks: { post_claim: [{ name: log, builtin: log }, { name: own, command: [box, echo, a] }] }\n",
		"no image_hooks":  basicYAML + own,
		"nothing of both": basicYAML,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				withImageHooks(h.RT, "d")
				h.Apply(imageHooksYAML + own)
				h.AwaitIdle("w", 2)
				ran := 0
				h.RT.AddProgram(runtime.ImageHooksDir+"/post_claim", func(context.Context, *fake.Proc) int { ran++; return 0 })
				reached, unblock := h.RT.Block("exec * " + runtime.ImageHooksDir + "/post_claim")
				ended := make(chan struct{})
				go func() { // the former server's call
					defer close(ended)
					_, _, _ = h.Claims.Claim(context.Background(), claim.Request{Workload: "w", Tenant: "ada"})
				}()
				<-reached
				resultReached, unblockResult := h.RT.Block("outcome *")
				if applied != "" {
					h.Apply(applied)
				}
				h.Restart()
				<-resultReached
				unblock()
				<-ended
				unblockResult()
				synctest.Wait()
				c, created, err := h.Claims.Claim(t.Context(), claim.Request{Workload: "w", Tenant: "ada"})
				require.NoError(t, err)
				require.False(t, created)
				require.Equal(t, []string{"0 image:post_claim succeeded", "1 own succeeded"}, indexed(t, h, hooks.RunFilter{Claim: c.ID}))
				require.Equal(t, 1, ran)
			})
		})
	}
}

// A server that is killed while it lists the hooks leaves no container whose list is
// not on record.
func TestCrashDuringListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		withImageHooks(h.RT, "d")
		reached, unblock := h.RT.Block("image_hooks *")
		h.Apply(imageHooksYAML)
		<-reached
		list, err := h.DB.Containers(t.Context(), pool.ContainerFilter{Workload: "w"})
		require.NoError(t, err)
		h.Restart()
		unblock()
		h.AwaitIdle("w", 2)
		now, err := h.DB.Containers(t.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		require.Len(t, now, 2)
		for _, k := range now {
			require.Len(t, k.ImageHooks, 8)
			require.False(t, slices.ContainsFunc(list, func(old pool.Container) bool { return old.ID == k.ID }))
		}
	})
}

// The hooks of a container's end are those of the file that it was created with: it
// gets none when image_hooks is switched on, and keeps them when it is switched off.
func TestPreDestroyOfOlderFile(t *testing.T) {
	for name, k := range map[string]struct {
		before, after string
		want          []string
	}{
		"switched on":  {basicYAML, imageHooksYAML, []string{}},
		"switched off": {imageHooksYAML, basicYAML, []string{"0 image:pre_destroy succeeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				withImageHooks(h.RT, "d")
				h.Apply(k.before)
				h.AwaitIdle("w", 2)
				c := h.Claim("w", "ada")
				h.Apply(k.after)
				h.Restart()
				h.Release(c)
				h.Until("it to be destroyed", func() bool {
					return slices.ContainsFunc(h.Events(activity.ContainerDestroyed), func(e activity.Event) bool { return e.Container == c.Container })
				})
				require.Equal(t, k.want, indexed(t, h, hooks.RunFilter{Container: c.Container, Point: hooks.PreDestroy}))
			})
		})
	}
}

// A container that is destroyed by force with --now skips the hooks of the image as
// the others: each has a run.
func TestForceSkipsImageHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		withImageHooks(h.RT, "d")
		h.Apply(imageHooksYAML)
		h.AwaitIdle("w", 2)
		c := h.Claim("w", "ada")
		require.NoError(t, h.Pools.DestroyContainerNow(t.Context(), c.Container, true))
		h.Until("it to be destroyed", func() bool {
			k, err := h.DB.Container(t.Context(), c.Container)
			return err == nil && k.Forced == pool.ForcedDone
		})
		require.Equal(t, []string{"0 image:pre_destroy skipped"}, indexed(t, h, hooks.RunFilter{Container: c.Container, Point: hooks.PreDestroy}))
		require.False(t, slices.ContainsFunc(h.RT.Calls(), func(call string) bool {
			return strings.HasPrefix(call, "exec "+c.Container) && strings.Contains(call, "pre_destroy")
		}))
	})
}

// A server may be killed before or after any call to the container, from the creation
// of a container to its end: no hook of the image runs twice in one flow, each has
// its place in the list, and the next server continues.
func TestKilledAtEachCallWithImageHooks(t *testing.T) {
	for n := range 12 {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { killAtCall(t, n, after) })
		}
	}
}

func killAtCall(t *testing.T, n int, after bool) {
	h := flowtest.New(t)
	withImageHooks(h.RT, "d")
	ran := countImageHooks(h)
	var mu sync.Mutex
	calls, reached, killed := 0, make(chan struct{}), make(chan struct{})
	trap := func(context.Context, fake.Call) error {
		mu.Lock()
		calls++
		isLast := calls == n+1
		mu.Unlock()
		if isLast {
			close(reached)
			<-killed
		}
		return nil
	}
	for _, op := range []string{"image_hooks", "exec", "destroy"} {
		if after {
			h.RT.After(op, trap)
		} else {
			h.RT.Before(op, trap)
		}
	}
	source := flowtest.Edit(imageHooksYAML, "min_idle: 2, max_size: 4, reuse: wipe", "min_idle: 1, max_size: 3, reuse: never") +
		"hooks: { post_claim: [{ name: own, command: [box, echo, a] }], pre_destroy: [{ name: own, command: [box, echo, a] }] }\n"
	h.Apply(source)
	claims, releases := h.Claims, h.Releases
	done := make(chan struct{})
	go func() { // ends with the former server
		defer close(done)
		if c, _, err := claims.Claim(context.Background(), claim.Request{Workload: "w", Tenant: "ada"}); err == nil {
			_, _ = releases.Release(context.Background(), c.ID, release.Request{})
		}
	}()
	select {
	case <-reached:
	case <-time.After(time.Hour):
		t.Fatalf("there are %d calls, and none after them", calls)
	}
	unblock := time.AfterFunc(time.Second, func() { close(killed) }) // Restart waits for the loops
	defer unblock.Stop()
	h.Restart()
	<-done
	h.Release(h.Claim("w", "ada"))
	<-time.After(time.Minute)
	for what, times := range ran {
		require.Equal(t, 1, times, what)
	}
	checkPlaces(t, h)
	list, err := h.DB.Containers(t.Context(), pool.ContainerFilter{States: []pool.State{pool.Idle}})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Len(t, list[0].ImageHooks, len(hooks.PointsOfImageHooks()))
}

// countImageHooks counts how often each hook of the image runs in each flow.
func countImageHooks(h *flowtest.Harness) map[string]int {
	var mu sync.Mutex
	ran := map[string]int{}
	for _, p := range hooks.PointsOfImageHooks() {
		h.RT.AddProgram(runtime.ImageHooksDir+"/"+p, func(_ context.Context, p *fake.Proc) int {
			mu.Lock()
			defer mu.Unlock()
			ran[strings.Join([]string{p.Env["HOSTLER_CONTAINER"], p.Env["HOSTLER_CLAIM"], p.Env["HOSTLER_POINT"], p.Env["HOSTLER_HOOK"]}, " ")]++
			return 0
		})
	}
	return ran
}

// checkPlaces checks that every run has ended, once at its place in the list of its
// container.
func checkPlaces(t *testing.T, h *flowtest.Harness) {
	t.Helper()
	runs, err := h.DB.Runs(t.Context(), hooks.RunFilter{})
	require.NoError(t, err)
	places := map[string]bool{}
	for _, r := range runs {
		require.NotEqual(t, hooks.Running, r.State, "%+v", r)
		k, err := h.DB.Container(t.Context(), r.Container)
		require.NoError(t, err)
		isSecond := r.Hook == "own" && len(k.ImageHooks) > 0 // else the server was killed before the listing
		require.Equal(t, isSecond, r.Index == 1, "%+v", r)
		place := strings.Join([]string{r.Container, r.Claim, string(r.Point), strconv.Itoa(r.Index)}, " ")
		require.False(t, places[place], "%+v", r)
		places[place] = true
	}
}
