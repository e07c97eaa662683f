package fake_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

func fileRef(path string, within ...string) runtime.FileRef {
	return runtime.FileRef{Path: path, Within: within, Fence: claimFence}
}

func requireFileError(t *testing.T, want runtime.FileReason, err error) {
	t.Helper()
	e, ok := errors.AsType[*runtime.FileError](err)
	require.True(t, ok, "got %v", err)
	require.Equal(t, want, e.Reason, "%v", err)
}

// startUserContainer starts a container that runs as a user.
func startUserContainer(t *testing.T, rt *fake.Runtime) string {
	t.Helper()
	spec := newSpec()
	spec.User = "app"
	require.NoError(t, rt.Create(t.Context(), spec))
	require.NoError(t, rt.Start(t.Context(), spec.ID, 1))
	return spec.ID
}

// A file is written, described, listed, read in part and removed.
func TestTenantFiles(t *testing.T) {
	rt := fake.New()
	id := startUserContainer(t, rt)
	ctx := t.Context()
	info, err := rt.WriteFile(ctx, id, fileRef("/data/new/dir/a"), 0o640, strings.NewReader("content"))
	require.NoError(t, err)
	require.Equal(t, runtime.TypeFile, info.Type)
	require.Equal(t, int64(7), info.Size)
	require.Equal(t, 1000, info.UID)
	_, err = rt.WriteFile(ctx, id, fileRef("/data/new/dir/b"), 0o640, strings.NewReader(""))
	require.NoError(t, err)
	list, err := rt.ListFiles(ctx, id, fileRef("/data/new/dir"), "", 1)
	require.NoError(t, err)
	require.Equal(t, "a", list[0].Name)
	list, err = rt.ListFiles(ctx, id, fileRef("/data/new/dir"), "a", 0)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "b", list[0].Name)

	_, content, err := rt.ReadFile(ctx, id, fileRef("/data/new/dir/a"), 3, 2)
	require.NoError(t, err)
	data, err := io.ReadAll(content)
	require.NoError(t, err)
	require.Equal(t, "te", string(data))

	archive, err := rt.ReadTree(ctx, id, fileRef("/data/new"))
	require.NoError(t, err)
	require.NoError(t, rt.WriteTree(ctx, id, fileRef("/data/copy/of"), archive))
	require.Equal(t, "content", mustExec(t, rt, id, "read", "/data/copy/of/dir/a"))

	requireFileError(t, runtime.FileNotEmpty, rt.RemoveFile(ctx, id, fileRef("/data/new"), false))
	require.NoError(t, rt.RemoveFile(ctx, id, fileRef("/data/new"), true))
	_, err = rt.StatFile(ctx, id, fileRef("/data/new"))
	require.ErrorIs(t, err, runtime.ErrFileNotFound)
}

// failingReader returns an error after some content.
type failingReader struct{ io.Reader }

func (r failingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrClosedPipe
	}
	return n, err
}

// A write that is interrupted changes nothing, and one to a link replaces it.
func TestTenantFileIsReplaced(t *testing.T) {
	rt := fake.New()
	id := startUserContainer(t, rt)
	mustExec(t, rt, id, "write", "/data/target", "old")
	mustExec(t, rt, id, "link", "target", "/data/link")
	_, err := rt.WriteFile(t.Context(), id, fileRef("/data/target"), 0o600, failingReader{strings.NewReader("half")})
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.Equal(t, "old", mustExec(t, rt, id, "read", "/data/target"))
	_, err = rt.WriteFile(t.Context(), id, fileRef("/data/link"), 0o600, strings.NewReader("new"))
	require.NoError(t, err)
	require.Equal(t, "old", mustExec(t, rt, id, "read", "/data/target"))
	require.Equal(t, "new", mustExec(t, rt, id, "read", "/data/link"))
}

// No path leads out of the directories that are allowed, whatever links it has.
func TestTenantFilesStayWithin(t *testing.T) {
	rt := fake.New()
	id := startUserContainer(t, rt)
	mustExec(t, rt, id, "mkdir", "/data/in", "755")
	mustExec(t, rt, id, "mkdir", "/data/out", "755")
	mustExec(t, rt, id, "write", "/data/out/secret", "s")
	mustExec(t, rt, id, "link", "../out", "/data/in/up")
	mustExec(t, rt, id, "link", "/data/out/secret", "/data/in/file")
	mustExec(t, rt, id, "link", "/data/in", "/data/out/back")
	ctx, within := t.Context(), "/data/in"
	for _, path := range []string{
		"/data/in/up/secret", "/data/in/file", "/data/in/../out/secret", "/data/out/secret", "/data/inside",
		"/data/in/up/missing", "/data/in/up/missing/more", "/", "/data", "/etc/passwd", "/etc/passwd/x",
	} {
		_, _, err := rt.ReadFile(ctx, id, fileRef(path, within), 0, -1)
		requireFileError(t, runtime.FileOutside, err)
		_, err = rt.ReadTree(ctx, id, fileRef(path, within))
		requireFileError(t, runtime.FileOutside, err)
	}
	for _, path := range []string{"/data/in/up/new", "/data/in/up/a/b", "/data/in/x/../../out/new", "/data/in/up"} {
		_, err := rt.WriteFile(ctx, id, fileRef(path, within), 0o600, strings.NewReader("x"))
		if path == "/data/in/up" { // the link itself is within
			require.NoError(t, err)
			continue
		}
		requireFileError(t, runtime.FileOutside, err)
	}
	requireFileError(t, runtime.FileOutside, rt.RemoveFile(ctx, id, fileRef("/data/out/secret", within), false))
	requireFileError(t, runtime.FileOutside, rt.WriteTree(ctx, id, fileRef("/data/out/new", within), strings.NewReader("")))
	require.NoError(t, rt.RemoveFile(ctx, id, fileRef("/data/in/file", within), false))
	require.Equal(t, "s", mustExec(t, rt, id, "read", "/data/out/secret"))
	_, _, err := rt.ReadFile(ctx, id, fileRef("/data/out/back/up", within), 0, -1)
	require.NoError(t, err, "it leads into the directory")
}

// Each reason has its error.
func TestTenantFileErrors(t *testing.T) {
	rt := fake.New()
	id := startUserContainer(t, rt)
	mustExec(t, rt, id, "write", "/data/file", "x")
	mustExec(t, rt, id, "mkdir", "/data/closed", "0")
	mustExec(t, rt, id, "link", "loop", "/data/loop")
	ctx := t.Context()
	read := func(path string, offset int64) error {
		_, _, err := rt.ReadFile(ctx, id, fileRef(path), offset, -1)
		return err
	}
	for path, want := range map[string]runtime.FileReason{
		"/data/none": runtime.FileNotFound, "/data": runtime.FileNotRegular, "/data/file/x": runtime.FileNotDir,
		"/data/closed/x": runtime.FileDenied, "/data/loop": runtime.FileInvalid, "data/file": runtime.FileInvalid,
		"/data/\x00": runtime.FileInvalid, "/" + strings.Repeat("x", 256): runtime.FileInvalid,
	} {
		requireFileError(t, want, read(path, 0))
	}
	requireFileError(t, runtime.FileInvalid, read("/data/file", 2))
	require.NoError(t, read("/data/file", 1))
	_, err := rt.WriteFile(ctx, id, fileRef("/etc/new"), 0o600, strings.NewReader("x"))
	requireFileError(t, runtime.FileDenied, err)
	require.NoError(t, rt.EndCommands(ctx, id, claimFence+1, 0))
	require.ErrorIs(t, read("/data/file", 0), runtime.ErrStaleFence)
	rt.Kill(id)
	require.ErrorIs(t, read("/data/file", 0), runtime.ErrNotRunning)
}
