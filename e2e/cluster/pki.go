package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// credential is a key with the certificate that the authority gave for it, both
// in PEM.
type credential struct {
	certificate, key []byte
}

// authority signs the certificates of one cluster.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	pem         []byte
	now         time.Time
}

// validity is longer than the lifetime of a test cluster.
const validity = 10 * 365 * 24 * time.Hour

// subject is the subject of a certificate. Kubernetes takes the user from the
// common name and the groups from the organizations.
type subject struct {
	name  string
	group string // empty: in no group
	hosts []string
}

func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "hostler test cluster"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(validity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority's certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	return &authority{certificate: certificate, key: key, pem: encodePEM("CERTIFICATE", der), now: now}, nil
}

// Issue creates a key and a certificate, for a server if the subject has hosts,
// otherwise for a client.
func (a *authority) Issue(s subject) (credential, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return credential{}, fmt.Errorf("choose a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.name},
		NotBefore:    a.now.Add(-time.Hour),
		NotAfter:     a.now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if s.group != "" {
		template.Subject.Organization = []string{s.group}
	}
	for _, host := range s.hosts {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return credential{}, fmt.Errorf("make the key of %s: %w", s.name, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return credential{}, fmt.Errorf("sign the certificate of %s: %w", s.name, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return credential{}, err
	}
	return credential{certificate: encodePEM("CERTIFICATE", der), key: keyPEM}, nil
}

// writeSigningKey creates the key that signs service accounts' tokens.
func writeSigningKey(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the key of the service accounts: %w", err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode the service accounts' public key: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "accounts.key"), private, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "accounts.pub"), encodePEM("PUBLIC KEY", public), 0o600)
}

// write writes the credential into a directory.
func (c credential) write(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), c.certificate, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), c.key, 0o600)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return encodePEM("PRIVATE KEY", der), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
