package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The garbage collector's limit is nine tenths of the container's memory, unless there
// is none or the operator has set one.
func TestLimitMemory(t *testing.T) {
	dir := t.TempDir()
	var got int64
	set := func(n int64) int64 { got = n; return 0 }
	require.Zero(t, limitMemory(dir, set), "no container")
	for text, want := range map[string]int64{"536870912\n": 483183819, "max\n": 0, "": 0, "-1": 0} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "memory.max"), []byte(text), 0o600))
		got = 0
		limit := limitMemory(dir, set)
		require.Equal(t, limit, got, text)
		require.InDelta(t, want, got, 10, text)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "memory.max"), []byte("1000"), 0o600))
	t.Setenv("GOMEMLIMIT", "1GiB")
	require.Zero(t, limitMemory(dir, set))
}
