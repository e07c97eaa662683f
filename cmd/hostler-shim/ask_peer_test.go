package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
)

// openConnection is a child command that opens a connection until its stdin ends.
func openConnection() int {
	if _, err := dial(os.Getenv(shim.AskSocketEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// connectionOfChild returns a connection that another process has opened, and what
// ends that process.
func connectionOfChild(t *testing.T, path string, listener int) (fd, pid int, end func()) {
	t.Helper()
	c := exec.Command("/proc/self/exe", "dial")
	c.Env = append(os.Environ(), shim.AskSocketEnv+"="+path)
	c.Stderr = os.Stderr
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	fd, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd); _ = stdin.Close(); _ = c.Wait() })
	return fd, c.Process.Pid, func() {
		require.NoError(t, stdin.Close())
		require.NoError(t, c.Wait())
	}
}

// What is read by the PID of a process that has opened a connection counts only if
// that process has not exited: its PID may be another's by then, such as a hook's.
// Where the kernel has no pidfd for it, the time of its start decides.
func TestPeerIsTheProcessThatConnected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	listener, err := listen(path)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(listener) })
	ofHook := origin{isCommand: true, runID: "run"}
	for name, pidfdOf := range map[string]func(int) (int, error){
		"pidfd": peerPidfd, "old kernel": func(int) (int, error) { return -1, unix.ENOPROTOOPT },
	} {
		fd, pid, end := connectionOfChild(t, path, listener)
		p, err := peerOf(fd, pidfdOf)
		require.NoError(t, err, name)
		t.Cleanup(p.close)
		require.Equal(t, pid, p.id.PID, name)
		if held, err := pidfdOf(fd); err == nil {
			unix.Close(held)
			require.NotNil(t, p.pidfd, name)
		}
		got, err := p.originOf(func(int) (origin, error) { return ofHook, nil })
		require.NoError(t, err, name)
		require.Equal(t, ofHook, got, name)
		later := p
		later.pidfd, later.id.Start = nil, p.id.Start+1
		_, err = later.originOf(func(int) (origin, error) { return ofHook, nil })
		require.ErrorIs(t, err, errExited, "%s: another process with its PID", name)

		_, err = p.originOf(func(int) (origin, error) { end(); return ofHook, nil })
		require.ErrorIs(t, err, errExited, name)
		_, err = peerOf(fd, pidfdOf)
		require.Error(t, err, "%s: it has exited", name)
	}
	fd, _, _ := connectionOfChild(t, path, listener)
	_, err = peerOf(fd, func(int) (int, error) { return -1, unix.EPERM })
	require.ErrorIs(t, err, unix.EPERM)
}

// A connection of a process that cannot be identified is closed. Where the kernel has
// no pidfd for it, it is served.
func TestUnidentifiedPeerIsRefused(t *testing.T) {
	_, l := newListener(t)
	ask := func(failed error) shim.Answer {
		l.mu.Lock()
		l.pidfd = func(int) (int, error) { return -1, failed }
		l.mu.Unlock()
		return askOnce(&shim.Ask{ID: "i", Name: "x"})
	}
	require.NotNil(t, ask(unix.EINVAL).Problem)
	require.NotNil(t, ask(unix.ESRCH).Problem)
	require.Nil(t, ask(unix.ENOPROTOOPT).Problem)
}

// A parent that exits while the ancestors of a process are read is no ancestor: its
// PID may be another's by then.
func TestAncestorsAreReadWhileTheyLive(t *testing.T) {
	c := exec.Command("sh", "-c", "sleep 60 & echo $!; exec cat")
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	stdout, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	var pid int
	_, err = fmt.Fscan(stdout, &pid)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
	child, err := proctree.Read(pid)
	require.NoError(t, err)
	parent, err := proctree.Read(c.Process.Pid)
	require.NoError(t, err)
	require.True(t, isChildOf(child, parent))
	other := child
	other.Start++
	require.False(t, isChildOf(other, parent))
	require.NoError(t, stdin.Close())
	_ = unix.Kill(c.Process.Pid, unix.SIGKILL)
	_ = c.Wait()
	require.False(t, isChildOf(child, parent))
}
