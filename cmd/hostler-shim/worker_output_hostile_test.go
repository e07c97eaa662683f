package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// supervised returns a supervisor with a run that the worker runs, and an end of it.
func (p *playedWorker) supervised() (s *supervisor, r *run, end func(runtime.Result)) {
	s = &supervisor{runs: newRuns()}
	r, _ = s.runs.getOrCreate("r", func() {})
	s.runs.setWorker(r, p.workerProcess)
	return s, r, func(result runtime.Result) {
		s.runs.setWorker(r, nil)
		s.runs.finish(r, shim.Response{Result: &result})
	}
}

// A run that ends while it is asked for its output has that of its outcome: it never
// has less than before.
func TestOutputAtEnd(t *testing.T) {
	t.Parallel()
	p := playWorker(t)
	s, r, end := p.supervised()
	var caller errgroup.Group
	caller.Go(func() error {
		result, err := s.printed(r, longTimeout)
		if err == nil {
			require.Equal(t, "all of it", result.Stdout.Head)
		}
		return err
	})
	p.await(p.isAsked)
	p.write(shim.KindResponse, shim.Response{ID: 1, Result: &runtime.Result{}})
	<-p.ended
	time.AfterFunc(20*time.Millisecond, func() { end(runtime.Result{Stdout: runtime.Output{Head: "all of it"}}) })
	require.NoError(t, caller.Wait())

	ending, _ := s.runs.getOrCreate("ending", func() {})
	s.runs.setWorker(ending, nil)
	_, err := s.printed(ending, outputTimeout)
	require.ErrorIs(t, err, runtime.ErrUnavailable, "it has none yet, which is not the same as an empty one")

	queued, _ := s.runs.getOrCreate("queued", func() {})
	result, err := s.printed(queued, outputTimeout)
	require.NoError(t, err)
	require.Zero(t, result)
}

// A worker that is stopped, and whose socket is full, costs who asks a bound, and its
// command ends as if it were not asked.
func TestOutputOfStoppedWorker(t *testing.T) {
	t.Parallel()
	p := playWorker(t)
	fillSocket(t, p.workerProcess.socket)
	var callers errgroup.Group
	for range 5 {
		callers.Go(func() error {
			_, err := p.printed("r", outputTimeout)
			return err
		})
	}
	require.ErrorIs(t, callers.Wait(), runtime.ErrUnavailable)
	p.write(shim.KindResponse, shim.Response{ID: 1, Result: &runtime.Result{ExitCode: 3}})
	<-p.ended
	require.NoError(t, p.err)
	require.Equal(t, 3, p.result.ExitCode)
	require.True(t, p.notReusable)
}

// fillSocket writes to a socket until it takes no more.
func fillSocket(t *testing.T, socket *os.File) {
	t.Helper()
	raw, err := socket.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Write(func(fd uintptr) bool {
		for err == nil {
			_, err = unix.Write(int(fd), make([]byte, 64))
		}
		return true
	}))
	require.ErrorIs(t, err, unix.EAGAIN)
}

// The largest output, of characters that JSON makes six times as long, is not larger
// than a frame.
func TestLargestOutputFits(t *testing.T) {
	t.Parallel()
	var d drain
	d.limit = newOutputLimit(0)
	text := make([]byte, 3*maxDrain)
	for i := range text {
		text[i] = 1
	}
	d.keep(text)
	o := workerOutput{RunID: "r", Stdout: d.printed(), Stderr: d.printed()}
	var size countingWriter
	require.NoError(t, shim.WriteFrame(&size, kindOutput, o))
	require.Greater(t, int(size), 6*(runtime.OutputHead+runtime.OutputTail))
}

type countingWriter int

func (w *countingWriter) Write(p []byte) (int, error) {
	*w += countingWriter(len(p))
	return len(p), nil
}
