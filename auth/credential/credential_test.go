package credential_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
)

// A key has a prefix and a checksum, acts with its grants, and is in no record.
func TestKey(t *testing.T) {
	db := openDatabase(t)
	s := newService(t, credential.Options{Store: db})
	ctx := activity.WithActor(t.Context(), activity.Actor{Name: "local", Address: "127.0.0.1", Request: "r1"})
	k, key, err := s.CreateKey(ctx, credential.NewKey{Name: "ci", Grants: operator, ExpiresIn: time.Hour})
	require.NoError(t, err)
	require.Regexp(t, `^hostler_[0-9A-Za-z]{49}$`, key)
	require.True(t, strings.HasPrefix(key, k.Prefix))
	require.Len(t, k.Prefix, 14)
	require.Equal(t, "local", k.CreatedBy)
	p := mustBe(t, s, key)
	require.Equal(t, "key:ci", p.Actor)
	require.Equal(t, operator, p.Grants)
	require.WithinDuration(t, time.Now().Add(time.Hour), p.Expires, time.Minute)
	require.Same(t, p, mustBe(t, s, key))
	require.True(t, s.IsCredential(t.Context(), key))
	refused(t, s, key+"0", auth.ErrInvalidCredential)
	refused(t, s, key[:len(key)-1], auth.ErrInvalidCredential)
	refused(t, s, strings.Repeat("a", 1<<20), auth.ErrInvalidCredential)
	_, err = as(t, s, "")
	require.ErrorIs(t, err, auth.ErrNoCredential)
	require.False(t, s.IsCredential(t.Context(), ""))

	page, err := db.Events(t.Context(), activity.Filter{Types: []activity.Type{activity.KeyCreated}}, 0, 10)
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	require.NotContains(t, string(page.Items[0].Data)+page.Items[0].Message, key)
	loaded, err := db.Credentials(t.Context(), 0)
	require.NoError(t, err)
	require.NotContains(t, loaded.Keys[0].Hash+loaded.Keys[0].Prefix, key)
	_, err = s.RevokeKey(ctx, "none")
	require.ErrorIs(t, err, credential.ErrNotFound)
	_, err = s.Key(ctx, "none")
	require.ErrorIs(t, err, credential.ErrNotFound)
	for _, wrong := range []credential.NewKey{
		{Name: "", Grants: operator}, {Name: "a b", Grants: operator}, {Name: strings.Repeat("a", 65), Grants: operator},
		{Name: "a"}, {Name: "a", Grants: []auth.Grant{{Role: auth.Tenant}}}, {Name: "a", Grants: operator, ExpiresIn: -1},
		{Name: "a", Grants: make([]auth.Grant, 21)}, {Name: "a", Grants: []auth.Grant{{Role: auth.Tenant, Tenants: make([]activity.Pattern, 1)}}},
	} {
		_, _, err := s.CreateKey(ctx, wrong)
		require.ErrorIs(t, err, credential.ErrInvalid, "%+v", wrong)
	}
}

// A server is open until it has had a credential. It is not open again when that is
// gone; then the bootstrap makes the next operator.
func TestIsOpen(t *testing.T) {
	db := openDatabase(t)
	s := newService(t, credential.Options{Store: db})
	require.True(t, s.IsOpen())
	unloaded, err := credential.New(credential.Options{Store: db})
	require.NoError(t, err)
	require.False(t, unloaded.IsOpen())
	ended := follow(t, s, auth.WithoutCredentials())
	mustLast(t, ended)

	_, _, err = s.CreateKey(t.Context(), credential.NewKey{Name: "t", Grants: tenantOf(t, "acme")})
	require.ErrorIs(t, err, credential.ErrFirst)
	require.True(t, s.IsOpen())
	key := mustKey(t, s, "op", operator)
	require.False(t, s.IsOpen())
	mustEnd(t, ended, auth.ErrRevoked, time.Second)
	_, _, err = s.Bootstrap(t.Context(), "again")
	require.ErrorIs(t, err, credential.ErrInvalid)
	mustKey(t, s, "t", tenantOf(t, "acme"))

	for _, name := range []string{"op", "t"} {
		_, err = s.RevokeKey(t.Context(), name)
		require.NoError(t, err)
	}
	refused(t, s, key, auth.ErrInvalidCredential)
	_, _, err = s.CreateKey(t.Context(), credential.NewKey{Name: "t2", Grants: tenantOf(t, "acme")})
	require.ErrorIs(t, err, credential.ErrFirst)
	require.False(t, s.IsOpen())
	require.NoError(t, db.PruneKeys(t.Context(), time.Now().Add(time.Hour)))
	s = newService(t, credential.Options{Store: db})
	require.False(t, s.IsOpen(), "a server that had keys")
	_, key, err = s.Bootstrap(t.Context(), "op")
	require.NoError(t, err)
	require.Equal(t, operator, mustBe(t, s, key).Grants)
	require.False(t, newService(t, credential.Options{Store: openDatabase(t), Tokens: issuer{}}).IsOpen())
}

// What one server revokes, another one refuses within two seconds, and ends. What
// one creates, the other accepts at once.
func TestOtherServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openDatabase(t)
		a, b := newService(t, credential.Options{Store: db}), newService(t, credential.Options{Store: db})
		run(t, a)
		run(t, b)
		key := mustKey(t, a, "op", operator)
		p := mustBe(t, b, key)
		ended := follow(t, b, p)
		ownEnd := follow(t, a, mustBe(t, a, key))
		token, err := a.CreateToken(t.Context(), mustBe(t, a, key), credential.NewToken{Tenant: "acme"})
		require.NoError(t, err)
		tokenEnd := follow(t, b, mustBe(t, b, token.Token))
		mustLast(t, ended)
		_, err = a.RevokeKey(t.Context(), "op")
		require.NoError(t, err)
		refused(t, a, key, auth.ErrInvalidCredential)
		mustEnd(t, ownEnd, auth.ErrRevoked, 0)
		time.Sleep(2 * time.Second)
		refused(t, b, key, auth.ErrInvalidCredential)
		refused(t, b, token.Token, auth.ErrInvalidCredential)
		mustEnd(t, ended, auth.ErrRevoked, 0)
		mustEnd(t, tokenEnd, auth.ErrRevoked, 0)
		mustLast(t, ended)
	})
}

// Keys that do not exist cost a bounded number of reads, and unchanged keys are not
// loaded again.
func TestUnknownKeysCostLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openDatabase(t)
		s := newService(t, credential.Options{Store: db})
		other := newService(t, credential.Options{Store: openDatabase(t)})
		mustKey(t, s, "op", operator)
		unknown := mustKey(t, other, "op", operator)
		before := db.generations.Load()
		for start := time.Now(); time.Since(start) < 10*time.Second; {
			refused(t, s, unknown, auth.ErrInvalidCredential)
		}
		require.LessOrEqual(t, db.generations.Load()-before, int64(101))
		before = db.generations.Load()
		for range 1000 {
			refused(t, s, "hostler_"+strings.Repeat("0", 49), auth.ErrInvalidCredential)
		}
		require.Equal(t, before, db.generations.Load(), "a wrong checksum costs no read")
		run(t, s)
		time.Sleep(3 * time.Second)
		loads := db.loads.Load()
		time.Sleep(time.Minute)
		require.Equal(t, loads, db.loads.Load())
	})
}

// Without its database a server cannot know what others have revoked: after two
// seconds it refuses keys of the database, and those of files remain.
func TestDatabaseOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openDatabase(t)
		file := writeFile(t, "keys", "ops:0123456789abcdef\n")
		s := newService(t, credential.Options{Store: db, KeyFile: file})
		run(t, s)
		key := mustKey(t, s, "op", operator)
		time.Sleep(time.Minute)
		mustBe(t, s, key)
		db.isDown.Store(true)
		mustBe(t, s, key)
		time.Sleep(3 * time.Second)
		refused(t, s, key, auth.ErrUnavailable)
		require.True(t, s.IsCredential(t.Context(), key), "it is not passed on")
		mustBe(t, s, "0123456789abcdef")
		require.Len(t, s.Problems(), 1)
		db.isDown.Store(false)
		mustBe(t, s, key)
		time.Sleep(2 * time.Second)
		require.Empty(t, s.Problems())
	})
}

// A key ends at its time, for new requests and for those that run. Its use is written
// later, to the minute; its name is free when its record is gone.
func TestExpiryAndUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openDatabase(t)
		s := newService(t, credential.Options{Store: db})
		stop := run(t, s)
		mustKey(t, s, "op", operator)
		_, key, err := s.CreateKey(t.Context(), credential.NewKey{Name: "brief", Grants: operator, ExpiresIn: time.Hour})
		require.NoError(t, err)
		ended := follow(t, s, mustBe(t, s, key))
		used := time.Now().Truncate(time.Minute).UTC()
		time.Sleep(time.Hour - time.Second)
		stored, err := db.StoredKeys(t.Context())
		require.NoError(t, err)
		require.Equal(t, used, *stored[0].LastUsedAt)
		mustLast(t, ended)
		mustBe(t, s, key)
		time.Sleep(time.Second)
		refused(t, s, key, auth.ErrInvalidCredential)
		time.Sleep(2 * time.Second)
		mustEnd(t, ended, auth.ErrExpired, 0)
		_, _, err = s.CreateKey(t.Context(), credential.NewKey{Name: "brief", Grants: operator})
		require.ErrorIs(t, err, credential.ErrExists)
		stop()
		stored, err = db.StoredKeys(t.Context())
		require.NoError(t, err)
		require.Equal(t, used.Add(59*time.Minute), *stored[0].LastUsedAt, "the last uses are written at the end")
		require.NoError(t, db.PruneKeys(t.Context(), time.Now().Add(time.Hour)))
		again := mustKey(t, s, "brief", operator)
		mustBe(t, s, again)
		refused(t, s, key, auth.ErrInvalidCredential)
	})
}

// stop waits for an end that runs, and no end runs after it.
func TestStopWaits(t *testing.T) {
	s := newService(t, credential.Options{Store: openDatabase(t)})
	key := mustKey(t, s, "op", operator)
	var n int
	stop := s.Follow(mustBe(t, s, key), func(error) { n++ })
	stop()
	late := mustBe(t, s, key)
	_, err := s.RevokeKey(t.Context(), "op")
	require.NoError(t, err)
	require.Zero(t, n)
	stop = s.Follow(late, func(cause error) { n++; require.ErrorIs(t, cause, auth.ErrRevoked) })
	require.Equal(t, 1, n, "revoked before it was followed")
	stop()
	require.Equal(t, 1, n)
}
