package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

// What was added to a log is found whether the log is whole or only its end, also if
// its lines repeat; what may be missing is said.
func TestLogFollower(t *testing.T) {
	const window = 64 << 10
	f := logFollower{window: window}
	step := func(text, want string, missing gap) {
		t.Helper()
		added, found := f.advance([]byte(text))
		require.Equal(t, want, string(added))
		require.Equal(t, missing, found)
	}
	var long strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&long, "line %d\n", i)
	}
	end := func(at int) string { return long.String()[max(0, at-window):at] }
	step("", "", noGap)
	step("tick\n", "tick\n", noGap)
	step("tick\ntick\ntick\n", "tick\ntick\n", noGap)
	step("tick\ntick\ntick\n", "", noGap)
	step("wiped\n", "wiped\n", newLog)
	step(end(100), end(100), newLog)
	step(end(window), long.String()[100:window], noGap)
	step(end(window+100), long.String()[window:window+100], noGap)
	step(end(2*window+101), end(2*window+101), lostText)
	step("again\n", "again\n", newLog)
	f = logFollower{window: window}
	step(end(2*window), end(2*window), lostText)
	step("", "", newLog)
	step(end(2*window), end(2*window), lostText)
}

// The last lines of a log are whole, however much has to be read for them.
func TestTailOfLog(t *testing.T) {
	b := serveTestBackend(t)
	line := strings.Repeat("x", 999) + "\n"
	b.Output = "first\n" + strings.Repeat(line, 200)
	for tail, want := range map[string]string{"2": line + line, "201": "first\n" + strings.Repeat(line, 200), "999": b.Output} {
		code, out, errOut := hostler(t, "", "logs", "--container", "box-1", "--tail", tail)
		require.Equal(t, exitOK, code, errOut)
		require.Equal(t, want, out)
	}
	code, out, _ := hostler(t, "", "logs", "--container", "box-1")
	require.Equal(t, exitOK, code)
	require.Equal(t, strings.Repeat(line, 65), out, "64 KiB without the line that is cut")
	code, out, errOut := hostler(t, "", "logs", "run-1", "--tail", "1")
	require.Equal(t, exitOK, code)
	require.Equal(t, "half done\n", out)
	require.Contains(t, errOut, "no disk\n")
}

// Following a container prints its last lines, what it prints then, and ends with it.
func TestFollowContainer(t *testing.T) {
	b := serveTestBackend(t)
	b.Output = "one\ntwo\n"
	c, err := (&remote{}).client(newRoot())
	require.NoError(t, err)
	var out bytes.Buffer
	polls := 0
	printed := writerFunc(func(p []byte) (int, error) {
		polls++
		b.Locked(func() {
			b.Output = "one\ntwo\nthree\n"
			if polls == 2 {
				b.Containers[0].Health = pool.Exited
			}
		})
		return out.Write(p)
	})
	require.NoError(t, followContainer(t.Context(), printed, &out, c, "box-1", 1, time.Millisecond))
	require.Equal(t, "two\nthree\n", out.String())
	require.Error(t, followContainer(t.Context(), printed, &out, c, "box-77", 1, time.Millisecond))
}

// Following a run prints what each attempt prints, until none runs.
func TestFollowRun(t *testing.T) {
	b := serveTestBackend(t)
	second := b.Attempts[0]
	second.Attempt, second.State, second.ExitCode = 2, hooks.Running, nil
	second.Stdout, second.Stderr = runtime.Output{}, runtime.Output{}
	b.Attempts = append(b.Attempts, second)
	c, err := (&remote{}).client(newRoot())
	require.NoError(t, err)
	var out, errOut bytes.Buffer
	steps := []hooks.Run{
		{State: hooks.Running, Stdout: runtime.Output{Head: "begun\n"}},
		{State: hooks.Running, Stdout: runtime.Output{Head: "begun\nmore\n"}, Stderr: runtime.Output{Head: "careful\n"}},
		{State: hooks.Succeeded, Stdout: runtime.Output{Head: "begun\nmore\ndone"}, Stderr: runtime.Output{Head: "careful\n"}},
	}
	printed := writerFunc(func(p []byte) (int, error) {
		b.Locked(func() {
			if len(steps) > 0 {
				b.Attempts[1].State, b.Attempts[1].Stdout, b.Attempts[1].Stderr = steps[0].State, steps[0].Stdout, steps[0].Stderr
				steps = steps[1:]
			}
		})
		return out.Write(p)
	})
	require.NoError(t, followRun(t.Context(), printed, &errOut, c, "run-1", 0, time.Millisecond))
	require.Equal(t, "half done\nbegun\nmore\ndone", out.String())
	require.Regexp(t, `(?s)attempt 1: .*attempt 2: running\ncareful\n# [^\n]*attempt 2: succeeded[^\n]*\n$`, errOut.String())
	require.Error(t, followRun(t.Context(), printed, &errOut, c, "run-9", 0, time.Millisecond))
}

// Of an attempt that prints faster than it is followed, lines are missing between its
// beginning and its end. The beginning is printed once.
func TestFollowFastRun(t *testing.T) {
	var out, errOut bytes.Buffer
	f := runFollower{out: &out, errOut: &errOut}
	running := client.Run{State: client.RunRunning, Stdout: client.Output{Head: "begun\n", Tail: "first\n"}}
	for range 2 {
		done, err := f.print([]client.Run{running})
		require.NoError(t, err)
		require.False(t, done)
	}
	running.State, running.Stdout = client.RunFailed, client.Output{Head: "begun\n", Tail: "the end\n", Truncated: true}
	done, err := f.print([]client.Run{running})
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, "begun\nfirst\nthe end\n", out.String())
	require.Contains(t, errOut.String(), "lines are missing")
}
