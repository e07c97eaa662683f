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

// A server whose lease has expired does not use the engine. After the next
// renewal it treats no other server as expired during a grace period.
func TestExpiredLeaseBlocksEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		rt := fencedRuntime{nil, l} // a call that is not blocked panics
		require.ErrorIs(t, rt.Restart(t.Context(), "k", 1), runtime.ErrUnavailable)
		l.renewed(time.Now())
		require.True(t, l.isHeld())
		require.Panics(t, func() { _ = rt.Restart(t.Context(), "k", 1) }, "the call is not blocked")

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
		require.False(t, l.isHeld(), "the renewal began a lease time before its response")

		require.NoError(t, flow.Sleep(t.Context(), store.LeaseTime))
		l.renewed(time.Now())
		require.True(t, l.isHeld())
		require.True(t, l.inGrace())
		require.NoError(t, flow.Sleep(t.Context(), 2*heartbeatInterval))
		l.renewed(time.Now())
		require.False(t, l.inGrace())
	})
}
