package release_test

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
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

// twoVolumeWorkload is a workload whose main process repeatedly writes the same
// number into two files, which are read separately.
const twoVolumeWorkload = `
id: w
image: box
command: [writer]
volumes: { state: { target: /data }, custom: [{ name: more, target: /more }] }
pool: { min_idle: 0, max_size: 2, reuse: same_tenant }
sync: { sink: { type: file }, mappings: [{ path: /data }, { path: /more }], policy: { manual: true } }
hooks: { pre_release: [{ command: [box, echo, flushed] }] }
`

// writerProgram writes until its process or the test ends.
func writerProgram(done context.Context) fake.Program {
	return func(_ context.Context, p *fake.Proc) int {
		go func() {
			for n := 0; done.Err() == nil; n++ {
				text := []byte(strconv.Itoa(n))
				if p.WriteFile("/data/n", text) != nil || p.WriteFile("/more/n", text) != nil {
					return
				}
				select {
				case <-time.After(10 * time.Millisecond):
				case <-done.Done():
				}
			}
		}()
		return fake.Park
	}
}

// fileAndProcessCalls returns the calls for files and processes, without the
// IDs.
func fileAndProcessCalls(h *flowtest.Harness) []string {
	var ops []string
	for _, call := range h.RT.Calls() {
		op, _, _ := strings.Cut(call, " ")
		if slices.Contains([]string{"exec", "start", "stop", "scan_tree", "restart"}, op) {
			ops = append(ops, op)
		}
	}
	return ops
}

// No process of the tenant runs during the upload after pre_release: the
// snapshot is consistent, and no process of the tenant can block or end the
// upload. The upload of an active claim ends no process.
func TestUploadAfterProcessesEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.RT.AddProgram("writer", writerProgram(t.Context()))
		h.Apply(twoVolumeWorkload)
		c := h.Claim("w", "ada")
		<-time.After(time.Second)
		h.RT.Delay("scan_tree", 99*time.Millisecond)
		h.ForgetCalls()
		_, _, err := h.Claims.Sync(t.Context(), c.ID)
		require.NoError(t, err)
		require.NotContains(t, fileAndProcessCalls(h), "stop", "the claim is active")
		require.Equal(t, "running", string(containerState(h, c)))

		h.ForgetCalls()
		h.Release(c)
		require.Equal(t, []string{"exec", "stop", "scan_tree", "scan_tree", "restart"}, fileAndProcessCalls(h))
		h.Apply(flowtest.Edit(twoVolumeWorkload, "command: [writer]", "command: [box, idle]"))
		next := h.Claim("w", "ada")
		require.NotEqual(t, c.Container, next.Container, "the revision differs")
		require.Equal(t, execTestprog(h, next, "read", "/data/n"), execTestprog(h, next, "read", "/more/n"))
	})
}

// The pre_destroy hooks run next to the main process, also when it was stopped
// for the upload.
func TestPreDestroyAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload + "hooks: { pre_destroy: [{ command: [box, echo, bye] }] }\n")
		c := h.Claim("w", "ada")
		h.ForgetCalls()
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.NoError(t, err)
		h.Until("it to be destroyed", func() bool { return len(h.Events(activity.ContainerDestroyed)) > 0 })
		require.Contains(t, fileAndProcessCalls(h), "stop")
		runs, err := h.DB.Runs(t.Context(), hooks.RunFilter{Point: hooks.PreDestroy})
		require.NoError(t, err)
		require.Len(t, runs, 1)
		require.Equal(t, hooks.Succeeded, runs[0].State, runs[0].Error)
	})
}

// So do those of the image.
func TestPreDestroyOfImageAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		bye := runtime.ImageHook{Point: "pre_destroy", Path: runtime.ImageHooksDir + "/pre_destroy", Digest: "d"}
		h.RT.SetImageHooks(runtime.ImageHooks{Hooks: []runtime.ImageHook{bye}})
		h.RT.AddProgram(bye.Path, func(context.Context, *fake.Proc) int { return 0 })
		h.Apply(syncedWorkload + "image_hooks: true\n")
		c := h.Claim("w", "ada")
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.NoError(t, err)
		h.Until("it to be destroyed", func() bool { return len(h.Events(activity.ContainerDestroyed)) > 0 })
		runs, err := h.DB.Runs(t.Context(), hooks.RunFilter{Point: hooks.PreDestroy})
		require.NoError(t, err)
		require.Len(t, runs, 1)
		require.Equal(t, hooks.Succeeded, runs[0].State, runs[0].Error)
	})
}

// containerState returns the runtime's state of a claim's container.
func containerState(h *flowtest.Harness, c claim.Claim) runtime.State {
	h.T.Helper()
	s, err := h.RT.Status(h.T.Context(), c.Container)
	require.NoError(h.T, err)
	return s.State
}

// The main process of an exited container is not started for the upload.
func TestUploadFromExitedContainerAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.RT.AddProgram("writer", writerProgram(t.Context()))
		h.Apply(twoVolumeWorkload)
		c := h.Claim("w", "ada")
		h.RT.Kill(c.Container)
		synctest.Wait()
		h.ForgetCalls()
		h.Release(c)
		require.Equal(t, []string{"stop", "scan_tree", "scan_tree"}, fileAndProcessCalls(h))
	})
}

// A release that cannot stop the tenant's processes uploads no state. If the
// engine or the container is unavailable, the claim is unchanged and the
// release is resumed. A tainted container counts as an error of the tenant.
func TestStopFails(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		state claim.State
	}{
		"engine unavailable":     {runtime.ErrUnavailable, claim.Releasing},
		"container unresponsive": {runtime.ErrUnresponsive, claim.Releasing},
		"another server owns it": {runtime.ErrStaleFence, claim.Releasing},
		"tainted":                {runtime.ErrTainted, claim.ReleaseFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply(syncedWorkload)
				c := h.Claim("w", "ada")
				execTestprog(h, c, "write", "/data/note", "the last copy")
				repair := h.RT.Break("stop", tt.err)
				h.ForgetCalls()
				_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
				require.ErrorIs(t, err, tt.err)
				require.NotContains(t, fileAndProcessCalls(h), "scan_tree")
				require.Empty(t, h.Events(activity.SyncStarted)[1:], "except for the claim's own")
				require.Equal(t, tt.state, currentClaim(h, c).State)
				if tt.state == claim.ReleaseFailed {
					require.Equal(t, claim.FailedByTenant, currentClaim(h, c).FailureReason)
				}
				repair()
				h.Release(c)
				require.Equal(t, "the last copy", execTestprog(h, h.Claim("w", "ada"), "read", "/data/note"))
			})
		})
	}
}

// After a failed release the container and its log are still available. When a
// retry succeeds, the container serves its tenant as before.
func TestRetryAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: same_tenant") +
			"hooks: { pre_release: [{ command: [box, write, /data/flushed, y] }] }")
		c := h.Claim("w", "ada")
		repairSink := breakSink(h)
		for range 2 {
			_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
			require.Error(t, err)
			require.Equal(t, claim.ReleaseFailed, currentClaim(h, c).State)
			require.Equal(t, runtime.Running, containerState(h, c))
			log, err := h.RT.Logs(t.Context(), c.Container, time.Time{}, 1<<10)
			require.NoError(t, err)
			text, err := io.ReadAll(log)
			require.NoError(t, err)
			require.Equal(t, "idle\n", string(text))
		}
		repairSink()
		h.Release(c)
		require.Len(t, h.Events(activity.HookStarted), 1)
		require.Empty(t, h.Events(activity.ContainerDied, activity.ContainerDestroying))
		again := h.Claim("w", "ada")
		require.Equal(t, c.Container, again.Container)
		require.Equal(t, "y", execTestprog(h, again, "read", "/data/flushed"))
	})
}

// The release cancels a manual upload before it stops any process.
func TestStopCancelsOtherUploadsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "{ type: file } }", "{ type: file }, policy: { manual: true } }"))
		c := h.Claim("w", "ada")
		reached, _ := h.RT.Block("scan_tree")
		result := make(chan error, 1)
		go func() {
			_, _, err := h.Claims.Sync(t.Context(), c.ID)
			result <- err
		}()
		<-reached
		var before error
		h.RT.Before("stop", func(context.Context, fake.Call) error {
			synctest.Wait() // the upload has ended, and its caller gets to know it
			select {
			case before = <-result:
			default:
			}
			return runtime.ErrUnavailable
		})
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		require.ErrorIs(t, before, claim.ErrNotActive)
	})
}

// A health check that the release interrupts does not change the container's
// health.
func TestHealthCheckDuringStopIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(syncedWorkload, "reuse: never", "reuse: same_tenant") +
			"healthcheck: { test: [CMD, box, echo, well], interval: 10s, retries: 1 }")
		c := h.Claim("w", "ada")
		checking, unblockCheck := make(chan struct{}), make(chan struct{})
		repair := h.RT.Before("exec * box echo well", func(context.Context, fake.Call) error {
			close(checking)
			<-unblockCheck
			return runtime.ErrContainerExited
		})
		<-checking
		reached, unblock := h.RT.Block("scan_tree")
		done := make(chan error, 1)
		go func() {
			_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
			done <- err
		}()
		<-reached
		close(unblockCheck)
		synctest.Wait()
		repair()
		unblock()
		require.NoError(t, <-done)
		require.Empty(t, h.Events(activity.ContainerUnhealthy))
		k, err := h.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, pool.Idle, k.State)
	})
}
