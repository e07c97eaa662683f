package client_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// No path is requested that a proxy would make another one of.
func TestDotsAreNotRequested(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Error("requested " + r.RequestURI) }))
	defer server.Close()
	c, err := client.New(server.URL, "key")
	require.NoError(t, err)
	for _, name := range []string{"/..", "/../../other/files/x", "/a/./b", "/a/..", "."} {
		var e *client.Error
		require.ErrorAs(t, c.RemoveFile(t.Context(), "claim", name, true), &e, name)
		require.Equal(t, client.CodeInvalidRequest, e.Code)
	}
	_, err = c.DeleteWorkload(t.Context(), "..")
	require.Error(t, err)
}
