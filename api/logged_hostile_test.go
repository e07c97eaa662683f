package api_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/auth"
)

// The access log has the name of a key, and no other credential is shown as one: their
// holders may choose their names.
func TestLoggedNames(t *testing.T) {
	k := testKeys()
	k.known["token-of-a-subject"] = &auth.Principal{Actor: "oidc:https://i#ops", Name: "ops", Grants: []auth.Grant{{Role: auth.Operator}}}
	var log bytes.Buffer
	server := startServer(t, newTestBackend(), func(o *api.Options) {
		o.Auth = k
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	require.Equal(t, 200, request(t, server, "GET /v1/claims", "", "Authorization: Bearer "+key1).status)
	require.Contains(t, log.String(), "key=ops ")
	log.Reset()
	require.Equal(t, 200, request(t, server, "GET /v1/claims", "", "Authorization: Bearer token-of-a-subject").status)
	require.Contains(t, log.String(), "key=oidc:https://i#ops ")
	require.NotContains(t, log.String(), "key=ops ")
}
