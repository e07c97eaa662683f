package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// An unfinished scan returns an error and never a partial result. It stops when
// its session ends.
func TestLastModified(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "below"), 0o700))
	deadline, cancelled, open := time.Now().Add(time.Hour), make(chan struct{}), make(chan struct{})
	close(cancelled)
	at, err := lastModified(dir, deadline, open)
	require.NoError(t, err)
	require.False(t, at.IsZero())
	_, err = lastModified(dir, time.Now().Add(-time.Second), open)
	require.ErrorIs(t, err, runtime.ErrScanIncomplete)
	_, err = lastModified(dir, deadline, cancelled)
	require.ErrorIs(t, err, runtime.ErrScanIncomplete)
	at, err = lastModified(filepath.Join(dir, "nowhere"), deadline, open)
	require.NoError(t, err)
	require.True(t, at.IsZero())
}
