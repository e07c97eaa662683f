package api_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/internal/pipetest"
)

// A stream too many of a tenant is refused with 429, by both paths, until one ends.
func TestStreamsOfTenantAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestBackend().Options()
		o.Auth = newTestAuth()
		a := api.New(o)
		server := pipetest.NewServer(t, a)
		defer a.Close()
		open := func(key, path string) (code int, end func()) {
			ctx, cancel := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
			require.NoError(t, err)
			r.Header.Set("X-API-Key", key)
			resp, err := server.Client().Do(r)
			require.NoError(t, err)
			t.Cleanup(func() { cancel(); resp.Body.Close() })
			return resp.StatusCode, cancel
		}
		var end func()
		for range 100 {
			var code int
			code, end = open("tenant", "/v1/events/stream")
			require.Equal(t, http.StatusOK, code)
		}
		for _, path := range []string{"/v1/events/stream", "/v1/events?follow=true"} {
			code, _ := open("tenant", path)
			require.Equal(t, http.StatusTooManyRequests, code)
			code, _ = open("operator", path)
			require.Equal(t, http.StatusOK, code)
		}
		end()
		synctest.Wait()
		code, _ := open("tenant", "/v1/events/stream")
		require.Equal(t, http.StatusOK, code)
	})
}
