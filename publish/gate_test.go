package publish

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/claim"
)

// Two claims of a tenant that publish on two servers read the clock in one order
// and use the tenant's allowance in the other one. That is no new burst.
func TestAllowanceOfEarlierTime(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, ahead := range []time.Duration{time.Nanosecond, 5 * time.Millisecond, minSetBack} {
		var a Allowance
		for range 50 {
			require.Zero(t, a.Take(now, bytesPerSec/5))
		}
		require.Equal(t, ahead+eventInterval, a.Take(now.Add(-ahead), 0), ahead)
	}
}

// The first dropped event of a claim is logged, and no other one, however many
// changes are made while others are dropped.
func TestFirstDropIsReportedOnce(t *testing.T) {
	now := time.Unix(1e9, 0)
	var g gate
	full := Allowance{Events: now.Add(burst)}
	g.update(Result{Claim: claim.Claim{ID: "c", Tenant: "t"}, Now: now, ByClaim: full}, now)
	reported := 0
	for range 10 {
		limit, ok := errors.AsType[*LimitError](error(g.enter("c", 1, now)))
		require.True(t, ok)
		if limit.isFirst {
			reported++
		}
		require.EqualValues(t, 1, limit.Dropped)
		require.EqualValues(t, 1, g.takeDropped("c"), "a change that adds it is being made")
	}
	require.Equal(t, 1, reported)
}
