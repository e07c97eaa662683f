package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

const transportKey = "operators-key-of-this-test"

// writeCertificate writes a certificate for 127.0.0.1 and *.example.com, which is its
// own authority, and its key.
func writeCertificate(t *testing.T, dir string) (cert, key string, authorities *x509.CertPool) {
	t.Helper()
	one := httptest.NewUnstartedServer(nil)
	one.StartTLS()
	defer one.Close()
	pair := one.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	authorities = x509.NewCertPool()
	authorities.AddCert(one.Certificate())
	return write("tls.crt", "CERTIFICATE", pair.Certificate[0]), write("tls.key", "PRIVATE KEY", private), authorities
}

// secureServer is a server with TLS, a Unix socket and a key.
type secureServer struct {
	*server
	socket, cert string
	tls          *tls.Config
}

func serveSecurely(t *testing.T) *secureServer {
	t.Helper()
	rt := processBackend{}
	requireBackend(t, rt)
	dir := t.TempDir()
	cert, key, authorities := writeCertificate(t, dir)
	keys := filepath.Join(dir, "keys")
	require.NoError(t, os.WriteFile(keys, []byte("ops: "+transportKey+"\n"), 0o600))
	s := &secureServer{cert: cert, socket: filepath.Join(dir, "socket"), tls: &tls.Config{RootCAs: authorities}}
	s.server = serve(t, rt, "--tls-cert", cert, "--tls-key", key, "--api-key-file", keys,
		"--listen-unix", s.socket, "--port-domain", "https://example.com")
	require.True(t, strings.HasPrefix(s.base, "https://"), s.base)
	c, err := client.NewWithOptions(s.base, client.Options{Key: transportKey, TLS: s.tls})
	require.NoError(t, err)
	s.Client = c
	return s
}

// transport returns a transport with one version of HTTP, which sends every request to
// the server.
func (s *secureServer) transport(http2 bool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	t := &http.Transport{
		TLSClientConfig: s.tls.Clone(), Protocols: protocols,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(s.base, "https://"))
		},
	}
	s.t.Cleanup(t.CloseIdleConnections)
	return t
}

// withKey adds the key to each request.
type withKey struct{ http.RoundTripper }

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-API-Key", transportKey)
	return k.RoundTripper.RoundTrip(r)
}

// Ports of claims are reached over TLS with both versions of HTTP, also under hosts of
// their own, and a connection that ends early does not look complete.
func TestPortsOverTLS(t *testing.T) {
	t.Parallel()
	s := serveSecurely(t)
	g, port, _ := s.claimWeb("web")
	for _, http2 := range []bool{false, true} {
		requireWeb(t, &http.Client{Transport: withKey{s.transport(http2)}}, fmt.Sprintf("%s/v1/claims/%s/ports/%d", s.base, g.ID, port))
	}
	requireWeb(t, &http.Client{Transport: s.Port(g.ID, port)}, "http://port")

	link, err := url.Parse(s.mustSecureCLI("link", g.ID, fmt.Sprint(port), "--expires", "5m"))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("https://%d-%s.example.com", port, g.ID), link.Scheme+"://"+link.Host)
	for _, http2 := range []bool{false, true} {
		rt := s.transport(http2)
		resp, err := rt.RoundTrip(get(t, link.String(), ""))
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, http.StatusSeeOther, resp.StatusCode)
		r := get(t, "https://"+link.Host+"/page", "")
		r.AddCookie(resp.Cookies()[0])
		resp, err = rt.RoundTrip(r)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
		require.Contains(t, string(text), "GET /page "+link.Host)
	}

	conn, err := s.Port(g.ID, port).DialContext(t.Context(), "", "")
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.NoError(t, err)
	s.mustSecureCLI("release", g.ID)
	_, err = io.ReadAll(conn)
	require.Error(t, err, "the end looks like that of the program")
}

// mustSecureCLI runs a client command over TLS and returns its output.
func (s *secureServer) mustSecureCLI(args ...string) string {
	s.t.Helper()
	got := hostler(s.t, []string{"HOSTLER_SERVER=" + s.base, "HOSTLER_CA_FILE=" + s.cert, "HOSTLER_API_KEY=" + transportKey}, "", args...)
	require.Zero(s.t, got.code, "hostler %q: %s", args, got.err)
	return strings.TrimSpace(got.out)
}

// unixTransport returns a transport that sends every request to a Unix socket.
func unixTransport(path string) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
}

// A server without credentials serves the users of its machine on a socket too.
func TestUnixSocketWithoutCredentials(t *testing.T) {
	t.Parallel()
	requireBackend(t, processBackend{})
	socket := filepath.Join(t.TempDir(), "socket")
	s := serve(t, processBackend{}, "--listen-unix", socket)
	got := hostler(t, []string{"HOSTLER_SERVER=unix:" + socket}, "", "get", "pools")
	require.Zero(t, got.code, got.err)
	require.Zero(t, s.cli("get", "pools").code)
}

// The command line reaches a server through its Unix socket. A second server does not
// take the socket, and one that was killed leaves it to the next.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	s := serveSecurely(t)
	cli := func(key string) commandResult {
		return hostler(t, []string{"HOSTLER_SERVER=unix:" + s.socket, "HOSTLER_API_KEY=" + key}, "", "get", "pools")
	}
	require.Zero(t, cli(transportKey).code)
	require.NotZero(t, cli("a-key-that-nothing-accepts").code)

	local := &http.Client{Transport: unixTransport(s.socket)}
	for site, want := range map[string]int{"cross-site": http.StatusForbidden, "same-origin": http.StatusNotFound} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://localhost/v1/workloads/none", nil)
		require.NoError(t, err)
		r.Header.Set("Sec-Fetch-Site", site)
		resp, err := withKey{local.Transport}.RoundTrip(r)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, want, resp.StatusCode, site)
	}

	second := hostler(t, nil, "", "serve", "--listen", "127.0.0.1:0", "--runtime", "process", "--data", t.TempDir(), "--listen-unix", s.socket)
	require.NotZero(t, second.code)
	require.Contains(t, second.err, "another server listens on it")
	require.Zero(t, cli(transportKey).code)

	s.kill()
	require.FileExists(t, s.socket)
	s.start()
	require.Zero(t, cli(transportKey).code)
}

// maxLateGuesses is how many guesses may come so late that the delay before them has
// passed: it is a minute after six of them.
const maxLateGuesses = 6

// An address that guesses keys gets 429. A key that is valid still works from it, the
// Unix socket has no limit, and the operator sees the failures.
func TestFailedCredentials(t *testing.T) {
	t.Parallel()
	s := serveSecurely(t)
	status := func(c *http.Client, base, key string) (int, string) {
		r := get(t, base+"/v1/pools", "")
		r.Header.Set("X-API-Key", key)
		resp, err := c.Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	network := &http.Client{Transport: s.transport(true)}
	guesses := 0 // a guess that comes after the first delay of one second doubles it
	got, retry := status(network, s.base, "guess-0-of-a-long-key")
	for ; got != http.StatusTooManyRequests; got, retry = status(network, s.base, fmt.Sprintf("guess-%d-of-a-long-key", guesses)) {
		require.Equal(t, http.StatusUnauthorized, got)
		guesses++
		require.Less(t, guesses, 10+maxLateGuesses, "no limit")
	}
	require.GreaterOrEqual(t, guesses, 10)
	after, err := strconv.Atoi(retry)
	require.NoError(t, err)
	require.Positive(t, after)
	require.LessOrEqual(t, after, 1<<(guesses-10))
	got, _ = status(network, s.base, transportKey)
	require.Equal(t, http.StatusOK, got)
	local := &http.Client{Transport: unixTransport(s.socket)}
	got, _ = status(local, "http://localhost", "another-guess-of-a-long-key")
	require.Equal(t, http.StatusUnauthorized, got)

	resp, err := withKey{network.Transport}.RoundTrip(get(t, s.base+"/metrics", ""))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), fmt.Sprintf(`hostler_credential_failures_total{reason="invalid"} %d`, guesses+1))
	require.Contains(t, string(text), `hostler_credential_failures_total{reason="limited"} 1`)
	found := hostler(t, []string{"HOSTLER_SERVER=unix:" + s.socket, "HOSTLER_API_KEY=" + transportKey}, "", "doctor", "-o", "json")
	require.Contains(t, found.out, "failed_credentials")
	require.Contains(t, found.out, "127.0.0.1/32")
}
