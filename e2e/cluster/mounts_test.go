package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Mount points are parsed correctly with any characters.
func TestParseMounts(t *testing.T) {
	require.Equal(t, []mount{
		{point: "/tmp/a b", kind: "tmpfs"},
		{point: `/tmp/back\slash`, kind: "overlay"},
		{point: "/sys/fs/cgroup", kind: "cgroup2"},
	}, parseMounts(`none /tmp/a\040b tmpfs rw 0 0
overlay /tmp/back\134slash overlay rw,lowerdir=/x 0 0
broken
cgroup2 /sys/fs/cgroup cgroup2 rw 0 0
`))
}
