package api_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
)

// A claim's request reaches the service as it is, and each of its errors has a code
// and names the field of the body.
func TestTermsOfClaims(t *testing.T) {
	b := newTestBackend()
	address := startServer(t, b)
	const body = `{"workload":"web","tenant":"zoe","labels":{"team":"a"},"parameters":{"region":"eu"},"environment":{"A":"b"},"expires_in":"720h"}`
	a := request(t, address, "POST /v1/claims", body)
	require.Equal(t, 201, a.status, a.text)
	r, ok := lastRequest(b.Requests).(claim.Request)
	require.True(t, ok)
	require.Equal(t, map[string]string{"team": "a"}, r.Labels)
	require.Equal(t, map[string]string{"region": "eu"}, r.Parameters)
	require.Equal(t, map[string]string{"A": "b"}, r.Environment)
	require.Equal(t, 720*time.Hour, r.ExpiresIn)
	a = request(t, address, "POST /v1/claims", `{"workload":"web","tenant":"yan","expires_in":2592000000}`)
	require.Equal(t, 201, a.status, a.text)
	r, ok = lastRequest(b.Requests).(claim.Request)
	require.True(t, ok)
	require.Equal(t, 720*time.Hour, r.ExpiresIn, "in milliseconds")

	for _, tt := range []struct {
		err    error
		status int
		code   string
		detail string
	}{
		{&claim.RequestError{Field: "parameters.region", Message: "is required"}, 422, "invalid_request", "body.parameters.region: is required"},
		{&claim.OtherParameterError{Claim: "c", Name: "region"}, 409, "conflict", "body.parameters.region: claim c of the tenant has another value"},
		{fmt.Errorf("parameters.token is secret, and: %w", claim.ErrNotConfigured), 409, "not_configured", "parameters.token is secret"},
	} {
		b.Errors["claim"] = tt.err
		a := request(t, address, "POST /v1/claims", body)
		require.Equal(t, tt.status, a.status, a.text)
		require.Equal(t, tt.code, a.body["code"])
		require.Contains(t, a.body["detail"], tt.detail)
	}
	for _, wrong := range []string{`{"labels":{"a":1}}`, `{"parameters":["a"]}`, `{"environment":{"A":null}}`, `{"expires_in":"soon"}`} {
		a := request(t, address, "POST /v1/claims", `{"workload":"web","tenant":"ann",`+wrong[1:])
		require.Contains(t, []int{400, 422}, a.status, "%s: %s", wrong, a.text)
	}
}

func lastRequest(all []any) any { return all[len(all)-1] }

// Extend has a duration, and its errors have codes.
func TestExtendClaim(t *testing.T) {
	b := newTestBackend()
	address := startServer(t, b)
	a := request(t, address, "POST /v1/claims/claim-alice/extend", `{"by":"30m"}`)
	require.Equal(t, 200, a.status, a.text)
	require.NotEmpty(t, a.body["expires_at"])
	for _, body := range []string{`{}`, `{"by":"soon"}`, `{"by":"30m","x":1}`} {
		require.Equal(t, 422, request(t, address, "POST /v1/claims/claim-alice/extend", body).status, body)
	}
	for code, err := range map[string]error{
		"conflict": claim.ErrNoLifetime, "claim_not_active": claim.ErrNotActive, "claim_not_found": claim.ErrClaimNotFound,
		"invalid_request": &claim.RequestError{Field: "by", Message: "too long"},
	} {
		b.Errors["extend"] = err
		require.Equal(t, code, request(t, address, "POST /v1/claims/claim-alice/extend", `{"by":"30m"}`).body["code"])
	}
}

// A filter of labels that no claim can have is refused, and does not match all.
func TestLabelFilters(t *testing.T) {
	address := startServer(t, newTestBackend())
	for filter, status := range map[string]int{
		"label=team%3Da": 200, "label=team%3Da&label=env%3Dprod": 200, "label=team%3Da%3Db%2Cc": 200, "label=team%3D": 200,
		"label=team": 422, "label=%3Da": 422, "label=Team%3Da": 422, "label=team%3Da&label=team%3Db": 422, "label=team%3Da%09": 400,
		"label=" + url.QueryEscape("a="+longText(129)): 422,
	} {
		for _, path := range []string{"/v1/claims?", "/v1/events?"} {
			a := request(t, address, "GET "+path+filter, "")
			require.Equal(t, status, a.status, "%s%s: %s", path, filter, a.text)
		}
	}
}

func longText(n int) string { return fmt.Sprintf("%0*d", n, 0) }
