package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/attempts"
	"github.com/hostler/hostler/auth/credential"
)

// loadCredentials reads the keys and bindings of the database and of the files.
func (s *server) loadCredentials(ctx context.Context, c serveConfig, secret []byte) error {
	tokens, err := c.tokenVerifier()
	if err != nil {
		return err
	}
	var limited auth.TokenVerifier
	if tokens != nil {
		limited = attempts.NewVerifier(tokens)
	}
	credentials, err := credential.New(credential.Options{
		Store: s.db, Secret: secret, Tokens: limited, KeyFile: c.apiKeyFile, BindingsFile: c.bindingsFile,
		OwnUID: uint32(os.Geteuid()), Log: s.log, //nolint:gosec // a uid has 32 bits
	})
	if err != nil {
		return err
	}
	s.credentials, s.tokens = credentials, tokens
	return credentials.Load(ctx)
}

// authenticator returns what knows who sends a request: nil, for which each client of
// this machine is an operator, in tests without credentials.
func (s *server) authenticator() auth.Authenticator {
	if s.credentials == nil {
		return nil
	}
	return s.limited(s.credentials)
}

// credentialProblems returns what is wrong with the sources of credentials.
func (s *server) credentialProblems() []string {
	if s.credentials == nil {
		return nil
	}
	problems := s.credentials.Problems()
	if issuers, ok := s.tokens.(interface{ Problems() []string }); ok {
		problems = append(problems, issuers.Problems()...)
	}
	return problems
}

// checkOpen returns an error if a server without a credential listens on an address
// other than loopback. It never does so later: one that has had a credential is not
// open again while it runs.
func checkOpen(isOpen bool, addr net.Addr, log *slog.Logger) error {
	if !isOpen {
		return nil
	}
	if tcp, ok := addr.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return fmt.Errorf("listening on %s without API keys would give every client in the network every container: "+
			"make a key with `hostler key bootstrap --data DIR`, name a file of keys with --api-key-file, or listen on 127.0.0.1", addr)
	}
	log.Warn("no API keys: every program and user of this machine can use the API; make one with `hostler key create NAME --role operator`, or name a file of keys with --api-key-file")
	return nil
}

// isNew reports whether the server cannot have a credential, without opening the
// database: it has no file of them, and its own database does not exist.
func (c *serveConfig) isNew() bool {
	if c.apiKeyFile != "" || c.bindingsFile != "" || c.oidc.issuer != "" || c.oidc.file != "" || c.storeFile != "" || c.store != sqlite {
		return false
	}
	path, err := c.database()
	if err != nil {
		return false
	}
	_, err = os.Stat(path)
	return os.IsNotExist(err)
}
