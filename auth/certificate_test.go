package auth_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/auth"
)

// A certificate's name is its common name, else its first DNS name, unchanged or not
// at all.
func TestCertificateSubject(t *testing.T) {
	cn := func(values ...string) pkix.Name {
		var name pkix.Name
		for _, value := range values {
			name.CommonName = value // as x509 does: the last one
			name.Names = append(name.Names, pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: value})
		}
		return name
	}
	hour := time.Hour
	for name, c := range map[string]struct {
		subject  pkix.Name
		dns      []string
		from, to time.Duration
		want     string // empty: refused
	}{
		"common name":           {cn("deploy-bot"), []string{"other.example"}, -hour, hour, "deploy-bot"},
		"first DNS name":        {pkix.Name{}, []string{"a.example", "b.example"}, -hour, hour, "a.example"},
		"text of people":        {cn("Zoë Ångström"), nil, -hour, hour, "Zoë Ångström"},
		"longest":               {cn(strings.Repeat("n", 200)), nil, -hour, hour, strings.Repeat("n", 200)},
		"no name":               {pkix.Name{Organization: []string{"acme"}}, nil, -hour, hour, ""},
		"empty common name":     {cn(""), []string{"a.example"}, -hour, hour, ""},
		"two common names":      {cn("operator", "guest"), nil, -hour, hour, ""},
		"too long":              {cn(strings.Repeat("n", 201)), []string{"a.example"}, -hour, hour, ""},
		"64 KiB":                {cn(strings.Repeat("n", 64<<10)), nil, -hour, hour, ""},
		"two lines":             {cn("a\nactor=key:root"), nil, -hour, hour, ""},
		"terminal sequence":     {cn("a\x1b[2J"), nil, -hour, hour, ""},
		"right to left":         {cn("a\u202eb"), nil, -hour, hour, ""},
		"not text":              {cn("a\xff"), nil, -hour, hour, ""},
		"space around":          {cn(" operator"), nil, -hour, hour, ""},
		"expired":               {cn("deploy-bot"), nil, -hour, -time.Minute, ""},
		"not valid yet":         {cn("deploy-bot"), nil, time.Minute, hour, ""},
		"DNS name out of bound": {pkix.Name{}, []string{strings.Repeat("d", 201)}, -hour, hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			cert := &x509.Certificate{Subject: c.subject, DNSNames: c.dns, NotBefore: now.Add(c.from), NotAfter: now.Add(c.to)}
			subject, err := auth.CertificateSubject(cert)
			if c.want == "" {
				require.ErrorIs(t, err, auth.ErrInvalidCredential)
				require.Less(t, len(err.Error()), 200, "the error quotes the name")
				return
			}
			require.NoError(t, err)
			require.Equal(t, auth.Subject{Kind: auth.CertSubject, Name: c.want, Expires: cert.NotAfter}, subject)
		})
	}
	_, err := auth.CertificateSubject(nil)
	require.ErrorIs(t, err, auth.ErrNoCredential)
}
