//go:build unix

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Only a server whose process has ended, on this host, is said to be dead.
func TestPredecessor(t *testing.T) {
	data := t.TempDir()
	find := func(host string) (predecessor, string) {
		p, id, err := findPredecessor(data, host)
		require.NoError(t, err)
		return p, id
	}
	first, id := find("here")
	require.Empty(t, id)
	require.NoError(t, first.become("a-long-id", "here"))
	second, id := find("here")
	require.Empty(t, id, "it lives")
	require.NoError(t, second.become("two", "here"), "and stays the one that is found")
	require.NoError(t, first.file.Close())

	third, id := find("elsewhere")
	require.Empty(t, id, "the directory was copied")
	require.NoError(t, third.file.Close())
	fourth, id := find("here")
	require.Equal(t, "a-long-id", id)
	require.NoError(t, fourth.become("b", "here"))
	require.NoError(t, fourth.file.Close())
	_, id = find("here")
	require.Equal(t, "b", id)
}
