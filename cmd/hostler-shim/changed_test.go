package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// A look for changes that was not finished says so, and never what it has found
// up to then; it is not gone on with for nobody.
func TestLastChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "below"), 0o700))
	soon, over, open := time.Now().Add(time.Hour), make(chan struct{}), make(chan struct{})
	close(over)
	at, err := lastChange(dir, soon, open)
	require.NoError(t, err)
	require.False(t, at.IsZero())
	_, err = lastChange(dir, time.Now().Add(-time.Second), open)
	require.ErrorIs(t, err, runtime.ErrUnfinished)
	_, err = lastChange(dir, soon, over)
	require.ErrorIs(t, err, runtime.ErrUnfinished)
	at, err = lastChange(filepath.Join(dir, "nowhere"), soon, open)
	require.NoError(t, err)
	require.True(t, at.IsZero())
}
