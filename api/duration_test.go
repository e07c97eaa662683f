package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is not a duration is refused with its field and how to write one.
func TestDurations(t *testing.T) {
	server := startServer(t, newTestBackend())
	for _, test := range []struct{ route, body, detail string }{
		{"POST /v1/claims", `{"workload":"web","tenant":"a","wait":"5"}`, `body.wait: "5" is not a duration: write it as`},
		{"POST /v1/claims/claim-alice/waits", `{"type":"x","timeout":"5 m"}`, `body.timeout: "5 m" is not a duration: write it as`},
		{"POST /v1/claims/claim-alice/waits", `{"type":"x","timeout":1.5}`, "body.timeout: is not a duration: write it as"},
		{"POST /v1/claims/claim-alice/waits", `{"type":"x","timeout":1e300}`, "body.timeout: "},
		{"POST /v1/claims/claim-alice/waits", `{"type":"x","timeout":true}`, "body.timeout: is not a duration: write it as"},
	} {
		a := request(t, server, test.route, test.body)
		require.Equal(t, 422, a.status, a.text)
		require.Contains(t, a.body["detail"], test.detail)
	}
}
