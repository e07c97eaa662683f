package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseMount(t *testing.T) {
	t.Parallel()
	cases := map[string]mount{
		"36 35 98:0 / /data rw,noatime master:1 - ext4 /dev/sda rw,errors=continue":     {"/data", "ext4", true},
		"36 35 98:0 / /data ro,noatime - ext4 /dev/sda rw":                              {"/data", "ext4", false},
		"36 35 98:0 / /data rw - tmpfs tmpfs ro,size=1k":                                {"/data", "tmpfs", false},
		`36 35 98:0 / /a\040b\134c rw shared:2 master:1 - tmpfs tmpfs rw`:               {`/a b\c`, "tmpfs", true},
		"723 716 0:50 / /dev/mqueue rw,nosuid,nodev,noexec,relatime - mqueue mqueue rw": {"/dev/mqueue", "mqueue", true},
	}
	for line, want := range cases {
		got, ok := parseMount(line)
		require.True(t, ok, line)
		require.Equal(t, want, got)
	}
	for _, bad := range []string{"", "1 2 3", "36 35 98:0 / /data rw ext4 /dev/sda rw"} {
		_, ok := parseMount(bad)
		require.False(t, ok, bad)
	}
}

func TestIsUnder(t *testing.T) {
	t.Parallel()
	require.True(t, isUnder("/data", "/data"))
	require.True(t, isUnder("/data/a", "/data"))
	require.True(t, isUnder("/a", "/"))
	require.False(t, isUnder("/database", "/data"))
}

// A writable mount with files is emptied. One with kernel objects is never
// verified as clean. The mounts that every engine creates are neither.
func TestMountContents(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ files, objects bool }{
		"/data ext4":             {files: true},
		"/dev/shm tmpfs":         {files: true},
		"/dev/mqueue mqueue":     {files: true},
		"/hugepages hugetlbfs":   {files: true},
		"/ overlay":              {},
		"/.hostler tmpfs":        {},
		"/proc proc":             {},
		"/proc/acpi tmpfs":       {},
		"/dev/pts devpts":        {},
		"/sys sysfs":             {},
		"/sys/fs/cgroup cgroup2": {objects: true},
		"/sys/fs/bpf bpf":        {objects: true},
		"/config configfs":       {objects: true},
		"/trace tracefs":         {objects: true},
	}
	for text, want := range cases {
		path, kind, _ := strings.Cut(text, " ")
		m := mount{path: path, fsType: kind, writable: true}
		require.Equal(t, want.files, m.holdsFiles(), text)
		require.Equal(t, want.objects, m.holdsKernelObjects(), text)
		m.writable = false
		require.False(t, m.holdsFiles() || m.holdsKernelObjects(), text)
	}
}
