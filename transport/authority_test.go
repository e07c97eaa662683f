package transport_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority returns an authority that is valid until the given time.
func newAuthority(t testing.TB, name string, until time.Time) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{cert, key}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

// pool returns what trusts the authority only.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// text returns the authority's certificate as PEM.
func (a *authority) text() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue returns a certificate that is valid until the given time, as the texts of two
// files.
func (a *authority) issue(t testing.TB, subject pkix.Name, usage x509.ExtKeyUsage, until time.Time) (cert, key []byte) {
	t.Helper()
	private := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	if usage == x509.ExtKeyUsageServerAuth {
		template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// client returns the certificate of a client.
func (a *authority) client(t testing.TB, subject pkix.Name, until time.Time) tls.Certificate {
	t.Helper()
	cert, err := tls.X509KeyPair(a.issue(t, subject, x509.ExtKeyUsageClientAuth, until))
	require.NoError(t, err)
	return cert
}

// secret is a directory as the kubelet mounts a Secret: the files are links through
// one link to a directory, which is replaced at once.
type secret struct {
	dir   string
	count int
}

func (s *secret) path(name string) string { return filepath.Join(s.dir, name) }

// write replaces all files.
func (s *secret) write(t testing.TB, files map[string][]byte) {
	t.Helper()
	s.count++
	data := filepath.Join(s.dir, "..data"+string(rune('a'+s.count)))
	require.NoError(t, os.Mkdir(data, 0o700))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(data, name), text, 0o600))
		if _, err := os.Lstat(s.path(name)); err != nil {
			require.NoError(t, os.Symlink(filepath.Join("..data", name), s.path(name)))
		}
	}
	next := filepath.Join(s.dir, "..data_next")
	require.NoError(t, os.Symlink(filepath.Base(data), next))
	require.NoError(t, os.Rename(next, filepath.Join(s.dir, "..data")))
}

// damaged returns PEM text with a part cut out of its middle.
func damaged(text []byte) []byte {
	return bytes.Join([][]byte{text[:len(text)/3], text[len(text)/2:]}, nil)
}
