package release_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// slowHookWorkload has two hooks of pre_release, of which the first takes a minute.
const slowHookWorkload = syncedWorkload + `
hooks:
  pre_release:
    - { command: [slow], timeout: 5m }
    - { command: [box, append, /data/f, late] }
`

// A container that terminates during its release has its state uploaded at once: the
// hook that runs ends, and no other one begins.
func TestReleaseOfTerminatingContainer(t *testing.T) {
	for name, during := range map[string]bool{"before the release": false, "during pre_release": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.RT.AddProgram("slow", func(ctx context.Context, _ *fake.Proc) int {
					select {
					case <-ctx.Done():
					case <-time.After(time.Minute):
					}
					return 0
				})
				h.Apply(slowHookWorkload)
				c := h.Claim("w", "ada")
				execTestprog(h, c, "write", "/data/f", "kept")
				terminate := func() { h.RT.SetCondition(c.Container, runtime.Terminating) }
				if during {
					time.AfterFunc(time.Second, terminate)
				} else {
					terminate()
					<-time.After(time.Second)
				}
				released := h.Release(c)
				require.Empty(t, h.Events(activity.ClaimStateLost))
				require.NotEmpty(t, released.Warnings)
				c = h.Claim("w", "ada")
				require.Equal(t, "kept", execTestprog(h, c, "read", "/data/f"))
			})
		})
	}
}

// If nothing of a container that terminates runs any more, its release reports that
// the state is lost, and is not retried.
func TestReleaseOfEndedTerminatingContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		c := h.Claim("w", "ada")
		h.RT.SetCondition(c.Container, runtime.Terminating)
		h.RT.Kill(c.Container)
		h.RT.Break("stop", runtime.ErrNotRunning)
		released, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.NoError(t, err)
		require.Len(t, h.Events(activity.ClaimStateLost), 1)
		require.Contains(t, released.Warnings[len(released.Warnings)-1], "are lost: the container is being removed")
	})
}

// An error of the sink does not give up what can still be read of a container whose main
// process has exited.
func TestSinkErrorOfEndedTerminatingContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(syncedWorkload)
		c := h.Claim("w", "ada")
		execTestprog(h, c, "write", "/data/f", "kept")
		h.RT.SetCondition(c.Container, runtime.Terminating)
		remove := h.RT.Before("status "+c.Container, func(context.Context, fake.Call) error { h.RT.Kill(c.Container); return nil })
		h.Bucket.FailAfter(0)
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.ErrorIs(t, err, release.ErrTerminating)
		remove()
		h.Bucket.ClearFailures()
		h.Release(c)
		require.Equal(t, "kept", execTestprog(h, h.Claim("w", "ada"), "read", "/data/f"))
	})
}

// The state of a claim whose container terminates is uploaded as soon as that is possible:
// an attempt that fails is repeated, a server that starts knows of the container, and a
// release that has failed does not wait for its next retry.
func TestTerminatingContainerIsUploaded(t *testing.T) {
	for name, test := range map[string]struct{ startsLate, fails, isRetained bool }{
		"observed":                                      {},
		"before the server runs":                        {startsLate: true},
		"the first attempts fail":                       {fails: true},
		"its release has failed":                        {fails: true, isRetained: true},
		"its release has failed before the server runs": {startsLate: true, fails: true, isRetained: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				if !test.startsLate {
					startLoops(t, h)
				}
				h.Apply(syncedWorkload)
				c := h.Claim("w", "ada")
				execTestprog(h, c, "write", "/data/f", "kept")
				if test.fails {
					h.Bucket.FailAfter(0)
				}
				if test.isRetained {
					for range 12 { // its next retry is far
						_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
						require.Error(t, err)
					}
				}
				h.RT.SetCondition(c.Container, runtime.Terminating)
				<-time.After(5 * time.Second)
				h.Bucket.ClearFailures()
				if test.startsLate {
					startLoops(t, h)
				}
				<-time.After(20 * time.Second)
				h.RT.Kill(c.Container)
				h.RT.Break("stop", runtime.ErrNotRunning)
				h.Release(c)
				require.Equal(t, "kept", execTestprog(h, h.Claim("w", "ada"), "read", "/data/f"))
			})
		})
	}
}

// Without an upload, the hooks of pre_release are what saves the state: they run to their
// end also in a container that terminates.
func TestHooksOfTerminatingContainerWithoutUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.RT.AddProgram("slow", func(context.Context, *fake.Proc) int {
			<-time.After(time.Minute)
			return 0
		})
		h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 1, max_size: 2 }\nhooks:\n  pre_release: [{ command: [slow], timeout: 5m }]\n")
		c := h.Claim("w", "ada")
		time.AfterFunc(time.Second, func() { h.RT.SetCondition(c.Container, runtime.Terminating) })
		h.Release(c)
		done := h.Events(activity.HookCompleted)
		require.Len(t, done, 1, "it was not ended")
	})
}

// A container whose machine was away for a while is kept for its tenant, whenever during
// the release that is noticed: its restart decides whether it can be used.
func TestUnreachableContainerIsKept(t *testing.T) {
	for name, step := range map[string]string{"before the release": "", "before its facts are read": "end_commands", "after that": "restart"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := flowtest.New(t)
				h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 1, max_size: 2, reuse: same_tenant }\n")
				c := h.Claim("w", "ada")
				execTestprog(h, c, "write", "/data/f", "kept")
				lose := func(context.Context, fake.Call) error {
					h.RT.SetCondition(c.Container, runtime.Unreachable)
					h.Await("the event", func() bool { return len(h.Events(activity.ContainerUnhealthy)) == 1 })
					return nil
				}
				if step == "" {
					require.NoError(t, lose(t.Context(), fake.Call{}))
				} else {
					h.RT.Before(step+" "+c.Container, lose)
				}
				h.Release(c)
				require.Len(t, h.Events(activity.ContainerUnhealthy), 1)
				h.RT.SetCondition(c.Container, "")
				<-time.After(time.Minute)
				again := h.Claim("w", "ada")
				require.Equal(t, c.Container, again.Container)
				require.Equal(t, "kept", execTestprog(h, again, "read", "/data/f"))
			})
		})
	}
}
