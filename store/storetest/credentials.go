package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
)

// newKey returns a key of a role; the digit makes its hash.
func newKey(name, digit string, role auth.Role) credential.Record {
	k := credential.Record{Hash: strings.Repeat(digit, 64)}
	k.Name, k.Prefix, k.CreatedBy, k.Source = name, "hostler_"+digit, "key:maker", credential.Database
	k.Grants = []auth.Grant{{Role: role}}
	if role == auth.Tenant {
		k.Grants = []auth.Grant{{Role: role, Tenants: []activity.Pattern{activity.Exactly("acme")}, Claim: "clm_1"}}
	}
	return k
}

func keyEvent(typ activity.Type) activity.Event {
	return activity.Event{Type: typ, Message: "a key", Data: activity.Data(activity.KeyRevokedData{Key: "a"})}
}

func mustAddKey(t *testing.T, s Store, k credential.Record) credential.Record {
	t.Helper()
	added, err := s.AddKey(t.Context(), k, credential.Always)
	require.NoError(t, err)
	return added
}

func mustEvents(t *testing.T, s Store, types ...activity.Type) []activity.Event {
	t.Helper()
	page, err := s.Events(t.Context(), activity.Filter{Types: types}, 0, 100)
	require.NoError(t, err)
	return page.Items
}

// A key is one record with its events, whose name and secret no other has, until it
// is pruned.
func credentialKeys(t *testing.T, s Store) {
	a := newKey("a", "a", auth.Tenant)
	added, err := s.AddKey(t.Context(), a, credential.Always, keyEvent(activity.KeyCreated))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), *added.CreatedAt, time.Minute)
	_, err = s.AddKey(t.Context(), newKey("a", "b", auth.Operator), credential.Always, keyEvent(activity.KeyCreated))
	require.ErrorIs(t, err, credential.ErrExists)
	_, err = s.AddKey(t.Context(), newKey("b", "a", auth.Operator), credential.Always, keyEvent(activity.KeyCreated))
	require.Error(t, err, "two keys with one secret")
	require.Len(t, mustEvents(t, s, activity.KeyCreated), 1, "a refused key has no event")

	keys, err := s.StoredKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, []credential.Key{added.Key}, keys)

	revoked, err := s.RevokeKey(t.Context(), "a", keyEvent(activity.KeyRevoked))
	require.NoError(t, err)
	require.NotNil(t, revoked.RevokedAt)
	require.Equal(t, a.Hash, revoked.Hash)
	again, err := s.RevokeKey(t.Context(), "a", keyEvent(activity.KeyRevoked))
	require.NoError(t, err)
	require.Equal(t, revoked, again)
	require.Len(t, mustEvents(t, s, activity.KeyRevoked), 1)
	_, err = s.RevokeKey(t.Context(), "none")
	require.ErrorIs(t, err, credential.ErrNotFound)

	_, err = s.AddKey(t.Context(), newKey("a", "c", auth.Operator), credential.Always)
	require.ErrorIs(t, err, credential.ErrExists, "a revoked key keeps its name")
	require.NoError(t, s.PruneKeys(t.Context(), time.Now().Add(-time.Hour)))
	expired := newKey("expired", "e", auth.Operator)
	expired.ExpiresAt = new(time.Now().Add(-time.Minute).UTC())
	mustAddKey(t, s, expired)
	mustAddKey(t, s, newKey("live", "f", auth.Operator))
	keys, err = s.StoredKeys(t.Context())
	require.NoError(t, err)
	require.Len(t, keys, 3)
	require.NoError(t, s.PruneKeys(t.Context(), time.Now().Add(time.Hour)))
	keys, err = s.StoredKeys(t.Context())
	require.NoError(t, err)
	require.Len(t, keys, 1)
	mustAddKey(t, s, newKey("a", "c", auth.Operator))
}

// Each change has the next generation, and what has changed since one is read.
func credentialGenerations(t *testing.T, s Store) {
	generation := func() int64 {
		n, err := s.CredentialGeneration(t.Context())
		require.NoError(t, err)
		return n
	}
	changed := func(after int64) (names []string) {
		c, err := s.Credentials(t.Context(), after)
		require.NoError(t, err)
		require.Equal(t, generation(), c.Generation)
		for _, k := range c.Keys {
			require.Equal(t, credential.Database, k.Source)
			names = append(names, k.Name)
		}
		return names
	}
	require.Zero(t, generation())
	require.Empty(t, changed(0))
	a := mustAddKey(t, s, newKey("a", "a", auth.Operator))
	require.WithinDuration(t, time.Now(), time.UnixMilli(a.Generation), time.Minute)
	b := mustAddKey(t, s, newKey("b", "b", auth.Operator))
	require.Greater(t, b.Generation, a.Generation)
	require.ElementsMatch(t, []string{"a", "b"}, changed(0))
	require.Equal(t, []string{"b"}, changed(a.Generation))
	revoked, err := s.RevokeKey(t.Context(), "a")
	require.NoError(t, err)
	require.Greater(t, revoked.Generation, b.Generation)
	require.Equal(t, []string{"a"}, changed(b.Generation))
	_, err = s.AddKey(t.Context(), newKey("b", "c", auth.Operator), credential.Always)
	require.ErrorIs(t, err, credential.ErrExists)
	require.Equal(t, revoked.Generation, generation(), "a refused change has no generation")
	require.NoError(t, s.RecordKeyUses(t.Context(), map[string]time.Time{"b": time.Now()}))
	require.Equal(t, revoked.Generation, generation(), "a use is no change")
	require.NoError(t, s.RecordCredential(t.Context(), keyEvent(activity.TokenCreated)))
	require.Len(t, mustEvents(t, s, activity.TokenCreated), 1)
	require.Equal(t, revoked.Generation, generation())
}

// The conditions see live operators only: keys that are neither revoked nor expired,
// and bindings.
func credentialConditions(t *testing.T, s Store) {
	add := func(k credential.Record, c credential.Condition) error {
		_, err := s.AddKey(t.Context(), k, c)
		return err
	}
	viewer := newKey("viewer", "a", auth.Viewer)
	require.ErrorIs(t, add(viewer, credential.OperatorExists), credential.ErrFirst)
	expired := newKey("expired", "b", auth.Operator)
	expired.ExpiresAt = new(time.Now().Add(-time.Minute).UTC())
	require.NoError(t, add(expired, credential.NoOperatorExists))
	require.ErrorIs(t, add(viewer, credential.OperatorExists), credential.ErrFirst)
	require.NoError(t, add(newKey("first", "c", auth.Operator), credential.NoOperatorExists))
	require.ErrorIs(t, add(newKey("second", "d", auth.Operator), credential.NoOperatorExists), credential.ErrInvalid)
	require.NoError(t, add(viewer, credential.OperatorExists))
	_, err := s.RevokeKey(t.Context(), "first")
	require.NoError(t, err)
	b := credential.Binding{Name: "b", Kind: auth.UnixSubject, Role: auth.Viewer}
	_, err = s.PutBinding(t.Context(), b, credential.OperatorExists)
	require.ErrorIs(t, err, credential.ErrFirst)
	b.Role = auth.Operator
	_, err = s.PutBinding(t.Context(), b, credential.Always)
	require.NoError(t, err)
	require.NoError(t, add(newKey("other", "e", auth.Viewer), credential.OperatorExists))
}

// Of two servers that add the first operator at once, one does.
func credentialRace(t *testing.T, s Store) {
	digits := []string{"0", "1", "2", "3", "4", "5", "6", "7"}
	errs := make([]error, len(digits))
	var group errgroup.Group
	for i, digit := range digits {
		group.Go(func() error {
			_, errs[i] = s.AddKey(t.Context(), newKey("key-"+digit, digit, auth.Operator), credential.NoOperatorExists)
			return nil
		})
	}
	require.NoError(t, group.Wait())
	added := 0
	for _, err := range errs {
		if err == nil {
			added++
			continue
		}
		require.ErrorIs(t, err, credential.ErrInvalid)
	}
	require.Equal(t, 1, added)
}

// A use is recorded unless a later one is.
func credentialUses(t *testing.T, s Store) {
	mustAddKey(t, s, newKey("a", "a", auth.Operator))
	used := time.Now().Truncate(time.Minute).UTC()
	for _, at := range []time.Time{used.Add(-time.Hour), used, used.Add(-time.Minute)} {
		require.NoError(t, s.RecordKeyUses(t.Context(), map[string]time.Time{"a": at, "none": at}))
	}
	keys, err := s.StoredKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, used, *keys[0].LastUsedAt)
}

// A binding is replaced as a whole, and deleted once.
func credentialBindings(t *testing.T, s Store) {
	subject := activity.Exactly("ci*")
	b := credential.Binding{
		Name: "ci", Kind: auth.OIDCSubject, Issuer: "https://issuer.example", Subject: &subject, Role: auth.Tenant,
		Claims: map[string]activity.Pattern{"groups": activity.Anything}, TenantClaim: "tenant", Source: credential.Database,
	}
	event := activity.Event{Type: activity.BindingApplied, Message: "a binding"}
	created, err := s.PutBinding(t.Context(), b, credential.Always, event)
	require.NoError(t, err)
	require.True(t, created)
	list := func() []credential.Binding {
		c, err := s.Credentials(t.Context(), 0)
		require.NoError(t, err)
		return c.Bindings
	}
	require.Equal(t, []credential.Binding{b}, list())
	b.Claims, b.Workloads = nil, []activity.Pattern{activity.Exactly("web")}
	created, err = s.PutBinding(t.Context(), b, credential.Always, event)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, []credential.Binding{b}, list())
	require.Len(t, mustEvents(t, s, activity.BindingApplied), 2)
	require.NoError(t, s.DeleteBinding(t.Context(), "ci", event))
	require.ErrorIs(t, s.DeleteBinding(t.Context(), "ci", event), credential.ErrNotFound)
	require.Empty(t, list())
	require.Len(t, mustEvents(t, s, activity.BindingApplied), 3)
	n, err := s.CredentialGeneration(t.Context())
	require.NoError(t, err)
	require.NotZero(t, n)
}
