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

// withImageHooks returns a workload of an image with hooks, and with one of the
// file at post_claim.
func withImageHooks() *workload.Workload {
	own := newHook("own", hooks.Fail, 0)
	return &workload.Workload{ImageHooks: true, File: "f", Hooks: map[hooks.Point][]hooks.Hook{hooks.PostClaim: {own}}}
}

// namesOf returns the hooks of runs, with their states.
func namesOf(runs []hooks.Run) map[string]hooks.RunState {
	all := map[string]hooks.RunState{}
	for _, r := range runs {
		all[r.Hook] = r.State
	}
	return all
}

// The hooks of the image are first, with the defaults of the point. They are run by
// their digests.
func TestImageHooksAreFirst(t *testing.T) {
	x := &commandRecorder{}
	r := New(&stubRuntime{status: runtime.Status{State: runtime.Running}}, &fakeRecorder{}, Executors{hooks.KindCommand: x}, files{})
	out, err := r.Fire(t.Context(), hooks.PostClaim, withImageHooks(), Subject{Container: "k", NoPriorRuns: true})
	require.NoError(t, err)
	require.Len(t, out.Runs, 3)
	for i, name := range []string{"image:post_claim", "image:10-a", "own"} {
		require.Equal(t, name, out.Runs[i].Hook)
		require.Equal(t, i, out.Runs[i].Index)
		require.Equal(t, hooks.KindCommand, out.Runs[i].Kind)
	}
	require.Equal(t, []string{"/etc/hostler/hooks/post_claim.d/10-a"}, out.Runs[1].Command)
	first := CommandOf(x.attempts[0])
	require.Equal(t, []string{"/etc/hostler/hooks/post_claim"}, first.Args)
	require.Equal(t, "d1", first.Digest)
	require.Equal(t, hooks.DefaultTimeout, first.Timeout)
	require.Empty(t, first.User)
	require.Equal(t, "d1", commandQuery(x.attempts[0]).Digest)
	require.Empty(t, CommandOf(x.attempts[2]).Digest)

	out, err = r.Fire(t.Context(), hooks.PreRelease, withImageHooks(), Subject{Container: "k", NoPriorRuns: true, Protocol: 3})
	require.NoError(t, err)
	require.Equal(t, map[string]hooks.RunState{"image:pre_release": hooks.Succeeded}, namesOf(out.Runs), "a point without hooks of the file")
}

// A failed hook of the image fails the point, and the rest is skipped.
func TestFailedImageHook(t *testing.T) {
	x := &commandRecorder{failing: "image:10-a"}
	r := New(nil, &fakeRecorder{}, Executors{hooks.KindCommand: x}, files{})
	out, err := r.Fire(t.Context(), hooks.PostClaim, withImageHooks(), Subject{Container: "k", NoPriorRuns: true})
	require.ErrorContains(t, err, `hook "image:10-a"`)
	require.Equal(t, map[string]hooks.RunState{
		"image:post_claim": hooks.Succeeded, "image:10-a": hooks.StartFailed, "own": hooks.Skipped,
	}, namesOf(out.Runs))
}

// A workload without image_hooks runs none, and reads none. A list that cannot be
// read is none.
func TestImageHooksOfOtherWorkloads(t *testing.T) {
	w := withImageHooks()
	w.ImageHooks = false
	r := New(nil, &fakeRecorder{}, Executors{hooks.KindCommand: &commandRecorder{}}, nil)
	out, err := r.Fire(t.Context(), hooks.PostClaim, w, Subject{Container: "k", NoPriorRuns: true})
	require.NoError(t, err)
	require.Len(t, out.Runs, 1)

	r = New(nil, &fakeRecorder{}, Executors{hooks.KindCommand: &commandRecorder{}}, files{})
	out, err = r.Fire(t.Context(), hooks.PostClaim, withImageHooks(), Subject{Container: "other", NoPriorRuns: true})
	require.ErrorContains(t, err, "no such container")
	require.Empty(t, out.Runs)
}

// A point that is resumed counts the hooks of the image: none runs twice.
func TestResumeWithImageHooks(t *testing.T) {
	prior := []hooks.Run{
		{ID: "0", Hook: "image:post_claim", Index: 0, State: hooks.Succeeded},
		{ID: "1", Hook: "image:10-a", Index: 1, State: hooks.Running},
	}
	for i := range prior {
		prior[i].Point, prior[i].Attempt, prior[i].Kind, prior[i].File = hooks.PostClaim, 1, hooks.KindCommand, "f"
	}
	x := &commandRecorder{}
	r := New(nil, &fakeRecorder{prior: prior}, Executors{hooks.KindCommand: x}, files{})
	out, err := r.Fire(t.Context(), hooks.PostClaim, withImageHooks(), Subject{Container: "k"})
	require.NoError(t, err)
	require.Equal(t, map[string]hooks.RunState{
		"image:post_claim": hooks.Succeeded, "image:10-a": hooks.Succeeded, "own": hooks.Succeeded,
	}, namesOf(out.Runs))
	require.Len(t, x.attempts, 1, "only the hook of the file is started")
	require.Equal(t, "own", x.attempts[0].Hook)
	require.Len(t, x.awaited, 1)
	require.Equal(t, "1.1", x.awaited[0].ID())
}

// commandRecorder is an executor that records the attempts. The hook failing cannot
// be started.
type commandRecorder struct {
	failing           string
	attempts, awaited []Attempt
}

func (x *commandRecorder) Execute(_ context.Context, a Attempt) Result {
	x.attempts = append(x.attempts, a)
	if a.Hook == x.failing {
		return Result{State: hooks.StartFailed, Err: errors.New("it was changed")}
	}
	return Result{State: hooks.Succeeded}
}

func (x *commandRecorder) WaitResult(_ context.Context, a Attempt) Result {
	x.awaited = append(x.awaited, a)
	return Result{State: hooks.Succeeded}
}

func (*commandRecorder) Ending(r hooks.Run) Ending { return CommandExecutor{}.Ending(r) }
