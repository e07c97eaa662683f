package runtimetest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// An upload that is not complete changes nothing.
func brokenUpload(t *testing.T, c *container) {
	c.writeFile(t, "/data/upload/file", "old")
	broken := errors.New("the client is gone")
	body := io.MultiReader(strings.NewReader("new"), failingReader{broken})
	_, err := c.rt.WriteFile(t.Context(), c.id, ref("/data/upload/file"), 0o644, body)
	require.ErrorIs(t, err, broken)

	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	result := make(chan error)
	go func() { // ends with the context
		_, err := c.rt.WriteFile(ctx, c.id, ref("/data/upload/file"), 0o644, reader)
		result <- err
	}()
	_, err = writer.Write([]byte("new"))
	require.NoError(t, err)
	cancel()
	writer.CloseWithError(context.Canceled)
	require.ErrorIs(t, <-result, context.Canceled)
	testenv.AwaitTrue(t, "nothing is left of the upload", func() bool {
		found, err := c.rt.ListFiles(t.Context(), c.id, ref("/data/upload"), "", 0)
		return err == nil && len(found) == 1
	})
	require.Equal(t, "old", c.readFile(t, ref("/data/upload/file")))
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// The rights are those of the container's user.
func fileRights(t *testing.T, c *container) {
	if isUnsupported(t, c.Limitations.SingleUser, "to have files of another user") {
		return
	}
	with := c.suite.start(t, func(spec *runtime.Spec) { spec.User = "1234:4321" })
	root := func(args ...string) {
		cmd := with.command(args...)
		cmd.User, cmd.Workdir = "0", "/"
		result, err := with.exec(t, cmd)
		require.NoError(t, err)
		require.True(t, result.OK(), "%q: %+v", args, result)
	}
	root("write", with.path(t, "/tmp/secret"), "secret")
	root("chmod", with.path(t, "/tmp/secret"), "600")
	root("mkdir", with.path(t, "/tmp/closed"), "755")
	_, _, err := with.rt.ReadFile(t.Context(), with.id, ref("/tmp/secret"), 0, -1)
	requireFileError(t, runtime.FileDenied, err, "ReadFile")
	_, err = with.rt.WriteFile(t.Context(), with.id, ref("/tmp/closed/file"), 0o644, strings.NewReader("x"))
	requireFileError(t, runtime.FileDenied, err, "WriteFile")
	requireFileError(t, runtime.FileDenied, with.rt.RemoveFile(t.Context(), with.id, ref("/tmp/secret"), false), "RemoveFile")
	info, err := with.rt.StatFile(t.Context(), with.id, ref("/tmp/secret"))
	require.NoError(t, err)
	require.Equal(t, 0, info.UID)
}

// A tenant who stops the program harms only itself: the call ends with its context,
// and nothing is left.
func stoppedFileProgram(t *testing.T, c *container) {
	if isUnsupported(t, c.Limitations.NoProcesses || c.Limitations.NoKernel, "to run what reads its files") {
		return
	}
	name := newMarker()
	body := io.LimitReader(&counter{}, 16<<20)
	_, err := c.rt.WriteFile(t.Context(), c.id, ref("/data/"+name), 0o644, body)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, content, err := c.rt.ReadFile(ctx, c.id, ref("/data/"+name), 0, -1)
	require.NoError(t, err)
	defer content.Close()
	running := func() string { return c.mustExec(t, "own-ps", "hostler _file read") }
	var pid string
	testenv.AwaitTrue(t, "only the program runs that waits for its reader", func() bool { // an earlier one may still exit
		programs := running()
		pid, _, _ = strings.Cut(programs, " ")
		return strings.Count(programs, "\n") == 1
	})
	c.mustExec(t, "kill", pid, "STOP")
	time.AfterFunc(time.Second, cancel)
	_, err = io.Copy(io.Discard, content)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, content.Close())
	testenv.AwaitTrue(t, "the program has ended", func() bool { return running() == "" })
}

// A claim that has ended reads and writes nothing.
func fileFence(t *testing.T, c *container) {
	c.writeFile(t, "/data/fence", "old")
	require.NoError(t, c.rt.EndCommands(t.Context(), c.id, 7, 0))
	late := ref("/data/fence")
	_, _, err := c.rt.ReadFile(t.Context(), c.id, late, 0, -1)
	require.ErrorIs(t, err, runtime.ErrStaleFence)
	_, err = c.rt.StatFile(t.Context(), c.id, late)
	require.ErrorIs(t, err, runtime.ErrStaleFence)
	_, err = c.rt.WriteFile(t.Context(), c.id, late, 0o644, strings.NewReader("new"))
	require.ErrorIs(t, err, runtime.ErrStaleFence)
	require.ErrorIs(t, c.rt.RemoveFile(t.Context(), c.id, late, false), runtime.ErrStaleFence)
	late.Fence = 7
	require.Equal(t, "old", c.readFile(t, late))
}
