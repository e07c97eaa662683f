package runtimetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
)

// execCases are commands that exit by themselves.
func execCases(t *testing.T, s *suite) {
	c := s.start(t)
	cases := []struct {
		name string
		run  func(t *testing.T, c *container)
	}{
		{"exit codes", exitCodes},
		{"signals", signals},
		{"stdin", stdin},
		{"environment", environment},
		{"workdir", workdir},
		{"user", user},
		{"no capabilities", noCapabilities},
		{"parallel", parallelExecs},
		{"same RunID runs once", sameRunID},
		{"no zombies", noZombies},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) { k.run(t, c) })
	}
}

// Every exit code is the command's own, including those that shells and engines
// use for their own errors.
func exitCodes(t *testing.T, c *container) {
	for _, code := range []int{0, 1, 2, 42, 124, 125, 126, 127, 128, 137, 143, 255} {
		result, err := c.exec(t, c.command("exit", fmt.Sprint(code)))
		require.NoError(t, err)
		require.Equal(t, code, result.ExitCode)
		require.Empty(t, result.Signal)
		require.False(t, result.TimedOut || result.Killed)
		require.Positive(t, result.Duration)
	}
}

func signals(t *testing.T, c *container) {
	for name, code := range map[string]int{"KILL": 137, "TERM": 143, "HUP": 129, "INT": 130} {
		result, err := c.exec(t, c.command("signal", name))
		require.NoError(t, err)
		require.Equal(t, code, result.ExitCode)
		require.Equal(t, "SIG"+name, result.Signal)
		require.False(t, result.TimedOut || result.Killed, "it has ended itself")
	}
}

func stdin(t *testing.T, c *container) {
	for _, text := range []string{"", "a line\n", strings.Repeat("0123456789abcde\n", 1<<10)} {
		cmd := c.command("cat")
		cmd.Stdin = []byte(text)
		result, err := c.exec(t, cmd)
		require.NoError(t, err)
		require.True(t, result.OK())
		require.Equal(t, text, result.Stdout.String())
	}
	cmd := c.command("exit", "0")
	cmd.Stdin = []byte(strings.Repeat("x", runtime.MaxStdin))
	result, err := c.exec(t, cmd)
	require.NoError(t, err)
	require.True(t, result.OK(), "a command need not read its input")
}

func environment(t *testing.T, c *container) {
	cmd := c.command("env", "GREETING")
	cmd.Environment = map[string]string{"GREETING": "hello = world"}
	result, err := c.exec(t, cmd)
	require.NoError(t, err)
	require.Equal(t, "hello = world\n", result.Stdout.String())
	require.Equal(t, "\n", c.mustExec(t, "env", "GREETING"), "it was only that command's")
	require.NotContains(t, c.mustExec(t, "env"), "HOSTLER_SHIM", "the shim's settings are not visible")

	with := c.suite.start(t, func(spec *runtime.Spec) {
		spec.Environment = map[string]string{"OF_SPEC": "1", "BOTH": "spec"}
	})
	cmd = with.command("env", "BOTH")
	cmd.Environment = map[string]string{"BOTH": "command"}
	result, err = with.exec(t, cmd)
	require.NoError(t, err)
	require.Equal(t, "command\n", result.Stdout.String())
	require.Equal(t, "1\n", with.mustExec(t, "env", "OF_SPEC"))
	require.NotEqual(t, "\n", with.mustExec(t, "env", "HOME"))
}

func workdir(t *testing.T, c *container) {
	require.Equal(t, c.path(t, "/data")+"\n", c.mustExec(t, "pwd"), "the container's own")
	c.mustExec(t, "write", "sub/file", "x")
	cmd := c.command("pwd")
	cmd.Workdir = "/data/sub"
	result, err := c.exec(t, cmd)
	require.NoError(t, err)
	require.Equal(t, c.path(t, "/data/sub")+"\n", result.Stdout.String())
}

func user(t *testing.T, c *container) {
	if isUnsupported(t, c.Limitations.SingleUser, "to run commands as another user") {
		return
	}
	for user, want := range map[string]string{
		"1234:4321": "uid=1234 gid=4321 ", "0:0": "uid=0 gid=0 ", "1234": "uid=1234 gid=0 ",
	} {
		cmd := c.command("id")
		cmd.User, cmd.Workdir = user, "/"
		result, err := c.exec(t, cmd)
		require.NoError(t, err)
		require.True(t, result.OK(), "%+v", result)
		require.Contains(t, result.Stdout.String(), want, user)
	}
	with := c.suite.start(t, func(spec *runtime.Spec) { spec.User = "1234:4321" })
	require.Contains(t, with.mustExec(t, "id"), "uid=1234 gid=4321 ", "the container's own")
}

// A tenant's command has no capability, as root neither, and can gain none.
func noCapabilities(t *testing.T, c *container) {
	for _, user := range []string{"", "0"} {
		if user != "" && isUnsupported(t, c.Limitations.SingleUser, "what root may do") {
			continue
		}
		cmd := c.command("id")
		cmd.User, cmd.Workdir = user, "/"
		result, err := c.exec(t, cmd)
		require.NoError(t, err)
		require.Contains(t, result.Stdout.String(), " caps=0 nnp=1")
	}
}

func parallelExecs(t *testing.T, c *container) {
	const n = 20
	var group sync.WaitGroup
	results, errs := make([]runtime.Result, n), make([]error, n)
	for i := range n {
		group.Go(func() {
			results[i], errs[i] = c.rt.Exec(t.Context(), c.id, c.command("echo", fmt.Sprint("number ", i)))
		})
	}
	group.Wait()
	for i := range n {
		require.NoError(t, errs[i])
		require.Equal(t, fmt.Sprintf("number %d\n", i), results[i].Stdout.String())
	}
}

// A run that is requested again does not run again.
func sameRunID(t *testing.T, c *container) {
	cmd := c.command("append", "once", "x")
	cmd.RunID = newMarker()
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() { _, _ = c.rt.Exec(t.Context(), c.id, cmd) })
	}
	group.Wait()
	result, err := c.exec(t, cmd)
	require.NoError(t, err, "after it has ended")
	require.True(t, result.OK())
	require.Equal(t, "x", c.mustExec(t, "read", "once"))
}

func noZombies(t *testing.T, c *container) {
	for i := range 200 {
		args := []string{"exit", "0"}
		if i%10 == 0 {
			args = []string{"double-fork", newMarker()}
		}
		c.mustExec(t, args...)
	}
	c.requireNoZombies(t)
}

// requireNoZombies asserts that processes that have exited do not remain. One that has
// just exited may for a moment, such as a worker that is not needed any more.
func (c *container) requireNoZombies(t *testing.T) {
	t.Helper()
	testenv.AwaitTrue(t, "no zombies", func() bool { return c.mustExec(t, "zombies") == "0\n" })
}
