package singleflight

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

type group = Group[string, int, string]

// Concurrent callers for one key share one call and its result; other keys are
// independent, and the key is free when the call has ended.
func TestCallersShareOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		call, first := g.Join(t.Context(), "k", 1)
		require.True(t, first)
		var waiters errgroup.Group
		for range 10 {
			waiters.Go(func() error {
				joined, first := g.Join(t.Context(), "k", 2)
				assert.False(t, first)
				assert.Same(t, call, joined)
				assert.Equal(t, 1, joined.Arg)
				assert.NoError(t, joined.Wait(t.Context()))
				result, err := joined.Result()
				assert.Equal(t, "done", result)
				return err
			})
		}
		synctest.Wait()
		other, first := g.Join(t.Context(), "other", 3)
		require.True(t, first)
		other.End()
		require.Same(t, call, g.Find("k"))
		require.Same(t, call, g.FindFunc(func(arg int) bool { return arg == 1 }))
		require.Nil(t, g.FindFunc(func(arg int) bool { return arg == 2 }))
		call.SetResult("done", nil)
		call.End()
		require.NoError(t, waiters.Wait())
		require.Nil(t, g.Find("k"))
		next, first := g.Join(t.Context(), "k", 4)
		require.True(t, first)
		next.End()
	})
}

// The work outlives its caller, and a waiter that cancels does not end it.
func TestWorkOutlivesCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var g group
		gone := errors.New("the caller is gone")
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
		call, _ := g.Join(ctx, "k", 0)
		cancel(gone)
		synctest.Wait()
		require.NoError(t, call.Context().Err())
		require.Equal(t, "value", call.Context().Value(key{}))
		joined, _ := g.Join(ctx, "k", 0)
		require.ErrorIs(t, joined.Wait(ctx), gone)
		require.NoError(t, call.Context().Err())
		call.End()
		require.Error(t, call.Context().Err())
	})
}

// A canceled call ends with the cause, after it was closed also one that starts
// later. It stays in progress until its function returns.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		aborted, stopping := errors.New("aborted"), errors.New("stopping")
		one, _ := g.Join(t.Context(), "one", 0)
		two, _ := g.Join(t.Context(), "two", 0)
		one.Cancel(aborted)
		g.CancelAll(stopping)
		require.ErrorIs(t, context.Cause(one.Context()), aborted)
		require.ErrorIs(t, context.Cause(two.Context()), stopping)
		require.Same(t, one, g.Find("one"))
		three, _ := g.Join(t.Context(), "three", 0)
		require.NoError(t, three.Context().Err())
		g.Close(stopping)
		four, first := g.Join(t.Context(), "four", 0)
		require.True(t, first)
		for _, call := range []*Call[int, string]{three, four} {
			require.ErrorIs(t, context.Cause(call.Context()), stopping)
		}
	})
}

// Waiters of a call whose function panics get an error.
func TestInterruptedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		call, _ := g.Join(t.Context(), "k", 0)
		require.Panics(t, func() {
			defer call.End()
			panic("broken")
		})
		require.NoError(t, call.Wait(t.Context()))
		_, err := call.Result()
		require.ErrorIs(t, err, errInterrupted)
	})
}
