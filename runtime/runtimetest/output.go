package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

const maxOutput = runtime.OutputHead + runtime.OutputTail

// outputCases tests what is kept of a command's output.
func outputCases(t *testing.T, s *suite) {
	c := s.start(t)
	cases := []struct {
		name string
		run  func(t *testing.T, c *container)
	}{
		{"none", noOutput},
		{"stderr only", stderrOnly},
		{"lengths", lengths},
		{"characters are not split", validUTF8},
		{"binary output", binaryOutput},
		{"output after the leader's exit", outputAfterLeaderExit},
		{"a gigabyte", gigabyte},
		{"of a running command", outputWhileRunning},
		{"at any moment", outputAtAnyMoment},
		{"of no command", outputOfNone},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) { k.run(t, c) })
	}
}

func noOutput(t *testing.T, c *container) {
	result, err := c.exec(t, c.command("exit", "0"))
	require.NoError(t, err)
	require.Zero(t, result.Stdout)
	require.Zero(t, result.Stderr)
}

func stderrOnly(t *testing.T, c *container) {
	result, err := c.exec(t, c.command("err", "a warning"))
	require.NoError(t, err)
	require.True(t, result.OK())
	require.Zero(t, result.Stdout)
	require.Equal(t, runtime.Output{Head: "a warning\n", Total: 10}, result.Stderr)
}

func lengths(t *testing.T, c *container) {
	for _, n := range []int{1, runtime.OutputHead, runtime.OutputHead + 1, maxOutput, maxOutput + 1, 3*maxOutput + 7} {
		result, err := c.exec(t, c.command("repeat", "x", strconv.Itoa(n)))
		require.NoError(t, err)
		out := result.Stdout
		require.Equal(t, int64(n), out.Total)
		require.Equal(t, n > maxOutput, out.Truncated, "%d bytes", n)
		require.Len(t, out.Head, min(n, runtime.OutputHead))
		require.Len(t, out.Tail, min(max(0, n-runtime.OutputHead), runtime.OutputTail))
	}
}

// A character of three bytes is at every position at which output is cut.
func validUTF8(t *testing.T, c *container) {
	for _, n := range []int{runtime.OutputHead/3 + 1, maxOutput} {
		result, err := c.exec(t, c.command("repeat", "€", strconv.Itoa(n)))
		require.NoError(t, err)
		out := result.Stdout
		require.Equal(t, int64(3*n), out.Total)
		for _, part := range []string{out.Head, out.Tail} {
			require.Empty(t, strings.Trim(part, "€"), "only complete characters")
		}
		if !out.Truncated {
			require.Equal(t, strings.Repeat("€", n), out.String())
		}
	}
}

func binaryOutput(t *testing.T, c *container) {
	cmd := c.command("cat")
	cmd.Stdin = []byte("a\x00b\xffc\xc3\n")
	result, err := c.exec(t, cmd)
	require.NoError(t, err)
	text := result.Stdout.String()
	require.True(t, utf8.ValidString(text))
	require.NotContains(t, text, "\x00", "PostgreSQL rejects it")
	require.Equal(t, "abc\n", strings.ReplaceAll(text, "\uFFFD", ""))
	require.Equal(t, int64(len(cmd.Stdin)), result.Stdout.Total)
}

// Processes that a command leaves may print until they have exited.
func outputAfterLeaderExit(t *testing.T, c *container) {
	result, err := c.exec(t, c.command("farewell", "farewell"))
	require.NoError(t, err)
	require.Equal(t, "farewell\n", result.Stdout.String())
	require.Equal(t, 1, result.Leaked)
	require.True(t, result.OK())
}

// A flood does not block the command, and of what it prints the ends are kept.
func gigabyte(t *testing.T, c *container) {
	cmd := c.command("repeat", "x", strconv.Itoa(1<<30))
	cmd.Timeout = 10 * time.Minute
	result, err := c.exec(t, cmd)
	require.NoError(t, err)
	require.True(t, result.OK(), "%d", result.ExitCode)
	require.Equal(t, int64(1<<30), result.Stdout.Total)
	require.True(t, result.Stdout.Truncated)
	require.Len(t, result.Stdout.Head+result.Stdout.Tail, maxOutput)
}

// output asks for the output of a command. A question has only a few seconds, which
// may be too short on a busy machine: then it is asked again.
func (c *container) output(t *testing.T, runID string) (stdout, stderr runtime.Output, err error) {
	err = runtime.ErrUnavailable
	for errors.Is(err, runtime.ErrUnavailable) {
		stdout, stderr, err = c.rt.Output(t.Context(), c.id, runID)
	}
	return stdout, stderr, err
}

// What a command has printed can be read while it runs, by several callers at once,
// and as often as they like. When it has ended, it is the outcome's.
func outputWhileRunning(t *testing.T, c *container) {
	cmd := c.command("ignore-term", newMarker())
	cmd.RunID, cmd.Timeout, cmd.Grace = newMarker(), 10*time.Minute, new(time.Duration)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { // ends with the command
		_, err := c.rt.Exec(ctx, c.id, cmd)
		ended <- err
	}()
	printed := func() runtime.Output {
		stdout, stderr, err := c.output(t, cmd.RunID)
		require.NoError(t, err)
		require.Zero(t, stderr)
		return stdout
	}
	testenv.AwaitTrue(t, "the command runs", func() bool {
		_, _, err := c.output(t, cmd.RunID)
		return !errors.Is(err, runtime.ErrUnknownRun)
	})
	want := runtime.Output{Head: "ignoring\n", Total: 9}
	testenv.AwaitTrue(t, "the command has printed", func() bool { return printed() == want })
	var callers errgroup.Group
	for range 8 {
		callers.Go(func() error {
			for range 20 {
				stdout, _, err := c.output(t, cmd.RunID)
				if err != nil || stdout != want {
					return fmt.Errorf("%+v: %w", stdout, err)
				}
			}
			return nil
		})
	}
	require.NoError(t, callers.Wait())
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Equal(t, want, printed())
	require.Equal(t, "still\n", c.mustExec(t, "echo", "still"), "another command runs")
}

// Commands end as they do without questions, at whatever moment these come, and the
// worker that runs them is as good as before.
func outputAtAnyMoment(t *testing.T, c *container) {
	for i := range 20 {
		cmd := c.command("echo", strconv.Itoa(i))
		cmd.RunID = newMarker()
		want := strconv.Itoa(i) + "\n"
		ctx, cancel := context.WithCancel(t.Context())
		var callers errgroup.Group
		for range 4 {
			callers.Go(func() error {
				for ctx.Err() == nil {
					stdout, _, err := c.output(t, cmd.RunID)
					if err == nil && stdout.Head != "" && stdout.Head != want {
						return fmt.Errorf("printed %q", stdout.Head)
					}
					if err != nil && !errors.Is(err, runtime.ErrUnknownRun) {
						return err
					}
				}
				return nil
			})
		}
		result, err := c.rt.Exec(t.Context(), c.id, cmd)
		cancel()
		require.NoError(t, err)
		require.NoError(t, callers.Wait())
		require.True(t, result.OK())
		require.Equal(t, want, result.Stdout.Head)
		stdout, _, err := c.output(t, cmd.RunID)
		require.NoError(t, err)
		require.Equal(t, result.Stdout, stdout)
	}
}

// There is no output of a command that the container does not know.
func outputOfNone(t *testing.T, c *container) {
	_, _, err := c.output(t, newMarker())
	require.ErrorIs(t, err, runtime.ErrUnknownRun)
	none := &container{suite: c.suite, id: NewID()}
	_, _, err = none.output(t, newMarker())
	require.ErrorIs(t, err, runtime.ErrNotFound)
}
