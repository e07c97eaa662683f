package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The credential of the environment is for the server of the environment, if that has
// one: --server with another one does not get it.
func TestKeyOfTheEnvironmentIsForItsServer(t *testing.T) {
	useContexts(t)
	one, two := newCredentialServer(t), newCredentialServer(t)
	t.Setenv("HOSTLER_API_KEY", "key-of-one")
	mustRun(t, "get", "pools", "--server", two.URL)
	require.Equal(t, "key-of-one", two.last(), "the environment has no server")
	t.Setenv("HOSTLER_SERVER", one.URL)
	mustRun(t, "get", "pools", "--server", two.URL)
	require.Empty(t, two.last())
	mustRun(t, "get", "pools", "--server", one.URL+"/")
	require.Equal(t, "key-of-one", one.last())
	mustRun(t, "get", "pools", "--server", two.URL, "--api-key-file", writeFile(t, "key-of-two"))
	require.Equal(t, "key-of-two", two.last())
}

// A logout during a refresh of the tokens leaves none behind.
func TestLogoutDuringARefresh(t *testing.T) {
	path := useContexts(t)
	i, server := newLoginIssuer(t, time.Hour), newCredentialServer(t)
	mustRun(t, "context", "add", "prod", "--server", server.URL, "--issuer", i.URL(), "--client-id", "cli")
	mustRun(t, "login")
	file := tokenPath(path, "prod")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	unlock, err := lockFile(file) // as a refresh does
	require.NoError(t, err)
	done := make(chan int, 1)
	go func() { // it ends when the lock is released
		code, _, _ := hostler(t, "", "logout")
		done <- code
	}()
	select {
	case code := <-done:
		done <- code
	case <-time.After(200 * time.Millisecond):
	}
	require.NoError(t, replacePrivate(file, text))
	unlock()
	require.Zero(t, <-done)
	require.NoFileExists(t, file)
}
