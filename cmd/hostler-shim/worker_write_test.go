package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/shim"
)

// A worker that outlives init for a moment adds nothing to what the main process
// has printed: both have the same log.
func TestWorkerAfterInit(t *testing.T) {
	init, socket, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, init.Close())
	defer socket.Close()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer log.Close()
	stderr := os.Stderr
	defer func() { os.Stderr = stderr }()
	os.Stderr = log
	(&worker{socket: socket}).write(shim.KindResponse, shim.Response{ID: 1})
	text, err := os.ReadFile(log.Name())
	require.NoError(t, err)
	require.Empty(t, string(text))
}
