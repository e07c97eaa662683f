package release_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/release"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/fake"
)

// A release that waits for an engine which hangs ends as one of an engine that is away:
// the claim stays, and is released when the engine responds again.
func TestReleaseWhileEngineHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 0, max_size: 1, reuse: same_tenant }\n")
		c := h.Claim("w", "ada")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.Pools.Engine.Run(ctx) }()
		synctest.Wait()
		hung := make(chan struct{})
		repair := h.RT.Before("", func(ctx context.Context, _ fake.Call) error {
			select {
			case <-hung:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		_, err := h.Releases.Release(t.Context(), c.ID, release.Request{})
		require.ErrorIs(t, err, runtime.ErrUnavailable)
		now, err := h.DB.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, claim.Releasing, now.State)
		repair()
		close(hung)
		require.Equal(t, claim.Released, h.Release(c).State)
		stop()
		require.NoError(t, <-ended)
	})
}
