package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/runtime"
)

// A command and a script have the same environment, input and settings. The text
// of a script is neither an argument nor part of the environment.
func TestCommandsAndScripts(t *testing.T) {
	process := hooks.Process{
		User: "app", Workdir: "/srv", Grace: new(time.Second),
		Limits:      hooks.ProcessLimits{CPUTime: 1, Memory: 2, FileSize: 3, Output: 4},
		Environment: map[string]variables.Template{"MODE": variables.Literal("fast")},
	}
	for kind, action := range map[hooks.Kind]hooks.Action{
		hooks.KindCommand: hooks.Command{Args: []string{"a", "b"}, Process: process},
		hooks.KindScript:  hooks.Script{Text: "exit 0", Shell: []string{"a", "b"}, Process: process},
	} {
		s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit0}}}
		result := NewCommandExecutor(s).Execute(t.Context(), Attempt{
			Context: Context{Run: "r", Attempt: 2, Container: "c"}, Action: action, Timeout: time.Minute, Fence: 7,
			Envelope: []byte(`{"type":"x"}`),
		})
		require.Equal(t, hooks.Succeeded, result.State)
		sent := s.calls[0]
		require.Equal(t, "fast", sent.Environment["MODE"])
		require.NotContains(t, sent.Environment, "exit 0")
		script := ""
		if kind == hooks.KindScript {
			script = "exit 0"
		}
		sent.Environment = nil
		require.Equal(t, runtime.Command{
			RunID: "r.2", Args: []string{"a", "b"}, Script: script, User: "app", Workdir: "/srv",
			Stdin: []byte(`{"type":"x"}`), Timeout: time.Minute, Fence: 7, Grace: new(time.Second),
			Limits: runtime.ProcessLimits{CPUTime: 1, Memory: 2, FileSize: 3, Output: 4},
		}, sent)
	}
}

// The record of a command that was ended has the reason, if it is known.
func TestLimitsInResult(t *testing.T) {
	limits := hooks.ProcessLimits{CPUTime: 5 * time.Second, FileSize: 100, Output: 200}
	for _, tt := range []struct {
		result runtime.Result
		reason string
		state  hooks.RunState
	}{
		{runtime.Result{}, "", hooks.Succeeded},
		{runtime.Result{ExitCode: 137, Signal: "SIGKILL"}, "", hooks.Failed},
		{runtime.Result{Exceeded: runtime.LimitOutput}, "it wrote more output than its limit of 200 bytes", hooks.Failed},
		{runtime.Result{ExitCode: 152, Signal: "SIGXCPU", Exceeded: runtime.LimitCPUTime}, "it used more CPU time than its limit of 5s", hooks.Failed},
		{runtime.Result{ExitCode: 153, Signal: "SIGXFSZ", Exceeded: runtime.LimitFileSize}, "it wrote a file larger than its limit of 100 bytes", hooks.Failed},
		{runtime.Result{ExitCode: 137, OOMKilled: true}, "the container ran out of memory, and a process of the hook was killed", hooks.Failed},
		{runtime.Result{OOMKilled: true}, "", hooks.Succeeded},
	} {
		s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {{res: tt.result}}}}
		got := NewCommandExecutor(s).Execute(t.Context(), Attempt{
			Action: hooks.Command{Args: []string{"a"}, Process: hooks.Process{Limits: limits}}, Timeout: time.Minute})
		require.Equal(t, tt.state, got.State, "%+v", tt.result)
		require.Equal(t, tt.result.OOMKilled, got.Detail.OOMKilled)
		require.True(t, got.Gone)
		if tt.reason == "" {
			require.NoError(t, got.Err)
			continue
		}
		require.EqualError(t, got.Err, tt.reason)
	}
}

// A command is queried with its own grace period, which also bounds how long the
// engine may be unavailable.
func TestGraceBoundsQueries(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{0: time.Second, 4 * time.Second: 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {unavailable}}}
			start := time.Now()
			got := NewCommandExecutor(s).Execute(t.Context(), Attempt{
				Action: hooks.Command{Args: []string{"a"}, Process: hooks.Process{Grace: new(grace)}}, Timeout: time.Second})
			require.Equal(t, hooks.Unknown, got.State)
			require.Equal(t, want, time.Since(start))
			for _, c := range s.waitCalls {
				require.Equal(t, grace, *c.Grace)
			}
		})
	}
}
