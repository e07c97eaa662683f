package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/regular"
)

// target is the server that a command calls, and its credential.
type target struct {
	clientContext
	name string // of the context, if it is one
	key  string // an API key of the environment
}

// target returns the server of the flags, the environment or a context, in the order
// of contextHelp. A context is used as a whole or not at all, so that its credential
// is sent to no other server.
func (r *remote) target(cmd *cobra.Command) (target, error) {
	if r.server != "" && r.context != "" {
		return target{}, usagef(cmd, "--server and --context: use only one of them")
	}
	t := target{clientContext: clientContext{Server: firstOf(r.server, os.Getenv("HOSTLER_SERVER"))}}
	if r.context != "" || t.Server == "" {
		name, c, err := findContext(firstOf(r.context, os.Getenv("HOSTLER_CONTEXT")))
		if err != nil {
			return target{}, err
		}
		t = target{clientContext: c, name: name}
	}
	getenv := os.Getenv
	if r.context != "" || !isForEnvironment(r.server) { // it was asked for, and the environment is of another server
		getenv = func(string) string { return "" }
	}
	if file, key := firstOf(r.keyFile, getenv("HOSTLER_API_KEY_FILE")), getenv("HOSTLER_API_KEY"); file != "" || key != "" {
		t.KeyFile, t.key, t.Login = file, key, nil
	}
	t.CAFile = firstOf(r.caFile, getenv("HOSTLER_CA_FILE"), t.CAFile)
	t.ClientCert = firstOf(r.clientCert, getenv("HOSTLER_CLIENT_CERT"), t.ClientCert)
	t.ClientKey = firstOf(r.clientKey, getenv("HOSTLER_CLIENT_KEY"), t.ClientKey)
	return t, nil
}

// isForEnvironment reports whether the credential of the environment may be for a
// server of --server: the environment has none, or the same one.
func isForEnvironment(server string) bool {
	own := os.Getenv("HOSTLER_SERVER")
	return server == "" || own == "" || strings.TrimRight(server, "/") == strings.TrimRight(own, "/")
}

// findContext returns a context: with an empty name the current one, or the default
// server where there is none.
func findContext(name string) (string, clientContext, error) {
	none := clientContext{Server: defaultServer}
	if _, err := contextPath(); err != nil && name == "" {
		return "", none, nil // a user without a directory has no contexts
	}
	f, err := readContexts()
	if err != nil {
		return "", none, err
	}
	name, c, ok, err := f.get(name)
	if err != nil || !ok {
		return "", none, err
	}
	return name, c, nil
}

// options returns the options of a client of the server.
func (t target) options() (client.Options, error) {
	o := client.Options{Key: t.key}
	switch {
	case t.KeyFile != "":
		text, err := regular.Read(os.OpenFile, t.KeyFile, maxContextFile)
		if err != nil {
			return o, fmt.Errorf("read the API key: %w", err)
		}
		o.Key = firstKey(string(text))
	case t.Login != nil:
		tokens, err := newTokens(t.name, t.clientContext)
		if err != nil {
			return o, err
		}
		o.Credential = tokens.get
	}
	if t.CAFile == "" && t.ClientCert == "" && t.ClientKey == "" {
		return o, nil
	}
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		text, err := regular.Read(os.OpenFile, t.CAFile, maxContextFile)
		if err != nil {
			return o, fmt.Errorf("read the CA file: %w", err)
		}
		o.TLS.RootCAs = x509.NewCertPool()
		if !o.TLS.RootCAs.AppendCertsFromPEM(text) {
			return o, fmt.Errorf("read the CA file %s: it has no certificate", t.CAFile)
		}
	}
	if t.ClientCert == "" && t.ClientKey == "" {
		return o, nil
	}
	if t.ClientCert == "" || t.ClientKey == "" {
		return o, errors.New("a client's certificate needs --client-cert and --client-key")
	}
	pair, err := tls.LoadX509KeyPair(t.ClientCert, t.ClientKey)
	if err != nil {
		return o, fmt.Errorf("read the client's certificate: %w", err)
	}
	o.TLS.Certificates = []tls.Certificate{pair}
	return o, nil
}
