package release_test

import (
	"context"
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
)

// upgradeWorkload is a workload with sync and hooks.
const upgradeWorkload = `
id: w
image: box
command: [box, idle]
volumes: { state: { target: /data } }
pool: { min_idle: 2, max_size: 6, reuse: same_tenant }
sync: { sink: { type: file } }
hooks:
  pre_release: [{ name: flush, command: [box, write, /data/flushed, "yes"] }]
  pre_destroy: [{ name: bye, command: [box, write, /data/bye, "yes"] }]
`

// unsyncedWorkload is upgradeWorkload without sync.
var unsyncedWorkload = flowtest.Edit(upgradeWorkload, "sync: { sink: { type: file } }\n", "")

// protocols returns the protocols of the workload's containers in a state.
func protocols(h *flowtest.Harness, s pool.State) []int {
	h.T.Helper()
	all, err := h.DB.Containers(h.T.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{s}})
	require.NoError(h.T, err)
	list := []int{}
	for _, c := range all {
		list = append(list, c.Protocol)
	}
	return list
}

// hookRuns returns the attempts of the hooks of a point.
func hookRuns(h *flowtest.Harness, p hooks.Point) []hooks.Run {
	h.T.Helper()
	all, err := h.DB.Runs(h.T.Context(), hooks.RunFilter{Point: p})
	require.NoError(h.T, err)
	return all
}

// runLoops runs the loops of releases until the function that it returns is called.
func runLoops(h *flowtest.Harness) (end func()) {
	ctx, cancel := context.WithCancel(h.T.Context())
	done := make(chan struct{}, 3)
	loops := newSchedule(h, h.Releases)
	for _, run := range []func(context.Context) error{loops.Run, loops.RunResumes, follow(h, loops)} {
		go func() { _ = run(ctx); done <- struct{}{} }()
	}
	return func() { cancel(); <-done; <-done; <-done }
}

// After an upgrade idle containers are replaced, including those kept for a
// tenant; the new ones are created first. A claimed container keeps working,
// and is replaced when it is released.
func TestUpgradeReplacesContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(upgradeWorkload)
		h.AwaitIdle("w", 2)
		h.Release(h.Claim("w", "bob")) // its container is kept for bob
		ada := h.Claim("w", "ada")
		execTestprog(h, ada, "write", "/data/note", "ada was here")
		h.AwaitIdle("w", 3)
		require.Equal(t, []int{2, 2, 2}, protocols(h, pool.Idle))

		h.ForgetCalls()
		h.Upgrade(3)
		h.Until("the old ones to be destroyed", func() bool {
			return len(protocols(h, pool.Idle)) == 2 && len(protocols(h, pool.Destroying)) == 0
		})
		require.Equal(t, []int{3, 3}, protocols(h, pool.Idle))
		require.Equal(t, []int{2}, protocols(h, pool.Claimed))
		destroying := h.Events(activity.ContainerDestroying)
		require.Len(t, destroying, 3)
		for _, e := range destroying {
			require.Contains(t, e.Message, "its protocol version is outdated: it is 2, and this server's is 3")
		}
		created := h.Events(activity.ContainerCreated)
		require.Greater(t, destroying[0].Seq, created[len(created)-1].Seq, "the new ones are ready first")
		require.Len(t, hookRuns(h, hooks.PreDestroy), 3)
		for _, r := range hookRuns(h, hooks.PreDestroy) {
			require.Equal(t, hooks.Succeeded, r.State)
		}
		status, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, 1, status.Outdated)
		require.Zero(t, status.Newer)

		require.Equal(t, "ada was here", execTestprog(h, ada, "read", "/data/note"))
		require.Equal(t, ada.ID, h.Claim("w", "ada").ID)
		h.Release(ada)
		require.Contains(t, awaitDestroyed(h, ada.Container), "its protocol version is outdated")
		again := h.Claim("w", "ada")
		require.NotEqual(t, ada.Container, again.Container)
		require.Equal(t, "ada was here", execTestprog(h, again, "read", "/data/note"))
		require.Equal(t, "yes", execTestprog(h, again, "read", "/data/flushed"))
		h.Release(again)
		h.Until("containers of this version to be kept", func() bool { return len(protocols(h, pool.Idle)) == 3 })
	})
}

// In a full pool an old container is destroyed before its replacement is
// created.
func TestUpgradeOfFullPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(upgradeWorkload, "max_size: 6", "max_size: 2"))
		h.AwaitIdle("w", 2)
		h.Upgrade(3)
		h.Until("all to be new", func() bool {
			idle := protocols(h, pool.Idle)
			return len(idle) == 2 && idle[0] == 3 && idle[1] == 3
		})
	})
}

// A container with an unsupported protocol is destroyed when it is idle, and
// when it is released without state. One that holds the only copy of a tenant's
// state is retained until a server can read it. That server runs the pending
// hooks, once.
func TestProtocolTooOldRetainsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(upgradeWorkload)
		ada, bob := h.Claim("w", "ada"), h.Claim("w", "bob")
		execTestprog(h, ada, "write", "/data/note", "ada was here")
		h.AwaitIdle("w", 2)

		h.Upgrade(4)
		h.Until("idle ones to be replaced", func() bool {
			idle := protocols(h, pool.Idle)
			return len(idle) == 2 && idle[0] == 4 && idle[1] == 4 && len(protocols(h, pool.Destroying)) == 0
		})
		for _, r := range hookRuns(h, hooks.PreDestroy) {
			require.Equal(t, hooks.Skipped, r.State, "its protocol is not supported")
		}
		_, _, err := h.Claims.Sync(t.Context(), ada.ID)
		require.ErrorIs(t, err, runtime.ErrTooOld)
		end := runLoops(h)
		_, err = h.Releases.Release(t.Context(), ada.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrTooOld)
		<-time.After(time.Hour)
		kept := currentClaim(h, ada)
		require.Equal(t, claim.ReleaseFailed, kept.State)
		require.Equal(t, claim.FailedByVersion, kept.FailureReason)
		require.Contains(t, kept.Reason, "too old for this one")
		require.NotNil(t, kept.RetryAt, "it is retried indefinitely")
		require.Empty(t, hookRuns(h, hooks.PreRelease), "they run only on a server that supports it")
		_, err = h.Releases.Release(t.Context(), bob.ID, release.Request{Discard: true})
		require.NoError(t, err)
		require.Equal(t, claim.Released, currentClaim(h, bob).State, "its state is discarded")
		require.Contains(t, awaitDestroyed(h, bob.Container), "too old")
		end()

		h.Upgrade(3)
		end = runLoops(h)
		defer end()
		h.Until("it to be released", func() bool { return currentClaim(h, ada).State == claim.Released })
		require.Equal(t, "ada was here", execTestprog(h, h.Claim("w", "ada"), "read", "/data/note"))
		ran := 0
		for _, r := range hookRuns(h, hooks.PreRelease) {
			if r.Claim == ada.ID {
				require.Equal(t, hooks.Succeeded, r.State)
				ran++
			}
		}
		require.Equal(t, 1, ran)
	})
}

// Without sync, a container with an unsupported protocol is not retained.
func TestProtocolTooOldWithoutState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(unsyncedWorkload)
		c := h.Claim("w", "ada")
		h.Upgrade(4)
		c = h.Release(c)
		require.Contains(t, awaitDestroyed(h, c.Container), "too old")
		require.Contains(t, strings.Join(c.Warnings, "\n"), "pre_release did not run")
		require.Equal(t, hooks.Skipped, hookRuns(h, hooks.PreRelease)[0].State)
	})
}

// An older server does not touch the containers of a newer one: every request
// for them is ErrNewer, and tenants get containers of its own version. The
// newer server resumes its work afterwards.
func TestNewerProtocolIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(flowtest.Edit(upgradeWorkload, "max_size: 6", "max_size: 9"))
		h.AwaitIdle("w", 2)
		h.Upgrade(3)
		h.Until("all to be new", func() bool {
			idle := protocols(h, pool.Idle)
			return len(idle) == 2 && idle[0] == 3 && idle[1] == 3 && len(protocols(h, pool.Destroying)) == 0
		})
		ada, bob := h.Claim("w", "ada"), h.Claim("w", "bob")
		execTestprog(h, ada, "write", "/data/note", "ada was here")
		h.AwaitIdle("w", 2)
		idle, err := h.DB.Containers(t.Context(), pool.ContainerFilter{States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		repair := h.RT.Break("destroy", runtime.ErrUnavailable)
		require.NoError(t, h.Pools.DestroyContainer(t.Context(), idle[0].ID, false))
		h.Until("it to be replaced", func() bool { return len(protocols(h, pool.Idle)) == 2 })
		repairGet := h.RT.Break("scan_tree "+bob.Container, runtime.ErrUnavailable)
		_, err = h.Releases.Release(t.Context(), bob.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		require.NoError(t, h.DB.AddContainer(t.Context(), pool.Container{ID: "creating", Workload: "w", Revision: idle[0].Revision}, 10))
		before := containersByProtocol(h, 3)

		h.RT.SetProtocols(runtime.Protocols{Oldest: 1, Current: 2})
		h.RestartUnfinished()
		repair()
		repairGet()
		h.ForgetCalls()
		end := runLoops(h)
		_, err = h.Releases.Release(t.Context(), ada.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrNewer)
		_, err = h.Releases.Release(t.Context(), ada.ID, release.Request{Discard: true})
		require.ErrorIs(t, err, runtime.ErrNewer)
		_, err = h.Releases.Release(t.Context(), bob.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrNewer)
		_, _, err = h.Claims.Sync(t.Context(), ada.ID)
		require.ErrorIs(t, err, runtime.ErrNewer)
		require.ErrorIs(t, h.Pools.DestroyContainer(t.Context(), idle[1].ID, true), runtime.ErrNewer)
		require.ErrorIs(t, h.Pools.DestroyContainer(t.Context(), ada.Container, true), runtime.ErrNewer)
		require.Equal(t, ada.ID, h.Claim("w", "ada").ID, "it is still active")
		joe := h.Claim("w", "joe")
		require.Equal(t, 2, containerRecord(h, joe.Container).Protocol)
		h.Release(joe)
		h.RT.Kill(idle[1].ID) // a newer server detects its exit, too
		start := time.Now()
		h.RT.Kill(joe.Container)
		awaitDestroyed(h, joe.Container)
		require.Less(t, time.Since(start), time.Minute, "the exit of one does not block another's")
		_, err = h.Pools.Drain(t.Context(), "w")
		require.NoError(t, err)
		<-time.After(time.Hour)
		synctest.Wait()
		require.Equal(t, before, containersByProtocol(h, 3))
		for _, call := range h.RT.Calls() {
			for id := range before {
				changes := strings.Contains(call, id) && !strings.HasPrefix(call, "status") && !strings.HasPrefix(call, "scan_tree")
				require.False(t, changes, call)
			}
		}
		status, err := h.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, len(before), status.Newer)
		end()

		h.RT.SetProtocols(runtime.Protocols{Oldest: 2, Current: 3})
		h.Restart()
		require.Equal(t, claim.Released, currentClaim(h, bob).State)
		h.Release(ada)
		require.Empty(t, h.Events(activity.ClaimStateLost))
	})
}

// containersByProtocol returns the containers of a protocol version, by ID.
func containersByProtocol(h *flowtest.Harness, protocol int) map[string]pool.Container {
	h.T.Helper()
	all, err := h.DB.Containers(h.T.Context(), pool.ContainerFilter{})
	require.NoError(h.T, err)
	found := map[string]pool.Container{}
	for _, c := range all {
		if c.Protocol == protocol {
			found[c.ID] = c
		}
	}
	return found
}

// containerRecord returns the record of a container.
func containerRecord(h *flowtest.Harness, id string) pool.Container {
	h.T.Helper()
	c, err := h.DB.Container(h.T.Context(), id)
	require.NoError(h.T, err)
	return c
}

// A claim whose release was postponed because its container is too old can still
// be ended by a discard: nothing has to be started in the container for that.
func TestProtocolTooOldCanBeDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(upgradeWorkload)
		c := h.Claim("w", "ada")
		h.Upgrade(4)
		defer runLoops(h)()
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.Error(t, err)
		postponed, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.ReleaseFailed, postponed.State)

		released, err := h.Releases.Release(t.Context(), c.ID, release.Request{Discard: true})
		require.NoError(t, err)
		require.Equal(t, claim.Released, released.State)
		require.Contains(t, awaitDestroyed(h, c.Container), "too old")
	})
}
