package transport_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/transport"
)

// A file that becomes a pipe, which nothing writes to, neither blocks the server nor
// changes what it uses.
func TestPipeInPlaceOfAFile(t *testing.T) {
	ca := newAuthority(t, "clients", hour())
	s := startTLS(t, ca)
	for _, name := range []string{"tls.crt", "ca.crt"} {
		s.write(ca)
		s.tls.Reload()
		path := s.files.path(name)
		require.NoError(t, os.Remove(path))
		require.NoError(t, syscall.Mkfifo(path, 0o600))
		done := make(chan struct{})
		go func() { // it ends when the pipe has a writer, at the latest
			defer close(done)
			s.tls.Reload()
		}()
		testenv.Await(t, done, "the read of "+name)
		require.Len(t, s.tls.Problems(), 1)
		text, _, err := s.get(s.newClient(true), "/")
		require.NoError(t, err)
		require.Equal(t, "none 0", text)
		require.NoError(t, os.Remove(path))
	}
	_, err := transport.Load(transport.Files{Cert: "/dev/zero", Key: "/dev/zero"}, nil)
	require.ErrorContains(t, err, "not a regular file")
}

// A directory of another user is refused: they could put a socket of their own in
// place of the server's, to which clients would send their keys.
func TestDirectoryOfAnotherUser(t *testing.T) {
	dir := newDirectory(t)
	if err := os.Chown(dir, 12345, 12345); err != nil {
		testenv.Skip(t, "root", "a directory cannot be given away: %v", err)
	}
	l, err := transport.ListenUnix(filepath.Join(dir, "api.sock"))
	if err == nil {
		require.NoError(t, l.Close())
	}
	require.ErrorContains(t, err, "another user")
	_, err = os.Lstat(filepath.Join(dir, "api.sock"))
	require.True(t, errors.Is(err, fs.ErrNotExist))
}
