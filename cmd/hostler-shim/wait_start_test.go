package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// startInit starts init for a container in a directory. With a fence there was an
// earlier init, which has exited with code 7. It returns a session, and a channel
// that receives how init exits.
func startInit(t *testing.T, fence string) (*shim.Session, <-chan error) {
	t.Helper()
	return startInitIn(t, t.TempDir(), fence)
}

// startInitIn is startInit with the directory, in which init has the socket sock.
func startInitIn(t *testing.T, dir, fence string) (*shim.Session, <-chan error) {
	t.Helper()
	if fence != "" {
		require.NoError(t, os.WriteFile(dir+"/fence", []byte(fence), 0o600))
		require.NoError(t, writeExitFile(dir+"/exit", 7))
	}
	secret := []byte("secret")
	config, err := shim.Config{
		HostProcess: true, Args: []string{"sleep", "60"}, Root: dir, Workdir: dir, Key: shim.DeriveKey(secret, "c"),
		Socket: dir + "/sock", AskSocket: dir + "/ask", FenceFile: dir + "/fence", ExitFile: dir + "/exit",
	}.Env()
	require.NoError(t, err)
	c := exec.Command(os.Args[0], "init")
	c.Env = append(os.Environ(), config)
	require.NoError(t, c.Start())
	exited, gone := make(chan error, 1), make(chan struct{})
	go func() { // ends with the process
		exited <- c.Wait()
		close(gone)
	}()
	t.Cleanup(func() { // before the directory is removed
		_ = c.Process.Signal(os.Interrupt)
		testenv.Await(t, gone, "init exits")
	})
	testenv.AwaitTrue(t, "init to listen", func() bool {
		conn, err := net.Dial("unix", dir+"/sock")
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	sessions := shim.NewSessions(shim.Options{
		Secret: secret, CheckRunning: func(context.Context, string) error { return nil },
		Dial: func(context.Context, string) (io.ReadWriteCloser, int, error) {
			conn, err := net.Dial("unix", dir+"/sock")
			if err != nil {
				return nil, 0, fmt.Errorf("%w: %w", runtime.ErrNotRunning, err)
			}
			return conn, shim.Version, nil
		},
	})
	t.Cleanup(func() { require.NoError(t, sessions.Close()) })
	return sessions.Get("c"), exited
}

// An init that finds a fence was started by the engine again. It starts the main
// process for a flow that is responsible for the container. For another one it
// exits: the engine then reports the container as exited, as it was before.
func TestInitWithFenceWaitsForStart(t *testing.T) {
	t.Parallel()
	t.Run("older flow", func(t *testing.T) {
		t.Parallel()
		s, exited := startInit(t, "5")
		require.ErrorIs(t, s.Restart(t.Context(), 5), runtime.ErrNotRunning)
		_, err := s.AttachCommand(t.Context(), "x", 5, 0)
		require.ErrorIs(t, err, runtime.ErrNotRunning, "its commands have ended with it")
		require.ErrorIs(t, s.EndCommand(t.Context(), "x", 5), runtime.ErrNotRunning)
		require.ErrorIs(t, s.StartMain(t.Context(), 4), runtime.ErrStaleFence)
		require.ErrorContains(t, testenv.Await(t, exited, "init exits"), "exit status 7")
		require.ErrorIs(t, s.Restart(t.Context(), 5), runtime.ErrNotRunning)
	})
	t.Run("responsible flow", func(t *testing.T) {
		t.Parallel()
		s, exited := startInit(t, "5")
		_, err := s.Exec(t.Context(), runtime.Command{Args: []string{"true"}, Fence: 4})
		require.ErrorIs(t, err, runtime.ErrStaleFence)
		const longer = "its flow has longer than those that are refused"
		require.ErrorIs(t, s.Restart(t.Context(), 5), runtime.ErrNotRunning, longer)
		for _, fence := range []int64{4, shim.NoFence} {
			require.ErrorIs(t, s.StartMain(t.Context(), fence), runtime.ErrStaleFence)
			require.ErrorIs(t, s.Restart(t.Context(), 5), runtime.ErrNotRunning, longer)
		}
		_, err = s.Exec(t.Context(), runtime.Command{Args: []string{"true"}})
		require.ErrorIs(t, err, runtime.ErrNotRunning, "nothing was started")
		require.NoError(t, s.StartMain(t.Context(), 5))
		_, err = s.AttachCommand(t.Context(), "x", 5, 0)
		require.ErrorIs(t, err, runtime.ErrUnknownRun)
		require.NoError(t, s.StartMain(t.Context(), 5), "the response was lost")
		require.NoError(t, s.Restart(t.Context(), 5), "it runs")
		select {
		case <-time.After(refusedStartWait + startErrorLinger):
		case err := <-exited:
			require.NoError(t, err, "init exits for the older flow")
		}
		require.NoError(t, s.Stop(t.Context(), 6))
		require.ErrorIs(t, s.StartMain(t.Context(), 5), runtime.ErrStaleFence)
		require.ErrorIs(t, s.StartMain(t.Context(), shim.NoFence), runtime.ErrStaleFence)
		require.NoError(t, s.StartMain(t.Context(), 6))
	})
	t.Run("stopped to save its files", func(t *testing.T) {
		t.Parallel()
		s, _ := startInit(t, "5")
		require.NoError(t, s.Stop(t.Context(), 6))
		_, err := s.LastModified(t.Context(), []string{"/"})
		require.NoError(t, err)
		require.ErrorIs(t, s.StartMain(t.Context(), 5), runtime.ErrStaleFence, "a late start does not undo it")
		require.ErrorIs(t, s.Restart(t.Context(), 6), runtime.ErrNotRunning, "its exit is not recorded")
		require.NoError(t, s.StartMain(t.Context(), 6))
		require.NoError(t, s.Restart(t.Context(), 6))
	})
	t.Run("no fence", func(t *testing.T) {
		t.Parallel()
		s, _ := startInit(t, "")
		require.NoError(t, s.Restart(t.Context(), 1), "the main process was started")
	})
}

// A command that init refused while it waited for its start begins after it, once, and
// is known for as long as it is kept: also when it was ended by a stop.
func TestCommandAroundWaitForStart(t *testing.T) {
	t.Parallel()
	s, _ := startInit(t, "5")
	command := runtime.TenantCommand{ID: "x", Args: []string{"sleep", "60"}, Fence: 5}
	open := func() (runtime.CommandStart, error) {
		stream, err := s.OpenCommand(t.Context(), command)
		if err != nil {
			return runtime.CommandStart{}, err
		}
		return stream.Start(), nil
	}
	_, err := open()
	require.ErrorIs(t, err, runtime.ErrNotRunning)
	require.NoError(t, s.StartMain(t.Context(), 5))
	start, err := open()
	require.NoError(t, err)
	require.True(t, start.Created)
	start, err = open()
	require.NoError(t, err)
	require.False(t, start.Created, "it runs")
	require.NoError(t, s.Stop(t.Context(), 6))
	kept, err := s.AttachCommand(t.Context(), "x", 5, 0)
	require.NoError(t, err)
	_, err = kept.Next()
	require.ErrorIs(t, err, io.EOF)
	_, err = kept.Result()
	require.ErrorIs(t, err, runtime.ErrContainerExited)
	_, err = s.AttachCommand(t.Context(), "y", 5, 0)
	require.ErrorIs(t, err, runtime.ErrUnknownRun)
}

// A command or a copy of an older flow is refused, and leaves no record. One of
// no flow is accepted.
func TestCommandsAndCopiesOfOlderFlow(t *testing.T) {
	t.Parallel()
	s, _ := startInit(t, "")
	ctx := t.Context()
	command := func(id string, fence int64) runtime.Command {
		return runtime.Command{RunID: id, Args: []string{"true"}, Fence: fence}
	}
	_, err := s.Exec(ctx, command("a", 4))
	require.NoError(t, err, "no change has carried a fence")
	require.NoError(t, s.Restart(ctx, 5))
	_, err = s.Exec(ctx, command("b", 4))
	require.ErrorIs(t, err, runtime.ErrStaleFence)
	_, err = s.WaitResult(ctx, command("b", 4))
	require.ErrorIs(t, err, runtime.ErrUnknownRun)
	for _, fence := range []int64{5, shim.NoFence, 6} {
		result, err := s.Exec(ctx, command("b", fence))
		require.NoError(t, err)
		require.True(t, result.OK())
	}
	_, err = s.Exec(ctx, command("b", 4))
	require.NoError(t, err, "the outcome of a command that ran")

	empty := func() io.Reader { return bytes.NewReader(make([]byte, 1024)) } // the end of an archive
	require.ErrorIs(t, s.CopyIn(ctx, "/", 4, empty()), runtime.ErrStaleFence)
	for _, fence := range []int64{6, shim.NoFence, 7} {
		require.NoError(t, s.CopyIn(ctx, "/", fence, empty()))
	}
}

// A command and a copy of a later flow count for every request of an earlier one,
// which would end or overwrite what the later flow does.
func TestEarlierFlowAfterCommandOrCopyOfLater(t *testing.T) {
	t.Parallel()
	s, _ := startInit(t, "")
	ctx := t.Context()
	require.NoError(t, s.Restart(ctx, 4))
	use := []func(fence int64) error{
		func(fence int64) error {
			_, err := s.Exec(ctx, runtime.Command{Args: []string{"true"}, Fence: fence})
			return err
		},
		func(fence int64) error { return s.CopyIn(ctx, "/", fence, bytes.NewReader(make([]byte, 1024))) },
	}
	for i, later := range use {
		fence := int64(5 + i)
		require.NoError(t, later(fence))
		for _, earlier := range append(use,
			func(fence int64) error { return s.StartMain(ctx, fence) }, func(fence int64) error { return s.Restart(ctx, fence) },
			func(fence int64) error { return s.Stop(ctx, fence) }, func(fence int64) error { return s.Wipe(ctx, fence) }) {
			require.ErrorIs(t, earlier(fence-1), runtime.ErrStaleFence)
		}
	}
	require.NoError(t, s.Restart(ctx, 6), "the flow itself")
}

// What an earlier flow has started does not survive the start for a later one:
// both were told that the container had exited.
func TestStartMainEndsWhatEarlierFlowStarted(t *testing.T) {
	t.Parallel()
	s, _ := startInit(t, "5")
	ctx := t.Context()
	require.ErrorIs(t, s.Restart(ctx, 5), runtime.ErrNotRunning)
	require.NoError(t, s.StartMain(ctx, 5))
	ended := make(chan error, 1)
	started := t.TempDir() + "/started"
	go func() { // ends with the main process
		_, err := s.Exec(ctx, runtime.Command{Args: []string{"sh", "-c", "echo > " + started + "; exec sleep 60"}, Fence: 5, Timeout: time.Minute})
		ended <- err
	}()
	testenv.AwaitTrue(t, "the command to start", func() bool { _, err := os.Stat(started); return err == nil })
	require.NoError(t, s.StartMain(ctx, 6))
	require.ErrorIs(t, <-ended, runtime.ErrContainerExited)
	result, err := s.Exec(ctx, runtime.Command{Args: []string{"true"}, Fence: 6})
	require.NoError(t, err)
	require.True(t, result.OK())
}

// A command that was admitted just before a change, and that the change has not
// ended, does not run.
func TestCommandAdmittedBeforeChange(t *testing.T) {
	t.Parallel()
	s := newSupervisor(shim.Config{HostProcess: true})
	r, created := s.runs.getOrCreate("k", func() {})
	require.True(t, created)
	s.admitted.Store(5)
	s.execute(t.Context(), r, shim.Run{RunID: "k"}, 4)
	require.Equal(t, lostResponse, s.runs.response(r))
}
