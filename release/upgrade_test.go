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
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
)

// upgraded is a workload whose containers have something to lose.
const upgraded = `
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

// unsynced is upgraded without anywhere to keep what its tenants have.
var unsynced = strings.Replace(upgraded, "sync: { sink: { type: file } }\n", "", 1)

// versions are those of the workload's containers in a state.
func versions(y *flowtest.Yard, s pool.State) []int {
	y.T.Helper()
	all, err := y.DB.Containers(y.T.Context(), pool.ContainerFilter{Workload: "w", States: []pool.State{s}})
	require.NoError(y.T, err)
	list := []int{}
	for _, c := range all {
		list = append(list, c.Protocol)
	}
	return list
}

// runs are the attempts of the hooks of a point.
func runs(y *flowtest.Yard, p hooks.Point) []hooks.Run {
	y.T.Helper()
	all, err := y.DB.Runs(y.T.Context(), hooks.RunFilter{Point: p})
	require.NoError(y.T, err)
	return all
}

// loops runs the loops of releases until the function that it returns is called.
func loops(y *flowtest.Yard) (end func()) {
	ctx, cancel := context.WithCancel(y.T.Context())
	done := make(chan struct{}, 2)
	for _, run := range []func(context.Context) error{y.Releases.Run, y.Releases.Finish} {
		go func() { _ = run(ctx); done <- struct{}{} }()
	}
	return func() { cancel(); <-done; <-done }
}

// After an upgrade what is idle is replaced, the new containers first, kept
// ones too; what is claimed works on, and is replaced when it is released.
func TestUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(upgraded)
		y.Idle("w", 2)
		y.Release(y.Claim("w", "bob")) // its container is kept for bob
		ada := y.Claim("w", "ada")
		exec(y, ada, "write", "/data/note", "ada was here")
		y.Idle("w", 3)
		require.Equal(t, []int{2, 2, 2}, versions(y, pool.Idle))

		y.RT.ForgetCalls()
		y.Upgrade(3)
		y.Until("the old ones are gone", func() bool {
			return len(versions(y, pool.Destroying)) == 0 && len(versions(y, pool.Idle)) == 2
		})
		require.Equal(t, []int{3, 3}, versions(y, pool.Idle))
		require.Equal(t, []int{2}, versions(y, pool.Claimed))
		given := y.Events(activity.ContainerDestroying)
		require.Len(t, given, 3)
		for _, e := range given {
			require.Contains(t, e.Message, "its protocol version is outdated: it is 2, and this server's is 3")
		}
		made := y.Events(activity.ContainerCreated)
		require.Greater(t, given[0].Seq, made[len(made)-1].Seq, "the new ones are ready first")
		require.Len(t, runs(y, hooks.PreDestroy), 3)
		for _, r := range runs(y, hooks.PreDestroy) {
			require.Equal(t, hooks.Succeeded, r.State)
		}
		status, err := y.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, 1, status.Outdated)
		require.Zero(t, status.Newer)

		require.Equal(t, "ada was here", exec(y, ada, "read", "/data/note"))
		require.Equal(t, ada.ID, y.Claim("w", "ada").ID)
		y.Release(ada)
		require.Contains(t, gone(y, ada.Container), "its protocol version is outdated")
		again := y.Claim("w", "ada")
		require.NotEqual(t, ada.Container, again.Container)
		require.Equal(t, "ada was here", exec(y, again, "read", "/data/note"))
		require.Equal(t, "yes", exec(y, again, "read", "/data/flushed"))
		y.Release(again)
		y.Until("what is of this version is kept", func() bool { return len(versions(y, pool.Idle)) == 3 })
	})
}

// Where there is no room for a new container, an old one makes it.
func TestUpgradeOfAFullPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(upgraded, "max_size: 6", "max_size: 2", 1))
		y.Idle("w", 2)
		y.Upgrade(3)
		y.Until("all are new", func() bool {
			idle := versions(y, pool.Idle)
			return len(idle) == 2 && idle[0] == 3 && idle[1] == 3
		})
	})
}

// A container whose version is not spoken any more is destroyed when it is
// idle, and when it is released with nothing to keep. The last copy of a
// tenant's state stays in it until a server comes that can read it, which runs
// the hooks that had to wait, once.
func TestTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(upgraded)
		ada, bob := y.Claim("w", "ada"), y.Claim("w", "bob")
		exec(y, ada, "write", "/data/note", "ada was here")
		y.Idle("w", 2)

		y.Upgrade(4)
		y.Until("idle ones are replaced", func() bool {
			idle := versions(y, pool.Idle)
			return len(idle) == 2 && idle[0] == 4 && idle[1] == 4 && len(versions(y, pool.Destroying)) == 0
		})
		for _, r := range runs(y, hooks.PreDestroy) {
			require.Equal(t, hooks.Skipped, r.State, "nobody can speak to it")
		}
		_, _, err := y.Claims.Sync(t.Context(), ada.ID)
		require.ErrorIs(t, err, runtime.ErrTooOld)
		end := loops(y)
		_, err = y.Releases.Release(t.Context(), ada.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrTooOld)
		<-time.After(time.Hour)
		kept := now(y, ada)
		require.Equal(t, claim.ReleaseFailed, kept.State)
		require.Equal(t, claim.FailedByVersion, kept.FailureReason)
		require.Contains(t, kept.Reason, "too old for this one")
		require.NotNil(t, kept.RetryAt, "it is never given up")
		require.Empty(t, runs(y, hooks.PreRelease), "they run where they can")
		_, err = y.Releases.Release(t.Context(), bob.ID, release.Request{Discard: true})
		require.NoError(t, err)
		require.Equal(t, claim.Released, now(y, bob).State, "its tenant wants nothing kept")
		require.Contains(t, gone(y, bob.Container), "too old")
		end()

		y.Upgrade(3)
		end = loops(y)
		defer end()
		y.Until("it is released", func() bool { return now(y, ada).State == claim.Released })
		require.Equal(t, "ada was here", exec(y, y.Claim("w", "ada"), "read", "/data/note"))
		ran := 0
		for _, r := range runs(y, hooks.PreRelease) {
			if r.Claim == ada.ID {
				require.Equal(t, hooks.Succeeded, r.State)
				ran++
			}
		}
		require.Equal(t, 1, ran)
	})
}

// Without a place to keep it, nothing is promised of what a container holds.
func TestTooOldWithoutState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(unsynced)
		c := y.Claim("w", "ada")
		y.Upgrade(4)
		c = y.Release(c)
		require.Contains(t, gone(y, c.Container), "too old")
		require.Contains(t, strings.Join(c.Warnings, "\n"), "pre_release did not run")
		require.Equal(t, hooks.Skipped, runs(y, hooks.PreRelease)[0].State)
	})
}

// A server of an older version leaves alone what a newer one made, whatever is
// asked of it, says so, and serves its tenants from containers of its own. The
// newer one goes on where it was.
func TestNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := flowtest.New(t)
		y.Apply(strings.Replace(upgraded, "max_size: 6", "max_size: 9", 1))
		y.Upgrade(3)
		y.Until("all are new", func() bool { return len(versions(y, pool.Idle)) == 2 && len(versions(y, pool.Destroying)) == 0 })
		ada, bob := y.Claim("w", "ada"), y.Claim("w", "bob")
		exec(y, ada, "write", "/data/note", "ada was here")
		y.Idle("w", 2)
		idle, err := y.DB.Containers(t.Context(), pool.ContainerFilter{States: []pool.State{pool.Idle}})
		require.NoError(t, err)
		mend := y.RT.Break("destroy", runtime.ErrUnavailable)
		require.NoError(t, y.Pools.DestroyContainer(t.Context(), idle[0].ID, false))
		y.Until("it is replaced", func() bool { return len(versions(y, pool.Idle)) == 2 })
		answer := y.RT.Break("get "+bob.Container, runtime.ErrUnavailable)
		_, err = y.Releases.Release(t.Context(), bob.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		require.NoError(t, y.DB.AddContainer(t.Context(), pool.Container{ID: "making", Workload: "w", Revision: idle[0].Revision}, 10))
		before := records(y, 3)

		y.RT.Speak(runtime.Protocols{Oldest: 1, Current: 2})
		y.CrashUnfinished()
		mend()
		answer()
		y.RT.ForgetCalls()
		end := loops(y)
		_, err = y.Releases.Release(t.Context(), ada.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrNewer)
		_, err = y.Releases.Release(t.Context(), ada.ID, release.Request{Discard: true})
		require.ErrorIs(t, err, runtime.ErrNewer)
		_, err = y.Releases.Release(t.Context(), bob.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrNewer)
		_, _, err = y.Claims.Sync(t.Context(), ada.ID)
		require.ErrorIs(t, err, runtime.ErrNewer)
		require.ErrorIs(t, y.Pools.DestroyContainer(t.Context(), idle[1].ID, true), runtime.ErrNewer)
		require.ErrorIs(t, y.Pools.DestroyContainer(t.Context(), ada.Container, true), runtime.ErrNewer)
		require.Equal(t, ada.ID, y.Claim("w", "ada").ID, "it stands")
		joe := y.Claim("w", "joe")
		require.Equal(t, 2, box(y, joe.Container).Protocol)
		y.Release(joe)
		y.RT.Kill(idle[1].ID) // a newer server finds it dead, too
		begun := time.Now()
		y.RT.Kill(joe.Container)
		gone(y, joe.Container)
		require.Less(t, time.Since(begun), time.Minute, "the death of one holds up no other's")
		_, err = y.Pools.Drain(t.Context(), "w")
		require.NoError(t, err)
		<-time.After(time.Hour)
		require.Equal(t, before, records(y, 3))
		for _, call := range y.RT.Calls() {
			for id := range before {
				changes := strings.Contains(call, id) && !strings.HasPrefix(call, "status") && !strings.HasPrefix(call, "get")
				require.False(t, changes, call)
			}
		}
		status, err := y.Pools.Status(t.Context(), "w")
		require.NoError(t, err)
		require.Equal(t, len(before), status.Newer)
		end()

		y.RT.Speak(runtime.Protocols{Oldest: 2, Current: 3})
		y.Crash()
		require.Equal(t, claim.Released, now(y, bob).State)
		y.Release(ada)
		require.Empty(t, y.Events(activity.ClaimStateLost))
	})
}

// records are those of the containers of a version that are there.
func records(y *flowtest.Yard, protocol int) map[string]pool.Container {
	y.T.Helper()
	all, err := y.DB.Containers(y.T.Context(), pool.ContainerFilter{})
	require.NoError(y.T, err)
	found := map[string]pool.Container{}
	for _, c := range all {
		if c.Protocol == protocol {
			found[c.ID] = c
		}
	}
	return found
}

// box is the record of a container.
func box(y *flowtest.Yard, id string) pool.Container {
	y.T.Helper()
	c, err := y.DB.Container(y.T.Context(), id)
	require.NoError(y.T, err)
	return c
}
