package transport

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hostler/hostler/internal/regular"
)

// maxFile bounds a file of certificates or a key in bytes.
const maxFile = 1 << 20

// Files are the files of TLS. Cert and Key belong together.
type Files struct {
	Cert     string // the server's certificate and those between it and its root, PEM
	Key      string
	ClientCA string // authorities of clients' certificates; empty: none is asked for
}

// Check returns an error if the files are not complete.
func (f Files) Check() error {
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("--tls-cert and --tls-key: name both or neither")
	case f.ClientCA != "" && f.Cert == "":
		return errors.New("--tls-client-ca needs --tls-cert and --tls-key")
	}
	return nil
}

// followed is one value that is read from files. It keeps the last good one.
type followed[T any] struct {
	what  string
	paths []string
	parse func(texts [][]byte) (T, error)

	content [sha256.Size]byte // of the texts that were read last, good or not
	problem string            // why they are not used; empty if they are
	logged  bool
}

// read returns the value of the files if they have changed and can be used.
func (f *followed[T]) read() (value T, isNew bool, err error) {
	hash := sha256.New()
	texts := make([][]byte, len(f.paths))
	for i, path := range f.paths {
		if texts[i], err = regular.Read(os.OpenFile, path, maxFile); err != nil {
			break
		}
		text := sha256.Sum256(texts[i])
		hash.Write(text[:])
	}
	if err != nil {
		// A message of the operating system has the path; it never has content.
		hash.Write([]byte(err.Error()))
	}
	content := [sha256.Size]byte(hash.Sum(nil))
	if content == f.content {
		return value, false, nil
	}
	f.content, f.logged = content, false
	if err == nil {
		value, err = f.parse(texts)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", f.what, err)
		f.problem = err.Error()
		return value, false, err
	}
	f.problem = ""
	return value, true, nil
}

// parsePair returns the certificate of a server from its two files.
func parsePair(texts [][]byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, err
	}
	if pair.Leaf == nil {
		return nil, errors.New("the certificate cannot be read")
	}
	if at := time.Now(); at.After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("the certificate expired at %s", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return &pair, nil
}

// parseAuthorities returns the authorities of a file. It refuses a file with a block
// that it cannot read: without that, a damaged file would quietly have fewer.
func parseAuthorities(texts [][]byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	count := 0
	for rest := bytes.TrimSpace(texts[0]); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("the file has something that is not PEM")
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("the file has a block of type %.40q: it takes certificates only", block.Type)
		}
		authority, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", count+1, err)
		}
		if !authority.IsCA {
			return nil, fmt.Errorf("certificate %d is not one of an authority", count+1)
		}
		pool.AddCert(authority)
		count++
	}
	if count == 0 {
		return nil, errors.New("the file has no certificates")
	}
	return pool, nil
}
