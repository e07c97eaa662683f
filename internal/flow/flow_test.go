package flow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A flow that fails at any step runs no later step, and undoes that step and
// all before it, last first.
func TestRunUndoesInReverse(t *testing.T) {
	errStep := errors.New("broken")
	for fail := range 4 {
		var trace []string
		step := func(name string, i int) Step {
			return Step{
				Name: name,
				Do: func(context.Context) error {
					trace = append(trace, "do "+name)
					if i == fail {
						return errStep
					}
					return nil
				},
				Undo: func(_ context.Context, cause error) error {
					require.ErrorIs(t, cause, errStep)
					trace = append(trace, "undo "+name)
					return nil
				},
			}
		}
		f := New(t.Context(), t.Context(), "test")
		err := f.Run(step("a", 0), step("b", 1), Step{Name: "skipped", When: func() bool { return false }}, step("c", 2))
		want := [][]string{
			{"do a", "undo a"},
			{"do a", "do b", "undo b", "undo a"},
			{"do a", "do b", "do c", "undo c", "undo b", "undo a"},
			{"do a", "do b", "do c"},
		}[fail]
		require.Equal(t, want, trace)
		require.NotContains(t, f.Timings, "skipped")
		if fail == 3 {
			require.NoError(t, err)
			require.Len(t, f.Timings, 3)
			continue
		}
		require.ErrorIs(t, err, errStep)
		failed, ok := errors.AsType[*Error](err)
		require.True(t, ok)
		require.Equal(t, string("abc"[fail]), failed.Step)
	}
}

// Undo continues after the flow is canceled, and its errors are returned.
func TestRunUndoesAfterCancel(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	errCanceled, errUndo := errors.New("canceled by the caller"), errors.New("undo failed")
	err := Run(ctx, "test",
		Step{
			Name: "first",
			Do:   func(context.Context) error { cancel(errCanceled); return nil },
			Undo: func(ctx context.Context, _ error) error {
				require.NoError(t, ctx.Err())
				return errUndo
			},
		},
		Step{Name: "second", Do: func(context.Context) error { t.Error("a step ran after the cancellation"); return nil }},
	)
	require.ErrorIs(t, err, errCanceled)
	require.ErrorIs(t, err, errUndo)
}

// A list that stops early is complete: nothing is undone, and the flow can continue
// with another list.
func TestRunStops(t *testing.T) {
	unexpected := func(context.Context, error) error { t.Error("undo"); return nil }
	f := New(t.Context(), t.Context(), "test")
	require.NoError(t, f.Run(
		Step{Name: "first", Do: func(context.Context) error { return ErrStop }, Undo: unexpected},
		Step{Name: "second", Do: func(context.Context) error { t.Error("a step ran after the stop"); return nil }},
	))
	require.NoError(t, f.Run(Step{Name: "third", Do: func(context.Context) error { return nil }}))
	require.ElementsMatch(t, []string{"first", "third"}, slices.Collect(maps.Keys(f.Timings)))
}

// A step that waits has the caller's context, and runs even if that has ended.
// Every other step and undo has the context of the work.
func TestCallersContext(t *testing.T) {
	type key struct{}
	caller, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "caller"))
	cancel()
	work := context.WithValue(t.Context(), key{}, "work")
	errLast := errors.New("the last step failed")
	requireContext := func(want string) func(context.Context) error {
		return func(ctx context.Context) error {
			require.Equal(t, want, ctx.Value(key{}))
			return nil
		}
	}
	undone := false
	err := New(caller, work, "test").Run(
		Step{Name: "waits", Waits: true, Do: requireContext("caller"), Undo: func(ctx context.Context, _ error) error {
			undone = true
			return requireContext("work")(ctx)
		}},
		Step{Name: "works", Do: requireContext("work")},
		Step{Name: "fails", Do: func(context.Context) error { return errLast }},
	)
	require.ErrorIs(t, err, errLast)
	require.True(t, undone)
}

// What was done before the flow is undone with its steps, and a failure of one
// list does not undo another.
func TestUndoOfList(t *testing.T) {
	var undone []string
	undo := func(name string) func(context.Context, error) error {
		return func(context.Context, error) error { undone = append(undone, name); return nil }
	}
	f := New(t.Context(), t.Context(), "test")
	require.NoError(t, f.Run(Step{Name: "other list", Undo: undo("other list")}))
	err := f.Run(
		Step{Name: "done before", Undo: undo("done before")},
		Step{Name: "fails", Do: func(context.Context) error { return errors.New("broken") }},
	)
	require.EqualError(t, err, "fails: broken")
	require.Equal(t, []string{"done before"}, undone)
}

// observer records the steps.
type observer struct{ trace []string }

func (o *observer) StepStarted(ctx context.Context, flow, step string) (context.Context, func(error)) {
	o.trace = append(o.trace, "start "+flow+"/"+step)
	return context.WithValue(ctx, o, step), func(err error) { o.trace = append(o.trace, fmt.Sprintf("end %s: %v", step, err)) }
}

// An observer learns the start and the end of every step that runs, and its
// context reaches the step. Timings of a repeated step add up.
func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &observer{}
		f := New(t.Context(), t.Context(), "test")
		f.Observer = o
		broken := errors.New("broken")
		var result error
		step := Step{Name: "a", Do: func(ctx context.Context) error {
			require.Equal(t, "a", ctx.Value(o))
			<-time.After(time.Second)
			return result
		}}
		require.NoError(t, f.Run(step, Step{Name: "skipped", When: func() bool { return false }}))
		result = broken
		require.ErrorIs(t, f.Run(step), broken)
		require.Equal(t, []string{"start test/a", "end a: <nil>", "start test/a", "end a: broken"}, o.trace)
		require.Equal(t, Timings{"a": 2000}, f.Timings)
	})
}
