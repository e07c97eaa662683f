package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// A caller of Wait returns to its wait after answers of servers that are not ready.
func TestWaitReturnsToItsWait(t *testing.T) {
	var asked []string
	answers := []string{"", `{"id": "w1", "state": "waiting"}`, "", "", `{"id": "w1", "state": "waiting"}`, "", `{"id": "w1", "state": "signalled", "data": 1}`}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[len(asked)]
		asked = append(asked, r.Method+" "+r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		if answer == "" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			answer = `{"status": 503, "code": "not_ready", "detail": "starting"}`
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, "")
	require.NoError(t, err)
	w, err := c.Wait(t.Context(), "c1", client.WaitRequest{Type: "consensus", Timeout: time.Minute})
	require.NoError(t, err)
	require.Equal(t, client.WaitSignalled, w.State)
	begin, follow := "POST /v1/claims/c1/waits", "GET /v1/waits/w1"
	require.Equal(t, []string{begin, begin, follow, follow, follow, follow, follow}, asked)
}
