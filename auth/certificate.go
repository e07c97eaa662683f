package auth

import (
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxCertificateName bounds the name of a certificate in bytes: that of a pattern.
const maxCertificateName = 200

// commonName is the type of a CN in a certificate's subject.
var commonName = asn1.ObjectIdentifier{2, 5, 4, 3}

// CertificateSubject returns the subject of a client's certificate, which the
// listener has verified. Its name is the common name, or the first DNS name where
// there is none. A name that is not one line of at most 200 bytes of printable text
// is refused and never shortened: two certificates would get the same name. So is a
// certificate with several common names, or one that is not valid now. The error is
// ErrInvalidCredential and quotes nothing.
func CertificateSubject(cert *x509.Certificate) (Subject, error) {
	if cert == nil {
		return Subject{}, ErrNoCredential
	}
	if at := time.Now(); at.Before(cert.NotBefore) || at.After(cert.NotAfter) {
		return Subject{}, fmt.Errorf("the certificate is not valid at this time: %w", ErrInvalidCredential)
	}
	name, err := certificateName(cert)
	if err != nil {
		return Subject{}, err
	}
	return Subject{Kind: CertSubject, Name: name, Expires: cert.NotAfter}, nil
}

func certificateName(cert *x509.Certificate) (string, error) {
	common := 0
	for _, attribute := range cert.Subject.Names {
		if attribute.Type.Equal(commonName) {
			common++
		}
	}
	name := cert.Subject.CommonName
	switch {
	case common > 1:
		return "", fmt.Errorf("the certificate has several common names: %w", ErrInvalidCredential)
	case common == 0 && name == "" && len(cert.DNSNames) > 0:
		name = cert.DNSNames[0]
	}
	if name == "" {
		return "", fmt.Errorf("the certificate has neither a common name nor a DNS name: %w", ErrInvalidCredential)
	}
	if len(name) > maxCertificateName || !utf8.ValidString(name) || strings.TrimSpace(name) != name ||
		strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", fmt.Errorf("the certificate's name is not %d bytes of printable text at most: %w", maxCertificateName, ErrInvalidCredential)
	}
	return name, nil
}
