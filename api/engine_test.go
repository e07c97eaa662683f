package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
)

// A request that waits for a container ends when the engine does not respond, whatever
// the call has made of the end of its context.
func TestRequestsEndWithTheEngine(t *testing.T) {
	a := New(Options{Metrics: http.NotFoundHandler(), EngineBound: func(ctx context.Context, _ time.Time) (context.Context, func()) {
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(fmt.Errorf("%w: it hangs", runtime.ErrUnavailable))
		return ctx, func() { cancel(nil) }
	}})
	known := slices.Collect(maps.Values(a.operations))
	wait := func(ctx context.Context, _ *struct{}) (*struct{}, error) { <-ctx.Done(); return nil, ctx.Err() }
	for _, operation := range engineOperations {
		require.Contains(t, known, operation)
		_, err := whileEngineResponds(a, operation, wait)(t.Context(), nil)
		require.ErrorIs(t, err, runtime.ErrUnavailable)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := whileEngineResponds(a, "claim", wait)(ctx, nil)
	require.Equal(t, context.Canceled, err)
}
