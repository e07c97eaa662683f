package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/runtime/shim"
)

// signalEngine is an engine that records requests to send signals.
type signalEngine struct {
	status  int
	signals []string // the signals
}

func (k *signalEngine) RoundTrip(r *http.Request) (*http.Response, error) {
	k.signals = append(k.signals, r.URL.Query().Get("signal"))
	if k.status == 0 {
		return nil, errors.New("no server is listening")
	}
	answer := httptest.NewRecorder()
	answer.WriteHeader(k.status)
	return answer.Result(), nil
}

// newStopRuntime returns a backend whose sessions use this dial function.
func newStopRuntime(t *testing.T, k *signalEngine, dial func(context.Context) error) *Runtime {
	api, err := client.NewClientWithOpts(client.WithHTTPClient(&http.Client{Transport: k}), client.WithVersion("1.41"))
	require.NoError(t, err)
	r := &Runtime{api: api, removeSem: make(chan struct{}, 1)}
	r.setSessions(shim.NewSessions(shim.Options{
		Secret:       []byte("secret"),
		CheckRunning: func(context.Context, string) error { return nil },
		Dial: func(ctx context.Context, _ string) (io.ReadWriteCloser, int, error) {
			return nil, 0, dial(ctx)
		},
	}))
	return r
}

// runningContainer returns the engine's description of a container that runs.
func runningContainer(grace time.Duration) container.InspectResponse {
	return container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{ID: "c", State: &container.State{Running: true}},
		Config:            &container.Config{StopTimeout: stopTimeout(grace)},
	}
}

// The signal arrives and the grace period is enforced if no session is available,
// whatever its error, also while another container is being removed.
func TestStopWithoutSession(t *testing.T) {
	for name, dial := range map[string]func(context.Context) error{
		"no response": func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
		"refused":     func(context.Context) error { return runtime.ErrUnavailable },
		"tainted":     func(context.Context) error { return runtime.ErrTainted },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &signalEngine{status: http.StatusNoContent}
				r := newStopRuntime(t, k, dial)
				r.removeSem <- struct{}{}
				start := time.Now()
				require.NoError(t, r.stop(t.Context(), "c", runningContainer(10*time.Second)))
				require.Equal(t, 10*time.Second+stopMargin, time.Since(start))
				require.Equal(t, []string{"30"}, k.signals)

				cause := errors.New("the server stops")
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
				defer cancel()
				require.ErrorIs(t, r.stop(ctx, "c", runningContainer(time.Minute)), cause, "the container is not removed yet")
			})
		})
	}
}

// A container that does not run, or has no grace period, is stopped at once.
func TestStopWhenNotRunning(t *testing.T) {
	ended, paused, old := runningContainer(time.Hour), runningContainer(time.Hour), runningContainer(time.Hour)
	ended.State.Running, paused.State.Paused, old.Config.StopTimeout = false, true, nil
	for name, c := range map[string]container.InspectResponse{
		"ended": ended, "paused": paused, "no grace": runningContainer(0), "without a record": old,
	} {
		synctest.Test(t, func(t *testing.T) {
			k := &signalEngine{status: http.StatusNoContent}
			r := newStopRuntime(t, k, func(context.Context) error { return runtime.ErrUnavailable })
			start := time.Now()
			require.NoError(t, r.stop(t.Context(), "c", c), name)
			require.Zero(t, time.Since(start), name)
			require.Empty(t, k.signals, name)
		})
	}
	for _, status := range []int{http.StatusNotFound, http.StatusConflict} {
		t.Run(fmt.Sprint("status ", status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &signalEngine{status: status}
				r := newStopRuntime(t, k, func(context.Context) error { return runtime.ErrNotRunning })
				start := time.Now()
				require.NoError(t, r.stop(t.Context(), "c", runningContainer(time.Hour)))
				require.Zero(t, time.Since(start), "status %d", status)
			})
		})
	}
}

// An engine that permanently refuses to send the signal does not keep the
// container: the session asks the main process to exit, and if none is available,
// the container is removed without a signal. An unavailable engine is an error.
func TestStopWhenSignalFails(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		dial   error
		dialed bool
		want   error
	}{
		"the session knows that it has exited": {http.StatusInternalServerError, runtime.ErrNotRunning, true, nil},
		"there is no session":                  {http.StatusInternalServerError, runtime.ErrUnavailable, true, nil},
		"the container is tainted":             {http.StatusInternalServerError, runtime.ErrTainted, true, nil},
		"the engine is unavailable":            {0, runtime.ErrUnavailable, false, runtime.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dialed := false
				r := newStopRuntime(t, &signalEngine{status: tt.status}, func(context.Context) error { dialed = true; return tt.dial })
				start := time.Now()
				require.ErrorIs(t, r.stop(t.Context(), "c", runningContainer(time.Hour)), tt.want)
				require.Less(t, time.Since(start), time.Minute)
				require.Equal(t, tt.dialed, dialed)
			})
		})
	}
}

func TestStopTimeout(t *testing.T) {
	require.Equal(t, 0, *stopTimeout(0))
	require.Equal(t, 3, *stopTimeout(time.Millisecond))
	require.Equal(t, 12, *stopTimeout(10 * time.Second))
}
