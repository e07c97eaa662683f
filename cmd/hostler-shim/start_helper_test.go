package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// testIdentity returns another user if the tests may switch users, else their
// own.
func testIdentity() identity {
	if !isPrivileged() {
		return identity{uid: os.Geteuid(), gid: os.Getegid()}
	}
	return identity{uid: 4321, gid: 4322, groups: []int{4323, 4324}}
}

// runByHelper starts a program through a start helper and returns its output.
func runByHelper(t *testing.T, l launch) (pid int, output string, err error) {
	t.Helper()
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	out, in, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	l.files = [3]int{int(null.Fd()), int(in.Fd()), int(in.Fd())}
	pid, err = l.startByHelper()
	in.Close()
	if err != nil {
		return pid, "", err
	}
	text, readErr := io.ReadAll(out)
	require.NoError(t, readErr)
	var status unix.WaitStatus
	_, waitErr := unix.Wait4(pid, &status, 0, nil)
	require.NoError(t, waitErr)
	require.Zero(t, status.ExitStatus())
	return pid, string(text), nil
}

// The program is the process with the returned PID and has the requested user,
// groups, environment and directory. It inherits nothing from the helper: no
// capability, no way to gain one, no descriptor.
func TestStartByHelper(t *testing.T) {
	t.Parallel()
	as := testIdentity()
	for _, session := range []bool{false, true} {
		pid, output, err := runByHelper(t, launch{
			args: []string{"sh", "-c", "echo Dir: $PWD; echo Env: $A $B; echo Args: $0 $1; cat /proc/$$/status; ls /proc/$$/fd/3 >&2 || echo Closed: yes", "x", "y"},
			env:  []string{"A=1", "PATH=/usr/bin:/bin"}, as: as, dir: "/usr", session: session,
		})
		require.NoError(t, err)
		is := parseStatus(output)
		require.Equal(t, "/usr", is["Dir"])
		require.Equal(t, "1", is["Env"])
		require.Equal(t, "x y", is["Args"])
		require.Equal(t, "yes", is["Closed"], "the socket to init")
		require.Equal(t, strconv.Itoa(pid), is["Pid"])
		require.Equal(t, strconv.Itoa(pid), is["NSpgid"], "its own group")
		require.Equal(t, session, strconv.Itoa(pid) == is["NSsid"])
		require.Equal(t, "1", is["NoNewPrivs"])
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
			require.Equal(t, strings.Repeat("0", 16), is[set], set)
		}
		four := func(n int) string { return strings.TrimSpace(strings.Repeat(strconv.Itoa(n)+" ", 4)) }
		require.Equal(t, four(as.uid), is["Uid"])
		require.Equal(t, four(as.gid), is["Gid"])
		if isPrivileged() {
			require.Equal(t, "4323 4324", is["Groups"])
			require.Equal(t, "2", is["Seccomp"], "the signal filter is installed")
		}
	}
}

// A program that cannot be started returns its error before any of it has run.
func TestStartByHelperFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("#!/nowhere"), 0o644))
	for reason, l := range map[runtime.StartReason]launch{
		runtime.StartBinaryNotFound:  {args: []string{"/nowhere/at/all"}, dir: "/"},
		runtime.StartWorkdirNotFound: {args: []string{"/bin/true"}, dir: "/nowhere"},
		runtime.StartNotExecutable:   {args: []string{plain}, dir: "/"},
		runtime.StartBadInput:        {args: []string{"/bin/true", strings.Repeat("x", 1<<20)}, dir: "/"},
	} {
		l.as = testIdentity()
		_, _, err := runByHelper(t, l)
		start, ok := errors.AsType[*runtime.StartError](err)
		require.True(t, ok, "%s: %v", reason, err)
		require.Equal(t, reason, start.Reason, "%v", err)
	}
	_, _, err := runByHelper(t, launch{args: []string{"/bin/true"}, dir: "/", as: identity{uid: shim.UID, gid: 1}})
	require.ErrorContains(t, err, "reserved for hostler")
}

// A start helper that is stopped does not hold its caller longer than its
// timeout.
func TestStartHelperTimeout(t *testing.T) {
	t.Parallel()
	_, _, err := runByHelper(t, launch{args: []string{"/bin/true"}, dir: "/", as: testIdentity(), startTimeout: 1})
	require.ErrorContains(t, err, "i/o timeout")
}
