package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
)

// listOf returns hooks that succeed, and the runtime that runs them.
func listOf(names ...string) ([]hooks.Hook, *scriptedRuntime) {
	hs, rt := []hooks.Hook{}, &scriptedRuntime{results: map[string][]scriptedResult{}}
	for _, name := range names {
		hs, rt.results[name] = append(hs, newHook(name, hooks.Fail, 0)), []scriptedResult{exit0}
	}
	return hs, rt
}

var (
	threeRuns = []string{
		"start a.1 running", "end a.1 succeeded", "start b.1 running", "end b.1 succeeded", "start c.1 running", "end c.1 succeeded",
	}
	noPrior = Subject{NoPriorRuns: true}
)

// The end of a hook is written with the start of the next: a list of three costs
// four commits. When the action of a hook runs, the end of the one before is on
// record.
func TestEndIsRecordedWithNextStart(t *testing.T) {
	hs, rt := listOf("a", "b", "c")
	rec := &fakeRecorder{}
	onRecord := 0
	rt.results["b"][0].duringExec = func() { onRecord = len(rec.trace) }
	runs, err := newRunner(rt, rec).run(t.Context(), hooks.PostClaim, hs, noPrior)
	require.NoError(t, err)
	require.Len(t, runs, 3)
	require.Equal(t, threeRuns, rec.trace)
	require.Equal(t, 4, rec.commits)
	require.Equal(t, 3, onRecord)
	require.Equal(t, runs[0], rec.runs[1], "the record has the time at which it ended")
}

// If the two cannot be written together, each is written by itself.
func TestEndIsRecordedWithoutNextStart(t *testing.T) {
	hs, rt := listOf("a", "b", "c")
	rec := &fakeRecorder{errs: map[string]error{"follow": errors.New("connection lost")}}
	_, err := newRunner(rt, rec).run(t.Context(), hooks.PostClaim, hs, noPrior)
	require.NoError(t, err)
	require.Equal(t, threeRuns, rec.trace)
	require.Equal(t, 6, rec.commits)
}

// A hook that may not start, because its claim has ended or its flow was stopped,
// leaves the end of the one before on record.
func TestEndIsRecordedWhenNextMayNotStart(t *testing.T) {
	failure := errors.New("the claim has ended")
	for name, fail := range map[string]func(*fakeRecorder, context.CancelCauseFunc){
		"refused": func(rec *fakeRecorder, _ context.CancelCauseFunc) { rec.errs = map[string]error{"start": failure} },
		"stopped": func(_ *fakeRecorder, cancel context.CancelCauseFunc) { cancel(failure) },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		hs, rt := listOf("a", "b", "c")
		rec := &fakeRecorder{}
		rt.results["a"][0].duringExec = func() { fail(rec, cancel) }
		_, err := newRunner(rt, rec).run(ctx, hooks.PostClaim, hs, noPrior)
		require.Error(t, err, name)
		require.Equal(t, threeRuns[:2], rec.trace, name)
		require.Len(t, rt.calls, 1, name)
	}
}

// The end is on record before anything else is: the record of a hook that is
// skipped, that of an attempt that an earlier flow has started, and the end of the
// point.
func TestEndIsRecordedBeforeOthers(t *testing.T) {
	skipped, rt := listOf("a", "b", "c")
	skipped[1].Condition = condition(t, "POINT == pre_release")
	disabled, _ := listOf("a", "b", "c")
	disabled[1].Disabled, disabled[2].Disabled = true, true
	prior := hooks.Run{ID: "p", Attempt: 1, Point: hooks.PostClaim, Hook: "b", Index: 1, Kind: hooks.KindCommand, State: hooks.Running}
	for name, tt := range map[string]struct {
		hooks []hooks.Hook
		prior []hooks.Run
		trace []string
	}{
		"skipped":  {skipped, nil, []string{"start a.1 running", "end a.1 succeeded", "skip b.1 skipped", "start c.1 running", "end c.1 succeeded"}},
		"disabled": {disabled, nil, []string{"start a.1 running", "end a.1 succeeded"}},
		"prior": {
			skipped, []hooks.Run{prior},
			[]string{"start a.1 running", "end a.1 succeeded", "end b.1 succeeded", "start c.1 running", "end c.1 succeeded"},
		},
	} {
		rec := &fakeRecorder{prior: tt.prior}
		rt.waitResults = []scriptedResult{exit0}
		_, err := newRunner(rt, rec).run(t.Context(), hooks.PostClaim, tt.hooks, Subject{})
		require.NoError(t, err, name)
		require.Equal(t, tt.trace, rec.trace, name)
	}
}

// The end that cannot be written fails the point, whatever follows.
func TestHeldEndThatIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, rt := listOf("a", "b")
		hs[1].Disabled = true
		full := errors.New("disk full")
		_, err := newRunner(rt, &fakeRecorder{errs: map[string]error{"end": full}}).run(t.Context(), hooks.PostClaim, hs, noPrior)
		require.ErrorIs(t, err, full)
		require.ErrorContains(t, err, `record the end of hook "a"`)
	})
}
