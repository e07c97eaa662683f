package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/api"
)

// However many clients probe readiness, there is one check of the engine at a
// time, and none again within some seconds. The first client may disconnect.
func TestReadinessIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		answer := make(chan error)
		o := newTestBackend().Options()
		o.Ready = func(ctx context.Context) error {
			asked.Add(1)
			select {
			case err := <-answer:
				return err
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		handler := api.New(o)
		ask := func(ctx context.Context) int {
			rec := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil)
			r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
			handler.ServeHTTP(rec, r)
			return rec.Code
		}
		var g errgroup.Group
		first, leave := context.WithCancel(t.Context())
		expect := func(ctx context.Context, n, status int) {
			for range n {
				g.Go(func() error {
					if got := ask(ctx); got != status {
						t.Errorf("readyz: got %d, want %d", got, status)
					}
					return nil
				})
			}
			synctest.Wait()
		}
		expect(first, 1, 200)
		expect(t.Context(), 50, 200)
		leave()
		synctest.Wait()
		answer <- nil
		require.NoError(t, g.Wait())
		expect(t.Context(), 50, 200)
		require.Equal(t, int32(1), asked.Load())

		<-time.After(3 * time.Second)
		expect(t.Context(), 50, 503)
		answer <- errors.New("the engine is away")
		require.NoError(t, g.Wait())
		expect(t.Context(), 50, 503)
		require.Equal(t, int32(2), asked.Load())

		<-time.After(3 * time.Second)
		expect(t.Context(), 2, 503) // the check does not answer
		require.NoError(t, g.Wait())
		require.Equal(t, int32(3), asked.Load())
	})
}
