package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The processes of a container are those that descend from its init, also where it
// shares process ids with others. A parent that is not listed has exited.
func TestDescendants(t *testing.T) {
	all := []process{{pid: 1}, {pid: 10, parent: 1}, {pid: 11, parent: 10}, {pid: 12, parent: 11}, {pid: 20, parent: 1}, {pid: 21, parent: 20}, {pid: 31, parent: 30}}
	require.Equal(t, []process{{pid: 10, parent: 1}, {pid: 11, parent: 10}, {pid: 12, parent: 11}}, descendants(all, 10))
	require.Len(t, descendants(all, 1), 6)
	require.Empty(t, descendants(all, 99))
}
