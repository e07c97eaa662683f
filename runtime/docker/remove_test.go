package docker

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"
)

// slowEngine is an engine that removes containers only when the test lets it.
type slowEngine struct {
	removing chan string // of each container that it is asked to remove
	removed  chan struct{}
}

func (s slowEngine) RoundTrip(r *http.Request) (*http.Response, error) {
	s.removing <- r.URL.Path
	select {
	case <-s.removed:
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	answer := httptest.NewRecorder()
	answer.WriteHeader(http.StatusNoContent)
	return answer.Result(), nil
}

// Containers are removed one after another, also if no caller waits for the first
// any more: the engine still removes it. A removal without a response delays the
// others only for a limited time.
func TestRemovesAreSerialised(t *testing.T) {
	for _, answers := range []bool{true, false} {
		t.Run(fmt.Sprint("answers ", answers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := slowEngine{removing: make(chan string, 9), removed: make(chan struct{})}
				api, err := client.NewClientWithOpts(
					client.WithHTTPClient(&http.Client{Transport: engine}), client.WithVersion("1.41"))
				require.NoError(t, err)
				r := &Runtime{api: api, removeSem: make(chan struct{}, 1)}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				require.ErrorIs(t, r.remove(ctx, "first"), context.DeadlineExceeded)
				require.Equal(t, time.Second, time.Since(start))
				require.Contains(t, <-engine.removing, "first")

				second := make(chan error, 1)
				go func() { second <- r.remove(t.Context(), "second") }() // ends with its response
				synctest.Wait()
				require.Empty(t, engine.removing)
				if answers {
					engine.removed <- struct{}{}
				}
				require.Contains(t, <-engine.removing, "second")
				require.Equal(t, answers, time.Since(start) < removeTimeout)
				engine.removed <- struct{}{}
				require.NoError(t, <-second)
			})
		})
	}
}
