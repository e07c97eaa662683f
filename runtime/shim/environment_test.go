package shim

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// A program of an older server is sent no environment, which it would ignore: it
// gets no request. Without an environment it gets the request that it knows.
func TestEnvironmentNeedsFeature(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newCommandProgram(t, func(in *Incoming, _ *Stream) { _ = in.Respond(Response{}) })
		c, err := p.connect(t.Context())
		require.NoError(t, err)
		given := map[string]string{"A": "b"}
		require.NoError(t, p.RestartWith(t.Context(), 7, given))
		require.NoError(t, p.StartMainWith(t.Context(), 7, given))
		require.Equal(t, []Op{OpRestart, OpStartMain}, []Op{p.requests[0].Op, p.requests[1].Op})
		require.Equal(t, given, p.requests[0].Environment)
		require.Equal(t, given, p.requests[1].Environment)

		p.requests, c.features = nil, nil
		require.ErrorIs(t, p.RestartWith(t.Context(), 7, given), runtime.ErrUnsupported)
		require.ErrorIs(t, p.StartMainWith(t.Context(), 7, given), runtime.ErrUnsupported)
		require.ErrorIs(t, p.RestartWith(t.Context(), 7, map[string]string{"PATH": "b"}), runtime.ErrBadEnvironment)
		require.Empty(t, p.requests)
		require.NoError(t, p.RestartWith(t.Context(), 7, nil))
		require.Len(t, p.requests, 1)
		require.Nil(t, p.requests[0].Environment)
		_ = p.Close()
	})
}
