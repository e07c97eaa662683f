package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
)

// A tenant has a bounded number of streams of events, each of which reads the log at
// every change. Another tenant of the same key has its own, and an operator any number.
func TestFollowersAreBounded(t *testing.T) {
	a := New(Options{})
	as := func(tenant string) context.Context {
		role := auth.Operator
		var tenants []activity.Pattern
		if tenant != "" {
			role, tenants = auth.Tenant, []activity.Pattern{activity.Exactly(tenant)}
		}
		p := &auth.Principal{Actor: "key:app", Grants: []auth.Grant{{Role: role, Tenants: tenants}}}
		ctx := auth.WithPrincipal(t.Context(), p)
		return context.WithValue(ctx, permissionKey{}, permission{everyone, p.Scope(everyone)})
	}
	var ends []func()
	for range maxFollowers {
		end, refused := a.followers.begin(as("ada"))
		require.Nil(t, refused)
		ends = append(ends, end)
	}
	_, refused := a.followers.begin(as("ada"))
	require.Equal(t, TooManyRequests, refused.Code)
	answer := httptest.NewRecorder()
	refused.write(answer)
	require.Equal(t, http.StatusTooManyRequests, answer.Code)
	require.Equal(t, "10", answer.Header().Get("Retry-After"))
	for _, other := range []string{"bob", ""} {
		for range maxFollowers + 1 {
			if _, refused = a.followers.begin(as(other)); other == "" {
				require.Nil(t, refused)
			}
		}
	}
	for _, end := range ends {
		end()
	}
	end, refused := a.followers.begin(as("ada"))
	require.Nil(t, refused)
	end()
	require.Len(t, a.followers.open, 1, "only bob's")
}
