package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/hostler/hostler/client"
)

// withTLS returns a client that uses the files which the environment names: an
// authority that is not one of this machine's, and a certificate of this client.
func withTLS(c *client.Client, getenv func(string) string) (*client.Client, error) {
	authorities, cert, key := getenv("HOSTLER_CA_FILE"), getenv("HOSTLER_CLIENT_CERT"), getenv("HOSTLER_CLIENT_KEY")
	if authorities == "" && cert == "" && key == "" {
		return c, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities != "" {
		text, err := os.ReadFile(authorities)
		if err != nil {
			return nil, fmt.Errorf("HOSTLER_CA_FILE: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("HOSTLER_CA_FILE: %s has no certificates", authorities)
		}
	}
	if (cert == "") != (key == "") {
		return nil, errors.New("HOSTLER_CLIENT_CERT and HOSTLER_CLIENT_KEY: set both or neither")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("HOSTLER_CLIENT_CERT and HOSTLER_CLIENT_KEY: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return c.WithTLS(config), nil
}
