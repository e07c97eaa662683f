package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/publish"
)

// A program that publishes too much gets the number of its dropped events, and
// when there is room again.
func TestTooManyEvents(t *testing.T) {
	b := newTestBackend()
	server := startServer(t, b)
	b.Fail("publish", &publish.LimitError{Of: "tenant", RetryAfter: 1200 * time.Millisecond, Dropped: 17})
	for route, body := range map[string]string{
		"POST /v1/events":                     `{"claim":"claim-alice","type":"agent.x"}`,
		"PUT /v1/claims/claim-alice/activity": `{"activity":"idle"}`,
	} {
		a := request(t, server, route, body)
		require.Equal(t, 429, a.status, a.text)
		require.Equal(t, "rate_limited", a.body["code"])
		require.EqualValues(t, 1, a.body["dropped"])
		require.Equal(t, "2", a.header.Get("Retry-After"))
	}
}

// What a tenant's program published has its mark in a page and in each line of a
// stream, and none of its control characters.
func TestPublishedEventsAreMarked(t *testing.T) {
	server := startServer(t, newTestBackend())
	a := request(t, server, "POST /v1/events", `{"claim":"claim-alice","type":"x","data":"`+"\u009b\u202e"+`"}`)
	require.Equal(t, 200, a.status, a.text)
	const want = `"type":"custom.x","workload":"web","container":"box-1","tenant":"alice","claim":"claim-alice","message":"published by the tenant's program",` +
		`"data":"\u009b\u202e","untrusted":true,"priority":7}`
	a = request(t, server, "GET /v1/events?untrusted=true", "")
	require.Contains(t, a.text, want)
	require.NotContains(t, request(t, server, "GET /v1/events?untrusted=false", "").text, "custom.x")
}
