package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// Users are looked up as engines look them up.
func TestLookup(t *testing.T) {
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
	for _, bad := range []string{"nobody", "node:nobody", "-1", "99999999999", "broken", "node:", ":0", "4294967295"} {
		_, err := a.lookup(bad)
		start, ok := errors.AsType[*runtime.StartError](err)
		require.True(t, ok, "%s: %v", bad, err)
		require.Equal(t, runtime.StartNoUser, start.Reason, bad)
	}
	none := accounts{passwd: filepath.Join(dir, "no"), group: filepath.Join(dir, "no")}
	got, err := none.lookup("5:6")
	require.NoError(t, err, "an image may have neither file")
	require.Equal(t, identity{5, 6, nil, "/"}, got)
}

func TestMerge(t *testing.T) {
	t.Parallel()
	env := merge([]string{"A=1", "B=2=3", "HOME="}, map[string]string{"A": "x"}, "/home/a")
	require.ElementsMatch(t, []string{"A=x", "B=2=3", "HOME=/home/a"}, env)
	require.Equal(t, "/b", variable(merge([]string{"HOME=/b"}, nil, "/a"), "HOME", ""))
}

// The HOME that init was given as root is nobody else's; one that an image sets
// is everybody's.
func TestOwnHome(t *testing.T) {
	t.Parallel()
	as, err := containerAccounts.lookup("")
	require.NoError(t, err)
	require.Equal(t, []string{"A=1"}, withoutOwnHome([]string{"A=1", "HOME=" + as.home}))
	require.Equal(t, []string{"HOME=/app"}, withoutOwnHome([]string{"HOME=/app"}))
}
