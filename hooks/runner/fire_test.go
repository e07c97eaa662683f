package runner

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/workload"
)

// stubRuntime has one container.
type stubRuntime struct {
	status  runtime.Status
	err     error
	queries int
}

func (s *stubRuntime) Status(context.Context, string) (runtime.Status, error) {
	s.queries++
	return s.status, s.err
}

func (s *stubRuntime) Protocols() runtime.Protocols { return runtime.Protocols{Oldest: 2, Current: 3} }

// call is an action in the container, on the server if its kind is set.
type call struct {
	state hooks.RunState
	kind  hooks.Kind
}

func (c call) Kind() hooks.Kind { return cmp.Or(c.kind, hooks.KindScript) }
func (call) Summary() []string  { return nil }
func (call) Names() []string    { return nil }

// callExecutor ends calls in their state, and as Unknown if their flow is
// canceled. Every ending permits everything.
type callExecutor struct{ contexts []Context }

func (x *callExecutor) Execute(ctx context.Context, a Attempt) Result {
	x.contexts = append(x.contexts, a.Context)
	if ctx.Err() != nil {
		return Result{State: hooks.Cancelled, Err: context.Cause(ctx)}
	}
	return Result{State: a.Action.(call).state}
}

func (x *callExecutor) WaitResult(context.Context, Attempt) Result {
	return Result{State: hooks.Unknown, Gone: true}
}

func (x *callExecutor) Ending(hooks.Run) Ending { return Ending{MayRetry: true, MayContinue: true} }

// hooksAt returns a workload with two hooks at p.
func hooksAt(p hooks.Point, first hooks.Hook) *workload.Workload {
	second := newCall(hooks.Succeeded, hooks.Fail)
	second.Name = "z"
	return &workload.Workload{Hooks: map[hooks.Point][]hooks.Hook{p: {first, second}}}
}

func newCall(state hooks.RunState, policy hooks.OnError) hooks.Hook {
	return hooks.Hook{Name: "a", Action: call{state: state}, OnError: policy}
}

// The table decides what a failed point means for its flow: an error where it
// aborts, else a warning. At every point a hook with on_error: continue is a
// warning.
func TestFireFollowsAborts(t *testing.T) {
	for _, rule := range hooks.Points() {
		t.Run(string(rule.Point), func(t *testing.T) {
			fire := func(h hooks.Hook) (Outcome, error) {
				r := New(&stubRuntime{status: runtime.Status{State: runtime.Running}}, &fakeRecorder{}, Executors{hooks.KindScript: &callExecutor{}}, nil)
				return r.Fire(t.Context(), rule.Point, hooksAt(rule.Point, h), Subject{Protocol: 3})
			}
			out, err := fire(newCall(hooks.Failed, hooks.Fail))
			_, isHookError := errors.AsType[*hooks.Error](err)
			require.Equal(t, rule.Aborts, isHookError, "%v", err)
			require.Equal(t, rule.Aborts, out.Failure == nil)
			require.Len(t, out.Runs, 2)
			require.Len(t, out.Warnings, 1)
			require.Empty(t, out.Tainted)

			out, err = fire(newCall(hooks.Failed, hooks.Continue))
			require.NoError(t, err)
			require.Len(t, out.Warnings, 1)
			require.Equal(t, hooks.Succeeded, out.Runs[1].State)

			out, err = fire(newCall(hooks.Lost, hooks.Continue))
			require.NoError(t, err)
			require.Equal(t, `hook "a" ended as lost`, out.Tainted)

			out, err = fire(newCall(hooks.Succeeded, hooks.Fail))
			require.NoError(t, err)
			require.Equal(t, []string{}, out.Warnings, "a list in responses, not null")
		})
	}
	out, err := New(nil, &fakeRecorder{}, nil, nil).Fire(t.Context(), hooks.PostClaim, &workload.Workload{}, Subject{})
	require.NoError(t, err)
	require.Equal(t, []string{}, out.Warnings)
}

// A point that aborts its flow is canceled with it, and one of a wait with the wait.
// The hooks of the others are not: all of them run.
func TestFireFollowsCancel(t *testing.T) {
	stop := errors.New("the server stops")
	for _, rule := range hooks.Points() {
		ctx, cancel := context.WithCancelCause(t.Context())
		x := &scriptedRuntime{results: map[string][]scriptedResult{"a": {{duringExec: func() { cancel(stop) }}}}}
		r := New(&stubRuntime{status: runtime.Status{State: runtime.Running}}, &fakeRecorder{}, Executors{hooks.KindCommand: NewCommandExecutor(x), hooks.KindScript: &callExecutor{}}, nil)
		out, err := r.Fire(ctx, rule.Point, hooksAt(rule.Point, newHook("a", hooks.Fail, 0)), Subject{Protocol: 3, NoPriorRuns: true})
		follows := rule.Aborts || rule.OfWait
		require.Equal(t, follows, errors.Is(err, context.Canceled), "%s: %v", rule.Point, err)
		require.Equal(t, !follows, len(out.Runs) == 2 && out.Runs[1].State == hooks.Succeeded, rule.Point)
	}
}

// After the hooks of a container were ended, those of claims and creations do not
// run, and those of pre_destroy run unless they were ended too. What runs in other
// containers continues.
func TestFireAfterEnd(t *testing.T) {
	cause := errors.New("by force")
	for _, rule := range hooks.Points() {
		for _, now := range []bool{false, true} {
			x := &scriptedRuntime{results: map[string][]scriptedResult{"a": {exit0}}}
			r := New(&stubRuntime{status: runtime.Status{State: runtime.Running}}, &fakeRecorder{}, Executors{hooks.KindCommand: NewCommandExecutor(x), hooks.KindScript: &callExecutor{}}, nil)
			fired := func(container string) (hooks.RunState, error) {
				out, err := r.Fire(t.Context(), rule.Point, hooksAt(rule.Point, newHook("a", hooks.Fail, 0)), Subject{Container: container, Protocol: 3, NoPriorRuns: true})
				if err != nil {
					return "", err
				}
				return out.Runs[0].State, nil
			}
			r.End("k", now, cause)
			r.End("k", false, cause)
			state, err := fired("k")
			require.Equal(t, rule.Aborts, errors.Is(err, cause), "%s: %v", rule.Point, err)
			if !rule.Aborts {
				require.Equal(t, rule.AwaitsOthers && now || rule.OfWait, state == hooks.Skipped, rule.Point)
			}
			state, err = fired("l")
			require.NoError(t, err)
			require.Equal(t, hooks.Succeeded, state)
			r.Forget("k")
			_, err = fired("k")
			require.NoError(t, err)
			require.Empty(t, r.endings.ended)
			require.Empty(t, r.endings.firings)
		}
	}
}

// Where the main process may have exited, the hooks of a stopped container are
// skipped with a warning, and the point is not fired while the engine is
// unavailable. Elsewhere the flow has seen to it that the container runs.
func TestFireInStoppedContainer(t *testing.T) {
	tests := map[string]struct {
		rt      stubRuntime
		subject Subject
		reason  string // of the skip
		err     error
		queries int
	}{
		"known to have exited": {stubRuntime{}, Subject{Protocol: 3, HasExited: true}, notRunning, nil, 0},
		"exited":               {stubRuntime{status: runtime.Status{State: runtime.Exited}}, Subject{Protocol: 3}, notRunning, nil, 1},
		"removed":              {stubRuntime{err: runtime.ErrNotFound}, Subject{Protocol: 3}, notRunning, nil, 1},
		"too old":              {stubRuntime{status: runtime.Status{State: runtime.Running}}, Subject{Protocol: 1}, runtime.ErrTooOld.Error(), nil, 0},
		"engine unavailable":   {stubRuntime{err: runtime.ErrUnavailable}, Subject{Protocol: 3}, "", runtime.ErrUnavailable, 1},
		"running":              {stubRuntime{status: runtime.Status{State: runtime.Running}}, Subject{Protocol: 3}, "", nil, 1},
	}
	for _, rule := range hooks.Points() {
		for name, tt := range tests {
			t.Run(string(rule.Point)+" "+name, func(t *testing.T) {
				rt, rec, x := tt.rt, &fakeRecorder{}, &callExecutor{}
				out, err := New(&rt, rec, Executors{hooks.KindScript: x}, nil).Fire(
					t.Context(), rule.Point, hooksAt(rule.Point, newCall(hooks.Succeeded, hooks.Fail)), tt.subject)
				if !rule.MayBeStopped {
					require.NoError(t, err)
					require.Zero(t, rt.queries)
					require.Len(t, x.contexts, 2)
					return
				}
				require.Equal(t, tt.queries, rt.queries)
				require.ErrorIs(t, err, tt.err)
				if tt.err != nil {
					require.Empty(t, rec.trace)
					return
				}
				require.Len(t, out.Runs, 2)
				if tt.reason == "" {
					require.Len(t, x.contexts, 2)
					require.Empty(t, out.Warnings)
					return
				}
				require.Empty(t, x.contexts)
				require.NoError(t, out.Failure)
				require.Equal(t, []string{string(rule.Point) + " did not run: " + tt.reason}, out.Warnings)
				require.Equal(t, []string{"skip a.1 skipped", "skip z.1 skipped"}, rec.trace)
			})
		}
	}
}

// A point that has run and is fired again in a stopped container, as when a
// release is retried after its upload, has skipped nothing. One that was skipped
// is reported again.
func TestFireAgainInStoppedContainer(t *testing.T) {
	ran := []hooks.Run{
		{ID: "a", Point: hooks.PreRelease, Hook: "a", Index: 0, Attempt: 1, State: hooks.Succeeded},
		{ID: "z", Point: hooks.PreRelease, Hook: "z", Index: 1, Attempt: 1, State: hooks.Succeeded},
	}
	skipped := []hooks.Run{
		{ID: "a", Point: hooks.PreRelease, Hook: "a", Index: 0, Attempt: 1, State: hooks.Skipped, Error: notRunning},
		{ID: "z", Point: hooks.PreRelease, Hook: "z", Index: 1, Attempt: 1, State: hooks.Skipped, Error: notRunning},
	}
	for _, state := range []runtime.State{runtime.Exited, runtime.Running} {
		rt := &stubRuntime{status: runtime.Status{State: state}}
		all := hooksAt(hooks.PreRelease, newCall(hooks.Succeeded, hooks.Fail))
		out, err := New(rt, &fakeRecorder{prior: ran}, Executors{hooks.KindScript: &callExecutor{}}, nil).Fire(t.Context(), hooks.PreRelease, all, Subject{Protocol: 3})
		require.NoError(t, err)
		require.Empty(t, out.Warnings)
		out, err = New(rt, &fakeRecorder{prior: skipped}, Executors{hooks.KindScript: &callExecutor{}}, nil).Fire(t.Context(), hooks.PreRelease, all, Subject{Protocol: 3})
		require.NoError(t, err)
		require.Equal(t, []string{"pre_release did not run: the container is not running"}, out.Warnings)
	}
}

// A flow that is stopped while the engine is queried starts no hook and skips
// none: the next server fires the point.
func TestFireCanceledBeforeStart(t *testing.T) {
	stop := errors.New("the server stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	rec := &fakeRecorder{}
	_, err := New(&stubRuntime{err: context.Canceled}, rec, Executors{hooks.KindScript: &callExecutor{}}, nil).Fire(
		ctx, hooks.PreDestroy, hooksAt(hooks.PreDestroy, newCall(hooks.Succeeded, hooks.Fail)), Subject{Protocol: 3})
	require.ErrorIs(t, err, stop)
	require.Empty(t, rec.trace)
}

// A point fails if this server cannot perform the kind of one of its actions.
func TestUnsupportedKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &fakeRecorder{}
		out, err := New(&stubRuntime{}, rec, nil, nil).Fire(
			t.Context(), hooks.PostClaim, hooksAt(hooks.PostClaim, newCall(hooks.Succeeded, hooks.Continue)), Subject{})
		require.ErrorContains(t, err, `actions of kind "script" are not supported`)
		require.Equal(t, hooks.StartFailed, out.Runs[0].State)
		require.Equal(t, []string{"start a.1 running", "end a.1 start_failed", "skip z.1 skipped"}, rec.trace)
	})
}

// An executor gets the whole context of an attempt.
func TestContextOfAttempt(t *testing.T) {
	x := &callExecutor{}
	out, err := New(&stubRuntime{}, &fakeRecorder{}, Executors{hooks.KindScript: x}, nil).Fire(
		t.Context(), hooks.PostClaim, hooksAt(hooks.PostClaim, newCall(hooks.Succeeded, hooks.Fail)),
		Subject{Workload: "w", Container: "k", Claim: "c", Tenant: "t", Source: "fresh"})
	require.NoError(t, err)
	require.Equal(t, Context{
		Run: out.Runs[0].ID, Attempt: 1, Hook: "a", Point: hooks.PostClaim,
		Workload: "w", Container: "k", Claim: "c", Tenant: "t", Source: "fresh",
	}, x.contexts[0])
}
