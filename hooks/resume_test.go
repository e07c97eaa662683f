package hooks

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// A point is resumed from its records: a hook that ended is not run again, the
// outcome of a running one is queried, and one that never started is run.
func TestResumePriorRuns(t *testing.T) {
	var unknownRun = scriptedResult{err: runtime.ErrUnknownRun}
	priorRun := func(name string, index, attempt int, state RunState) Run {
		return Run{ID: "id-" + name, Hook: name, Index: index, Attempt: attempt, State: state, StartedAt: time.Now()}
	}
	a, z := newHook("a", Fail, 0), newHook("z", Fail, 0)
	retried := newHook("a", Retry, 1)
	idempotent := newHook("a", Fail, 0)
	idempotent.Idempotent = true
	tests := []struct {
		name        string
		first       Hook
		prior       []Run
		waitResults []scriptedResult
		trace       []string
		failed      RunState
	}{
		{"succeeded", a, []Run{priorRun("a", 0, 1, Succeeded)}, nil,
			[]string{"start z.1 running", "end z.1 succeeded"}, ""},
		{"all succeeded", a, []Run{priorRun("a", 0, 1, Succeeded), priorRun("z", 1, 1, Succeeded)}, nil, nil, ""},
		{"failed", a, []Run{priorRun("a", 0, 1, Failed)}, nil, []string{"skip z.1 skipped"}, Failed},
		{"failed, the rest skipped", a, []Run{priorRun("a", 0, 1, Failed), priorRun("z", 1, 1, Skipped)}, nil, nil, Failed},
		{"failed with on_error continue", newHook("a", Continue, 0), []Run{priorRun("a", 0, 1, Failed)}, nil,
			[]string{"start z.1 running", "end z.1 succeeded"}, ""},
		{"was running and succeeded", a, []Run{priorRun("a", 0, 1, Running)}, []scriptedResult{exit0},
			[]string{"end a.1 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was running and failed", a, []Run{priorRun("a", 0, 1, Running)}, []scriptedResult{exit3},
			[]string{"end a.1 failed", "skip z.1 skipped"}, Failed},
		{"was running and is unknown", a, []Run{priorRun("a", 0, 1, Running)}, []scriptedResult{unknownRun},
			[]string{"end a.1 unknown", "skip z.1 skipped"}, Unknown},
		{"is unknown and idempotent", idempotent, []Run{priorRun("a", 0, 1, Running)}, []scriptedResult{unknownRun},
			[]string{"end a.1 unknown", "start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was unknown before and idempotent", idempotent, []Run{priorRun("a", 0, 1, Unknown)}, []scriptedResult{unknownRun},
			[]string{"start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was unknown before, has ended and is idempotent", idempotent, []Run{priorRun("a", 0, 1, Unknown)}, []scriptedResult{unavailable, exit3},
			[]string{"start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was unknown before and not idempotent", a, []Run{priorRun("a", 0, 1, Unknown)}, nil,
			[]string{"skip z.1 skipped"}, Unknown},
		{"was unknown before, idempotent, still running", idempotent, []Run{priorRun("a", 0, 1, Unknown)}, []scriptedResult{tainted},
			[]string{"skip z.1 skipped"}, Unknown},
		{"was unknown before, idempotent, engine unavailable", idempotent, []Run{priorRun("a", 0, 1, Unknown)}, nil,
			[]string{"skip z.1 skipped"}, Unknown},
		{"was running, idempotent, still running", idempotent, []Run{priorRun("a", 0, 1, Running)}, []scriptedResult{tainted},
			[]string{"end a.1 unknown", "skip z.1 skipped"}, Unknown},
		{"was running, idempotent, engine unavailable", idempotent, []Run{priorRun("a", 0, 1, Running)}, nil,
			[]string{"end a.1 unknown", "skip z.1 skipped"}, Unknown},
		{"second attempt was unknown and idempotent", idempotent, []Run{priorRun("a", 0, 1, Unknown), priorRun("a", 0, 2, Unknown)}, []scriptedResult{unknownRun},
			[]string{"start a.3 running", "end a.3 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"container exited", a, []Run{priorRun("a", 0, 1, Running)}, []scriptedResult{lost},
			[]string{"end a.1 lost", "skip z.1 skipped"}, Lost},
		{"engine available after retries", a, []Run{priorRun("a", 0, 1, Running)}, []scriptedResult{unavailable, unavailable, exit0},
			[]string{"end a.1 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"second attempt was running", retried, []Run{priorRun("a", 0, 1, Failed), priorRun("a", 0, 2, Running)}, []scriptedResult{exit0},
			[]string{"end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"first attempt failed", retried, []Run{priorRun("a", 0, 1, Failed)}, nil,
			[]string{"start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"last attempt failed", retried, []Run{priorRun("a", 0, 1, Failed), priorRun("a", 0, 2, TimedOut)}, nil,
			[]string{"skip z.1 skipped"}, TimedOut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit0}, "z": {exit0}}, waitResults: tt.waitResults}
				rec := &fakeRecorder{prior: tt.prior}
				runs, err := NewRunner(s, rec).Run(t.Context(), PostClaim, []Hook{tt.first, z}, Subject{Claim: "k"})
				require.Equal(t, tt.trace, rec.trace)
				require.Empty(t, s.waitResults, "polled until there is a result, not longer")
				require.Equal(t, Skipped == runs[len(runs)-1].State, tt.failed != "", "the records end with the skipped ones")
				for _, r := range runs {
					require.NotEqual(t, Running, r.State)
					if r.Hook == "a" && len(tt.prior) > 0 {
						require.Equal(t, "id-a", r.ID, "the same for all attempts")
					}
				}
				if tt.failed == "" {
					require.NoError(t, err)
					return
				}
				failed, isHook := errors.AsType[*Error](err)
				require.True(t, isHook, "%v", err)
				require.Equal(t, tt.failed, failed.Run.State)
				if n := len(tt.waitResults); n > 0 {
					require.Equal(t, errors.Is(tt.waitResults[n-1].err, runtime.ErrTainted), errors.Is(err, runtime.ErrTainted))
				}
			})
		})
	}
}

// The outcome is queried by the id under which the attempt was started.
func TestResumeUsesSameAttemptID(t *testing.T) {
	s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit3}}}
	rec := &fakeRecorder{}
	runs, err := NewRunner(s, rec).Run(t.Context(), PostClaim, []Hook{newHook("a", Fail, 0)}, Subject{})
	require.Error(t, err)
	runs[0].State = Running
	s.waitResults, rec.prior = []scriptedResult{exit0}, runs
	_, err = NewRunner(s, rec).Run(t.Context(), PostClaim, []Hook{newHook("a", Fail, 0)}, Subject{})
	require.NoError(t, err)
	require.Equal(t, s.calls[0].RunID, s.waitCalls[0].RunID)
	require.NotEmpty(t, s.waitCalls[0].RunID)
}

// Hooks that cannot run are skipped; a hook that had started gets its own
// outcome.
func TestSkipResumesStartedRuns(t *testing.T) {
	s := &scriptedRuntime{waitResults: []scriptedResult{lost}}
	rec := &fakeRecorder{prior: []Run{{ID: "r", Hook: "a", Attempt: 1, State: Running}}}
	runs, err := NewRunner(s, rec).Skip(t.Context(), PreRelease, []Hook{newHook("a", Fail, 0), newHook("z", Fail, 0)}, Subject{}, "it has exited")
	require.NoError(t, err)
	require.Equal(t, []string{"end a.1 lost", "skip z.1 skipped"}, rec.trace)
	require.Len(t, runs, 2)
}

// If the engine is unavailable for minutes while hooks are skipped, neither the
// outcome of a started hook nor the records of the skipped ones are lost.
func TestSkipWaitsForEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedRuntime{waitResults: []scriptedResult{unavailable, unavailable, unavailable, unavailable, unavailable, unavailable, unavailable, unavailable, lost}}
		rec := &fakeRecorder{prior: []Run{{ID: "r", Hook: "a", Attempt: 1, State: Running}}}
		start := time.Now()
		_, err := NewRunner(s, rec).Skip(t.Context(), PreRelease, []Hook{newHook("a", Fail, 0), newHook("z", Fail, 0)}, Subject{}, "it has exited")
		require.NoError(t, err)
		require.Greater(t, time.Since(start), recordTimeout)
		require.Equal(t, []string{"end a.1 lost", "skip z.1 skipped"}, rec.trace)
	})
}

// A canceled flow still records the hooks that it skipped.
func TestSkipIsRecordedAfterCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rec := &fakeRecorder{}
	_, err := NewRunner(&scriptedRuntime{}, rec).Skip(ctx, PreRelease, []Hook{newHook("a", Fail, 0)}, Subject{}, "it has exited")
	require.NoError(t, err)
	require.Equal(t, []string{"skip a.1 skipped"}, rec.trace)
}

// If the records of a point cannot be read, no hook runs, because a hook could
// run twice.
func TestNoHookRunsIfRecordsAreUnreadable(t *testing.T) {
	full := errors.New("disk full")
	s := &scriptedRuntime{}
	_, err := NewRunner(s, &fakeRecorder{errs: map[string]error{"list": full}}).Run(
		t.Context(), PostClaim, []Hook{newHook("a", Fail, 0)}, Subject{})
	require.ErrorIs(t, err, full)
	require.Empty(t, s.calls)
}

// A new flow does not look up prior runs.
func TestFirstRunSkipsLookup(t *testing.T) {
	rec := &fakeRecorder{errs: map[string]error{"list": errors.New("asked")}}
	s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit0}}}
	_, err := NewRunner(s, rec).Run(t.Context(), PostClaim, []Hook{newHook("a", Fail, 0)}, Subject{NoPriorRuns: true})
	require.NoError(t, err)
	require.Equal(t, []string{"start a.1 running", "end a.1 succeeded"}, rec.trace)
}

// A run whose flow is not resumed ends once, as unknown; other runs do not
// change.
func TestMarkUnknown(t *testing.T) {
	rec := &fakeRecorder{prior: []Run{
		{ID: "r", Hook: "a", Attempt: 2, State: Running, StartedAt: time.Now()},
		{ID: "s", Hook: "b", Attempt: 1, State: Running, StartedAt: time.Now()},
		{ID: "t", Hook: "c", Attempt: 1, State: Running, StartedAt: time.Now()},
	}}
	ids := []string{"r", "s"} // the third is another server's
	err := NewRunner(nil, rec).MarkUnknown(t.Context(), ids, func(_ context.Context, r Run) (bool, error) { return r.ID == "s", nil })
	require.NoError(t, err)
	require.Equal(t, []string{"end a.2 unknown"}, rec.trace)
	require.NotNil(t, rec.runs[0].EndedAt)
	require.Nil(t, rec.runs[0].ExitCode)
	broken := errors.New("no answer")
	require.ErrorIs(t, NewRunner(nil, rec).MarkUnknown(t.Context(), ids, func(context.Context, Run) (bool, error) { return false, broken }), broken)
}
