//go:build unix

package regular

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// What is not a regular file is an error at once, also behind a link, and so is a
// file that is too large.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.NoError(t, os.Symlink("pipe", filepath.Join(dir, "link")))
	for name, text := range map[string]string{"text": "12345678", "large": "123456789"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	inDir := func(name string, flag int, perm os.FileMode) (*os.File, error) {
		return os.OpenFile(filepath.Join(dir, name), flag, perm)
	}
	for _, open := range []Opener{root.OpenFile, inDir} {
		text, err := within(t, open, "text")
		require.NoError(t, err)
		require.Equal(t, "12345678", text)
		_, err = within(t, open, "large")
		require.ErrorContains(t, err, "large is larger than 8 bytes")
		_, err = within(t, open, "none")
		require.ErrorIs(t, err, fs.ErrNotExist)
		for _, name := range []string{"pipe", "link", "."} {
			_, err = within(t, open, name)
			require.ErrorContains(t, err, "not a regular file", name)
		}
	}
	text, err := within(t, os.OpenFile, "/dev/zero")
	require.ErrorContains(t, err, "not a regular file")
	require.Empty(t, text)
}

// within reads a file of at most 8 bytes, which does not block.
func within(t *testing.T, open Opener, name string) (string, error) {
	t.Helper()
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := Read(open, name, 8)
		done <- result{data, err}
	}()
	r := testenv.Await(t, done, "the end of the read of "+name)
	return strings.TrimSpace(string(r.data)), r.err
}
