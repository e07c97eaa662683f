package fake_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime/fake"
)

// The grace period begins with the first Destroy, also if it is called again.
func TestGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, spec := fake.New(), newSpec()
		spec.Command = []string{fake.TestprogPath, "ignore-term"}
		spec.StopGracePeriod = 10 * time.Second
		require.NoError(t, rt.Create(t.Context(), spec))
		require.NoError(t, rt.Start(t.Context(), spec.ID, 1))
		start := time.Now()
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			require.ErrorIs(t, rt.Destroy(ctx, spec.ID), context.DeadlineExceeded)
			cancel()
		}
		require.NoError(t, rt.Destroy(t.Context(), spec.ID))
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}
