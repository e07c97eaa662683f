package hooks

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/runtime"
)

// An engine that is away for a moment fails no hook. What it lost sight of is
// asked for and never begun again; what never reached the container is begun
// once it can be, under the same key; and one that stays away holds the flow up
// for no longer than the hook could have taken.
func TestExecWhileEngineUnavailable(t *testing.T) {
	var unknownRun = scriptedResult{err: runtime.ErrUnknownRun}
	slow := scriptedResult{err: runtime.ErrUnavailable, duringExec: func() { _ = flow.Sleep(context.Background(), 4*time.Second) }}
	tests := []struct {
		name        string
		results     []scriptedResult // of what is begun
		waitResults []scriptedResult // of what is asked for
		state       RunState
		execs       int
		waited      time.Duration
	}{
		{"it never began", []scriptedResult{unavailable, exit0}, []scriptedResult{unknownRun}, Succeeded, 2, 0},
		{"it never began, and fails then", []scriptedResult{unavailable, exit3}, []scriptedResult{unknownRun}, Failed, 2, 0},
		{"it never began, which is known late", []scriptedResult{unavailable, exit0}, []scriptedResult{unavailable, unavailable, unknownRun}, Unknown, 1, 3 * time.Second},
		{"it never began, which is known soon", []scriptedResult{unavailable, exit0}, []scriptedResult{unavailable, unknownRun}, Succeeded, 2, time.Second},
		{"it cannot be begun for a while", []scriptedResult{unavailable, unavailable, exit0}, []scriptedResult{unknownRun, unknownRun}, Succeeded, 3, time.Second},
		{"it cannot be begun", []scriptedResult{unavailable}, []scriptedResult{unknownRun, unknownRun, unknownRun}, Unknown, 3, 3 * time.Second},
		{"it is over", []scriptedResult{unavailable}, []scriptedResult{exit0}, Succeeded, 1, 0},
		{"it is over, which is known late", []scriptedResult{unavailable}, []scriptedResult{unavailable, unavailable, exit3}, Failed, 1, 3 * time.Second},
		{"its container has ended", []scriptedResult{unavailable}, []scriptedResult{unavailable, lost}, Lost, 1, time.Second},
		{"it is out of control", []scriptedResult{unavailable}, []scriptedResult{tainted}, Unknown, 1, 0},
		{"it could not be started", []scriptedResult{unavailable}, []scriptedResult{noBinary}, StartFailed, 1, 0},
		{"nobody can say", []scriptedResult{unavailable}, nil, Unknown, 1, 3 * time.Second},
		{"it was lost sight of too long", []scriptedResult{slow, exit0}, []scriptedResult{unknownRun}, Unknown, 1, 4 * time.Second},
		{"it was lost sight of and is over", []scriptedResult{slow, exit0}, []scriptedResult{exit0}, Succeeded, 1, 4 * time.Second},
		{"doomed and away is doomed", []scriptedResult{{err: errors.Join(runtime.ErrTainted, runtime.ErrUnavailable)}}, nil, Unknown, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedRuntime{results: map[string][]scriptedResult{"a": tt.results}, waitResults: tt.waitResults}
				rec := &fakeRecorder{}
				start := time.Now()
				runs, err := NewRunner(s, rec).Run(t.Context(), PreRelease, []Hook{newHook("a", Fail, 0)}, Subject{})
				require.Equal(t, tt.state == Succeeded, err == nil, "%v", err)
				require.Equal(t, tt.waited, time.Since(start))
				require.Len(t, runs, 1, "it is one attempt")
				require.Equal(t, []string{"start a.1 running", "end a.1 " + string(tt.state)}, rec.trace)
				require.Len(t, s.calls, tt.execs)
				require.Empty(t, s.waitResults, "asked until there is an answer")
				for _, c := range append(s.calls, s.waitCalls...) {
					require.Equal(t, s.calls[0].RunID, c.RunID)
				}
			})
		})
	}
}

// A flow that is stopped waits for no engine.
func TestCancelWhileEngineUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("the server stops")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(stop) })
		start := time.Now()
		runs, err := NewRunner(&scriptedRuntime{results: map[string][]scriptedResult{"a": {unavailable}}}, &fakeRecorder{}).Run(
			ctx, PostClaim, []Hook{newHook("a", Fail, 0)}, Subject{})
		require.ErrorIs(t, err, stop)
		require.Equal(t, time.Millisecond, time.Since(start))
		require.Equal(t, Cancelled, runs[0].State)
	})
}
