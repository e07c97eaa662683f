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

// What an earlier server has begun is gone on with: what has ended is not run
// again, what was running is asked for, what never began is run.
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
		{"ended well", a, []Run{priorRun("a", 0, 1, Succeeded)}, nil,
			[]string{"start z.1 running", "end z.1 succeeded"}, ""},
		{"all ended well", a, []Run{priorRun("a", 0, 1, Succeeded), priorRun("z", 1, 1, Succeeded)}, nil, nil, ""},
		{"ended badly", a, []Run{priorRun("a", 0, 1, Failed)}, nil, []string{"skip z.1 skipped"}, Failed},
		{"ended badly, the rest skipped", a, []Run{priorRun("a", 0, 1, Failed), priorRun("z", 1, 1, Skipped)}, nil, nil, Failed},
		{"ended badly and does not matter", newHook("a", Continue, 0), []Run{priorRun("a", 0, 1, Failed)}, nil,
			[]string{"start z.1 running", "end z.1 succeeded"}, ""},
		{"was running and went well", a, []Run{priorRun("a", 0, 1, Running)}, []scriptedResult{exit0},
			[]string{"end a.1 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was running and failed", a, []Run{priorRun("a", 0, 1, Running)}, []scriptedResult{exit3},
			[]string{"end a.1 failed", "skip z.1 skipped"}, Failed},
		{"was running and is unknown", a, []Run{priorRun("a", 0, 1, Running)}, []scriptedResult{unknownRun},
			[]string{"end a.1 unknown", "skip z.1 skipped"}, Unknown},
		{"is unknown and may run twice", idempotent, []Run{priorRun("a", 0, 1, Running)}, []scriptedResult{unknownRun},
			[]string{"end a.1 unknown", "start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was unknown before and may run twice", idempotent, []Run{priorRun("a", 0, 1, Unknown)}, []scriptedResult{unknownRun},
			[]string{"start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was unknown before, is over and may run twice", idempotent, []Run{priorRun("a", 0, 1, Unknown)}, []scriptedResult{unavailable, exit3},
			[]string{"start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was unknown before and may not run twice", a, []Run{priorRun("a", 0, 1, Unknown)}, nil,
			[]string{"skip z.1 skipped"}, Unknown},
		{"was unknown before, may run twice and still does", idempotent, []Run{priorRun("a", 0, 1, Unknown)}, []scriptedResult{tainted},
			[]string{"skip z.1 skipped"}, Unknown},
		{"was unknown before and nobody answers", idempotent, []Run{priorRun("a", 0, 1, Unknown)}, nil,
			[]string{"skip z.1 skipped"}, Unknown},
		{"was running, may run twice and still does", idempotent, []Run{priorRun("a", 0, 1, Running)}, []scriptedResult{tainted},
			[]string{"end a.1 unknown", "skip z.1 skipped"}, Unknown},
		{"was running, may run twice and nobody answers", idempotent, []Run{priorRun("a", 0, 1, Running)}, nil,
			[]string{"end a.1 unknown", "skip z.1 skipped"}, Unknown},
		{"its second attempt was unknown and may be followed", idempotent, []Run{priorRun("a", 0, 1, Unknown), priorRun("a", 0, 2, Unknown)}, []scriptedResult{unknownRun},
			[]string{"start a.3 running", "end a.3 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"its container has ended", a, []Run{priorRun("a", 0, 1, Running)}, []scriptedResult{lost},
			[]string{"end a.1 lost", "skip z.1 skipped"}, Lost},
		{"the engine answers late", a, []Run{priorRun("a", 0, 1, Running)}, []scriptedResult{unavailable, unavailable, exit0},
			[]string{"end a.1 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"its second attempt was running", retried, []Run{priorRun("a", 0, 1, Failed), priorRun("a", 0, 2, Running)}, []scriptedResult{exit0},
			[]string{"end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"its first attempt has failed", retried, []Run{priorRun("a", 0, 1, Failed)}, nil,
			[]string{"start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"its last attempt has failed", retried, []Run{priorRun("a", 0, 1, Failed), priorRun("a", 0, 2, TimedOut)}, nil,
			[]string{"skip z.1 skipped"}, TimedOut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit0}, "z": {exit0}}, waitResults: tt.waitResults}
				rec := &fakeRecorder{prior: tt.prior}
				runs, err := NewRunner(s, rec).Run(t.Context(), PostClaim, []Hook{tt.first, z}, Subject{Claim: "k"})
				require.Equal(t, tt.trace, rec.trace)
				require.Empty(t, s.waitResults, "asked until there is an answer, and no more")
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

// The outcome is asked for by the key under which the attempt was begun.
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

// Hooks that cannot be run any more are skipped, but what has begun has an end
// of its own.
func TestSkipResumesStartedRuns(t *testing.T) {
	s := &scriptedRuntime{waitResults: []scriptedResult{lost}}
	rec := &fakeRecorder{prior: []Run{{ID: "r", Hook: "a", Attempt: 1, State: Running}}}
	runs, err := NewRunner(s, rec).Skip(t.Context(), PreRelease, []Hook{newHook("a", Fail, 0), newHook("z", Fail, 0)}, Subject{}, "it is dead")
	require.NoError(t, err)
	require.Equal(t, []string{"end a.1 lost", "skip z.1 skipped"}, rec.trace)
	require.Len(t, runs, 2)
}

// An engine that is away for minutes while hooks are skipped costs neither the
// outcome of what had begun nor the records of what had not.
func TestSkipWaitsForEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedRuntime{waitResults: []scriptedResult{unavailable, unavailable, unavailable, unavailable, unavailable, unavailable, unavailable, unavailable, lost}}
		rec := &fakeRecorder{prior: []Run{{ID: "r", Hook: "a", Attempt: 1, State: Running}}}
		start := time.Now()
		_, err := NewRunner(s, rec).Skip(t.Context(), PreRelease, []Hook{newHook("a", Fail, 0), newHook("z", Fail, 0)}, Subject{}, "it is dead")
		require.NoError(t, err)
		require.Greater(t, time.Since(start), recordTimeout)
		require.Equal(t, []string{"end a.1 lost", "skip z.1 skipped"}, rec.trace)
	})
}

// A flow that is stopped still says which hooks it has not run.
func TestSkipIsRecordedAfterCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rec := &fakeRecorder{}
	_, err := NewRunner(&scriptedRuntime{}, rec).Skip(ctx, PreRelease, []Hook{newHook("a", Fail, 0)}, Subject{}, "it is dead")
	require.NoError(t, err)
	require.Equal(t, []string{"skip a.1 skipped"}, rec.trace)
}

// Without its records nothing of a point is run: what has run could run again.
func TestNoHookRunsIfRecordsAreUnreadable(t *testing.T) {
	full := errors.New("disk full")
	s := &scriptedRuntime{}
	_, err := NewRunner(s, &fakeRecorder{errs: map[string]error{"list": full}}).Run(
		t.Context(), PostClaim, []Hook{newHook("a", Fail, 0)}, Subject{})
	require.ErrorIs(t, err, full)
	require.Empty(t, s.calls)
}

// A flow that has just been begun looks nothing up, and records all that it
// does.
func TestFirstRunSkipsLookup(t *testing.T) {
	rec := &fakeRecorder{errs: map[string]error{"list": errors.New("asked")}}
	s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit0}}}
	_, err := NewRunner(s, rec).Run(t.Context(), PostClaim, []Hook{newHook("a", Fail, 0)}, Subject{NoPriorRuns: true})
	require.NoError(t, err)
	require.Equal(t, []string{"start a.1 running", "end a.1 succeeded"}, rec.trace)
}

// What nobody goes on with is ended once, as unknown; the rest is left alone.
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
