package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store"
)

// A server that has not said in time that it is alive leaves the engine alone,
// and when it can say so again thinks nobody else dead for a while.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		rt := leased{nil, l} // what is let through would not end well
		require.ErrorIs(t, rt.Restart(t.Context(), "k", 1), runtime.ErrUnavailable)
		l.renewed(time.Now())
		require.True(t, l.holds())
		require.Panics(t, func() { _ = rt.Restart(t.Context(), "k", 1) }, "it is let through")

		require.NoError(t, flow.Pause(t.Context(), beat))
		require.True(t, l.holds())
		l.renewed(time.Now())
		require.False(t, l.isWary())

		begun := time.Now()
		require.NoError(t, flow.Pause(t.Context(), store.LeaseTime))
		require.False(t, l.holds())
		_, err := rt.Exec(t.Context(), "k", runtime.Command{})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		l.renewed(begun)
		require.False(t, l.holds(), "the renewal began long before it was answered")

		require.NoError(t, flow.Pause(t.Context(), store.LeaseTime))
		l.renewed(time.Now())
		require.True(t, l.holds())
		require.True(t, l.isWary())
		require.NoError(t, flow.Pause(t.Context(), 2*beat))
		l.renewed(time.Now())
		require.False(t, l.isWary())
	})
}
