package proctree

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/internal/testenv"
)

// A process chooses its own name, which must not confuse the parser.
func TestParseStat(t *testing.T) {
	t.Parallel()
	rest := " 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 THREADS 0 123456 1 2\n"
	line := func(name, state, threads string) []byte {
		s := "42 (" + name + ") " + state + rest
		for i := 0; i+7 <= len(s); i++ {
			if s[i:i+7] == "THREADS" {
				return []byte(s[:i] + threads + s[i+7:])
			}
		}
		return []byte(s)
	}
	cases := map[string]struct {
		line   []byte
		zombie bool
	}{
		"plain":                   {line("sh", "S", "1"), false},
		"parentheses in the name": {line("a) Z 1 (b", "R", "1"), false},
		"zombie":                  {line("sh", "Z", "1"), true},
		"first thread exited":     {line("sh", "Z", "3"), false},
	}
	for name, c := range cases {
		p, err := parseStat(42, c.line)
		require.NoError(t, err, name)
		want := Process{ID: ID{PID: 42, Start: 123456}, Parent: 7, Group: 8, Zombie: c.zombie}
		require.Equal(t, want, p, name)
	}
	for _, bad := range []string{"", "42", "42 (sh) S 1", "42 (sh)"} {
		_, err := parseStat(42, []byte(bad))
		require.ErrorIs(t, err, errBadStat, bad)
	}
}

func TestFilterDescendants(t *testing.T) {
	t.Parallel()
	p := func(pid, parent int, zombie bool) Process {
		return Process{ID: ID{PID: pid}, Parent: parent, Zombie: zombie}
	}
	all := []Process{p(1, 0, false), p(2, 1, false), p(3, 2, true), p(4, 3, false), p(5, 1, false),
		p(8, 9, false), p(9, 8, false)} // a cycle, as an inconsistent scan may contain
	require.Equal(t, []Process{p(2, 1, false), p(5, 1, false), p(4, 3, false)}, FilterDescendants(all, 1),
		"all levels, also below a zombie")
	require.Empty(t, FilterDescendants(all, 5))
	require.Len(t, FilterDescendants(all, 8), 2)
}

// Descendants finds what a scan of the whole machine finds.
func TestDescendants(t *testing.T) {
	t.Parallel()
	c := exec.Command("sh", "-c", "sh -c 'sleep 60 & sleep 60; :' & sleep 60; :")
	require.NoError(t, c.Start())
	defer func() {
		require.True(t, KillDescendants(c.Process.Pid, 10*time.Second))
		require.NoError(t, c.Wait(), "the shell continues when its sleep is killed")
	}()
	var got []Process
	testenv.AwaitTrue(t, "all descendants", func() bool {
		var err error
		got, err = Descendants(c.Process.Pid)
		return err == nil && len(got) == 4
	})
	all, err := Scan()
	require.NoError(t, err)
	require.ElementsMatch(t, FilterDescendants(all, c.Process.Pid), got)
	none, err := Descendants(1 << 30)
	require.NoError(t, err)
	require.Empty(t, none)
}

// A signal goes to the process that was seen, not to its PID.
func TestSignalIgnoresRecycledPID(t *testing.T) {
	t.Parallel()
	c := exec.Command("sleep", "60")
	require.NoError(t, c.Start())
	p, err := Read(c.Process.Pid)
	require.NoError(t, err)
	require.True(t, p.IsAlive())

	other := p.ID
	other.Start++
	require.False(t, other.IsAlive())
	other.Signal(unix.SIGKILL)
	require.True(t, p.IsAlive(), "the signal was for another process with the same PID")
	ID{PID: 0}.Signal(unix.SIGKILL)  // this process's own group
	ID{PID: -1}.Signal(unix.SIGKILL) // all processes

	p.Signal(unix.SIGKILL)
	require.Error(t, c.Wait())
	require.False(t, p.IsAlive())
}

// Kill kills a whole tree, even while its processes fork.
func TestKillForkingTree(t *testing.T) {
	t.Parallel()
	c := exec.Command("sh", "-c", `while :; do (sleep 1 & wait) & sleep 0.01; done`)
	require.NoError(t, c.Start())
	top, err := Read(c.Process.Pid)
	require.NoError(t, err)
	testenv.AwaitTrue(t, "the descendants", func() bool {
		all, err := Scan()
		return err == nil && len(FilterDescendants(all, top.PID)) > 3
	})
	require.True(t, Kill(10*time.Second, func() ([]Process, error) {
		all, err := Scan()
		found := FilterDescendants(all, top.PID)
		for _, p := range all {
			if p.ID == top.ID && !p.Zombie {
				found = append(found, p)
			}
		}
		return found, err
	}))
	require.Error(t, c.Wait())
	require.True(t, KillDescendants(top.PID, time.Second), "no descendant is left")
}

// A thread is not a process: gVisor lists both as children.
func TestIsThread(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	require.Greater(t, len(entries), 1, "a Go program has several threads")
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		require.NoError(t, err)
		require.Equal(t, tid != os.Getpid(), isThread(tid), tid)
	}
	require.False(t, isThread(1<<30), "an unreadable status")
}
