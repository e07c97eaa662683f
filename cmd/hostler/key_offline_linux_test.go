package main

import (
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/store"
)

// The first key is made without a server, also where none has run, and once only.
func TestBootstrapOffline(t *testing.T) {
	data := filepath.Join(t.TempDir(), "new")
	code, key, errOut := hostler(t, "", "key", "bootstrap", "--data", data)
	require.Equal(t, exitOK, code, errOut)
	require.Regexp(t, `^hostler_\w+\n$`, key)
	code, out, errOut := hostler(t, "", "key", "bootstrap", "again", "--data", data)
	require.Equal(t, exitFailure, code)
	require.Empty(t, out)
	require.Contains(t, errOut, "an operator's credential exists")

	db, err := store.Open(t.Context(), filepath.Join(data, "hostler.db"))
	require.NoError(t, err)
	code, _, errOut = hostler(t, "", "key", "bootstrap", "again", "--data", data)
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "leave out --data")
	s := &server{db: db, log: slog.New(slog.DiscardHandler)}
	require.NoError(t, s.loadCredentials(t.Context(), serveConfig{}, []byte("secret")))
	require.False(t, s.credentials.IsOpen())
	p, err := s.credentials.Authenticate(t.Context(), auth.Request{Bearer: key[:len(key)-1]})
	require.NoError(t, err)
	require.Equal(t, "key:operator", p.Actor)
	require.True(t, p.Has(auth.Operator))
	require.NoError(t, db.Close())
}

// A revoked key keeps its name: the next first key needs another one.
func TestBootstrapAfterRevocation(t *testing.T) {
	data := t.TempDir()
	code, _, errOut := hostler(t, "", "key", "bootstrap", "--data", data)
	require.Equal(t, exitOK, code, errOut)
	db, err := store.Open(t.Context(), filepath.Join(data, "hostler.db"))
	require.NoError(t, err)
	s := &server{db: db, log: slog.New(slog.DiscardHandler)}
	require.NoError(t, s.loadCredentials(t.Context(), serveConfig{}, []byte("secret")))
	_, err = s.credentials.RevokeKey(t.Context(), "operator")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	code, _, errOut = hostler(t, "", "key", "bootstrap", "--data", data)
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "give another NAME")
	code, _, errOut = hostler(t, "", "key", "bootstrap", "operator2", "--data", data)
	require.Equal(t, exitOK, code, errOut)
}

// Without a credential a server listens on loopback addresses only.
func TestOpenServerIsOnLoopback(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, tt := range []struct {
		isOpen  bool
		address net.Addr
		refused bool
	}{
		{true, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, false},
		{true, &net.TCPAddr{IP: net.IPv6loopback}, false},
		{true, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, true},
		{true, &net.TCPAddr{}, true},
		{true, &net.UnixAddr{}, true},
		{false, &net.TCPAddr{}, false},
	} {
		err := checkOpen(tt.isOpen, tt.address, log)
		require.Equal(t, tt.refused, err != nil, tt)
		if tt.refused {
			require.ErrorContains(t, err, "hostler key bootstrap")
		}
	}
}

// A server is new while nothing can have a credential of it.
func TestIsNew(t *testing.T) {
	data := t.TempDir()
	c := serveConfig{data: data, store: sqlite}
	require.True(t, c.isNew())
	for _, other := range []serveConfig{
		{data: data, store: sqlite, apiKeyFile: "keys"}, {data: data, store: sqlite, bindingsFile: "bindings"},
		{data: data, store: "postgres://x"}, {data: data, store: sqlite, storeFile: "x"},
	} {
		require.False(t, other.isNew(), other)
	}
	db, err := store.Open(t.Context(), filepath.Join(data, "hostler.db"))
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.False(t, c.isNew())
}
