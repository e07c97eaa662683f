package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// answerVersion answers as a server does that requires a key.
func answerVersion(key string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"items":[]}`)
	})
}

// A server is reached through a Unix socket, also for connections to ports.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "client-") // short: the path of a socket is
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // it is temporary
	path := filepath.Join(dir, "api.sock")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(answerVersion("k"))
	server.Listener.Close() //nolint:errcheck // it is replaced
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	c, err := NewWithOptions("unix://"+path, Options{Key: "k"})
	require.NoError(t, err)
	_, err = c.Pools(t.Context())
	require.NoError(t, err)
	_, err = c.Port("claim", 80).DialContext(t.Context(), "", "")
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrNoResponse, "the server answers that it has no ports")

	here, err := os.Getwd()
	require.NoError(t, err)
	relative, err := filepath.Rel(here, path)
	require.NoError(t, err)
	c2, err := NewWithOptions("unix:"+relative, Options{Key: "k"})
	require.NoError(t, err)
	_, err = c2.Pools(t.Context())
	require.NoError(t, err)

	server.Close()
	_, err = c.Pools(t.Context())
	require.ErrorContains(t, err, "unix://"+path)
}

// The client verifies the server with the authorities of its options, and shows its
// certificate, also for connections to ports.
func TestTLSOptions(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(answerVersion("k"))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	c, err := NewWithOptions(server.URL, Options{Key: "k", TLS: &tls.Config{RootCAs: pool, Certificates: server.TLS.Certificates}})
	require.NoError(t, err)
	_, err = c.Pools(t.Context())
	require.NoError(t, err)
	_, err = c.Port("claim", 80).DialContext(t.Context(), "", "")
	require.NotErrorIs(t, err, ErrNoResponse)

	c, err = NewWithOptions(server.URL, Options{Key: "k"})
	require.NoError(t, err)
	_, err = c.Pools(t.Context())
	require.ErrorContains(t, err, "certificate")
}

// A key is sent to the server's address only: net/http would send it along with a
// redirect to another port.
func TestRedirectsGetNoKey(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	c, err := New(server.URL, "k")
	require.NoError(t, err)
	_, err = c.Pools(t.Context())
	require.ErrorIs(t, err, errRedirect)
	require.Zero(t, seen.Load())
}

// The credential is asked for each request; without one nothing is sent.
func TestCredential(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(answerVersion("token-2"))
	t.Cleanup(server.Close)
	var asked atomic.Int64
	c, err := NewWithOptions(server.URL, Options{Credential: func(context.Context) (string, error) {
		if n := asked.Add(1); n < 3 {
			return fmt.Sprint("token-", n), nil
		}
		return "", errors.New("log in again")
	}})
	require.NoError(t, err)
	_, err = c.Pools(t.Context())
	require.Error(t, err)
	_, err = c.Pools(t.Context())
	require.NoError(t, err)
	_, err = c.Pools(t.Context())
	require.ErrorContains(t, err, "log in again")
	require.EqualValues(t, 3, asked.Load(), "it is not asked again")
}

// An address that is none of a server is an error that shows how it is written.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "localhost:8700", "ftp://a", "unix://host/path", "unix:", "unix:a%zz", "unix:a?b", "unix://", "http://", "://"} {
		_, err := New(base, "")
		require.ErrorContains(t, err, "it is written like", base)
	}
}
