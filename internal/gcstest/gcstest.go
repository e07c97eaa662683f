// Package gcstest runs an in-memory emulator of Google Cloud Storage for tests.
// It does not depend on Hostler, and accepts every client. `make gcs-tool`
// builds it; where it is not built the test is skipped, or fails if REQUIRE
// names gcs.
package gcstest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/servertest"
)

// The initial bucket of the emulator, and the host name that clients send, as
// in requests to Google.
const (
	Bucket = "bucket"
	Host   = "storage.googleapis.com"
)

// Start starts an emulator that runs until the test ends, and returns its
// address: host and port, without TLS. The test's package must be directly
// below the module's root.
func Start(tb testing.TB) string {
	tb.Helper()
	address := servertest.Start(tb, servertest.Server{
		Name: "gcs", Tool: "fake-gcs-server",
		Args: func(host, port string) []string {
			return []string{
				"-scheme", "http", "-host", host, "-port", port, "-backend", "memory",
				"-public-host", Host, "-external-url", "https://" + Host, "-log-level", "warn",
			}
		},
	})
	url := "http://" + address + "/storage/v1/b?project=p"
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, url, strings.NewReader(`{"name":"`+Bucket+`"}`))
	require.NoError(tb, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := new(http.Transport).RoundTrip(r)
	require.NoError(tb, err)
	defer answer.Body.Close()
	require.Equal(tb, http.StatusOK, answer.StatusCode, "create the bucket")
	return address
}
