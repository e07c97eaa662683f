package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/store"
)

// What a claim has of its request stays as it was, but for its lifetime. The values of
// secret parameters are gone when it ends.
func parametersOfClaims(t *testing.T, s Store) {
	ctx := t.Context()
	addIdleContainer(t, s, rev, "")
	r := newReservation("ann")
	r.Labels, r.Parameters = map[string]string{"team": "a"}, map[string]string{"region": "eu", "token": claim.Hidden}
	r.Sealed, r.Lifetime = map[string]string{"token": "v1.x"}, time.Hour
	c, err := s.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, c.CreatedAt.Add(time.Hour), *c.ExpiresAt)
	read, err := s.Claim(ctx, c.ID)
	require.NoError(t, err)
	require.Equal(t, c, read)
	require.Equal(t, r.Sealed, read.Sealed)

	later := newReservation("ann")
	later.Refusal = errors.New("refused")
	existing, err := s.Reserve(ctx, later)
	require.NoError(t, err, "the existing claim needs no terms")
	require.Equal(t, c.ID, existing.ID)
	mustUpdateClaim(t, s, activeTransition(c.ID))
	changed := mustUpdateClaim(t, s, claim.Note(c.ID, func(c *claim.Claim) {
		at := c.ExpiresAt.Add(time.Hour)
		c.ExpiresAt, c.Labels, c.Parameters, c.Sealed = &at, nil, nil, nil
	}, claim.Active))
	require.Equal(t, c.CreatedAt.Add(2*time.Hour), *changed.ExpiresAt)
	require.Equal(t, []any{r.Labels, r.Parameters, r.Sealed}, []any{changed.Labels, changed.Parameters, changed.Sealed})
	for before, want := range map[time.Duration]int{time.Hour: 0, 3 * time.Hour: 1} {
		expired, err := s.Claims(ctx, claim.Filter{States: []claim.State{claim.Active}, ExpiresBefore: c.CreatedAt.Add(before)})
		require.NoError(t, err)
		require.Len(t, expired, want)
	}
	ended := mustUpdateClaim(t, s, releasingTransition(c.ID))
	require.Equal(t, r.Sealed, ended.Sealed, "pre_release hooks get them")
	ended = mustUpdateClaim(t, s, releasedTransition(c.ID))
	require.Empty(t, ended.Sealed)
	require.Equal(t, r.Labels, ended.Labels)
	expired, err := s.Claims(ctx, claim.Filter{States: []claim.State{claim.Active}, ExpiresBefore: time.Now().Add(24 * time.Hour)})
	require.NoError(t, err)
	require.Empty(t, expired)

	_, err = s.Reserve(ctx, later)
	require.ErrorIs(t, err, later.Refusal)
	live, err := s.Claims(ctx, claim.Filter{Tenant: "ann"})
	require.NoError(t, err)
	require.Empty(t, live, "a refused claim is not added")
}

// Filters by label find the claims and the events of claims that have all of them.
func labels(t *testing.T, s Store) {
	ctx := t.Context()
	ids := map[string]string{}
	for tenant, all := range map[string]map[string]string{
		"ann": {"team": "a", "env": "prod"}, "bob": {"team": "a"}, "eve": {"team": "a b=c'"}, "joe": nil,
	} {
		r := newReservation(tenant)
		r.Labels, r.EnqueueOnly = all, true
		c, err := s.Reserve(ctx, r)
		require.ErrorIs(t, err, claim.ErrNoIdleContainer)
		ids[tenant] = c.ID
	}
	require.NoError(t, s.Append(ctx, activity.Event{Type: activity.PoolWarning, Message: "of no claim"}))
	tests := []struct {
		labels map[string]string
		scope  *activity.Scope
		want   []string
	}{
		{map[string]string{"team": "a"}, nil, []string{"ann", "bob"}},
		{map[string]string{"team": "a", "env": "prod"}, nil, []string{"ann"}},
		{map[string]string{"team": "a b=c'"}, nil, []string{"eve"}},
		{map[string]string{"team": "A"}, nil, nil},
		{map[string]string{"team": ""}, nil, nil},
		{map[string]string{"team": "a\x00"}, nil, nil},
		{map[string]string{"team": "a"}, &activity.Scope{{Tenant: activity.Exactly("bob"), Workload: activity.Anything}}, []string{"bob"}},
	}
	for _, tt := range tests {
		found, err := s.Claims(ctx, claim.Filter{Labels: tt.labels, Scope: tt.scope})
		require.NoError(t, err)
		var tenants, ofEvents []string
		for _, c := range found {
			tenants = append(tenants, c.Tenant)
		}
		require.ElementsMatch(t, tt.want, tenants, "%v", tt.labels)
		page, err := s.Events(ctx, activity.Filter{Labels: tt.labels, Scope: tt.scope}, 0, 0)
		require.NoError(t, err)
		for _, e := range page.Items {
			require.Equal(t, activity.ClaimRequested, e.Type)
			ofEvents = append(ofEvents, e.Tenant)
		}
		require.ElementsMatch(t, tt.want, ofEvents, "%v", tt.labels)
		require.Equal(t, lastSeq(t, s), page.Next)
	}
	mustUpdateClaim(t, s, claim.Fail(ids["ann"], "test"))
	_, err := s.Prune(ctx, store.Retention{Before: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	found, err := s.Claims(ctx, claim.Filter{Labels: map[string]string{"env": "prod"}, States: claim.States()})
	require.NoError(t, err)
	require.Empty(t, found)
}
