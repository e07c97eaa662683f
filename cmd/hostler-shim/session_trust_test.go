package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
)

// openSession opens a session with a supervisor and returns the server's end.
func openSession(t *testing.T, s *supervisor) *os.File {
	t.Helper()
	before := countSessions(s)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	server := os.NewFile(uintptr(pair[0]), "server")
	t.Cleanup(func() { server.Close() })
	go newSession(s, pair[1]).serve(func() {}) // ends with the session
	_, _, err = shim.ServerHandshake(server, s.config.Key, shim.Version)
	require.NoError(t, err)
	testenv.AwaitTrue(t, "the session", func() bool { return countSessions(s) > before })
	return server
}

func countSessions(s *supervisor) int {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	return len(s.sessions.byConn)
}

// A wipe ends every bridge that was started while a process of the workload was
// running: the engine starts it as root, so a process of root could have left a
// message in its limits. The other bridges stay. If bridges have the workload's
// user, none stays.
func TestWipeEndsUntrustedBridges(t *testing.T) {
	t.Parallel()
	for _, protected := range []bool{true, false} {
		all := newSessions(protected)
		baseline, during, between, late := proctree.ID{PID: 2}, proctree.ID{PID: 3}, proctree.ID{PID: 4}, proctree.ID{PID: 5}
		all.add(new(session), baseline)
		all.trustAll()
		all.add(new(session), during)
		all.setQuiet(true)
		all.add(new(session), between)
		all.setQuiet(false)
		all.add(new(session), late)
		require.Len(t, all.bridges(), 4)
		all.endUntrusted()
		want := map[proctree.ID]bool{baseline: true, between: true}
		if !protected {
			clear(want)
		}
		require.Equal(t, want, all.bridges())
	}
}

// A session whose bridge has ended stays open until the response to the wipe is
// sent. Then it is closed.
func TestEndedSessionIsClosedAfterAnswer(t *testing.T) {
	t.Parallel()
	s := newSupervisor(shim.Config{Key: []byte("key")})
	s.sessions = newSessions(true)
	trusted := openSession(t, s)
	s.sessions.trustAll()
	untrusted := openSession(t, s)
	s.sessions.endUntrusted()
	require.False(t, wasClosed(t, untrusted))
	s.sessions.closeEnded()
	testenv.AwaitTrue(t, "the session to be closed", func() bool { return wasClosed(t, untrusted) })
	require.False(t, wasClosed(t, trusted))
}
