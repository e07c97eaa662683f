package process

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
	"github.com/hostler/hostler/runtime/shim/proctree"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// A command continues without a server, as long as its timeout allows, and its
// outcome is available to a restarted server.
func TestCommandOutlivesServer(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	testprog := copyTestprog(t, dir)
	last := openRuntime(t, dir+"/data")
	spec := runtime.Spec{ID: "c", Command: []string{testprog, "idle"}}
	require.NoError(t, last.Create(t.Context(), spec))
	t.Cleanup(func() { require.NoError(t, last.Destroy(context.WithoutCancel(t.Context()), "c")) })
	require.NoError(t, last.Start(t.Context(), "c", 1))

	// On a busy machine the timeout may come before the server is closed: then it is
	// extended.
	for timeout := 3 * time.Second; ; timeout *= 2 {
		rt := openRuntime(t, dir+"/data")
		cmd := runtime.Command{RunID: timeout.String(), Args: []string{testprog, "hang"}, Timeout: timeout, Grace: new(time.Minute)}
		done := make(chan error, 1)
		go func() { // ends with the session, or with the command
			_, err := rt.Exec(t.Context(), "c", cmd)
			done <- err
		}()
		hangs := awaitCommand(t, rt.paths("c"), "hang", done)
		require.NoError(t, rt.Close())
		err := <-done
		if err == nil && timeout < time.Minute {
			continue
		}
		require.Error(t, err, "the session was closed")
		require.True(t, waitExit(hangs, timeout+time.Minute), "the container enforces its timeout")
		result, err := last.WaitResult(t.Context(), "c", cmd)
		require.NoError(t, err)
		require.True(t, result.TimedOut, "only the timeout has ended it: %+v", result)
		return
	}
}

// awaitCommand waits for the command in a container that has this argument, or for its
// end. A worker may briefly have another child, which it starts to warm up.
func awaitCommand(t *testing.T, p containerPaths, arg string, ended <-chan error) (found proctree.ID) {
	t.Helper()
	initID, err := p.runningInit()
	require.NoError(t, err)
	testenv.AwaitTrue(t, "the command's process", func() bool {
		if len(ended) > 0 {
			return true
		}
		all, err := proctree.Descendants(initID.PID)
		require.NoError(t, err)
		for _, one := range all {
			line, _ := os.ReadFile("/proc/" + strconv.Itoa(one.PID) + "/cmdline") // an exited one has none
			if one.Parent != initID.PID && strings.HasSuffix(string(line), "\x00"+arg+"\x00") {
				found = one.ID
				return true
			}
		}
		return false
	})
	return found
}

// A server that is killed while it starts a container leaves the program that starts
// it. The next server does not start it a second time.
func TestContainerIsStartedOnce(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t, newDir(t))
	require.NoError(t, rt.Create(t.Context(), runtime.Spec{ID: "c", Command: []string{"/bin/sleep", "60"}}))
	t.Cleanup(func() { require.NoError(t, rt.Destroy(context.WithoutCancel(t.Context()), "c")) })
	p := rt.paths("c")
	var servers errgroup.Group
	for range 4 {
		servers.Go(func() error { return rt.startInit(t.Context(), p) })
	}
	require.NoError(t, servers.Wait())
	initID, err := p.runningInit()
	require.NoError(t, err)
	all, err := p.processes(initID)
	require.NoError(t, err)
	inits := 0
	for _, one := range all {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(one.PID) + "/cmdline") // an exited one has none
		if strings.HasPrefix(string(line), "hostler-shim\x00init\x00") {
			inits++
		}
	}
	require.Equal(t, 1, inits)
}

// The program that sends requests is there at any time, also while servers link it.
func TestProgramIsAlwaysThere(t *testing.T) {
	t.Parallel()
	rt := openRuntime(t, newDir(t))
	require.NoError(t, rt.Create(t.Context(), runtime.Spec{ID: "c", Command: []string{"/bin/sleep", "60"}}))
	t.Cleanup(func() { require.NoError(t, rt.Destroy(context.WithoutCancel(t.Context()), "c")) })
	p := rt.paths("c")
	require.NoError(t, rt.linkAskProgram(p))
	var servers errgroup.Group
	for range 4 {
		servers.Go(func() error {
			for range 100 {
				if err := rt.linkAskProgram(p); err != nil {
					return err
				}
				if _, err := os.Stat(filepath.Join(p.askDir(), shim.AskBinaryName)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, servers.Wait())
	left, err := filepath.Glob(p.dir + "/program.*")
	require.NoError(t, err)
	require.Empty(t, left)
}
