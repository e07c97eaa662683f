package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
)

// A tenant whose requests for claims are refused before their workload is looked up
// adds no series with the names of workloads that it has made up.
func TestRefusedClaimsAddNoSeries(t *testing.T) {
	m := newMetrics()
	c := countedClaims{&claim.Service{}, m, func(_ context.Context, id string) (pool.Record, error) {
		if id != "web" {
			return pool.Record{}, pool.ErrWorkloadNotFound
		}
		return pool.Record{ID: id}, nil
	}}
	for i := range 3 {
		_, _, err := c.Claim(t.Context(), claim.Request{Workload: fmt.Sprintf("made-up-%d", i), Tenant: "ada", Labels: map[string]string{"!": ""}})
		require.ErrorContains(t, err, "the name has 1 to 63")
	}
	require.NotContains(t, scrape(t, m), "made-up")
	_, _, err := c.Claim(t.Context(), claim.Request{Workload: "web", Tenant: "ada", Labels: map[string]string{"!": ""}})
	require.Error(t, err)
	require.Contains(t, scrape(t, m), `outcome="failed",workload="web"`)
}
