package main

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The API server identifies a client by the subject of its certificate, and its
// own certificate is valid for all of its names.
func TestIssue(t *testing.T) {
	now := time.Now()
	authority, err := newAuthority(now)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(authority.pem))

	for name, subject := range subjects(layout{}) {
		t.Run(name, func(t *testing.T) {
			c, err := authority.Issue(subject)
			require.NoError(t, err)
			pair, err := tls.X509KeyPair(c.certificate, c.key)
			require.NoError(t, err)
			leaf, err := x509.ParseCertificate(pair.Certificate[0])
			require.NoError(t, err)
			require.Equal(t, subject.name, leaf.Subject.CommonName)
			if subject.group != "" {
				require.Equal(t, []string{subject.group}, leaf.Subject.Organization)
			}

			use := x509.ExtKeyUsageClientAuth
			if len(subject.hosts) > 0 {
				use = x509.ExtKeyUsageServerAuth
			}
			options := x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use}}
			_, err = leaf.Verify(options)
			require.NoError(t, err)
			for _, host := range subject.hosts {
				require.NoError(t, leaf.VerifyHostname(host))
			}
		})
	}
}

// A certificate of another cluster is rejected.
func TestIssueForeign(t *testing.T) {
	ours, err := newAuthority(time.Now())
	require.NoError(t, err)
	theirs, err := newAuthority(time.Now())
	require.NoError(t, err)
	c, err := theirs.Issue(subjects(layout{})["admin"])
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(c.certificate, c.key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)

	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ours.pem))
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	require.Error(t, err)
}
