package backend

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/runtimetest"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/stretchr/testify/require"
)

// localFiles returns containers whose files are those of a directory, and where the
// program is a process of this machine.
func localFiles(t *testing.T) (*localCommands, Containers, string) {
	t.Helper()
	dir, root := t.TempDir(), t.TempDir()
	program := filepath.Join(dir, shim.AskBinaryName)
	require.NoError(t, os.Symlink(runtimetest.BuildShim(t), program))
	l := &localCommands{streams: map[string]*localStream{}, grace: time.Minute}
	l.loseOutput.Store(-1)
	l.loseInput.Store(-1)
	t.Cleanup(func() { require.Zero(t, l.running(), "every program has ended") })
	return l, Containers{
		programs: l, options: Options{FileProgram: func(string) (string, string) { return program, root }},
		fileSilence: time.Minute,
	}, root
}

func at(path string) runtime.FileRef { return runtime.FileRef{Path: path, Fence: 1} }

// pattern is an endless content, and counts what was read of it.
type pattern struct {
	left int64
	sum  hash.Hash
}

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), p.left))
	for i := range b[:n] {
		b[i] = byte(p.left - int64(i))
	}
	p.left -= int64(n)
	p.sum.Write(b[:n])
	return n, nil
}

// A large file comes back as it was sent, and neither direction holds more than a
// piece of it.
func TestTenantFileRoundTrip(t *testing.T) {
	t.Parallel()
	l, c, _ := localFiles(t)
	const size = 64<<20 + 17
	sent := &pattern{left: size, sum: sha256.New()}
	wrote, err := c.WriteFile(t.Context(), "c", at("/a/big"), 0o640, sent)
	require.NoError(t, err)
	info, content, err := c.ReadFile(t.Context(), "c", at("/a/big"), 0, -1)
	require.NoError(t, err)
	require.Equal(t, wrote, info)
	require.Equal(t, int64(size), info.Size)
	require.Equal(t, "big", info.Name)
	got := sha256.New()
	n, err := io.Copy(got, content)
	require.NoError(t, err)
	require.Equal(t, int64(size), n)
	require.Equal(t, sent.sum.Sum(nil), got.Sum(nil))
	require.NoError(t, content.Close())
	require.LessOrEqual(t, l.unacknowledged.Load(), int64(2*shim.MaxData))

	_, content, err = c.ReadFile(t.Context(), "c", at("/a/big"), size-3, 100)
	require.NoError(t, err)
	text, err := io.ReadAll(content)
	require.NoError(t, err)
	require.Len(t, text, 3)
	stat, err := c.StatFile(t.Context(), "c", at("/a/big"))
	require.NoError(t, err)
	require.Equal(t, info, stat)
}

// A reader that is closed early, or whose call is canceled, leaves no program.
func TestTenantFileClosedEarly(t *testing.T) {
	t.Parallel()
	l, c, root := localFiles(t)
	require.NoError(t, os.WriteFile(root+"/file", make([]byte, 8<<20), 0o644))
	ctx, cancel := context.WithCancel(t.Context())
	_, content, err := c.ReadFile(ctx, "c", at("/file"), 0, -1)
	require.NoError(t, err)
	_, err = content.Read(make([]byte, 10))
	require.NoError(t, err)
	require.Equal(t, 1, l.running())
	cancel()
	_, err = io.Copy(io.Discard, content)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, content.Close())
	require.Zero(t, l.running())

	archive, err := c.ReadTree(t.Context(), "c", at("/"))
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	require.Zero(t, l.running())
	_, err = archive.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF)
}

// The errors of the program are those of the contract, with the path.
func TestTenantFileErrors(t *testing.T) {
	t.Parallel()
	l, c, root := localFiles(t)
	require.NoError(t, os.Mkdir(root+"/dir", 0o755))
	require.NoError(t, os.WriteFile(root+"/dir/file", []byte("text"), 0o644))
	ctx := t.Context()
	_, err := c.StatFile(ctx, "c", at("/none"))
	require.ErrorIs(t, err, runtime.ErrFileNotFound)
	_, _, err = c.ReadFile(ctx, "c", at("/dir"), 0, -1)
	requireReason(t, runtime.FileNotRegular, err)
	_, _, err = c.ReadFile(ctx, "c", at("/dir/file"), 5, -1)
	requireReason(t, runtime.FileInvalid, err)
	requireReason(t, runtime.FileNotEmpty, c.RemoveFile(ctx, "c", at("/dir"), false))
	_, err = c.ListFiles(ctx, "c", at("/dir/file"), "", 0)
	requireReason(t, runtime.FileNotDir, err)
	_, err = c.ReadTree(ctx, "c", at("/none"))
	requireReason(t, runtime.FileNotFound, err)
	_, err = c.WriteFile(ctx, "c", at("/dir"), 0o644, strings.NewReader(strings.Repeat("x", 1<<20)))
	requireReason(t, runtime.FileNotRegular, err)
	require.ErrorIs(t, c.WriteTree(ctx, "c", at("/new"), strings.NewReader("not an archive")), runtime.ErrBadArchive)
	outside := at("/dir/file")
	outside.Within = []string{"/other", "/di"}
	_, err = c.StatFile(ctx, "c", outside)
	requireReason(t, runtime.FileOutside, err)

	before := l.opened.Load()
	for _, path := range []string{"", "relative", "/nul\x00", "/" + strings.Repeat("x", 4096)} {
		_, err = c.StatFile(ctx, "c", at(path))
		requireReason(t, runtime.FileInvalid, err)
		outside.Within = []string{path}
		_, err = c.StatFile(ctx, "c", outside)
		requireReason(t, runtime.FileInvalid, err)
	}
	outside.Within = make([]string, maxWithin+1)
	_, err = c.StatFile(ctx, "c", outside)
	requireReason(t, runtime.FileInvalid, err)
	require.Equal(t, before, l.opened.Load(), "nothing was started")
}

func requireReason(t *testing.T, want runtime.FileReason, err error) {
	t.Helper()
	var failure *runtime.FileError
	require.ErrorAs(t, err, &failure)
	require.Equal(t, want, failure.Reason, "%v", err)
}

// What changes nothing is tried a second time when the connection is lost. A body
// that was consumed is not.
func TestTenantFileLostConnection(t *testing.T) {
	t.Parallel()
	l, c, root := localFiles(t)
	require.NoError(t, os.WriteFile(root+"/file", make([]byte, 4<<20), 0o644))
	l.loseOutput.Store(0)
	_, err := c.StatFile(t.Context(), "c", at("/file"))
	require.NoError(t, err)
	require.Equal(t, int64(2), l.opened.Load())

	l.loseOutput.Store(1 << 20)
	_, content, err := c.ReadFile(t.Context(), "c", at("/file"), 0, -1)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, content)
	require.ErrorIs(t, err, runtime.ErrUnavailable)
	require.NoError(t, content.Close())

	opened := l.opened.Load()
	l.loseInput.Store(1 << 20)
	_, err = c.WriteFile(t.Context(), "c", at("/file"), 0o644, io.LimitReader(zeros{}, 2<<20))
	require.ErrorIs(t, err, runtime.ErrUnavailable)
	require.Equal(t, opened+1, l.opened.Load())
	requireOldFile(t, root, 4<<20)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// requireOldFile checks that an upload has replaced nothing and left nothing.
func requireOldFile(t *testing.T, root string, size int64) {
	t.Helper()
	info, err := os.Stat(root + "/file")
	require.NoError(t, err)
	require.Equal(t, size, info.Size())
	names, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Len(t, names, 1)
}

// A body that ends with an error, or whose call is canceled, keeps the old file.
func TestTenantFileBrokenBody(t *testing.T) {
	t.Parallel()
	_, c, root := localFiles(t)
	require.NoError(t, os.WriteFile(root+"/file", []byte("old"), 0o644))
	broken := errors.New("the client is gone")
	body := io.MultiReader(strings.NewReader("new"), errorReader{broken})
	_, err := c.WriteFile(t.Context(), "c", at("/file"), 0o644, body)
	require.ErrorIs(t, err, broken)
	requireOldFile(t, root, 3)

	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	result := make(chan error)
	go func() { // ends with the context
		_, err := c.WriteFile(ctx, "c", at("/file"), 0o644, reader)
		result <- err
	}()
	_, err = writer.Write([]byte("new"))
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-result, context.Canceled)
	writer.Close()
	requireOldFile(t, root, 3)
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }
