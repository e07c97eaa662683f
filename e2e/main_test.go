package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/testenv"
)

// waitTimeout is the timeout of every wait. Nothing takes nearly as long, but
// test machines are slow and busy.
const waitTimeout = 3 * time.Minute

// runID marks what this run of the tests creates on an engine.
var runID = "e2e-" + uuid.NewString()[:8]

// cleanups are the functions that are called after all tests.
var cleanups struct {
	sync.Mutex // guards calls
	calls      []func(context.Context) error
}

// cleanUpAtEnd registers a function that is called after all tests.
func cleanUpAtEnd(call func(context.Context) error) {
	cleanups.Lock()
	defer cleanups.Unlock()
	cleanups.calls = append(cleanups.calls, call)
}

func TestMain(m *testing.M) {
	testenv.Parallel(6)
	code := m.Run()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	var err error
	for _, call := range cleanups.calls {
		err = errors.Join(err, call(ctx))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "clean up after the tests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// builtPrograms builds the programs under test and those that containers run, and
// returns their directory. They are static, so that they run in an image that
// has nothing else.
var builtPrograms = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", runID+"-bin-")
	if err != nil {
		return "", err
	}
	cleanUpAtEnd(func(context.Context) error { return os.RemoveAll(dir) })
	c := testenv.GoBuild("-o", dir+"/", "../cmd/hostler", "../cmd/hostler-shim", "../runtime/runtimetest/box", "./testdata/app")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "image-hook"), []byte(imageHook), 0o755); err != nil { //nolint:gosec // it is executed
		return "", err
	}
	// A container's user may differ from the tests' user.
	return dir, os.Chmod(dir, 0o755)
})

// program returns the path of a program that was built for the tests.
func program(t testing.TB, name string) string {
	t.Helper()
	leaveToSecondPass(t)
	dir, err := builtPrograms()
	require.NoError(t, err)
	return filepath.Join(dir, name)
}

// commandResult is the exit code and the output of a command.
type commandResult struct {
	code     int
	out, err string
}

// environment returns the environment of the tests without the variables that
// configure the programs, and with more.
func environment(more ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOSTLER_") {
			env = append(env, v)
		}
	}
	return append(env, more...)
}

// hostler runs a command line and waits for its end.
func hostler(t testing.TB, env []string, stdin string, args ...string) commandResult {
	t.Helper()
	c := exec.CommandContext(testenv.Context(t), program(t, "hostler"), args...)
	var out, errOut strings.Builder
	c.Env, c.Stdin, c.Stdout, c.Stderr = environment(env...), strings.NewReader(stdin), &out, &errOut
	err := c.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		require.NoError(t, err, "hostler %q", args)
	}
	return commandResult{c.ProcessState.ExitCode(), out.String(), errOut.String()}
}
