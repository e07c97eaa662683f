package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/internal/oidctest"
)

// newLoginIssuer returns an issuer whose user approves the device. Its tokens are
// valid for a time.
func newLoginIssuer(t *testing.T, lifetime time.Duration) *oidctest.Issuer {
	t.Helper()
	i := oidctest.New(t)
	i.Approve(func() oidctest.Claims {
		c := i.Valid("cli", "alice")
		c["exp"], c["nonce"] = time.Now().Add(lifetime).Unix(), time.Now().UnixNano()
		return c
	})
	return i
}

// A login gets a token, shows no more than the code, keeps it for its server only and
// is forgotten by a logout.
func TestLogin(t *testing.T) {
	path := useContexts(t)
	i, server, other := newLoginIssuer(t, time.Hour), newCredentialServer(t), newCredentialServer(t)
	code, _, errOut := hostler(t, "", "login", "--issuer", i.URL(), "--client-id", "cli")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errOut, "hostler context add")
	mustRun(t, "context", "add", "prod", "--server", server.URL)
	code, out, errOut := hostler(t, "", "login", "--issuer", i.URL(), "--client-id", "cli")
	require.Zero(t, code, errOut)
	require.Empty(t, out)
	require.Contains(t, errOut, "Open "+i.URL()+`/activate\x1b[2J and enter the code `+oidctest.UserCode+"\n")
	require.NotContains(t, errOut, "secret")
	require.Equal(t, []string{"openid offline_access"}, i.Forms()[0]["scope"])

	mustRun(t, "get", "pools")
	require.Len(t, strings.Split(server.last(), "."), 3)
	mustRun(t, "get", "pools", "--server", other.URL)
	require.Empty(t, other.last())
	file := tokenPath(path, "prod")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	// Another server takes the name: the token is not for it.
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(text), server.last())
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(text), server.URL, other.URL)), 0o600))
	code, _, errOut = hostler(t, "", "get", "pools")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "another server")
	require.Len(t, other.seen, 1)
	require.NoError(t, os.WriteFile(path, text, 0o600))

	mustRun(t, "logout")
	require.NoFileExists(t, file)
	code, _, errOut = hostler(t, "", "get", "pools")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "hostler login --context prod")
	require.Len(t, server.seen, 1)
	mustRun(t, "login") // where it was the last time
	mustRun(t, "context", "add", "prod", "--server", other.URL)
	require.NoFileExists(t, file)
}

// A token that has expired is refreshed once, also by commands that run at the same
// time: the issuer accepts each refresh token once.
func TestLoginIsRefreshed(t *testing.T) {
	path := useContexts(t)
	i, server := newLoginIssuer(t, time.Hour), newCredentialServer(t)
	mustRun(t, "context", "add", "prod", "--server", server.URL, "--issuer", i.URL(), "--client-id", "cli")
	mustRun(t, "login")
	mustRun(t, "get", "pools")
	first := server.last()
	expire(t, tokenPath(path, "prod"), nil)
	before := len(i.Forms())
	done := make(chan int, 5)
	for range cap(done) {
		go func() {
			code, _, _ := hostler(t, "", "get", "pools")
			done <- code
		}()
	}
	for range cap(done) {
		require.Zero(t, <-done)
	}
	require.Len(t, i.Forms(), before+1)
	require.NotEqual(t, first, server.last())

	// A refresh token that was revoked ends the login.
	expire(t, tokenPath(path, "prod"), func(s *storedToken) { s.Refresh = "refresh-0" })
	code, _, errOut := hostler(t, "", "get", "pools")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "log in again")
	require.NotContains(t, errOut, "refresh-0")
	expire(t, tokenPath(path, "prod"), func(s *storedToken) { s.Refresh = "" })
	code, _, errOut = hostler(t, "", "get", "pools")
	require.Equal(t, exitFailure, code)
	require.Contains(t, errOut, "expired")
}

// expire makes the stored token expire, and changes more of it.
func expire(t *testing.T, path string, change func(*storedToken)) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var s storedToken
	require.NoError(t, json.Unmarshal(text, &s))
	s.Expires = time.Now().Add(refreshBefore / 2)
	if change != nil {
		change(&s)
	}
	require.NoError(t, s.write(path))
}

// With --audience the access token is the credential.
func TestLoginForAnAudience(t *testing.T) {
	path := useContexts(t)
	i, server := newLoginIssuer(t, time.Hour), newCredentialServer(t)
	mustRun(t, "context", "add", "prod", "--server", server.URL)
	mustRun(t, "login", "--issuer", i.URL(), "--client-id", "cli", "--audience", "hostler", "--scope", "a,b")
	mustRun(t, "get", "pools")
	require.Equal(t, "opaque", server.last())
	require.Equal(t, []string{"hostler"}, i.Forms()[0]["audience"])
	require.Equal(t, []string{"a b"}, i.Forms()[0]["scope"])
	require.FileExists(t, filepath.Join(filepath.Dir(path), "tokens", "prod.json"))
}
