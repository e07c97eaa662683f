package transport_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/auth"
)

// encoded returns a certificate as it is in a file.
func encoded(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

func transportOf(c *http.Client) *http.Transport { return c.Transport.(*http.Transport) }

// A client may have a certificate. One that is not accepted is refused by the
// handshake; a name that is not usable is no name.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t, "clients", hour()), newAuthority(t, "others", hour())
	s := startTLS(t, ca)
	serverOnly, err := tls.X509KeyPair(ca.issue(t, pkix.Name{CommonName: "bot"}, x509.ExtKeyUsageServerAuth, hour()))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		certs []tls.Certificate
		want  string // empty: refused
	}{
		"none":               {nil, "none 0"},
		"good":               {[]tls.Certificate{ca.client(t, pkix.Name{CommonName: "bot"}, hour())}, "bot false"},
		"without a name":     {[]tls.Certificate{ca.client(t, pkix.Name{Organization: []string{"acme"}}, hour())}, " true"},
		"name of 32 KiB":     {[]tls.Certificate{ca.client(t, pkix.Name{CommonName: strings.Repeat("n", 32<<10)}, hour())}, " true"},
		"other authority":    {[]tls.Certificate{other.client(t, pkix.Name{CommonName: "bot"}, hour())}, ""},
		"expired":            {[]tls.Certificate{ca.client(t, pkix.Name{CommonName: "bot"}, time.Now().Add(-time.Second))}, ""},
		"not for clients":    {[]tls.Certificate{serverOnly}, ""},
		"the authority's":    {[]tls.Certificate{{Certificate: [][]byte{ca.cert.Raw}, PrivateKey: ca.key}}, "clients false"},
		"of another key":     {[]tls.Certificate{{Certificate: [][]byte{ca.cert.Raw}, PrivateKey: other.key}}, ""},
		"of the server's CA": {[]tls.Certificate{s.ca.client(t, pkix.Name{CommonName: "bot"}, hour())}, ""},
	} {
		for _, http2 := range []bool{false, true} {
			client := s.newClient(http2, c.certs...)
			// A client shows what it has, whatever the server asks for.
			if len(c.certs) > 0 {
				cert := c.certs[0]
				transportOf(client).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
			}
			text, _, err := s.get(client, "/")
			if c.want == "" {
				require.Error(t, err, name)
				continue
			}
			require.NoError(t, err, name)
			require.Equal(t, c.want, text, name)
		}
	}
}

// A connection that stays open does not keep its certificate alive: when that
// expires, no request shows it, and one in progress ends.
func TestExpiredOnAnOpenConnection(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		ca := newAuthority(t, "clients", hour())
		s := startTLS(t, ca)
		// Certificates count whole seconds. The clock stands until the test moves it.
		until := hour().Truncate(time.Second)
		const left = 50 * time.Millisecond
		var offset atomic.Int64
		s.tls.SetClock(func() time.Time { return until.Add(-left).Add(time.Duration(offset.Load())) })
		client := s.newClient(http2, ca.client(t, pkix.Name{CommonName: "bot"}, until))
		text, _, err := s.get(client, "/")
		require.NoError(t, err)
		require.Equal(t, "bot false", text)
		began := time.Now()
		res, err := client.Get("https://" + s.addr + "/hold")
		require.NoError(t, err)
		<-s.held
		require.ErrorIs(t, <-s.ended, auth.ErrExpired)
		require.NoError(t, res.Body.Close())
		require.GreaterOrEqual(t, time.Since(began), left)
		offset.Store(int64(left) + 1)
		// Only the connection of HTTP/2 is there for another request, which shows it.
		if http2 {
			text, _, err = s.get(client, "/")
			require.NoError(t, err)
			require.Equal(t, "none 0", text)
		}
	}
}

// Authorities that are replaced are not accepted any more: not on connections that
// are open, not for requests in progress, and not for sessions that are resumed.
func TestReplacedAuthority(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		old, kept := newAuthority(t, "old", hour()), newAuthority(t, "kept", hour())
		s := startTLS(t, old, kept)
		open := s.newClient(http2, old.client(t, pkix.Name{CommonName: "bot"}, hour()))
		staying := s.newClient(http2, kept.client(t, pkix.Name{CommonName: "staying"}, hour()))
		resuming := s.newClient(http2, old.client(t, pkix.Name{CommonName: "bot"}, hour()))
		transportOf(resuming).TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(8)
		text, _, err := s.get(open, "/")
		require.NoError(t, err)
		require.Equal(t, "bot false", text)
		text, _, err = s.get(resuming, "/")
		require.NoError(t, err)
		require.Equal(t, "bot false", text)
		text, _, err = s.get(staying, "/")
		require.NoError(t, err)
		require.Equal(t, "staying false", text)
		held, err := s.newClient(http2, old.client(t, pkix.Name{CommonName: "bot"}, hour())).Get("https://" + s.addr + "/hold")
		require.NoError(t, err)
		<-s.held

		s.write(kept)
		s.tls.Reload()
		require.ErrorIs(t, <-s.ended, auth.ErrRevoked)
		require.NoError(t, held.Body.Close())
		text, _, err = s.get(open, "/")
		require.NoError(t, err)
		require.Equal(t, "none 0", text)
		text, _, err = s.get(staying, "/")
		require.NoError(t, err)
		require.Equal(t, "staying false", text)
		resuming.CloseIdleConnections()
		text, _, err = s.get(resuming, "/")
		require.True(t, err != nil || text == "none 0", "a resumed session: %s", text)
	}
}
