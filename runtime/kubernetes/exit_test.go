package kubernetes_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/kubernetes"
	"github.com/hostler/hostler/runtime/runtimetest"
)

// watchExits watches the exits of one container.
func watchExits(t *testing.T, rt *kubernetes.Runtime, id string) <-chan runtime.Exit {
	t.Helper()
	exits, ready := make(chan runtime.Exit, 100), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { // ends with ctx
		done <- rt.Watch(ctx, func() { close(ready) }, func(d runtime.Exit) {
			if d.ID == id && d.Condition == "" {
				exits <- d
			}
		})
	}()
	<-ready
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done, "Watch")
	})
	return exits
}

func awaitExit(t *testing.T, exits <-chan runtime.Exit) runtime.Exit {
	t.Helper()
	return testenv.Await(t, exits, "the exit is reported")
}

// However a container exits, that is reported once, with what the cluster knows
// of it.
func TestExitEvents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end   func(t *testing.T, rt *kubernetes.Runtime, id string)
		codes []int // 137 is of one that is slower than its grace, a second
		oom   bool
		gone  bool // the pod is removed with the container
	}{
		"its main process exits": {codes: []int{0}, end: func(t *testing.T, rt *kubernetes.Runtime, id string) {
			_, _ = rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "kill", "main", "TERM"}})
		}},
		"deleted by another owner": {codes: []int{0, 137}, gone: true, end: func(t *testing.T, _ *kubernetes.Runtime, id string) {
			require.NoError(t, needCluster(t).Do(t.Context(), http.MethodDelete, pod(id), nil, nil))
		}},
		"deleted by force": {codes: []int{-1}, gone: true, end: func(t *testing.T, _ *kubernetes.Runtime, id string) {
			require.NoError(t, needCluster(t).Do(t.Context(), http.MethodDelete, pod(id), `{"gracePeriodSeconds": 0}`, nil))
		}},
		"evicted": {codes: []int{0, 137}, gone: true, end: func(t *testing.T, _ *kubernetes.Runtime, id string) {
			require.NoError(t, needCluster(t).Do(t.Context(), http.MethodPost, pod(id)+"/eviction",
				`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "hostler-`+id+`"}}`, nil))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := openRuntime(t)
			id := startContainer(t, rt)
			testenv.AwaitTrue(t, "the log of the container", func() bool { return hasLogs(t, rt, id) })
			exits := watchExits(t, rt, id)
			test.end(t, rt, id)
			d := awaitExit(t, exits)
			require.Contains(t, test.codes, d.ExitCode)
			require.Equal(t, test.oom, d.OOMKilled)
			require.False(t, d.Time.IsZero())
			require.NoError(t, rt.Destroy(t.Context(), id))
			testenv.AwaitTrue(t, "the end of the pod", func() bool {
				_, err := rt.Status(t.Context(), id)
				return errors.Is(err, runtime.ErrNotFound)
			})
			require.Empty(t, exits, "a second time")
			_, err := rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box"}})
			require.ErrorIs(t, err, runtime.ErrNotFound)
		})
	}
}

func hasLogs(t *testing.T, rt *kubernetes.Runtime, id string) bool {
	t.Helper()
	log, err := rt.Logs(t.Context(), id, time.Time{}, 100)
	require.NoError(t, err)
	text, err := io.ReadAll(log)
	require.NoError(t, err)
	return string(text) != ""
}

// A container that has exited stays so until it is restarted; before that its
// volumes can be read, and its last output.
func TestExitedContainerRestart(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	id := startContainer(t, rt)
	testenv.AwaitTrue(t, "the log of the container", func() bool { return hasLogs(t, rt, id) })
	exits := watchExits(t, rt, id)
	mustExec(t, rt, id, "/box", "write", "kept", "x")
	_, _ = rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "signal", "KILL"}})
	_, _ = rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "kill", "main", "TERM"}})
	awaitExit(t, exits)
	_, err := rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "exit", "0"}})
	require.ErrorIs(t, err, runtime.ErrNotRunning)
	// The kubelet starts the shim again, and the main process is not started.
	testenv.AwaitTrue(t, "the files of the container", func() bool {
		files, err := rt.CopyOut(t.Context(), id, "/data")
		if err != nil {
			return false
		}
		text, err := io.ReadAll(files)
		return err == nil && len(text) > 0 && files.Close() == nil
	})
	// The kubelet may report later that it has started the shim again. Until then the
	// log is that of the shim that waits.
	testenv.AwaitTrue(t, "what it printed before it ended", func() bool { return hasLogs(t, rt, id) })
	status, err := rt.Status(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, runtime.Exited, status.State)
	_, err = rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "exit", "0"}})
	require.ErrorIs(t, err, runtime.ErrNotRunning)

	second := openRuntime(t) // a restarted server knows it too
	require.NoError(t, second.Restart(t.Context(), id, 1))
	status, err = second.Status(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, runtime.Running, status.State)
	require.Equal(t, "x", mustExec(t, rt, id, "/box", "read", "kept"))
	require.Empty(t, exits)
}

// A container that is restarted over a session that was opened while its shim
// waited, to read its files, is recorded as running.
func TestExitedContainerRestartOverOpenSession(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	id := startContainer(t, rt)
	mustExec(t, rt, id, "/box", "write", "kept", "x")
	_, _ = rt.Exec(t.Context(), id, runtime.Command{Args: []string{"/box", "kill", "main", "TERM"}})
	testenv.AwaitTrue(t, "the container to exit", func() bool {
		status, err := rt.Status(t.Context(), id)
		return err == nil && status.State == runtime.Exited
	})
	testenv.AwaitTrue(t, "the shim to be reached", func() bool {
		_, err := rt.LastModified(t.Context(), id, []string{"/data"})
		return err == nil
	})
	require.NoError(t, rt.Stop(t.Context(), id, 1), "its files can be saved although it does not run")
	require.NoError(t, rt.Restart(t.Context(), id, 1))
	status, err := rt.Status(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, runtime.Running, status.State)
	require.Equal(t, "x", mustExec(t, rt, id, "/box", "read", "kept"))
}

// A main process that exits at once is started once, and its exit is reported.
func TestMainExitsImmediately(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t)
	spec := newSpec(t)
	spec.Command = []string{"/box", "exit", "7"}
	t.Cleanup(func() { runtimetest.Destroy(t, rt, spec.ID) })
	require.NoError(t, rt.Create(t.Context(), spec))
	err := rt.Start(t.Context(), spec.ID, 1)
	require.ErrorIs(t, err, runtime.ErrNotRunning)
	require.ErrorContains(t, err, "exit code 7")
	status, err := rt.Status(t.Context(), spec.ID)
	require.NoError(t, err)
	require.Equal(t, runtime.Exited, status.State)
	require.Equal(t, 7, status.ExitCode)
}
