package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Users are looked up as engines do.
func TestLookupUser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := accounts{passwd: filepath.Join(dir, "passwd"), group: filepath.Join(dir, "group")}
	require.NoError(t, os.WriteFile(a.passwd, []byte(
		"# odd\n\nroot:x:0:0:root:/root:/bin/sh\nnode:x:1000:1001:Node:/home/node:/bin/sh\nbroken:x:y:z::/:\n"), 0o600))
	require.NoError(t, os.WriteFile(a.group, []byte(
		"root:x:0:\nnode:x:1001:\ndocker:x:50:root,node\nnodes:x:51:nodes,other\n"), 0o600))
	cases := []struct {
		spec string
		want identity
	}{
		{"node", identity{1000, 1001, []int{50}, "/home/node"}},
		{"1000", identity{1000, 1001, []int{50}, "/home/node"}},
		{"1000:0", identity{1000, 0, nil, "/home/node"}},
		{"node:docker", identity{1000, 50, nil, "/home/node"}},
		{"node:77", identity{1000, 77, nil, "/home/node"}},
		{"4242", identity{4242, 0, nil, "/"}},
		{"4242:4243", identity{4242, 4243, nil, "/"}},
		{"root", identity{0, 0, []int{50}, "/root"}},
	}
	for _, c := range cases {
		got, err := a.lookup(c.spec)
		require.NoError(t, err, c.spec)
		require.Equal(t, c.want, got, c.spec)
	}
	for _, bad := range []string{"unknown", "node:unknown", "-1", "99999999999", "broken", "node:", ":0", "4294967295"} {
		_, err := a.lookup(bad)
		start, ok := errors.AsType[*runtime.StartError](err)
		require.True(t, ok, "%s: %v", bad, err)
		require.Equal(t, runtime.StartUserNotFound, start.Reason, bad)
	}
	none := accounts{passwd: filepath.Join(dir, "no"), group: filepath.Join(dir, "no")}
	got, err := none.lookup("5:6")
	require.NoError(t, err, "an image may lack both files")
	require.Equal(t, identity{5, 6, nil, "/"}, got)
}

func TestMergeEnv(t *testing.T) {
	t.Parallel()
	env := mergeEnv([]string{"A=1", "B=2=3", "HOME="}, map[string]string{"A": "x"}, "/home/a")
	require.ElementsMatch(t, []string{"A=x", "B=2=3", "HOME=/home/a"}, env)
	require.Equal(t, "/b", lookupEnv(mergeEnv([]string{"HOME=/b"}, nil, "/a"), "HOME", ""))
}

// No other user gets the HOME that init was given as root. Every user gets a
// HOME that an image sets.
func TestWithoutOwnHome(t *testing.T) {
	t.Parallel()
	as, err := containerAccounts.lookup("")
	require.NoError(t, err)
	require.Equal(t, []string{"A=1"}, withoutOwnHome([]string{"A=1", "HOME=" + as.home}))
	require.Equal(t, []string{"HOME=/app"}, withoutOwnHome([]string{"HOME=/app"}))
}

// No one can become the shim's own user or get its group, by any name.
func TestShimUserIsReserved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := accounts{passwd: filepath.Join(dir, "passwd"), group: filepath.Join(dir, "group")}
	require.NoError(t, os.WriteFile(a.passwd, []byte("evil:x:64997:0::/:\nsly:x:5:64997::/:\nmember:x:6:6::/:\n"), 0o600))
	require.NoError(t, os.WriteFile(a.group, []byte("shims:x:64997:member\n"), 0o600))
	for _, spec := range []string{"64997", "64997:0", "0:64997", "evil", "sly", "member", "0:shims"} {
		_, err := a.lookup(spec)
		start, ok := errors.AsType[*runtime.StartError](err)
		require.True(t, ok, "%s: %v", spec, err)
		require.Equal(t, runtime.StartUserNotFound, start.Reason, spec)
		require.ErrorContains(t, err, "64997", spec)
	}
	for _, n := range []int{shim.UID, 1<<32 + shim.UID, shim.UID - 1<<32, -1, 1<<32 - 1} {
		for _, id := range []identity{{uid: n}, {gid: n}, {groups: []int{1, n}}} {
			require.ErrorContains(t, setThreadIdentity(id), "64997", "%d", n)
		}
	}
}

// A number that the kernel would treat as another one is refused: the kernel
// uses only the lower half of a longer number, and -1 keeps the caller's user,
// which is the shim's.
func TestLookupUserOverflow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := accounts{passwd: filepath.Join(dir, "passwd"), group: filepath.Join(dir, "group")}
	for _, n := range []string{"4295032293", "-1", "4294967295", "-4294902299", "9223372036854775807"} {
		require.NoError(t, os.WriteFile(a.passwd, []byte("0:x:"+n+":0::/:\n5:x:5:"+n+"::/:\nmember:x:6:6::/:\nuser:x:"+n+":0::/:\n"), 0o600))
		require.NoError(t, os.WriteFile(a.group, []byte("0:x:"+n+":\nshims:x:"+n+":member\n"), 0o600))
		for spec, want := range map[string]identity{
			"0:0": {home: "/"}, "5": {uid: 5, home: "/"}, "member": {uid: 6, gid: 6, home: "/"},
		} {
			got, err := a.lookup(spec)
			require.NoError(t, err, spec)
			require.Equal(t, want, got, "%s: %s", n, spec)
		}
		for _, spec := range []string{"user", "0:shims"} {
			_, err := a.lookup(spec)
			start, ok := errors.AsType[*runtime.StartError](err)
			require.True(t, ok, "%s: %v", spec, err)
			require.Equal(t, runtime.StartUserNotFound, start.Reason, spec)
		}
	}
}

// Whatever a tenant puts in place of the accounts files, reading them never
// blocks. Numbers are valid without them, and a name returns the cause.
func TestHostileAccountFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, unix.Mkfifo(path("pipe"), 0o666))
	require.NoError(t, os.Mkdir(path("dir"), 0o700))
	require.NoError(t, os.Symlink("/dev/zero", path("endless")))
	require.NoError(t, os.Symlink(path("loop"), path("loop")))
	require.NoError(t, os.WriteFile(path("large"), nil, 0o600))
	require.NoError(t, os.Truncate(path("large"), 1<<40))
	leased, err := os.OpenFile(path("leased"), os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	defer leased.Close()
	_, err = unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	require.NoError(t, err)
	for name, why := range map[string]string{
		"pipe": "is not a file", "dir": "is not a file", "endless": "is not a file",
		"loop": "too many levels", "large": "larger than", "leased": "temporarily unavailable",
	} {
		a := accounts{passwd: path(name), group: path(name)}
		got, err := a.lookup("5")
		require.NoError(t, err, name)
		require.Equal(t, identity{5, 0, nil, "/"}, got, name)
		for _, spec := range []string{"alice", "5:staff"} {
			_, err = a.lookup(spec)
			require.ErrorContains(t, err, path(name), spec)
			require.ErrorContains(t, err, why, spec)
		}
	}
	require.NoError(t, os.WriteFile(path("long"), append(bytes.Repeat([]byte("x"), 1<<19), "\nalice:x:7:8::/:\n"...), 0o600))
	got, err := accounts{passwd: path("long"), group: path("none")}.lookup("alice")
	require.NoError(t, err, "a long line")
	require.Equal(t, 7, got.uid)
}
