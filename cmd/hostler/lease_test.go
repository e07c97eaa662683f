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
func TestExpiredLeaseBlocksEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		rt := fencedRuntime{nil, l} // what is let through would not end well
		require.ErrorIs(t, rt.Restart(t.Context(), "k", 1), runtime.ErrUnavailable)
		l.renewed(time.Now())
		require.True(t, l.isHeld())
		require.Panics(t, func() { _ = rt.Restart(t.Context(), "k", 1) }, "it is let through")

		require.NoError(t, flow.Sleep(t.Context(), heartbeatInterval))
		require.True(t, l.isHeld())
		l.renewed(time.Now())
		require.False(t, l.inGrace())

		startedAt := time.Now()
		require.NoError(t, flow.Sleep(t.Context(), store.LeaseTime))
		require.False(t, l.isHeld())
		_, err := rt.Exec(t.Context(), "k", runtime.Command{})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		l.renewed(startedAt)
		require.False(t, l.isHeld(), "the renewal began long before it was answered")

		require.NoError(t, flow.Sleep(t.Context(), store.LeaseTime))
		l.renewed(time.Now())
		require.True(t, l.isHeld())
		require.True(t, l.inGrace())
		require.NoError(t, flow.Sleep(t.Context(), 2*heartbeatInterval))
		l.renewed(time.Now())
		require.False(t, l.inGrace())
	})
}
