package fake_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// Exec returns only when everything that the command started has exited, after
// exactly its timeout and its grace period.
func TestExecEndsEverything(t *testing.T) {
	const timeout, grace = 5 * time.Second, time.Second
	cases := map[string]struct {
		args    []string
		elapsed time.Duration
		want    runtime.Result
	}{
		"before the timeout":    {[]string{"exit", "3"}, 0, runtime.Result{ExitCode: 3}},
		"by itself":             {[]string{"signal", "HUP"}, 0, runtime.Result{ExitCode: 129, Signal: "SIGHUP"}},
		"hangs":                 {[]string{"hang", "m"}, timeout, runtime.Result{ExitCode: 143, Signal: "SIGTERM", TimedOut: true}},
		"exits when asked":      {[]string{"idle", "m"}, timeout, runtime.Result{TimedOut: true}},
		"ignores SIGTERM":       {[]string{"ignore-term", "m"}, timeout + grace, runtime.Result{ExitCode: 137, Signal: "SIGKILL", TimedOut: true, Killed: true}},
		"stopped":               {[]string{"signal", "STOP"}, timeout + grace, runtime.Result{ExitCode: 137, Signal: "SIGKILL", TimedOut: true, Killed: true}},
		"fork storm":            {[]string{"forkstorm", "m"}, timeout + grace, runtime.Result{ExitCode: 137, Signal: "SIGKILL", TimedOut: true, Killed: true}},
		"leaves a child":        {[]string{"double-fork", "m"}, 0, runtime.Result{Leaked: 1}},
		"child ignores SIGTERM": {[]string{"leave-ignoring", "m"}, grace, runtime.Result{Leaked: 1, Killed: true}},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := fake.New()
				rt.AddProgram("leave-ignoring", func(_ context.Context, p *fake.Proc) int {
					p.Spawn("ignoring", "m").OnTerm(func() {})
					return 0
				})
				id := startContainer(t, rt)
				cmd := execTestprog(tt.args...)
				if tt.args[0] == "leave-ignoring" {
					cmd.Args = tt.args
				}
				cmd.Timeout, cmd.Grace = timeout, new(grace)
				start := time.Now()
				got, err := rt.Exec(t.Context(), id, cmd)
				require.NoError(t, err)
				require.Equal(t, tt.elapsed, time.Since(start))
				require.Equal(t, tt.elapsed, got.Duration)
				got.Duration, got.Stdout = 0, runtime.Output{}
				require.Equal(t, tt.want, got)

				left, err := rt.Exec(t.Context(), id, execTestprog("ps", "m"))
				require.NoError(t, err)
				require.Empty(t, left.Stdout.Head)
			})
		})
	}
}

// The end of the caller's context ends the command as its timeout does, and is
// the error; a context that ends after the command has no effect.
func TestExecEndsWithItsContext(t *testing.T) {
	cause := errors.New("the flow was stopped")
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New()
		id := startContainer(t, rt)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		cmd := execTestprog("ignore-term")
		cmd.Grace = new(3 * time.Second)
		start := time.Now()
		_, err := rt.Exec(ctx, id, cmd)
		require.ErrorIs(t, err, cause)
		require.Equal(t, 4*time.Second, time.Since(start))

		_, err = rt.Exec(ctx, id, execTestprog("write", "never", "x"))
		require.ErrorIs(t, err, cause)
		result, err := rt.Exec(t.Context(), id, execTestprog("read", "never"))
		require.NoError(t, err)
		require.Equal(t, 1, result.ExitCode, "a command whose context has ended does not start")
	})
}

// Of two callers with one RunID, one runs the command and both get its outcome;
// a later third one does too.
func TestExecRunsEachRunIDOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New()
		id := startContainer(t, rt)
		times := 0
		rt.AddProgram("slow", func(_ context.Context, p *fake.Proc) int {
			times++
			p.ExitAfter(time.Second, 7)
			return fake.Park
		})
		cmd := runtime.Command{RunID: "k", Args: []string{"slow"}}
		codes := make(chan int, 2)
		for range 2 {
			go func() {
				result, err := rt.Exec(t.Context(), id, cmd)
				assert.NoError(t, err)
				codes <- result.ExitCode
			}()
		}
		first, second := <-codes, <-codes
		result, err := rt.Exec(t.Context(), id, cmd)
		require.NoError(t, err)
		require.Equal(t, []int{7, 7, 7}, []int{result.ExitCode, first, second})
		require.Equal(t, 1, times)
	})
}

// Whatever ends the container under a command, the error is that its outcome is
// unknown, and nothing of it continues.
func TestExecWhenContainerExits(t *testing.T) {
	cases := map[string]struct {
		cut  func(t *testing.T, rt *fake.Runtime, id string)
		want error
	}{
		"killed":    {func(_ *testing.T, rt *fake.Runtime, id string) { rt.Kill(id) }, runtime.ErrContainerExited},
		"oom":       {func(_ *testing.T, rt *fake.Runtime, id string) { rt.OOMKill(id) }, runtime.ErrContainerExited},
		"vanished":  {func(_ *testing.T, rt *fake.Runtime, id string) { rt.RemoveExternally(id) }, runtime.ErrContainerExited},
		"destroyed": {func(t *testing.T, rt *fake.Runtime, id string) { require.NoError(t, rt.Destroy(t.Context(), id)) }, runtime.ErrContainerExited},
		"restarted": {func(t *testing.T, rt *fake.Runtime, id string) { require.NoError(t, rt.Restart(t.Context(), id, 1)) }, runtime.ErrContainerExited},
		"wiped":     {func(t *testing.T, rt *fake.Runtime, id string) { _ = rt.Wipe(t.Context(), id, 1) }, runtime.ErrContainerExited},
		"init": {func(t *testing.T, rt *fake.Runtime, id string) {
			_, err := rt.Exec(t.Context(), id, execTestprog("kill", "init", "TERM"))
			require.ErrorIs(t, err, runtime.ErrContainerExited)
		}, runtime.ErrContainerExited},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := fake.New()
				id := startContainer(t, rt)
				wrote := make(chan error, 1)
				rt.AddProgram("long", func(ctx context.Context, p *fake.Proc) int {
					<-ctx.Done()
					wrote <- p.WriteFile("/data/late", []byte("x"))
					return 0
				})
				ended := make(chan error, 1)
				go func() {
					_, err := rt.Exec(t.Context(), id, runtime.Command{Args: []string{"long"}})
					ended <- err
				}()
				synctest.Wait()
				tt.cut(t, rt, id)
				require.ErrorIs(t, <-ended, tt.want)
				require.Error(t, <-wrote, "an exited process changes nothing")
			})
		})
	}
}

// If the process that supervises a command is killed, its outcome is unknown.
func TestExecWithKilledShimTaintsContainer(t *testing.T) {
	rt := fake.New()
	id := startContainer(t, rt)
	_, err := rt.Exec(t.Context(), id, execTestprog("kill", "shim", "KILL"))
	require.ErrorIs(t, err, runtime.ErrTainted)

	cmd := execTestprog("kill", "shim", "KILL")
	cmd.User = "app"
	result, err := rt.Exec(t.Context(), id, cmd)
	require.NoError(t, err, "only root can kill it")
	require.Equal(t, 1, result.ExitCode)
}

// A command that cannot start returns the reason, and has not run.
func TestStartErrors(t *testing.T) {
	rt := fake.New()
	id := startContainer(t, rt)
	ctx := t.Context()
	for _, args := range [][]string{{"write", "/data/text", "x"}, {"chmod", "/data/text", "755"}, {"write", "/data/plain", "x"}} {
		_, err := rt.Exec(ctx, id, execTestprog(args...))
		require.NoError(t, err)
	}
	long := strings.Repeat("x", 128<<10)
	cases := map[string]struct {
		cmd  runtime.Command
		want runtime.StartReason
	}{
		"no such program": {runtime.Command{Args: []string{"nothing"}}, runtime.StartBinaryNotFound},
		"no such file":    {runtime.Command{Args: []string{"/bin/nothing"}}, runtime.StartBinaryNotFound},
		"no program":      {runtime.Command{Args: []string{"./text"}}, runtime.StartNotExecutable},
		"not executable":  {runtime.Command{Args: []string{"/data/plain"}}, runtime.StartNotExecutable},
		"a directory":     {runtime.Command{Args: []string{"/data"}}, runtime.StartNotExecutable},
		"user":            {runtime.Command{Args: []string{"box"}, User: "who"}, runtime.StartUserNotFound},
		"group":           {runtime.Command{Args: []string{"box"}, User: "app:who"}, runtime.StartUserNotFound},
		"workdir":         {runtime.Command{Args: []string{"box"}, Workdir: "/no"}, runtime.StartWorkdirNotFound},
		"workdir is file": {runtime.Command{Args: []string{"box"}, Workdir: "/data/text"}, runtime.StartWorkdirNotFound},
		"nothing":         {runtime.Command{}, runtime.StartBadInput},
		"NUL":             {runtime.Command{Args: []string{"box", "a\x00b"}}, runtime.StartBadInput},
		"long":            {runtime.Command{Args: []string{"box", long}}, runtime.StartBadInput},
		"stdin":           {runtime.Command{Args: []string{"box"}, Stdin: make([]byte, runtime.MaxStdin+1)}, runtime.StartBadInput},
		"environment":     {runtime.Command{Args: []string{"box"}, Environment: map[string]string{"A=B": ""}}, runtime.StartBadInput},
	}
	for name, tt := range cases {
		_, err := rt.Exec(ctx, id, tt.cmd)
		start, ok := errors.AsType[*runtime.StartError](err)
		require.True(t, ok, "%s: %v", name, err)
		require.Equal(t, tt.want, start.Reason, name)
	}
}

func TestOutputIsCapped(t *testing.T) {
	rt := fake.New()
	id := startContainer(t, rt)
	const all = runtime.OutputHead + runtime.OutputTail
	cases := []struct {
		text  string
		times int
	}{
		{"", 0}, {"x", 1}, {"x", runtime.OutputHead}, {"x", runtime.OutputHead + 1},
		{"x", all}, {"x", all + 1}, {"abc", 1 << 20}, {"€", all}, {"a€", all/4 + 3},
		{"€", runtime.OutputHead / 2}, {"🐎", all/4 + 1}, {"\xff\x00", 10}, {"\xe2\x82", 3000},
	}
	for _, tt := range cases {
		whole := strings.Repeat(tt.text, tt.times)
		cmd := execTestprog("cat")
		if len(whole) > runtime.MaxStdin {
			rt.AddProgram("cat", func(_ context.Context, p *fake.Proc) int {
				for rest := whole; rest != ""; rest = rest[min(len(rest), 1000):] {
					_, _ = p.Stdout.Write([]byte(rest[:min(len(rest), 1000)]))
				}
				return 0
			})
			cmd = runtime.Command{Args: []string{"cat"}}
		}
		if len(whole) <= runtime.MaxStdin {
			cmd.Stdin = []byte(whole)
		}
		result, err := rt.Exec(t.Context(), id, cmd)
		require.NoError(t, err)
		out := result.Stdout
		require.EqualValues(t, len(whole), out.Total)
		require.Equal(t, len(whole) > all, out.Truncated, "%q times %d", tt.text, tt.times)
		valid := strings.ReplaceAll(strings.ToValidUTF8(whole, "\uFFFD"), "\x00", "\uFFFD")
		if valid == whole && !out.Truncated {
			require.Equal(t, whole, out.String())
		}
		if valid == whole {
			require.True(t, strings.HasPrefix(whole, out.Head) && strings.HasSuffix(whole, out.Tail))
			require.NotContains(t, out.String(), "\uFFFD", "no character is split")
		}
		require.Equal(t, out.String(), strings.ToValidUTF8(out.String(), "?"))
		require.NotContains(t, out.String(), "\x00")
	}
}
