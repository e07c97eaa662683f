package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
)

// A signal that interrupts process 1 while it looks at a process is not the exit of
// that process.
func TestSignalIsNoExit(t *testing.T) {
	for name, c := range map[string]struct {
		n    int
		err  error
		want bool
	}{
		"running": {0, nil, true}, "exited": {1, nil, false}, "failed": {0, unix.EINVAL, false},
	} {
		calls := 0
		got := isRunning(7, func(fds []unix.PollFd, timeout int) (int, error) {
			require.Equal(t, []unix.PollFd{{Fd: 7, Events: unix.POLLIN}}, fds)
			require.Zero(t, timeout)
			if calls++; calls < 3 {
				return -1, unix.EINTR
			}
			return c.n, c.err
		})
		require.Equal(t, c.want, got, name)
		require.Equal(t, 3, calls, name)
	}
}

// A process belongs to no command by a parent that it does not have any more: another
// process has got the PID of that one.
func TestOriginIsOfRealParents(t *testing.T) {
	c := exec.Command("cat")
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = stdin.Close(); _ = c.Wait() })
	s := newSupervisor(shim.Config{})
	from, err := s.processOrigin(c.Process.Pid)
	require.NoError(t, err)
	require.Equal(t, origin{}, from)
	other := c.Process.Pid + os.Getpid() // is not its parent
	_, err = s.originBy(func(pid int) (proctree.Process, error) {
		if pid == other {
			return proctree.Process{ID: proctree.ID{PID: other}}, nil
		}
		p, err := proctree.Read(pid)
		p.Parent = other
		return p, err
	}, c.Process.Pid)
	require.ErrorIs(t, err, errExited)
}
