package transport_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/transport"
)

// tlsServer is a server whose handler answers with the name of the client's
// certificate.
type tlsServer struct {
	t     testing.TB
	tls   *transport.TLS
	addr  string
	log   *strings.Builder
	ca    *authority
	files *secret
	conns *transport.Connections
	held  chan struct{} // a request to /hold has begun
	ended chan error    // the cause of its end
}

// hour is the end of certificates that stay valid.
func hour() time.Time { return time.Now().Add(time.Hour) }

// startTLS serves with a certificate of a new authority, and asks for certificates of
// the authorities of clients, if there are any.
func startTLS(t testing.TB, clients ...*authority) *tlsServer {
	t.Helper()
	s := &tlsServer{
		t: t, log: &strings.Builder{}, ca: newAuthority(t, "server authority", hour().Add(time.Hour*24*30)), files: &secret{dir: t.TempDir()},
		held: make(chan struct{}, 1), ended: make(chan error, 1),
	}
	s.write(clients...)
	files := transport.Files{Cert: s.files.path("tls.crt"), Key: s.files.path("tls.key")}
	if len(clients) > 0 {
		files.ClientCA = s.files.path("ca.crt")
	}
	var err error
	s.tls, err = transport.Load(files, slog.New(slog.NewTextHandler(s.log, nil)))
	require.NoError(t, err)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.conns = transport.NewConnections(transport.Limits{Total: 100, PerAddress: 100, PerActor: 100})
	listener := tls.NewListener(s.conns.Listen(tcp), s.tls.Config())
	s.addr = listener.Addr().String()
	server := &http.Server{
		Handler: s.tls.Handler(http.HandlerFunc(s.serve)), ConnContext: s.tls.ConnContext, TLSConfig: s.tls.Config(),
		ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	s.conns.Bound(server, func(ctx context.Context, _ func(...string) bool) context.Context { return ctx })
	var g errgroup.Group
	g.Go(func() error { return server.Serve(listener) })
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, g.Wait(), http.ErrServerClosed)
	})
	return s
}

// write replaces the files of the server by ones with a new certificate.
func (s *tlsServer) write(clients ...*authority) (cert []byte) {
	s.t.Helper()
	cert, key := s.ca.issue(s.t, pkix.Name{CommonName: "server"}, x509.ExtKeyUsageServerAuth, time.Now().Add(30*24*time.Hour))
	files := map[string][]byte{"tls.crt": cert, "tls.key": key}
	for _, ca := range clients {
		files["ca.crt"] = append(files["ca.crt"], ca.text()...)
	}
	s.files.write(s.t, files)
	return cert
}

func (s *tlsServer) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/hold" {
		http.NewResponseController(w).Flush() //nolint:errcheck // the test sees the end of the context
		s.held <- struct{}{}
		<-r.Context().Done()
		s.ended <- context.Cause(r.Context())
		return
	}
	if len(r.TLS.VerifiedChains) == 0 {
		fmt.Fprintf(w, "none %d", len(r.TLS.PeerCertificates)) //nolint:errcheck // the client sees it
		return
	}
	subject, err := auth.CertificateSubject(r.TLS.PeerCertificates[0])
	fmt.Fprintf(w, "%s %v", subject.Name, errors.Is(err, auth.ErrInvalidCredential)) //nolint:errcheck // the client sees it
}

// newClient returns a client with at most one certificate.
func (s *tlsServer) newClient(http2 bool, certs ...tls.Certificate) *http.Client {
	s.t.Helper()
	rt := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.ca.pool(), Certificates: certs}, ForceAttemptHTTP2: http2,
	}
	s.t.Cleanup(rt.CloseIdleConnections)
	return &http.Client{Transport: rt}
}

// get returns the answer to a request.
func (s *tlsServer) get(c *http.Client, path string) (text string, res *http.Response, err error) {
	s.t.Helper()
	res, err = c.Get("https://" + s.addr + path)
	if err != nil {
		return "", nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), res, err
}

// Both versions of HTTP work over TLS, and versions of TLS before 1.2 do not.
func TestTLSVersions(t *testing.T) {
	t.Parallel()
	s := startTLS(t)
	for _, http2 := range []bool{false, true} {
		text, res, err := s.get(s.newClient(http2), "/")
		require.NoError(t, err)
		require.Equal(t, "none 0", text)
		require.Equal(t, http2, res.ProtoMajor == 2)
		require.Equal(t, uint16(tls.VersionTLS13), res.TLS.Version)
	}
	for version, ok := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true} {
		conn, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: s.ca.pool(), MinVersion: tls.VersionTLS10, MaxVersion: version})
		require.Equal(t, ok, err == nil, "%x: %v", version, err)
		if err == nil {
			require.NoError(t, conn.Close())
		}
	}
	plain, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	defer plain.Close() //nolint:errcheck // it is over
	_, err = io.WriteString(plain, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(plain), nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusBadRequest, res.StatusCode, "without TLS")
}

// A new certificate is used by new connections, and those that are open stay. Files
// that cannot be used change nothing, are logged once, and are a problem until they
// are repaired.
func TestReload(t *testing.T) {
	t.Parallel()
	s := startTLS(t)
	open := s.newClient(false)
	serial := func(c *http.Client) string {
		_, res, err := s.get(c, "/")
		require.NoError(t, err)
		return res.TLS.PeerCertificates[0].SerialNumber.String()
	}
	first := serial(open)
	s.write()
	s.tls.Reload()
	require.Equal(t, first, serial(open), "the open connection was closed")
	second := serial(s.newClient(false))
	require.NotEqual(t, first, second)
	require.Empty(t, s.tls.Problems())

	cert, key := s.ca.issue(t, pkix.Name{CommonName: "server"}, x509.ExtKeyUsageServerAuth, hour())
	_, other := s.ca.issue(t, pkix.Name{CommonName: "server"}, x509.ExtKeyUsageServerAuth, hour())
	expired, expiredKey := s.ca.issue(t, pkix.Name{CommonName: "server"}, x509.ExtKeyUsageServerAuth, time.Now().Add(-time.Minute))
	for name, files := range map[string]map[string][]byte{
		"another key":  {"tls.crt": cert, "tls.key": other},
		"damaged":      {"tls.crt": damaged(cert), "tls.key": key},
		"empty":        {"tls.crt": nil, "tls.key": nil},
		"expired":      {"tls.crt": expired, "tls.key": expiredKey},
		"out of bound": {"tls.crt": append(cert[:len(cert):len(cert)], make([]byte, 1<<20)...), "tls.key": key},
		"missing":      {"tls.crt": cert},
	} {
		s.log.Reset()
		s.files.write(t, files)
		s.tls.Reload()
		require.NotContains(t, s.log.String(), "level=ERROR", "%s: the files may be half written", name)
		s.tls.Reload()
		s.tls.Reload()
		require.Equal(t, 1, strings.Count(s.log.String(), "level=ERROR"), "%s: %s", name, s.log)
		require.Len(t, s.tls.Problems(), 1, name)
		require.Equal(t, second, serial(s.newClient(false)), name)
		require.NotContains(t, s.log.String(), "PRIVATE", name)
	}
	s.write()
	s.tls.Reload()
	require.Empty(t, s.tls.Problems())
	require.NotEqual(t, second, serial(s.newClient(false)))
}

// Run follows the files until its context ends.
func TestRunFollowsTheFiles(t *testing.T) {
	t.Parallel()
	s := startTLS(t)
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return s.tls.Run(ctx) })
	want := s.write()
	testenv.AwaitTrue(t, "the new certificate", func() bool {
		_, res, err := s.get(s.newClient(false), "/")
		return err == nil && strings.Contains(string(want), encoded(res.TLS.PeerCertificates[0]))
	})
	cancel()
	require.NoError(t, g.Wait())
}

// A certificate that ends within days is a problem before it ends.
func TestExpiryIsAProblem(t *testing.T) {
	t.Parallel()
	s := startTLS(t)
	cert, key := s.ca.issue(t, pkix.Name{CommonName: "server"}, x509.ExtKeyUsageServerAuth, hour())
	s.files.write(t, map[string][]byte{"tls.crt": cert, "tls.key": key})
	s.tls.Reload()
	require.Len(t, s.tls.Problems(), 1)
	require.Contains(t, s.tls.Problems()[0], "expires at")
}

// Files are complete, and good, when a server starts.
func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "authority", hour())
	cert, key := ca.issue(t, pkix.Name{CommonName: "server"}, x509.ExtKeyUsageServerAuth, hour())
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	c, k := write("c", cert), write("k", key)
	for name, files := range map[string]transport.Files{
		"only a certificate":  {Cert: c},
		"only a key":          {Key: k},
		"only an authority":   {ClientCA: c},
		"no such file":        {Cert: c, Key: k + "x"},
		"key and certificate": {Cert: k, Key: c},
		"not an authority":    {Cert: c, Key: k, ClientCA: c},
		"no authority":        {Cert: c, Key: k, ClientCA: write("empty", nil)},
		"a key":               {Cert: c, Key: k, ClientCA: k},
		"damaged authority":   {Cert: c, Key: k, ClientCA: write("damaged", append(ca.text(), damaged(ca.text())...))},
	} {
		_, err := transport.Load(files, slog.New(slog.DiscardHandler))
		require.Error(t, err, name)
	}
	_, err := transport.Load(transport.Files{Cert: c, Key: k, ClientCA: write("ca", ca.text())}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
}

// A connection with HTTP/2 counts as two: it has several requests at once.
func TestHTTP2Counts(t *testing.T) {
	s := startTLS(t)
	for i, http2 := range []bool{false, true} {
		_, _, err := s.get(s.newClient(http2), "/")
		require.NoError(t, err)
		open, _, _ := s.conns.Counts()
		require.Equal(t, 1+2*i, open)
	}
}

// A chain of 32 KiB is within what a client may send before its first request.
func TestLongChain(t *testing.T) {
	ca := newAuthority(t, "clients", hour())
	s := startTLS(t, ca)
	cert := ca.client(t, pkix.Name{CommonName: "alice"}, hour())
	for range (32 << 10) / len(ca.cert.Raw) {
		cert.Certificate = append(cert.Certificate, ca.cert.Raw)
	}
	text, _, err := s.get(s.newClient(true, cert), "/")
	require.NoError(t, err)
	require.Equal(t, "alice false", text)
}
