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
)

// waitTimeout bounds whatever is waited for. Nothing takes nearly as long, but
// machines that test are slow and busy.
const waitTimeout = 3 * time.Minute

// runID names this run of the tests in what it makes on an engine.
var runID = "e2e-" + uuid.NewString()[:8]

// cleanups are what is called when all tests have ended.
var cleanups struct {
	sync.Mutex // guards calls
	calls      []func(context.Context) error
}

// cleanUpAtEnd has something done when all tests have ended.
func cleanUpAtEnd(call func(context.Context) error) {
	cleanups.Lock()
	defer cleanups.Unlock()
	cleanups.calls = append(cleanups.calls, call)
}

func TestMain(m *testing.M) {
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

// builtPrograms is the folder with the programs under test, and those that containers
// run: static, so that they run in an image that holds nothing else.
var builtPrograms = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", runID+"-bin-")
	if err != nil {
		return "", err
	}
	cleanUpAtEnd(func(context.Context) error { return os.RemoveAll(dir) })
	c := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir+"/",
		"../cmd/hostler", "../cmd/hostler-shim", "../runtime/runtimetest/box", "./testdata/app")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w: %s", err, out)
	}
	// A container's user may be another than ours.
	return dir, os.Chmod(dir, 0o755)
})

// program is the path of a program that was built for the tests.
func program(t testing.TB, name string) string {
	t.Helper()
	dir, err := builtPrograms()
	require.NoError(t, err)
	return filepath.Join(dir, name)
}

// commandResult is how a command ended.
type commandResult struct {
	code     int
	out, err string
}

// environment is ours without what would change how the programs behave.
func environment(more ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOSTLER_") {
			env = append(env, v)
		}
	}
	return append(env, more...)
}

// hostler runs the command line to its end.
func hostler(t testing.TB, env []string, stdin string, args ...string) commandResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, program(t, "hostler"), args...)
	var out, errOut strings.Builder
	c.Env, c.Stdin, c.Stdout, c.Stderr = environment(env...), strings.NewReader(stdin), &out, &errOut
	err := c.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		require.NoError(t, err, "hostler %q", args)
	}
	return commandResult{c.ProcessState.ExitCode(), out.String(), errOut.String()}
}
