package credential_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/store"
	"github.com/hostler/hostler/store/postgrestest"
)

// A client of a server that is still open, because it does not know what another one
// has made a moment before, makes no operator.
func TestFirstCredentialOfAnotherServer(t *testing.T) {
	db := openDatabase(t)
	a, b := newService(t, credential.Options{Store: db}), newService(t, credential.Options{Store: db})
	mustKey(t, a, "op", operator)
	require.True(t, b.IsOpen())
	ctx := auth.WithPrincipal(t.Context(), auth.WithoutCredentials())
	_, _, err := b.CreateKey(ctx, credential.NewKey{Name: "eve", Grants: operator})
	require.ErrorIs(t, err, credential.ErrInvalid)
	_, _, err = b.PutBinding(ctx, credential.Binding{Name: "eve", Kind: auth.UnixSubject, Role: auth.Operator, Subject: &patterns(t, "1000")[0]})
	require.ErrorIs(t, err, credential.ErrInvalid)
	keys, err := a.Keys(t.Context())
	require.NoError(t, err)
	require.Len(t, keys, 1)
}

// Of several servers on PostgreSQL on which clients make the first credential at once,
// one makes it.
func TestRaceForTheFirstCredential(t *testing.T) {
	postgrestest.Server(t)
	url := postgrestest.Schema(t)
	var g errgroup.Group
	var made atomic.Int64
	for i := range 4 {
		db, err := store.Open(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		s := newService(t, credential.Options{Store: db})
		ctx := auth.WithPrincipal(t.Context(), auth.WithoutCredentials())
		for range 3 {
			g.Go(func() error {
				if _, _, err := s.CreateKey(ctx, credential.NewKey{Name: string(rune('a' + i)), Grants: operator}); err == nil {
					made.Add(1)
				}
				return nil
			})
			g.Go(func() error {
				if _, _, err := s.Bootstrap(ctx, string(rune('k'+i))); err == nil {
					made.Add(1)
				}
				return nil
			})
		}
	}
	require.NoError(t, g.Wait())
	require.EqualValues(t, 1, made.Load())
}
