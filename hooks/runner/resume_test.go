package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
)

// A point is resumed from its records: a hook that ended is not run again, the
// outcome of a running one is queried, and one that never started is run.
func TestResumePriorRuns(t *testing.T) {
	var unknownRun = scriptedResult{err: runtime.ErrUnknownRun}
	priorRun := func(name string, index, attempt int, state hooks.RunState) hooks.Run {
		return hooks.Run{ID: "id-" + name, Hook: name, Index: index, Attempt: attempt, State: state, StartedAt: time.Now()}
	}
	a, z := newHook("a", hooks.Fail, 0), newHook("z", hooks.Fail, 0)
	retried := newHook("a", hooks.Retry, 1)
	idempotent := newHook("a", hooks.Fail, 0)
	idempotent.Idempotent = true
	tests := []struct {
		name        string
		first       hooks.Hook
		prior       []hooks.Run
		waitResults []scriptedResult
		trace       []string
		failed      hooks.RunState
	}{
		{"succeeded", a, []hooks.Run{priorRun("a", 0, 1, hooks.Succeeded)}, nil,
			[]string{"start z.1 running", "end z.1 succeeded"}, ""},
		{"all succeeded", a, []hooks.Run{priorRun("a", 0, 1, hooks.Succeeded), priorRun("z", 1, 1, hooks.Succeeded)}, nil, nil, ""},
		{"failed", a, []hooks.Run{priorRun("a", 0, 1, hooks.Failed)}, nil, []string{"skip z.1 skipped"}, hooks.Failed},
		{"failed, the rest skipped", a, []hooks.Run{priorRun("a", 0, 1, hooks.Failed), priorRun("z", 1, 1, hooks.Skipped)}, nil, nil, hooks.Failed},
		{"failed with on_error continue", newHook("a", hooks.Continue, 0), []hooks.Run{priorRun("a", 0, 1, hooks.Failed)}, nil,
			[]string{"start z.1 running", "end z.1 succeeded"}, ""},
		{"was running and succeeded", a, []hooks.Run{priorRun("a", 0, 1, hooks.Running)}, []scriptedResult{exit0},
			[]string{"end a.1 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was running and failed", a, []hooks.Run{priorRun("a", 0, 1, hooks.Running)}, []scriptedResult{exit3},
			[]string{"end a.1 failed", "skip z.1 skipped"}, hooks.Failed},
		{"was running and is unknown", a, []hooks.Run{priorRun("a", 0, 1, hooks.Running)}, []scriptedResult{unknownRun},
			[]string{"end a.1 unknown", "skip z.1 skipped"}, hooks.Unknown},
		{"is unknown and idempotent", idempotent, []hooks.Run{priorRun("a", 0, 1, hooks.Running)}, []scriptedResult{unknownRun},
			[]string{"end a.1 unknown", "start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was unknown before and idempotent", idempotent, []hooks.Run{priorRun("a", 0, 1, hooks.Unknown)}, []scriptedResult{unknownRun},
			[]string{"start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was unknown before, has ended and is idempotent", idempotent, []hooks.Run{priorRun("a", 0, 1, hooks.Unknown)}, []scriptedResult{unavailable, exit3},
			[]string{"start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"was unknown before and not idempotent", a, []hooks.Run{priorRun("a", 0, 1, hooks.Unknown)}, nil,
			[]string{"skip z.1 skipped"}, hooks.Unknown},
		{"was unknown before, idempotent, still running", idempotent, []hooks.Run{priorRun("a", 0, 1, hooks.Unknown)}, []scriptedResult{tainted},
			[]string{"skip z.1 skipped"}, hooks.Unknown},
		{"was unknown before, idempotent, engine unavailable", idempotent, []hooks.Run{priorRun("a", 0, 1, hooks.Unknown)}, nil,
			[]string{"skip z.1 skipped"}, hooks.Unknown},
		{"was running, idempotent, still running", idempotent, []hooks.Run{priorRun("a", 0, 1, hooks.Running)}, []scriptedResult{tainted},
			[]string{"end a.1 unknown", "skip z.1 skipped"}, hooks.Unknown},
		{"was running, idempotent, engine unavailable", idempotent, []hooks.Run{priorRun("a", 0, 1, hooks.Running)}, nil,
			[]string{"end a.1 unknown", "skip z.1 skipped"}, hooks.Unknown},
		{"second attempt was unknown and idempotent", idempotent, []hooks.Run{priorRun("a", 0, 1, hooks.Unknown), priorRun("a", 0, 2, hooks.Unknown)}, []scriptedResult{unknownRun},
			[]string{"start a.3 running", "end a.3 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"container exited", a, []hooks.Run{priorRun("a", 0, 1, hooks.Running)}, []scriptedResult{lost},
			[]string{"end a.1 lost", "skip z.1 skipped"}, hooks.Lost},
		{"engine available after retries", a, []hooks.Run{priorRun("a", 0, 1, hooks.Running)}, []scriptedResult{unavailable, unavailable, exit0},
			[]string{"end a.1 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"second attempt was running", retried, []hooks.Run{priorRun("a", 0, 1, hooks.Failed), priorRun("a", 0, 2, hooks.Running)}, []scriptedResult{exit0},
			[]string{"end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"first attempt failed", retried, []hooks.Run{priorRun("a", 0, 1, hooks.Failed)}, nil,
			[]string{"start a.2 running", "end a.2 succeeded", "start z.1 running", "end z.1 succeeded"}, ""},
		{"last attempt failed", retried, []hooks.Run{priorRun("a", 0, 1, hooks.Failed), priorRun("a", 0, 2, hooks.TimedOut)}, nil,
			[]string{"skip z.1 skipped"}, hooks.TimedOut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit0}, "z": {exit0}}, waitResults: tt.waitResults}
				rec := &fakeRecorder{prior: tt.prior}
				runs, err := newRunner(s, rec).run(t.Context(), hooks.PostClaim, []hooks.Hook{tt.first, z}, Subject{Claim: "k"})
				require.Equal(t, tt.trace, rec.trace)
				require.Empty(t, s.waitResults, "polled until there is a result, not longer")
				require.Equal(t, hooks.Skipped == runs[len(runs)-1].State, tt.failed != "", "the records end with the skipped ones")
				for _, r := range runs {
					require.NotEqual(t, hooks.Running, r.State)
					if r.Hook == "a" && len(tt.prior) > 0 {
						require.Equal(t, "id-a", r.ID, "the same for all attempts")
					}
				}
				if tt.failed == "" {
					require.NoError(t, err)
					return
				}
				failed, isHook := errors.AsType[*hooks.Error](err)
				require.True(t, isHook, "%v", err)
				require.Equal(t, tt.failed, failed.Run.State)
				if n := len(tt.waitResults); n > 0 {
					require.Equal(t, errors.Is(tt.waitResults[n-1].err, runtime.ErrTainted), errors.Is(err, runtime.ErrTainted))
				}
			})
		})
	}
}

// harmless is an executor whose actions change nothing, and whose results are lost
// with the server.
type harmless struct{ executed []int }

func (x *harmless) Execute(_ context.Context, a Attempt) Result {
	x.executed = append(x.executed, a.Context.Attempt)
	return Result{State: hooks.Succeeded, Gone: true}
}

func (*harmless) WaitResult(context.Context, Attempt) Result {
	return Result{State: hooks.Unknown, Gone: true}
}

func (*harmless) Ending(hooks.Run) Ending { return Ending{Harmless: true} }

// An action that changes nothing runs again after a crash at any moment, also if its
// hook is not idempotent, but not after an end that is known.
func TestHarmlessActionsRunAgain(t *testing.T) {
	for prior, want := range map[hooks.RunState][]int{
		hooks.Running: {2}, hooks.Unknown: {2}, hooks.Failed: nil, hooks.Succeeded: nil,
	} {
		x := &harmless{}
		rec := &fakeRecorder{prior: []hooks.Run{{ID: "r", Hook: "a", Kind: hooks.KindBuiltin, Attempt: 1, State: prior, StartedAt: time.Now()}}}
		h := hooks.Hook{Name: "a", Timeout: time.Second, Action: hooks.Builtin{Name: "log"}}
		_, err := testRunner{New(nil, rec, Executors{hooks.KindBuiltin: x}, nil)}.run(t.Context(), hooks.PreDestroy, []hooks.Hook{h}, Subject{Container: "k"})
		require.Equal(t, want, x.executed, prior)
		require.Equal(t, prior == hooks.Failed, err != nil, prior)
	}
}

// The outcome is queried by the id under which the attempt was started.
func TestResumeUsesSameAttemptID(t *testing.T) {
	s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit3}}}
	rec := &fakeRecorder{}
	runs, err := newRunner(s, rec).run(t.Context(), hooks.PostClaim, []hooks.Hook{newHook("a", hooks.Fail, 0)}, Subject{})
	require.Error(t, err)
	runs[0].State = hooks.Running
	s.waitResults, rec.prior = []scriptedResult{exit0}, runs
	_, err = newRunner(s, rec).run(t.Context(), hooks.PostClaim, []hooks.Hook{newHook("a", hooks.Fail, 0)}, Subject{})
	require.NoError(t, err)
	require.Equal(t, s.calls[0].RunID, s.waitCalls[0].RunID)
	require.NotEmpty(t, s.waitCalls[0].RunID)
}

// Hooks that cannot run are skipped; a hook that had started gets its own
// outcome.
func TestSkipResumesStartedRuns(t *testing.T) {
	s := &scriptedRuntime{waitResults: []scriptedResult{lost}}
	rec := &fakeRecorder{prior: []hooks.Run{{ID: "r", Hook: "a", Attempt: 1, State: hooks.Running}}}
	runs, err := newRunner(s, rec).run(t.Context(), hooks.PreRelease, []hooks.Hook{newHook("a", hooks.Fail, 0), newHook("z", hooks.Fail, 0)}, Subject{}, "it has exited")
	require.NoError(t, err)
	require.Equal(t, []string{"end a.1 lost", "skip z.1 skipped"}, rec.trace)
	require.Len(t, runs, 2)
}

// If the engine is unavailable for minutes while hooks are skipped, neither the
// outcome of a started hook nor the records of the skipped ones are lost.
func TestSkipWaitsForEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedRuntime{waitResults: []scriptedResult{unavailable, unavailable, unavailable, unavailable, unavailable, unavailable, unavailable, unavailable, lost}}
		rec := &fakeRecorder{prior: []hooks.Run{{ID: "r", Hook: "a", Attempt: 1, State: hooks.Running}}}
		start := time.Now()
		_, err := newRunner(s, rec).run(t.Context(), hooks.PreRelease, []hooks.Hook{newHook("a", hooks.Fail, 0), newHook("z", hooks.Fail, 0)}, Subject{}, "it has exited")
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
	_, err := newRunner(&scriptedRuntime{}, rec).run(ctx, hooks.PreRelease, []hooks.Hook{newHook("a", hooks.Fail, 0)}, Subject{}, "it has exited")
	require.NoError(t, err)
	require.Equal(t, []string{"skip a.1 skipped"}, rec.trace)
}

// If the records of a point cannot be read, no hook runs, because a hook could
// run twice.
func TestNoHookRunsIfRecordsAreUnreadable(t *testing.T) {
	full := errors.New("disk full")
	s := &scriptedRuntime{}
	_, err := newRunner(s, &fakeRecorder{errs: map[string]error{"list": full}}).run(
		t.Context(), hooks.PostClaim, []hooks.Hook{newHook("a", hooks.Fail, 0)}, Subject{})
	require.ErrorIs(t, err, full)
	require.Empty(t, s.calls)
}

// A new flow does not look up prior runs.
func TestFirstRunSkipsLookup(t *testing.T) {
	rec := &fakeRecorder{errs: map[string]error{"list": errors.New("asked")}}
	s := &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit0}}}
	_, err := newRunner(s, rec).run(t.Context(), hooks.PostClaim, []hooks.Hook{newHook("a", hooks.Fail, 0)}, Subject{NoPriorRuns: true})
	require.NoError(t, err)
	require.Equal(t, []string{"start a.1 running", "end a.1 succeeded"}, rec.trace)
}

// A run whose flow is not resumed ends once, as unknown; other runs do not
// change.
func TestMarkUnknown(t *testing.T) {
	rec := &fakeRecorder{prior: []hooks.Run{
		{ID: "r", Hook: "a", Attempt: 2, State: hooks.Running, StartedAt: time.Now()},
		{ID: "s", Hook: "b", Attempt: 1, State: hooks.Running, StartedAt: time.Now()},
		{ID: "t", Hook: "c", Attempt: 1, State: hooks.Running, StartedAt: time.Now()},
	}}
	ids := []string{"r", "s"} // the third is another server's
	err := newRunner(nil, rec).MarkUnknown(t.Context(), ids, func(_ context.Context, r hooks.Run) (bool, error) { return r.ID == "s", nil })
	require.NoError(t, err)
	require.Equal(t, []string{"end a.2 unknown"}, rec.trace)
	require.NotNil(t, rec.runs[0].EndedAt)
	require.Nil(t, rec.runs[0].ExitCode)
	broken := errors.New("no answer")
	require.ErrorIs(t, newRunner(nil, rec).MarkUnknown(t.Context(), ids, func(context.Context, hooks.Run) (bool, error) { return false, broken }), broken)
}

// A flow that is canceled while it waits for the command of an event hook ends
// with the cause, and the container stays usable. After the longest wait it does
// not.
func TestCanceledFlowTaintsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &fakeRecorder{prior: []hooks.Run{{ID: "r", Hook: "e", Event: "claim.activated", Kind: hooks.KindCommand, State: hooks.Running}}}
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("the server stops")
		time.AfterFunc(time.Second, func() { cancel(stopped) })
		tainted, err := newRunner(nil, rec).AwaitEventHooks(ctx, "k")
		require.ErrorIs(t, err, stopped)
		require.Empty(t, tainted)
		tainted, err = newRunner(nil, rec).AwaitEventHooks(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, `event hook "e" has not ended`, tainted)
	})
}
