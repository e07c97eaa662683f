package flow

import (
	"context"
	"errors"
	"testing"

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
		timings, err := Run(t.Context(), "test", step("a", 0), step("b", 1), Step{Name: "skipped", When: func() bool { return false }}, step("c", 2))
		want := [][]string{
			{"do a", "undo a"},
			{"do a", "do b", "undo b", "undo a"},
			{"do a", "do b", "do c", "undo c", "undo b", "undo a"},
			{"do a", "do b", "do c"},
		}[fail]
		require.Equal(t, want, trace)
		require.NotContains(t, timings, "skipped")
		if fail == 3 {
			require.NoError(t, err)
			require.Len(t, timings, 3)
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
	_, err := Run(ctx, "test",
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
