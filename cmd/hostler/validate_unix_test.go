//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// A pipe in a directory does not block the check of the other files. One that is
// an argument is read.
func TestValidatePipes(t *testing.T) {
	writeFiles(t, map[string]string{"a.yaml": "id: a\nimage: x\n", "sub/b.yaml": "id: b\nimage: x\n"})
	pipe, err := filepath.Abs("pipe")
	require.NoError(t, err)
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, name := range []string{"link.yaml", "link.md", "sub/link.yaml"} {
		require.NoError(t, os.Symlink(pipe, name))
	}
	for _, args := range [][]string{{"."}, {"--all"}, {"sub"}} {
		code, out := validateSoon(t, args...)
		require.Equal(t, exitFailure, code, out)
		require.Contains(t, out, "link.yaml: open workload file: ")
		require.Contains(t, out, "not a regular file")
	}
	go func() { _ = os.WriteFile("pipe", []byte("id: c\nimage: x\nportz: []\n"), 0) }()
	_, out := validateSoon(t, "pipe")
	require.Contains(t, out, "pipe:3:1: portz: ")
}

// validateSoon runs validate, which does not block.
func validateSoon(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		code, out, _ = hostler(t, "", append([]string{"validate"}, args...)...)
	}()
	testenv.Await(t, done, "validate returns")
	return code, out
}
