package api

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/internal/pipetest"
)

// seen collects what OnRequest reports.
type seen struct {
	mu     sync.Mutex // guards the fields below
	active int
	served []Served
}

func (s *seen) begin() func(Served) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active++
	return func(served Served) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.active--
		served.Duration = 0
		s.served = append(s.served, served)
	}
}

// A request is reported by its route, never by what its client has chosen: neither
// its path, nor its method, nor the address of a port.
func TestRequestsAreObserved(t *testing.T) {
	var s seen
	a := New(Options{
		OnRequest: s.begin, Ready: func(context.Context) error { return nil },
		Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			require.Equal(t, 1, s.active)
			panic(http.ErrAbortHandler)
		}),
	})
	for _, c := range []struct {
		method, path string
		want         Served
	}{
		{"GET", "/healthz", Served{Method: "GET", Route: "/healthz", Status: 200}},
		{"HEAD", "/healthz", Served{Method: "GET", Route: "/healthz", Status: 200}},
		{"GET", "/v1/claims/%00", Served{Method: "GET", Route: "/v1/claims/{id}", Status: 400}},
		{"GET", "/v1/claims/a/memory/b/c%00", Served{Method: "GET", Route: "/v1/claims/{id}/memory/{key}", Status: 400}},
		{"GET", "/v1/secret", Served{Status: 404}},
		{"BREW", "/healthz", Served{Status: 405}},
		{"GET", "/metrics", Served{Method: "GET", Route: "/metrics"}},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "http://localhost"+c.path, nil)
		r.RemoteAddr = "127.0.0.1:1"
		func() {
			defer func() { recover() }() //nolint:errcheck // of an aborted response
			a.ServeHTTP(httptest.NewRecorder(), r)
		}()
		require.Len(t, s.served, 1, c.path)
		require.Equal(t, c.want, s.served[0], c.path)
		require.Zero(t, s.active)
		s.served = nil
	}
}

// events without end.
type quiet struct{ EventSource }

func (quiet) Events(context.Context, activity.Filter, int64, int) (activity.Page, error) {
	return activity.Page{}, nil
}
func (quiet) Changed() <-chan struct{}               { return nil }
func (quiet) LastSeq(context.Context) (int64, error) { return 0, nil }

// A stream of events is reported as such, from its begin to its end.
func TestFollowersAreObserved(t *testing.T) {
	var s seen
	began, ended := make(chan struct{}), make(chan struct{})
	a := New(Options{
		OnRequest: s.begin, Events: quiet{},
		OnFollower: func() func() { close(began); return func() { close(ended) } },
	})
	server := pipetest.NewServer(t, a)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/events/stream", nil)
	require.NoError(t, err)
	r.Header.Set("Accept", typeSSE)
	resp, err := server.Client().Do(r)
	require.NoError(t, err)
	_, err = bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err)
	<-began
	a.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	<-ended
	server.Close() // it waits for the request
	require.Equal(t, []Served{{Method: "GET", Route: "/v1/events/stream", Status: 200, IsStream: true}}, s.served)
}
