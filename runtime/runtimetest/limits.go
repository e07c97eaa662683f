package runtimetest

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// limitCases are commands that exceed their limits, or run out of memory.
func limitCases(t *testing.T, s *suite) {
	cases := []struct {
		name string
		run  func(t *testing.T, s *suite)
	}{
		{"CPU time", limitedCPUTime},
		{"memory", limitedMemory},
		{"file size", limitedFileSize},
		{"output", limitedOutput},
		{"output of a command that exits", limitedOutputOfExited},
		{"limits cannot be raised", limitsNotRaised},
		{"limits of a script", limitedScript},
		{"what cannot start", limitedStartErrors},
		{"negative", negativeLimits},
		{"out of memory", outOfMemory},
		{"no grace", noGrace},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.run(t, s)
		})
	}
}

// A limit of all kinds that no case exceeds.
var wideLimits = runtime.ProcessLimits{CPUTime: time.Hour, Memory: 1 << 40, FileSize: 1 << 40, Output: 1 << 40}

// limited runs box with limits.
func (c *container) limited(t *testing.T, limits runtime.ProcessLimits, args ...string) runtime.Result {
	t.Helper()
	cmd := c.command(args...)
	cmd.Limits, cmd.Timeout = limits, 5*time.Minute
	result, err := c.exec(t, cmd)
	require.NoError(t, err)
	require.False(t, result.TimedOut, "%+v", result)
	return result
}

// A busy loop ends, also in a child.
func limitedCPUTime(t *testing.T, s *suite) {
	c := s.start(t)
	result := c.limited(t, runtime.ProcessLimits{CPUTime: time.Second}, "spin")
	require.Equal(t, runtime.LimitCPUTime, result.Exceeded, "%+v", result)
	require.Contains(t, []string{"SIGXCPU", "SIGKILL"}, result.Signal)
	require.False(t, result.OK() || result.Killed || result.OOMKilled, "%+v", result)
	if isUnsupported(t, s.Limitations.NoKernel, "to limit children") {
		return
	}
	result = c.limited(t, runtime.ProcessLimits{CPUTime: time.Second}, "child", "spin")
	require.Contains(t, []int{128 + 9, 128 + 24}, result.ExitCode, "%+v", result)
	require.False(t, result.OOMKilled)
}

// A process that allocates without end fails.
func limitedMemory(t *testing.T, s *suite) {
	c := s.start(t)
	const limit, much = 4 << 30, "68719476736"
	require.True(t, c.limited(t, runtime.ProcessLimits{}, "allocate", much).OK(), "without a limit")
	require.True(t, c.limited(t, wideLimits, "allocate", much).OK())
	result := c.limited(t, runtime.ProcessLimits{Memory: limit}, "allocate", much)
	require.Equal(t, 1, result.ExitCode, "%+v", result)
	require.Contains(t, result.Stderr.String(), "cannot allocate memory")
	require.False(t, result.OOMKilled)
}

// A file of a gigabyte does not become larger than the limit.
func limitedFileSize(t *testing.T, s *suite) {
	c := s.start(t)
	result := c.limited(t, runtime.ProcessLimits{FileSize: 3 << 20}, "fill", "file", strconv.Itoa(1<<30))
	require.False(t, result.OK(), "%+v", result)
	if result.Signal != "" {
		require.Equal(t, "SIGXFSZ", result.Signal)
		require.Equal(t, runtime.LimitFileSize, result.Exceeded)
	}
	require.Contains(t, c.mustExec(t, "stat", "file"), " "+strconv.Itoa(3<<20)+"\n")
	require.True(t, c.limited(t, runtime.ProcessLimits{FileSize: 3 << 20}, "fill", "file", strconv.Itoa(3<<20)).OK(), "the limit itself")
	require.True(t, c.limited(t, wideLimits, "fill", "file", strconv.Itoa(4<<20)).OK())
}

// Endless output ends, and its beginning and end are kept.
func limitedOutput(t *testing.T, s *suite) {
	c := s.start(t)
	const limit = 1 << 20
	result := c.limited(t, runtime.ProcessLimits{Output: limit}, "repeat", "x", strconv.Itoa(1<<50))
	require.Equal(t, runtime.LimitOutput, result.Exceeded)
	require.False(t, result.OK())
	require.Greater(t, result.Stdout.Total, int64(limit))
	require.Len(t, result.Stdout.Head+result.Stdout.Tail, maxOutput)
	require.True(t, c.limited(t, runtime.ProcessLimits{Output: limit}, "repeat", "x", strconv.Itoa(limit)).OK(), "the limit itself")
}

// A command that has exited before its output is read has exceeded the limit as
// well.
func limitedOutputOfExited(t *testing.T, s *suite) {
	c := s.start(t)
	for range 10 {
		result := c.limited(t, runtime.ProcessLimits{Output: 9}, "err", "ten bytes")
		require.Equal(t, runtime.LimitOutput, result.Exceeded)
		require.Equal(t, "ten bytes\n", result.Stderr.String())
	}
}

func limitsNotRaised(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoKernel, "limits of the kernel") {
		return
	}
	c := s.start(t)
	for _, user := range append(s.users(), "") {
		cmd := c.command("raise")
		cmd.Limits, cmd.User, cmd.Workdir = wideLimits, user, "/"
		result, err := c.exec(t, cmd)
		require.NoError(t, err)
		require.True(t, result.OK(), "%+v", result)
		require.Empty(t, result.Stdout, "as %q", user)
	}
}

// A limited command is started in another way, with the same result.
func limitedScript(t *testing.T, s *suite) {
	c := s.start(t)
	for _, user := range append(s.users(), "") {
		cmd := c.script("the text ")
		cmd.Stdin, cmd.Limits, cmd.User, cmd.Workdir = []byte("and the input"), wideLimits, user, "/"
		result, err := c.exec(t, cmd)
		require.NoError(t, err)
		require.True(t, result.OK(), "%+v", result)
		require.Equal(t, "the text and the input", result.Stdout.String())
		cmd = c.command("id")
		cmd.User, cmd.Workdir = user, "/"
		want, err := c.exec(t, cmd)
		require.NoError(t, err)
		cmd.Limits = wideLimits
		got, err := c.exec(t, cmd)
		require.NoError(t, err)
		require.Equal(t, want.Stdout.String(), got.Stdout.String())
	}
	c.requireNoZombies(t)
}

func limitedStartErrors(t *testing.T, s *suite) {
	c := s.start(t)
	c.mustExec(t, "write", "text", "no program, and no #! either")
	c.mustExec(t, "chmod", "text", "755")
	for want, cmd := range map[runtime.StartReason]runtime.Command{
		runtime.StartBinaryNotFound:  {Args: []string{"/no/such/program"}},
		runtime.StartNotExecutable:   {Args: []string{c.path(t, "/data/text")}},
		runtime.StartWorkdirNotFound: {Args: []string{c.testprog, "pwd"}, Workdir: "/no/such"},
		runtime.StartUserNotFound:    {Args: []string{c.testprog, "id"}, User: "no-such-user"},
	} {
		cmd.Limits = wideLimits
		_, err := c.exec(t, cmd)
		require.Equal(t, want, startError(t, err))
	}
	c.requireNoZombies(t)
}

func negativeLimits(t *testing.T, s *suite) {
	c := s.start(t)
	for _, limits := range []runtime.ProcessLimits{{CPUTime: -1}, {Memory: -1}, {FileSize: -1}, {Output: -1}} {
		cmd := c.command("exit", "0")
		cmd.Limits = limits
		_, err := c.exec(t, cmd)
		require.Equal(t, runtime.StartBadInput, startError(t, err))
	}
}

// A process that the kernel kills because the container has no memory left is
// distinguished from one that kills itself, also behind a shell.
//
// The kernel does not see a killed process whose memory it is still freeing. If
// another one needs memory at that time, it kills the largest that it sees, which
// can be the workload's main process. The case is repeated then.
func outOfMemory(t *testing.T, s *suite) {
	if isUnsupported(t, s.Limitations.NoOOMCounter, "to report that a command ran out of memory") {
		return
	}
	for range 10 {
		if s.commandsOutOfMemory(t) {
			return
		}
	}
	t.Fatal("the container ended each time with the command that ran out of memory")
}

// tooMuch is more memory, in bytes, than the container has.
const tooMuch = "1073741824"

// commandsOutOfMemory reports whether the container has survived its commands.
func (s *suite) commandsOutOfMemory(t *testing.T) (survived bool) {
	t.Helper()
	c := s.start(t, func(spec *runtime.Spec) { spec.Limits.Memory = 256 << 20 })
	for _, k := range []struct {
		args []string
		oom  bool
		code int
	}{
		{[]string{"consume", tooMuch}, true, 137},
		{[]string{"child", "consume", tooMuch}, true, 137},
		{[]string{"signal", "KILL"}, false, 137},
		{[]string{"child", "signal", "KILL"}, false, 137},
		{[]string{"exit", "137"}, false, 137},
		{[]string{"exit", "0"}, false, 0},
	} {
		if k.args[0] == "child" && s.Limitations.NoKernel {
			continue
		}
		result, err := c.exec(t, c.command(k.args...))
		if k.oom && c.hasExitedOutOfMemory(t, err) {
			return false
		}
		require.NoError(t, err)
		require.Equal(t, k.oom, result.OOMKilled, "%q: %+v", k.args, result)
		require.Equal(t, k.code, result.ExitCode, "%q: %+v", k.args, result)
	}
	return c.oneOfTwoOutOfMemory(t)
}

// oneOfTwoOutOfMemory runs a command out of memory while another one runs, which
// is reported as out of memory only if the kernel has killed it, too. It reports
// whether the container has survived.
func (c *container) oneOfTwoOutOfMemory(t *testing.T) (survived bool) {
	t.Helper()
	done := make(chan runtime.Result, 1)
	go func() { // ends with the command
		result, _ := c.rt.Exec(t.Context(), c.id, c.command("await", "go"))
		done <- result
	}()
	result, err := c.exec(t, c.command("consume", tooMuch))
	if c.hasExitedOutOfMemory(t, err) {
		return false
	}
	require.NoError(t, err)
	require.True(t, result.OOMKilled)
	if _, err = c.exec(t, c.command("write", "go", "x")); c.hasExitedOutOfMemory(t, err) {
		return false
	}
	require.NoError(t, err)
	other := <-done
	require.Equal(t, other.ExitCode == 137, other.OOMKilled, "%+v", other)
	return true
}

// hasExitedOutOfMemory reports whether err is that of a container that has
// exited because it ran out of memory. Its status may lack that: Docker's runtime
// reads the notification when the control group may have been removed already.
func (c *container) hasExitedOutOfMemory(t *testing.T, err error) bool {
	t.Helper()
	if !errors.Is(err, runtime.ErrContainerExited) {
		return false
	}
	status, err := c.rt.Status(t.Context(), c.id)
	require.NoError(t, err)
	require.Equal(t, runtime.Exited, status.State)
	require.Equal(t, 137, status.ExitCode)
	t.Logf("the kernel has killed the main process as well: %+v", status)
	return true
}

// Without a grace period a command is not asked to exit.
func noGrace(t *testing.T, s *suite) {
	c := s.start(t)
	cmd := c.command("noted", "signals")
	cmd.Timeout, cmd.Grace = shortTimeout, new(time.Duration(0))
	result, err := c.exec(t, cmd)
	require.NoError(t, err)
	require.True(t, result.TimedOut && result.Killed, "%+v", result)
	require.Equal(t, "SIGKILL", result.Signal)
	require.False(t, result.OOMKilled)
	result, err = c.exec(t, c.command("read", "signals"))
	require.NoError(t, err)
	require.Equal(t, 1, result.ExitCode, "it received no signal: %s", result.Stdout)
}
