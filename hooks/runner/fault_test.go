package runner

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// panicking is an executor with a bug.
type panicking struct{}

func (panicking) Execute(context.Context, Attempt) Result    { panic("a bug") }
func (panicking) WaitResult(context.Context, Attempt) Result { panic("a bug") }
func (panicking) Ending(hooks.Run) Ending                    { return Ending{} }

// A panic of an executor ends its attempt as unknown, on record, and the
// container is tainted. So it does when the point is resumed.
func TestExecutorPanics(t *testing.T) {
	for _, prior := range [][]hooks.Run{nil, {{ID: "r", Hook: "a", Attempt: 1, State: hooks.Running, Kind: hooks.KindCommand}}} {
		rec := &fakeRecorder{prior: prior}
		out, err := New(nil, rec, Executors{hooks.KindCommand: panicking{}}, nil).Fire(
			t.Context(), hooks.PostClaim, &workload.Workload{Hooks: map[hooks.Point][]hooks.Hook{hooks.PostClaim: {newHook("a", hooks.Continue, 0)}}}, Subject{Container: "k"})
		require.ErrorIs(t, err, runtime.ErrTainted)
		require.ErrorContains(t, err, "panic: a bug")
		require.NotEmpty(t, out.Tainted)
		require.Equal(t, "end a.1 unknown", rec.trace[len(rec.trace)-1])
	}
}

// running is the runtime of a container that runs.
func running() *stubRuntime { return &stubRuntime{status: runtime.Status{State: runtime.Running}} }

// firePreRelease fires a point that does not abort its flow, with two hooks.
func firePreRelease(t *testing.T, rt *stubRuntime, rec *fakeRecorder, results map[string][]scriptedResult) (Outcome, error) {
	r := New(rt, rec, Executors{hooks.KindCommand: NewCommandExecutor(&scriptedRuntime{results: results})}, nil)
	w := &workload.Workload{Hooks: map[hooks.Point][]hooks.Hook{hooks.PreRelease: {newHook("a", hooks.Fail, 0), newHook("b", hooks.Fail, 0)}}}
	return r.Fire(t.Context(), hooks.PreRelease, w, Subject{Container: "k", Protocol: 3})
}

// A start that cannot be recorded skips no hook: the flow is retried, and all
// hooks run then.
func TestStorageErrorSkipsNoHook(t *testing.T) {
	full := errors.New("disk full")
	rec := &fakeRecorder{errs: map[string]error{"start": full}}
	results := map[string][]scriptedResult{"a": {exit0}, "b": {exit0}}
	_, err := firePreRelease(t, running(), rec, results)
	require.ErrorIs(t, err, full)
	require.Empty(t, rec.trace)
	rec.errs = nil
	out, err := firePreRelease(t, running(), rec, results)
	require.NoError(t, err)
	require.Empty(t, out.Warnings)
	require.Equal(t, []string{"start a.1 running", "end a.1 succeeded", "start b.1 running", "end b.1 succeeded"}, rec.trace)
}

// The record of a skipped hook that cannot be written is an error, also if a
// hook failed before.
func TestUnwrittenSkipIsAnError(t *testing.T) {
	full := errors.New("disk full")
	rec := &fakeRecorder{errs: map[string]error{"skip": full}}
	_, err := firePreRelease(t, running(), rec, map[string][]scriptedResult{"a": {exit3}})
	require.ErrorIs(t, err, full)
	_, isHookError := errors.AsType[*hooks.Error](err)
	require.True(t, isHookError)
}

// The reason why the status of a container is unknown is in the records and in
// the warning.
func TestStatusErrorIsReported(t *testing.T) {
	rec := &fakeRecorder{}
	out, err := firePreRelease(t, &stubRuntime{err: errors.New("its label is invalid")}, rec, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"pre_release did not run: the container is not running: its label is invalid"}, out.Warnings)
	require.Equal(t, []string{"skip a.1 skipped", "skip b.1 skipped"}, rec.trace)
}
