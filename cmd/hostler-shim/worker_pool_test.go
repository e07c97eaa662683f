package main

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
)

// A worker is used again for its own user only, and few are kept: the ones that
// were used last.
func TestWorkersOfUsers(t *testing.T) {
	t.Parallel()
	w := &workers{alive: make(map[proctree.ID]bool)}
	newWorker := func(pid int, user string) *workerProcess {
		socket, err := os.Open(os.DevNull)
		require.NoError(t, err)
		t.Cleanup(func() { socket.Close() })
		p := &workerProcess{id: proctree.ID{PID: pid}, user: user, socket: socket}
		w.alive[p.id] = true
		return p
	}
	isClosed := func(p *workerProcess) bool {
		_, err := p.socket.Stat()
		return err != nil
	}
	root, app, other, second := newWorker(1, "0"), newWorker(2, "app"), newWorker(3, "other"), newWorker(4, "app")
	w.release(root)
	require.Nil(t, w.takeIdle("app"), "that of another user")
	require.Same(t, root, w.takeIdle("0"))
	require.Nil(t, w.takeIdle("0"), "it is in use")

	w.release(root)
	w.release(app)
	w.release(second)
	require.True(t, isClosed(app), "one for each user")
	require.False(t, isClosed(root))
	w.release(other)
	require.True(t, isClosed(root), "the least recently used")
	require.Same(t, second, w.takeIdle("app"))
	require.Same(t, other, w.takeIdle("other"))

	delete(w.alive, second.id)
	w.release(second)
	require.True(t, isClosed(second), "it was killed")
	other.notReusable = true
	w.release(other)
	require.True(t, isClosed(other), "not reusable")
	require.Empty(t, w.idle)
}

// Commands of different users do not share a worker. Commands of one user do.
func TestUsersHaveOwnWorkers(t *testing.T) {
	t.Parallel()
	s := newSupervisor(shim.Config{HostProcess: true})
	s.main.set(shim.MainRunning, 1, nil)
	t.Cleanup(s.workers.closeAll)
	worker := func(user string) string {
		r, _ := s.runs.getOrCreate(user, func() {})
		result, err := s.runInWorker(t.Context(), r, shim.Run{
			Args: []string{"/bin/sh", "-c", "echo $PPID"}, User: user, Workdir: "/", Timeout: time.Minute, Grace: time.Second,
		})
		require.NoError(t, err)
		require.True(t, result.OK(), "%+v", result)
		return result.Stdout.String()
	}
	uid := strconv.Itoa(os.Geteuid())
	numbers := uid + ":" + strconv.Itoa(os.Getegid())
	first, other := worker(uid), worker(numbers)
	require.NotEqual(t, first, other)
	require.Equal(t, first, worker(uid))
	require.Equal(t, other, worker(numbers))
}
