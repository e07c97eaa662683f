package client_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/apitest"
	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/e2e/flowtest"
)

// A claim is created by the call that asked for it first, also if its answer was lost,
// and by no other one. So a program that releases what it created releases no claim of
// another one.
func TestCreatorOfClaim(t *testing.T) {
	h := flowtest.New(t)
	h.Apply("id: w\nimage: box\ncommand: [box, idle]\npool: { min_idle: 1, max_size: 2 }\n")
	o := apitest.New().Options()
	o.Claimer, o.Claims = h.Claims, h.DB
	a := api.New(o)
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) > 1 {
			a.ServeHTTP(w, r)
			return
		}
		a.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler) // the answer is lost
	}))
	t.Cleanup(func() { a.Close(); server.Close() })
	c, err := client.New(server.URL, "")
	require.NoError(t, err)
	first, created, err := c.Claim(t.Context(), "w", "ada", 0)
	require.NoError(t, err)
	require.True(t, created)
	require.EqualValues(t, 2, calls.Load())
	again, created, err := c.Claim(t.Context(), "w", "ada", 0)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, first.ID, again.ID)

	_, created, err = c.ClaimWith(t.Context(), "w", "bob", client.ClaimOptions{RequestID: "r-1"})
	require.NoError(t, err)
	require.True(t, created)
	for id, want := range map[string]bool{"r-1": true, "r-2": false} {
		_, created, err = c.ClaimWith(t.Context(), "w", "bob", client.ClaimOptions{RequestID: id})
		require.NoError(t, err)
		require.Equal(t, want, created, id)
	}
	_, _, err = c.ClaimWith(t.Context(), "w", "eve", client.ClaimOptions{RequestID: "a b"})
	requireCode(t, client.CodeInvalidRequest, err)
}
