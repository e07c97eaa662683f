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
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// twice is a workload whose main process writes the same number into two
// files, again and again, each of which is read by itself.
const twice = `
id: w
image: box
command: [writer]
volumes: { state: { target: /data }, custom: [{ name: more, target: /more }] }
pool: { min_idle: 0, max_size: 2, reuse: same_tenant }
sync: { sink: { type: file }, mappings: [{ path: /data }, { path: /more }], policy: { manual: true } }
hooks: { pre_release: [{ command: [box, echo, flushed] }] }
`

// writer writes until it is dead, or the test is over.
func writer(over context.Context) fake.Program {
	return func(_ context.Context, p *fake.Proc) int {
		go func() {
			for n := 0; over.Err() == nil; n++ {
				text := []byte(strconv.Itoa(n))
				if p.WriteFile("/data/n", text) != nil || p.WriteFile("/more/n", text) != nil {
					return
				}
				select {
				case <-time.After(10 * time.Millisecond):
				case <-over.Done():
				}
			}
		}()
		return fake.Park
	}
}

// called are the calls that concern files and processes, without the ids.
func called(y *flowtest.Yard) []string {
	var ops []string
	for _, call := range y.RT.Calls() {
		op, _, _ := strings.Cut(call, " ")
		if slices.Contains([]string{"exec", "start", "stop", "get", "restart"}, op) {
			ops = append(ops, op)
		}
	}
	return ops
}

// No process of the tenant runs while its state is read, once pre_release is
// over: what is kept is the state of one moment, and nothing of the tenant's can
// hold up or end what reads it. A state that is taken while the claim is active
// ends nothing.
func TestStateIsReadAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.RT.Program("writer", writer(t.Context()))
		y.Apply(twice)
		c := y.Claim("w", "ada")
		<-time.After(time.Second)
		y.RT.Delay("get", 99*time.Millisecond)
		y.RT.ForgetCalls()
		_, _, err := y.Claims.Sync(t.Context(), c.ID)
		require.NoError(t, err)
		require.NotContains(t, called(y), "stop", "the claim is active")
		require.Equal(t, "running", string(state(y, c)))

		y.RT.ForgetCalls()
		y.Release(c)
		require.Equal(t, []string{"exec", "stop", "get", "get", "restart"}, called(y))
		y.Apply(strings.Replace(twice, "command: [writer]", "command: [box, idle]", 1))
		next := y.Claim("w", "ada")
		require.NotEqual(t, c.Container, next.Container, "of another revision")
		require.Equal(t, exec(y, next, "read", "/data/n"), exec(y, next, "read", "/more/n"))
	})
}

// The hooks before a container's removal run beside its main process, also where
// that was ended for its state to be read.
func TestPreDestroyAfterTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(kept + "hooks: { pre_destroy: [{ command: [box, echo, bye] }] }\n")
		c := y.Claim("w", "ada")
		y.RT.ForgetCalls()
		_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
		require.NoError(t, err)
		y.Until("it to be gone", func() bool { return len(y.Events(activity.ContainerDestroyed)) > 0 })
		require.Contains(t, called(y), "stop")
		runs, err := y.DB.Runs(t.Context(), hooks.RunFilter{Point: hooks.PreDestroy})
		require.NoError(t, err)
		require.Len(t, runs, 1)
		require.Equal(t, hooks.Succeeded, runs[0].State, runs[0].Error)
	})
}

// state is what the runtime says of a claim's container.
func state(y *flowtest.Yard, c claim.Claim) runtime.State {
	y.T.Helper()
	s, err := y.RT.Status(y.T.Context(), c.Container)
	require.NoError(y.T, err)
	return s.State
}

// A container that has ended is started to be read, and what that has started
// is ended too.
func TestStateOfTheDeadIsReadAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.RT.Program("writer", writer(t.Context()))
		y.Apply(twice)
		c := y.Claim("w", "ada")
		y.RT.Kill(c.Container)
		synctest.Wait()
		y.RT.ForgetCalls()
		y.Release(c)
		require.Equal(t, []string{"stop", "start", "stop", "get", "get"}, called(y))
	})
}

// A release whose tenant's processes cannot be ended takes no state. An engine
// or a container that does not answer now leaves the claim as it is, to be tried
// again; one that is out of control is the tenant's doing.
func TestStopFails(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		state claim.State
	}{
		"the engine is away":           {runtime.ErrUnavailable, claim.Releasing},
		"the container does not reply": {runtime.ErrUnresponsive, claim.Releasing},
		"another server is at it":      {runtime.ErrStaleFence, claim.Releasing},
		"out of control":               {runtime.ErrDoomed, claim.ReleaseFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := flowtest.New(t)
				y.Apply(kept)
				c := y.Claim("w", "ada")
				exec(y, c, "write", "/data/note", "the last copy")
				mend := y.RT.Break("stop", tt.err)
				y.RT.ForgetCalls()
				_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
				require.ErrorIs(t, err, tt.err)
				require.NotContains(t, called(y), "get")
				require.Empty(t, y.Events(activity.SyncStarted)[1:], "but for the claim's own")
				require.Equal(t, tt.state, now(y, c).State)
				if tt.state == claim.ReleaseFailed {
					require.Equal(t, claim.FailedByTenant, now(y, c).FailureReason)
				}
				mend()
				y.Release(c)
				require.Equal(t, "the last copy", exec(y, y.Claim("w", "ada"), "read", "/data/note"))
			})
		})
	}
}

// What a release that failed leaves can be read and tried again: the container
// is there with its log. When it has succeeded, the container serves its tenant
// as before.
func TestRetryAfterTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(kept, "reuse: never", "reuse: same_tenant", 1) +
			"hooks: { pre_release: [{ command: [box, write, /data/flushed, y] }] }")
		c := y.Claim("w", "ada")
		plugIn := unplug(y)
		for range 2 {
			_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
			require.Error(t, err)
			require.Equal(t, claim.ReleaseFailed, now(y, c).State)
			require.Equal(t, runtime.Running, state(y, c))
			log, err := y.RT.Logs(t.Context(), c.Container, time.Time{}, 1<<10)
			require.NoError(t, err)
			text, err := io.ReadAll(log)
			require.NoError(t, err)
			require.Equal(t, "idle\n", string(text))
		}
		plugIn()
		y.Release(c)
		require.Len(t, y.Events(activity.HookStarted), 1)
		require.Empty(t, y.Events(activity.ContainerDied, activity.ContainerDestroying))
		again := y.Claim("w", "ada")
		require.Equal(t, c.Container, again.Container)
		require.Equal(t, "y", exec(y, again, "read", "/data/flushed"))
	})
}

// An upload on request ends with an error, because the release has overtaken it,
// before anything is ended in the container.
func TestStopAfterOtherUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(kept, "{ type: file } }", "{ type: file }, policy: { manual: true } }", 1))
		c := y.Claim("w", "ada")
		reading, _ := y.RT.Block("get")
		asked := make(chan error, 1)
		go func() {
			_, _, err := y.Claims.Sync(t.Context(), c.ID)
			asked <- err
		}()
		<-reading
		var before error
		y.RT.Before("stop", func(context.Context, fake.Call) error {
			select {
			case before = <-asked:
			default:
			}
			return runtime.ErrUnavailable
		})
		_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		require.ErrorIs(t, before, claim.ErrNotActive)
	})
}

// A check of the container's health that the release has cut off says nothing
// about the container.
func TestCheckDuringTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(kept, "reuse: never", "reuse: same_tenant", 1) +
			"healthcheck: { test: [CMD, box, echo, well], interval: 10s, retries: 1 }")
		c := y.Claim("w", "ada")
		checking, cut := make(chan struct{}), make(chan struct{})
		mend := y.RT.Before("exec * box echo well", func(context.Context, fake.Call) error {
			close(checking)
			<-cut
			return runtime.ErrLost
		})
		<-checking
		reading, read := y.RT.Block("get")
		done := make(chan error, 1)
		go func() {
			_, err := y.Releases.Release(t.Context(), c.ID, release.Request{})
			done <- err
		}()
		<-reading
		close(cut)
		synctest.Wait()
		mend()
		read()
		require.NoError(t, <-done)
		require.Empty(t, y.Events(activity.ContainerUnhealthy))
		k, err := y.Pools.Container(t.Context(), c.Container)
		require.NoError(t, err)
		require.Equal(t, pool.Idle, k.State)
	})
}
