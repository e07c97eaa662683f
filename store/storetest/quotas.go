package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/quota"
)

// Quotas has the methods of quotas.
type Quotas interface {
	quota.Store
	SetQuotas(defaults quota.Defaults)
	AdmitState(ctx context.Context, workload, tenant string, bytes int64) error
	SetStateSize(ctx context.Context, workload, tenant string, bytes int64, events ...activity.Event) error
}

func of(level quota.Level, name string) quota.Scope { return quota.Scope{Level: level, Name: name} }

func limits(t *testing.T, text string) quota.Limits {
	t.Helper()
	l, err := quota.ParseLimits(text)
	require.NoError(t, err)
	return l
}

// waitingClaim claims without a container to reserve: the claim is pending.
func waitingClaim(t *testing.T, s Store, workload, tenant, actor string) (claim.Claim, error) {
	t.Helper()
	r := newReservation(tenant)
	r.Workload, r.Actor, r.EnqueueOnly = workload, actor, true
	c, err := s.Reserve(t.Context(), r)
	if errors.Is(err, claim.ErrNoIdleContainer) {
		err = nil
	}
	return c, err
}

// requireExceeded requires an error of a quota, and returns when to try again.
func requireExceeded(t *testing.T, err error, want quota.ExceededError) time.Duration {
	t.Helper()
	got, ok := errors.AsType[*quota.ExceededError](err)
	require.True(t, ok, "%v", err)
	require.Positive(t, got.RetryAfter)
	require.LessOrEqual(t, got.RetryAfter, quota.Window)
	retry := got.RetryAfter
	want.RetryAfter = retry
	require.Equal(t, want, *got)
	return retry
}

// Every state that holds a container counts, and what has ended does not.
func quotaOfLiveClaims(t *testing.T, s Store) {
	ctx := t.Context()
	s.SetQuotas(quota.Defaults{quota.Tenant: limits(t, "claims=2")})
	addIdleContainer(t, s, rev, "")
	active := addActiveClaim(t, s, "ann")
	_, err := waitingClaim(t, s, "other", "ann", "key:a")
	require.NoError(t, err)
	refuse := func() {
		t.Helper()
		before := lastSeq(t, s)
		_, err := waitingClaim(t, s, "third", "ann", "key:a")
		requireExceeded(t, err, quota.ExceededError{Scope: of(quota.Tenant, "ann"), Kind: quota.Claims, Limit: 2, Current: 2})
		require.Equal(t, before, lastSeq(t, s), "a refusal has no event")
	}
	refuse()
	_, err = waitingClaim(t, s, "third", "bob", "key:a")
	require.NoError(t, err, "another tenant's are its own")
	again, err := waitingClaim(t, s, web, "ann", "key:a")
	require.NoError(t, err, "a repeated claim costs nothing")
	require.Equal(t, active.ID, again.ID)
	mustUpdateClaim(t, s, releasingTransition(active.ID))
	refuse()
	mustUpdateClaim(t, s, claim.Retain(active.ID, "test", activity.ClaimReleaseFailedData{}))
	refuse()
	mustUpdateClaim(t, s, releasingTransition(active.ID))
	mustUpdateClaim(t, s, releasedTransition(active.ID))
	_, err = waitingClaim(t, s, "third", "ann", "key:a")
	require.NoError(t, err)
	u, err := s.QuotaUsage(ctx, of(quota.Tenant, "ann"))
	require.NoError(t, err)
	require.Equal(t, quota.Usage{Claims: 2, ClaimsPerMinute: 3}, u)
}

// A claim counts for the rate also after it has failed, and one that exists does not
// count again.
func quotaOfRate(t *testing.T, s Store) {
	s.SetQuotas(quota.Defaults{quota.Workload: limits(t, "claims-per-minute=2")})
	for range 2 {
		c, err := waitingClaim(t, s, "busy", "ann", "")
		require.NoError(t, err)
		_, err = waitingClaim(t, s, "busy", "ann", "")
		require.NoError(t, err)
		mustUpdateClaim(t, s, claim.Fail(c.ID, "test"))
	}
	_, err := waitingClaim(t, s, "busy", "bob", "")
	retry := requireExceeded(t, err, quota.ExceededError{Scope: of(quota.Workload, "busy"), Kind: quota.Rate, Limit: 2, Current: 2})
	require.Greater(t, retry, quota.Window/2, "until the oldest of two leaves the window")
	_, err = waitingClaim(t, s, "idle", "bob", "")
	require.NoError(t, err)
}

// What a token claims counts for the key that made it, and clients without a
// credential have no key.
func quotaOfKey(t *testing.T, s Store) {
	s.SetQuotas(quota.Defaults{quota.Key: limits(t, "claims=2")})
	for i, actor := range []string{"key:ci", "token:ci#t1", "local", "local", "local", "key:other"} {
		c, err := waitingClaim(t, s, web, string(rune('a'+i)), actor)
		require.NoError(t, err)
		kept, err := s.Claim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, actor, kept.Actor)
	}
	for _, actor := range []string{"key:ci", "token:ci#x"} {
		_, err := waitingClaim(t, s, web, "zoe", actor)
		requireExceeded(t, err, quota.ExceededError{Scope: of(quota.Key, "key:ci"), Kind: quota.Claims, Limit: 2, Current: 2})
	}
}

// State counts as it was last transferred, until the workload is removed.
func quotaOfState(t *testing.T, s Store) {
	ctx := t.Context()
	s.SetQuotas(quota.Defaults{quota.Tenant: limits(t, "state=100")})
	transfer := func(workload string, bytes int64) {
		t.Helper()
		c, err := waitingClaim(t, s, workload, "ann", "key:ci")
		require.NoError(t, err)
		note := claim.Note(c.ID, nil, claim.States()...)
		note.StateBytes = &bytes
		mustUpdateClaim(t, s, note)
		mustUpdateClaim(t, s, claim.Fail(c.ID, "test"))
	}
	PutWorkloads(t, s, web)
	transfer(web, 5000) // an upload is not refused
	_, err := waitingClaim(t, s, web, "ann", "")
	requireExceeded(t, err, quota.ExceededError{Scope: of(quota.Tenant, "ann"), Kind: quota.State, Limit: 100, Current: 5000})
	restored := activity.Event{Type: activity.SnapshotRestored, Workload: web, Tenant: "ann"}
	require.NoError(t, s.SetStateSize(activity.WithActor(ctx, activity.Actor{Name: "key:ci"}), web, "ann", 60, restored))
	changes := events(t, s, activity.Filter{Tenant: "ann", Types: []activity.Type{activity.SnapshotRestored}}, 0)
	require.Len(t, changes, 1)
	require.Equal(t, "key:ci", changes[0].Actor)
	transfer("other", 40)
	for _, scope := range []quota.Scope{of(quota.Tenant, "ann"), of(quota.Key, "key:ci")} {
		u, err := s.QuotaUsage(ctx, scope)
		require.NoError(t, err)
		require.Equal(t, int64(100), u.State, scope)
	}
	transfer("other", 41)
	_, err = waitingClaim(t, s, web, "ann", "")
	requireExceeded(t, err, quota.ExceededError{Scope: of(quota.Tenant, "ann"), Kind: quota.State, Limit: 100, Current: 101})
	// A state without a transfer, which an import makes.
	refused := func(tenant string, bytes, current int64) {
		t.Helper()
		err := s.AdmitState(ctx, web, tenant, bytes)
		requireExceeded(t, err, quota.ExceededError{Scope: of(quota.Tenant, tenant), Kind: quota.State, Limit: 100, Current: current})
	}
	require.NoError(t, s.AdmitState(ctx, web, "ann", 60), "it is no larger than the one before")
	refused("ann", 61, 102)
	require.NoError(t, s.AdmitState(ctx, web, "new", 100))
	refused("new", 101, 101)
	require.NoError(t, s.SetStateSize(ctx, web, "new", 90), "of a tenant that never claimed")
	u, err := s.QuotaUsage(ctx, of(quota.Tenant, "new"))
	require.NoError(t, err)
	require.Equal(t, int64(90), u.State)
	removeWorkload(t, s, web)
	_, err = waitingClaim(t, s, "other", "ann", "")
	require.NoError(t, err)
}

// An override wins field by field, from the next claim on, and is an event.
func quotaOverrides(t *testing.T, s Store) {
	ctx := t.Context()
	s.SetQuotas(quota.Defaults{quota.Tenant: limits(t, "claims=1,claims-per-minute=3")})
	from := lastSeq(t, s)
	ann := of(quota.Tenant, "ann")
	version, err := s.QuotaVersion(ctx)
	require.NoError(t, err)
	_, ok, err := s.QuotaOverride(ctx, ann)
	require.NoError(t, err)
	require.False(t, ok)
	require.ErrorIs(t, s.DeleteQuota(ctx, ann), quota.ErrNotFound)
	require.NoError(t, s.PutQuota(ctx, ann, limits(t, "claims=5")))
	require.NoError(t, s.PutQuota(ctx, ann, limits(t, "claims=none")))
	got, ok, err := s.QuotaOverride(ctx, ann)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "claims=none", got.String())
	all, err := s.QuotaOverrides(ctx)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, ann, all[0].Scope)
	require.WithinDuration(t, time.Now(), all[0].UpdatedAt, time.Minute)
	for _, workload := range []string{"w1", "w2", "w3"} {
		_, err = waitingClaim(t, s, workload, "ann", "")
		require.NoError(t, err)
	}
	_, err = waitingClaim(t, s, "w4", "ann", "")
	requireExceeded(t, err, quota.ExceededError{Scope: ann, Kind: quota.Rate, Limit: 3, Current: 3})
	require.NoError(t, s.DeleteQuota(ctx, ann))
	_, err = waitingClaim(t, s, "w4", "ann", "")
	requireExceeded(t, err, quota.ExceededError{Scope: ann, Kind: quota.Claims, Limit: 1, Current: 3})
	after, err := s.QuotaVersion(ctx)
	require.NoError(t, err)
	require.Equal(t, version+3, after)
	changes := events(t, s, activity.Filter{Tenant: "ann", Types: []activity.Type{activity.QuotaChanged, activity.QuotaRemoved}}, from)
	require.Equal(t, []activity.Type{activity.QuotaChanged, activity.QuotaChanged, activity.QuotaRemoved}, eventTypes(changes))
	require.JSONEq(t, `{"level":"tenant","name":"ann","claims":-1}`, string(changes[1].Data))
}
