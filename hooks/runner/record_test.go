package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/hooks/variables"
	"github.com/hostler/hostler/runtime"
)

// The record of an attempt is complete, whether it succeeded or failed: output,
// how it was terminated, and how many processes it leaked.
func TestRunRecordIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, warn := runtime.Output{Head: "migrated", Total: 8}, runtime.Output{Head: "slow", Tail: "est", Total: 99}
		delay := func() { <-time.After(1500 * time.Microsecond) }
		for _, e := range []scriptedResult{
			{res: runtime.Result{Stdout: out, Stderr: warn, Leaked: 3}, duringExec: delay},
			{res: runtime.Result{ExitCode: 137, Signal: "SIGKILL", TimedOut: true, Killed: true, Stdout: out, Stderr: warn}, duringExec: delay},
			{res: runtime.Result{Stdout: out, Stderr: warn, Leaked: 1}, err: runtime.ErrTainted, duringExec: delay},
		} {
			rec := &fakeRecorder{}
			start := time.Now()
			runs, err := newRunner(&scriptedRuntime{results: map[string][]scriptedResult{"a": {e}}}, rec).run(
				t.Context(), hooks.PostClaim, []hooks.Hook{newHook("a", hooks.Fail, 0)}, Subject{NoPriorRuns: true})
			require.Equal(t, e.res.OK() && e.err == nil, err == nil)
			require.Len(t, rec.runs, 2)
			recorded := rec.runs[1]
			require.Equal(t, runs[0], recorded)
			require.Equal(t, e.res, runtime.Result{
				ExitCode: e.res.ExitCode, Signal: recorded.Signal, TimedOut: recorded.TimedOut, Killed: recorded.Killed,
				Leaked: recorded.Leaked, Stdout: recorded.Stdout, Stderr: recorded.Stderr,
			})
			require.Equal(t, start, recorded.StartedAt)
			require.Equal(t, start.Add(1500*time.Microsecond), *recorded.EndedAt)
			require.InDelta(t, 1.5, recorded.Duration, 0)
			if e.err != nil {
				require.Nil(t, recorded.ExitCode)
				continue
			}
			require.Equal(t, e.res.ExitCode, *recorded.ExitCode)
		}
	})
}

// The workload's author cannot override the variables that Hostler sets.
func TestHostlerVariablesTakePrecedence(t *testing.T) {
	s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit0}}}
	h := newHook("a", hooks.Fail, 0)
	h.Action = hooks.Command{Args: []string{"a"}, Process: hooks.Process{Environment: map[string]variables.Template{"HOSTLER_TENANT": variables.Literal("mallory"), "MODE": variables.Literal("fast")}}}
	_, err := newRunner(s, &fakeRecorder{}).run(t.Context(), hooks.PostClaim, []hooks.Hook{h}, Subject{Tenant: "ada"})
	require.NoError(t, err)
	require.Equal(t, "ada", s.calls[0].Environment["HOSTLER_TENANT"])
	require.Equal(t, "fast", s.calls[0].Environment["MODE"])
}

// An attempt of which a process may still run is never recorded as canceled,
// even if its flow was stopped, because its container must be destroyed.
func TestTaintedRunIsUnknownNotCancelled(t *testing.T) {
	stop := errors.New("the server stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {{err: runtime.ErrTainted, duringExec: func() { cancel(stop) }}}}}
	runs, err := newRunner(s, &fakeRecorder{}).run(ctx, hooks.PostClaim, []hooks.Hook{newHook("a", hooks.Continue, 0)}, Subject{NoPriorRuns: true})
	require.ErrorIs(t, err, runtime.ErrTainted)
	require.Equal(t, hooks.Unknown, runs[0].State)
}
