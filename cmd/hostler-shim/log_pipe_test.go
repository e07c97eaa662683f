package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// All output arrives in order, and the pipe ends with the last writer.
func TestLogPipe(t *testing.T) {
	t.Parallel()
	engine, to, err := os.Pipe()
	require.NoError(t, err)
	o, end, err := newLogPipe(int(to.Fd()))
	require.NoError(t, err)
	want := bytes.Repeat([]byte("what it prints\n"), 50_000)
	go func() { // ends when all is read
		_ = writeAll(end, want)
		unix.Close(end)
		<-o.done
		to.Close()
	}()
	got, err := io.ReadAll(engine)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
}

// At the end of the container all output arrives, even if a process could still
// write.
func TestLogPipesFinish(t *testing.T) {
	t.Parallel()
	engine, to, err := os.Pipe()
	require.NoError(t, err)
	o, end, err := newLogPipe(int(to.Fd()))
	require.NoError(t, err)
	defer unix.Close(end)
	all := logPipes{pipes: []*logPipe{o}}
	require.NoError(t, writeAll(end, []byte("last output")))
	all.finish()
	<-o.done
	require.NoError(t, to.Close())
	got, err := io.ReadAll(engine)
	require.NoError(t, err)
	require.Equal(t, "last output", string(got))
	all.finish() // again, when it is done
}

// A process cannot change the engine's pipe through its own: the engine's pipe
// keeps its size and its flags.
func TestLogPipeIsPrivate(t *testing.T) {
	t.Parallel()
	engine, to, err := os.Pipe()
	require.NoError(t, err)
	defer engine.Close()
	defer to.Close()
	size := func(fd int) int {
		n, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
		require.NoError(t, err)
		return n
	}
	before := size(int(to.Fd()))
	for range 2 {
		o, end, err := newLogPipe(int(to.Fd()))
		require.NoError(t, err)
		flags, err := unix.FcntlInt(uintptr(end), unix.F_GETFL, 0)
		require.NoError(t, err)
		require.Equal(t, unix.O_WRONLY, flags, "the program gets an ordinary pipe")
		require.NotEqual(t, 4096, size(end))
		_, err = unix.FcntlInt(uintptr(end), unix.F_SETPIPE_SZ, 4096)
		require.NoError(t, err)
		require.NoError(t, unix.SetNonblock(end, true))
		require.NoError(t, unix.Close(end))
		<-o.done
		require.Equal(t, before, size(int(to.Fd())))
	}
}

// An engine that does not read delays the next main process, but not
// indefinitely.
func TestLogPipeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := logPipes{pipes: []*logPipe{{done: make(chan struct{})}}}
		start := time.Now()
		require.ErrorIs(t, stuck.wait(), runtime.ErrUnavailable)
		require.Equal(t, logPipeTimeout, time.Since(start))
	})
}

// The end of a log follows all earlier output, also that of earlier main
// processes, and is on a line of its own.
func TestLogEndLine(t *testing.T) {
	t.Parallel()
	engine, to, err := os.Pipe()
	require.NoError(t, err)
	defer engine.Close()
	old, end, err := newLogPipe(int(to.Fd()))
	require.NoError(t, err)
	all := logPipes{pipes: []*logPipe{old}}
	all.pipes = append(all.unfinished(), &logPipe{done: make(chan struct{})})
	require.Len(t, all.pipes, 2, "the old one is not done")
	close(all.pipes[1].done)
	ended := make(chan error, 1)
	go func() {
		ended <- all.writeEndLine("the end", int(to.Fd()))
		to.Close()
	}()
	want := bytes.Repeat([]byte("x\n"), 100_000)
	go func() { // ends when all is read
		_ = writeAll(end, append(want, "no newline"...))
		unix.Close(end)
	}()
	got, err := io.ReadAll(engine)
	require.NoError(t, err)
	require.NoError(t, <-ended)
	require.Equal(t, string(want)+"no newline\nthe end\n", string(got))
	require.Empty(t, all.unfinished())
}

// If the engine does not read, the end of a log is an error and does not block.
func TestLogEndLineTimeout(t *testing.T) {
	t.Parallel()
	engine, to, err := os.Pipe()
	require.NoError(t, err)
	defer engine.Close()
	defer to.Close()
	_, err = to.WriteString("words")
	require.NoError(t, err)
	require.Equal(t, 5, unreadBytes(int(to.Fd())))
	fd := int(to.Fd())
	synctest.Test(t, func(t *testing.T) {
		var all logPipes
		require.ErrorIs(t, all.writeEndLine("the end", fd), runtime.ErrUnavailable)
		stuck := logPipes{pipes: []*logPipe{{done: make(chan struct{})}}}
		require.ErrorIs(t, stuck.writeEndLine("the end", fd), runtime.ErrUnavailable)
	})
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, file.Truncate(10))
	require.Zero(t, unreadBytes(int(file.Fd())), "a file has no unread bytes")
}
