package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/runtime"
)

// A short outage of the engine does not fail a hook. If the connection broke,
// the outcome is queried and the command is not started again. If the command
// never reached the container, it is started as soon as possible under the same
// attempt id. A long outage blocks the flow no longer than the hook could have
// run.
func TestExecWhileEngineUnavailable(t *testing.T) {
	var unknownRun = scriptedResult{err: runtime.ErrUnknownRun}
	slow := scriptedResult{err: runtime.ErrUnavailable, duringExec: func() { _ = flow.Sleep(context.Background(), 4*time.Second) }}
	tests := []struct {
		name        string
		results     []scriptedResult // of Exec
		waitResults []scriptedResult // of WaitResult
		state       hooks.RunState
		execs       int
		waited      time.Duration
	}{
		{"not started", []scriptedResult{unavailable, exit0}, []scriptedResult{unknownRun}, hooks.Succeeded, 2, 0},
		{"not started, fails on the second Exec", []scriptedResult{unavailable, exit3}, []scriptedResult{unknownRun}, hooks.Failed, 2, 0},
		{"not started, known after the deadline", []scriptedResult{unavailable, exit0}, []scriptedResult{unavailable, unavailable, unknownRun}, hooks.Unknown, 1, 3 * time.Second},
		{"not started, known before the deadline", []scriptedResult{unavailable, exit0}, []scriptedResult{unavailable, unknownRun}, hooks.Succeeded, 2, time.Second},
		{"cannot be started at first", []scriptedResult{unavailable, unavailable, exit0}, []scriptedResult{unknownRun, unknownRun}, hooks.Succeeded, 3, time.Second},
		{"cannot be started", []scriptedResult{unavailable}, []scriptedResult{unknownRun, unknownRun, unknownRun}, hooks.Unknown, 3, 3 * time.Second},
		{"ended", []scriptedResult{unavailable}, []scriptedResult{exit0}, hooks.Succeeded, 1, 0},
		{"ended, known after the deadline", []scriptedResult{unavailable}, []scriptedResult{unavailable, unavailable, exit3}, hooks.Failed, 1, 3 * time.Second},
		{"container exited", []scriptedResult{unavailable}, []scriptedResult{unavailable, lost}, hooks.Lost, 1, time.Second},
		{"container tainted", []scriptedResult{unavailable}, []scriptedResult{tainted}, hooks.Unknown, 1, 0},
		{"start failed", []scriptedResult{unavailable}, []scriptedResult{noBinary}, hooks.StartFailed, 1, 0},
		{"outcome unknown", []scriptedResult{unavailable}, nil, hooks.Unknown, 1, 3 * time.Second},
		{"connection lost past the deadline", []scriptedResult{slow, exit0}, []scriptedResult{unknownRun}, hooks.Unknown, 1, 4 * time.Second},
		{"connection lost, ended", []scriptedResult{slow, exit0}, []scriptedResult{exit0}, hooks.Succeeded, 1, 4 * time.Second},
		{"tainted and unavailable is tainted", []scriptedResult{{err: errors.Join(runtime.ErrTainted, runtime.ErrUnavailable)}}, nil, hooks.Unknown, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedRuntime{results: map[string][]scriptedResult{"a": tt.results}, waitResults: tt.waitResults}
				rec := &fakeRecorder{}
				start := time.Now()
				runs, err := newRunner(s, rec).run(t.Context(), hooks.PreRelease, []hooks.Hook{newHook("a", hooks.Fail, 0)}, Subject{})
				require.Equal(t, tt.state == hooks.Succeeded, err == nil, "%v", err)
				require.Equal(t, tt.waited, time.Since(start))
				require.Len(t, runs, 1, "one attempt")
				require.Equal(t, []string{"start a.1 running", "end a.1 " + string(tt.state)}, rec.trace)
				require.Len(t, s.calls, tt.execs)
				require.Empty(t, s.waitResults, "polled until there is a result")
				for _, c := range append(s.calls, s.waitCalls...) {
					require.Equal(t, s.calls[0].RunID, c.RunID)
				}
			})
		})
	}
}

// A canceled flow does not wait for the engine.
func TestCancelWhileEngineUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("the server stops")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(stop) })
		start := time.Now()
		runs, err := newRunner(&scriptedRuntime{results: map[string][]scriptedResult{"a": {unavailable}}}, &fakeRecorder{}).run(
			ctx, hooks.PostClaim, []hooks.Hook{newHook("a", hooks.Fail, 0)}, Subject{})
		require.ErrorIs(t, err, stop)
		require.Equal(t, time.Millisecond, time.Since(start))
		require.Equal(t, hooks.Cancelled, runs[0].State)
		require.Contains(t, runs[0].Error, runtime.ErrUnavailable.Error(), "the end of its command is not confirmed")
	})
}
