package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Everything that later processes inherit is compared.
func TestProcessFacts(t *testing.T) {
	s := newSupervisor(shim.Config{HostProcess: true})
	before, err := s.readFacts()
	require.NoError(t, err)
	now, err := s.readFacts()
	require.NoError(t, err)
	require.NoError(t, before.compare(now), "unchanged")

	cases := map[string]struct {
		change func() (undo func() error)
		want   string
	}{
		"a limit": {func() func() error {
			var was unix.Rlimit
			require.NoError(t, unix.Prlimit(0, unix.RLIMIT_CORE, nil, &was))
			require.NoError(t, unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{Cur: was.Cur/2 + 4096, Max: was.Max}, nil))
			return func() error { return unix.Prlimit(0, unix.RLIMIT_CORE, &was, nil) }
		}, "the limit 4 of init"},
		"the umask": {func() func() error {
			was := unix.Umask(0o123)
			return func() error { unix.Umask(was); return nil }
		}, "init's Umask"},
		"the core filter": {func() func() error {
			was, err := os.ReadFile("/proc/self/coredump_filter")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile("/proc/self/coredump_filter", []byte("0x7f"), 0))
			return func() error {
				return os.WriteFile("/proc/self/coredump_filter", append([]byte("0x"), was...), 0)
			}
		}, "coredump_filter"},
		"the affinity of a thread": {func() func() error {
			var was, one unix.CPUSet
			require.NoError(t, unix.SchedGetaffinity(unix.Getpid(), &was))
			one.Set(0)
			require.NoError(t, unix.SchedSetaffinity(unix.Getpid(), &one))
			return func() error { return unix.SchedSetaffinity(unix.Getpid(), &was) }
		}, "the scheduling of init"},
	}
	for name, c := range cases {
		undo := c.change()
		now, err := s.readFacts()
		require.NoError(t, undo())
		require.NoError(t, err)
		err = before.compare(now)
		require.ErrorIs(t, err, runtime.ErrWipeUnverified, name)
		require.ErrorContains(t, err, c.want)
	}
	now, err = s.readFacts()
	require.NoError(t, err)
	require.NoError(t, before.compare(now), "all changes are undone")
}

// Facts are the same on every thread, although /proc hides some files of the
// first thread from the others.
func TestFactsSameOnAllThreads(t *testing.T) {
	s := newSupervisor(shim.Config{HostProcess: true})
	before, err := s.readFacts()
	require.NoError(t, err)
	for range 20 {
		errs := make(chan error, 1)
		onDisposableThread(func() {
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var none [2]unix.CapUserData // as in a container
			err := unix.Capset(&header, &none[0])
			now, err2 := s.readFacts()
			errs <- errors.Join(err, err2, before.compare(now))
		})
		require.NoError(t, <-errs)
	}
}

// The facts contain the names, the mounts and the network of a container.
func TestMachineFacts(t *testing.T) {
	t.Parallel()
	f := make(facts)
	require.NoError(t, namespaceFacts(f))
	require.NoError(t, networkFacts(f))
	require.Contains(t, f["the modes in /proc/net"], "/proc/self/net/dev 100444 0 0")
	require.Contains(t, f["the namespace net"], "net:[")
	require.NotEqual(t, ".", f["the host name"])
	require.Contains(t, f, "the flow labels")
	require.NotContains(t, f["the flow labels"], "Label", "the header is not a label")
}

// The error contains the first line that differs, at most as long as an event
// can hold.
func TestFactsCompare(t *testing.T) {
	t.Parallel()
	a := facts{"x": "same\nwas\nmore", "y": "1"}
	require.NoError(t, a.compare(facts{"x": "same\nwas\nmore", "y": "1"}))
	require.ErrorContains(t, a.compare(facts{"x": "same\nis\nless", "y": "1"}), `x was "was", is now "is"`)
	require.ErrorContains(t, a.compare(facts{"x": "same\nwas\nmore"}), `y was "1", is now ""`)
	require.ErrorContains(t, a.compare(facts{"x": "same\nwas\nmore", "y": "1", "z": "new"}), `z was "", is now "new"`)
	long := a.compare(facts{"x": strings.Repeat("x", 10_000), "y": "1"})
	require.Less(t, len(long.Error()), 300)
}

// Objects are parsed with their creators, whatever the order of the columns.
func TestParseIPC(t *testing.T) {
	t.Parallel()
	shm, sem := ipcKinds[0], ipcKinds[2]
	objects, err := shm.parse("       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime\n" +
		"         0          3   600                  4096    12    12      0     5     6  1001  1002 1700000000\n")
	require.NoError(t, err)
	require.Equal(t, []ipcObject{{3, identity{uid: 1001, gid: 1002}}}, objects)
	objects, err = sem.parse("       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n")
	require.NoError(t, err)
	require.Empty(t, objects)
	for _, bad := range []string{"key shmid cuid\n0 1 2\n", "key shmid cuid cgid\n0 x 2 3\n", "key shmid cuid cgid\n0 1\n"} {
		_, err := shm.parse(bad)
		require.Error(t, err, bad)
	}
}
