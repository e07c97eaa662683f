package credential_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/postgrestest"
)

// Servers on PostgreSQL know what another one creates at once, and what it revokes
// within two seconds. A refused credential ends its requests within five.
func TestServersOnPostgres(t *testing.T) {
	postgrestest.Server(t)
	url := postgrestest.Schema(t)
	open := func() *credential.Service {
		db, err := store.Open(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		require.True(t, db.IsShared())
		s := newService(t, credential.Options{Store: db})
		run(t, s)
		return s
	}
	a, b := open(), open()
	mustKey(t, a, "op", operator)
	key := mustKey(t, a, "t", tenantOf(t, "acme"))
	user := auth.Request{UID: new(uint32(1000))}
	ended := follow(t, b, mustBe(t, b, key))
	mustBind(t, a, credential.Binding{Name: "u", Kind: auth.UnixSubject, Role: auth.Operator, Subject: new(activity.Exactly("1000"))})
	_, err := a.RevokeKey(t.Context(), "t")
	require.NoError(t, err)
	revoked := time.Now()
	for !errors.Is(err, auth.ErrInvalidCredential) {
		began := time.Now() // a slow machine may answer later
		if _, err = as(t, b, key); err == nil {
			require.LessOrEqual(t, began.Sub(revoked), 2*time.Second)
		} else if !errors.Is(err, auth.ErrInvalidCredential) {
			require.ErrorIs(t, err, auth.ErrUnavailable)
		}
		<-time.After(10 * time.Millisecond)
	}
	require.ErrorIs(t, <-ended, auth.ErrRevoked)
	p, err := b.Authenticate(t.Context(), user)
	require.NoError(t, err)
	require.True(t, p.Has(auth.Operator))
}

// A key that was revoked is on record for a month. Then its name is free.
func TestRecordsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openDatabase(t)
		s := newService(t, credential.Options{Store: db})
		old := mustKey(t, s, "op", operator)
		_, err := s.RevokeKey(t.Context(), "op")
		require.NoError(t, err)
		pass(29 * 24 * time.Hour)
		run(t, s)()
		_, _, err = s.CreateKey(t.Context(), credential.NewKey{Name: "op", Grants: operator})
		require.ErrorIs(t, err, credential.ErrExists)
		pass(2 * 24 * time.Hour)
		stop := run(t, s)
		pass(time.Second)
		stop()
		require.False(t, s.IsOpen())
		mustBe(t, s, mustKey(t, s, "op", operator))
		refused(t, s, old, auth.ErrInvalidCredential)
	})
}

// Keys are created, used, followed and revoked at once: what is revoked is refused
// when the revocation returns, and each follower ends once.
func TestConcurrentUse(t *testing.T) {
	s := newService(t, credential.Options{Store: openDatabase(t)})
	run(t, s)
	op := mustBe(t, s, mustKey(t, s, "op", operator))
	var group errgroup.Group
	for i := range 8 {
		group.Go(func() error {
			for n := range 5 {
				name := fmt.Sprintf("key-%d-%d", i, n)
				_, key, err := s.CreateKey(t.Context(), credential.NewKey{Name: name, Grants: operator})
				if err != nil {
					return err
				}
				p, err := s.Authenticate(t.Context(), auth.Request{Bearer: key})
				if err != nil {
					return err
				}
				causes := make(chan error, 10)
				stop := s.Follow(p, func(cause error) { causes <- cause })
				if _, err := s.CreateToken(t.Context(), op, credential.NewToken{Tenant: "acme"}); err != nil {
					return err
				}
				if _, err := s.RevokeKey(t.Context(), name); err != nil {
					return err
				}
				if _, err := s.Authenticate(t.Context(), auth.Request{Bearer: key}); err == nil {
					return fmt.Errorf("key %s is accepted after its revocation", name)
				}
				stop()
				if len(causes) != 1 {
					return fmt.Errorf("key %s: its request has ended %d times", name, len(causes))
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
}

// A database that no other server changes is not read again: what is in memory does
// not become stale.
func TestUnsharedDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, credential.Options{Store: openDatabase(t).DB})
		key := mustKey(t, s, "op", operator)
		mustBind(t, s, credential.Binding{Name: "u", Kind: auth.UnixSubject, Role: auth.Viewer})
		pass(time.Hour)
		mustBe(t, s, key)
		user := auth.Request{UID: new(uint32(1000))}
		_, err := s.Authenticate(t.Context(), user)
		require.NoError(t, err)
		require.NoError(t, s.DeleteBinding(t.Context(), "u"))
		_, err = s.Authenticate(t.Context(), user)
		require.ErrorIs(t, err, auth.ErrInvalidCredential)
		start := time.Now()
		refused(t, s, "hostler_"+key[8:50]+"0000000", auth.ErrInvalidCredential)
		require.Equal(t, start, time.Now())
	})
}
