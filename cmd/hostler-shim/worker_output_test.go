package main

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// playedWorker is a worker of which a test plays the process.
type playedWorker struct {
	*workerProcess
	t      *testing.T
	socket *os.File
	result runtime.Result
	err    error
	ended  chan struct{} // closed when result and err are set
}

// playWorker returns a worker that runs a command.
func playWorker(t *testing.T) *playedWorker {
	t.Helper()
	ours, theirs, err := socketPair()
	require.NoError(t, err)
	p := &playedWorker{
		workerProcess: &workerProcess{socket: ours}, t: t, socket: os.NewFile(uintptr(theirs), "init"), ended: make(chan struct{}),
	}
	t.Cleanup(func() { ours.Close(); p.socket.Close(); <-p.ended })
	go func() { // ends with the command, or with the sockets
		defer close(p.ended)
		p.result, p.err = p.run(t.Context(), shim.Run{RunID: "r", Args: []string{"a"}, Timeout: time.Minute})
	}()
	p.read(shim.KindRequest)
	p.await(func() bool { p.askMu.Lock(); defer p.askMu.Unlock(); return p.answering })
	return p
}

func (p *playedWorker) read(kind shim.Kind) shim.Frame {
	p.t.Helper()
	f, err := shim.ReadFrame(p.socket, shim.MaxFrame)
	require.NoError(p.t, err)
	require.Equal(p.t, kind, f.Kind)
	return f
}

func (p *playedWorker) write(kind shim.Kind, message any) {
	p.t.Helper()
	require.NoError(p.t, shim.WriteFrame(p.socket, kind, message))
}

func (p *playedWorker) await(condition func() bool) {
	p.t.Helper()
	testenv.AwaitTrue(p.t, "the state of the worker", condition)
}

// longTimeout is for an answer that comes: a busy machine may take any time for it.
const longTimeout = time.Hour

func (p *playedWorker) isAsked() bool {
	p.askMu.Lock()
	defer p.askMu.Unlock()
	return p.question != nil
}

// Callers share a question to the worker, which is as good as before once it has
// answered.
func TestWorkerOutput(t *testing.T) {
	t.Parallel()
	p := playWorker(t)
	var callers errgroup.Group
	for range 5 {
		callers.Go(func() error {
			o, err := p.printed("r", longTimeout)
			if err == nil {
				require.Equal(t, "so far", o.Stdout.Head)
			}
			return err
		})
	}
	m, err := shim.Decode[workerOutput](p.read(kindOutput), kindOutput)
	require.NoError(t, err)
	require.Equal(t, workerOutput{RunID: "r"}, m)
	m.Stdout.Head = "so far"
	p.write(kindOutput, m)
	go func() { // later callers have questions of their own; ends with the socket
		for {
			if _, err := shim.ReadFrame(p.socket, shim.MaxFrame); err != nil || shim.WriteFrame(p.socket, kindOutput, m) != nil {
				return
			}
		}
	}()
	require.NoError(t, callers.Wait())
	p.write(shim.KindResponse, shim.Response{ID: 1, Result: &runtime.Result{ExitCode: 3}})
	<-p.ended
	require.NoError(t, p.err)
	require.Equal(t, 3, p.result.ExitCode)
	require.False(t, p.notReusable)
	_, err = p.printed("r", longTimeout)
	require.ErrorIs(t, err, runtime.ErrUnavailable, "nothing is asked of a worker that runs nothing")
}

// A worker that was asked, and has ended its command before it answered, runs no
// other one: its answer would be taken for the next one's. A worker that is stopped
// is asked once.
func TestWorkerOutputUnanswered(t *testing.T) {
	t.Parallel()
	p := playWorker(t)
	for range 2 {
		_, err := p.printed("r", outputTimeout)
		require.ErrorIs(t, err, runtime.ErrUnavailable)
	}
	p.read(kindOutput)
	p.write(shim.KindResponse, shim.Response{ID: 1, Result: &runtime.Result{}})
	<-p.ended
	require.NoError(t, p.err)
	require.True(t, p.notReusable)
	require.NoError(t, p.workerProcess.socket.Close())
	_, err := shim.ReadFrame(p.socket, shim.MaxFrame)
	require.ErrorIs(t, err, io.EOF, "no second question")
}

// The end of a command ends the wait for its output.
func TestWorkerOutputEnds(t *testing.T) {
	t.Parallel()
	p := playWorker(t)
	var caller errgroup.Group
	caller.Go(func() error {
		_, err := p.printed("r", longTimeout)
		return err
	})
	p.await(p.isAsked)
	p.write(shim.KindResponse, shim.Response{ID: 1, Result: &runtime.Result{}})
	require.NoError(t, caller.Wait(), "the outcome has the output")
}

// An answer to no question, or about another command, loses the worker.
func TestWorkerOutputUnasked(t *testing.T) {
	t.Parallel()
	p := playWorker(t)
	p.write(kindOutput, workerOutput{RunID: "r"})
	<-p.ended
	require.ErrorIs(t, p.err, runtime.ErrTainted)
	require.ErrorIs(t, p.err, shim.ErrProtocol, "at once, and not when its time has passed")

	p = playWorker(t)
	var caller errgroup.Group
	caller.Go(func() error {
		_, err := p.printed("r", longTimeout)
		return err
	})
	p.await(p.isAsked)
	p.write(kindOutput, workerOutput{RunID: "other"})
	<-p.ended
	require.ErrorIs(t, p.err, runtime.ErrTainted)
	require.ErrorIs(t, p.err, shim.ErrProtocol, "at once, and not when its time has passed")
	require.NoError(t, caller.Wait())
}

// A worker answers with the output of the command that it was asked for, and of no
// other one.
func TestWorkerAnswers(t *testing.T) {
	t.Parallel()
	ours, theirs, err := socketPair()
	require.NoError(t, err)
	w := &worker{socket: os.NewFile(uintptr(theirs), "init")}
	t.Cleanup(func() { ours.Close(); w.socket.Close() })
	j := newJob(shim.Run{RunID: "r"}, oomCounter{})
	for asked, want := range map[string]string{"r": "so far", "other": ""} {
		d := &drain{limit: newOutputLimit(0)}
		d.keep([]byte("so far"))
		j.setStreams(streams{out: d})
		require.NoError(t, shim.WriteFrame(ours, kindOutput, workerOutput{RunID: asked}))
		f, err := shim.ReadFrame(w.socket, shim.MaxFrame)
		require.NoError(t, err)
		require.NoError(t, w.answerOutput(j, f))
		f, err = shim.ReadFrame(ours, shim.MaxFrame)
		require.NoError(t, err)
		m, err := shim.Decode[workerOutput](f, kindOutput)
		require.NoError(t, err)
		require.Equal(t, asked, m.RunID)
		require.Equal(t, want, m.Stdout.Head)
	}
	require.Zero(t, (*drain)(nil).printed(), "it has not started")
}
