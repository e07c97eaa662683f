package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/internal/oidctest"
)

// Tokens of the issuer of the flags and of those of the file are accepted, each with
// its own audiences.
func TestIssuersOfServe(t *testing.T) {
	t.Parallel()
	one, two := oidctest.New(t), oidctest.NewTLS(t)
	file := filepath.Join(t.TempDir(), "issuers.yaml")
	require.NoError(t, os.WriteFile(file, []byte("- issuer: "+two.URL()+"\n  audiences: [b]\n  ca_file: "+two.CAFile()+"\n"), 0o600))
	verifier := func(args ...string) auth.TokenVerifier {
		var c serveConfig
		f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		c.flags(f)
		require.NoError(t, f.Parse(args))
		v, err := c.tokenVerifier()
		require.NoError(t, err)
		return v
	}
	v := verifier("--oidc-issuer", one.URL(), "--oidc-audience", "a", "--oidc-audience", "c", "--oidc-file", file)
	for _, token := range []string{one.Sign(one.Valid("a", "alice")), one.Sign(one.Valid("c", "alice")), two.Sign(two.Valid("b", "alice"))} {
		s, err := v.Verify(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, "alice", s.Name)
	}
	_, err := v.Verify(t.Context(), two.Sign(two.Valid("a", "mallory")))
	require.ErrorIs(t, err, auth.ErrInvalidCredential)
	require.True(t, verifier() == nil, "a server without issuers may be open")
}

// A configuration that would accept no token, or tokens for others, is an error when
// the server starts.
func TestInvalidIssuersOfServe(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "issuers.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for want, c := range map[string]oidcConfig{
		"name it":          {audiences: []string{"a"}},
		"audiences":        {issuer: "https://issuer.example.com"},
		"https URL":        {issuer: "http://issuer.example.com", audiences: []string{"a"}},
		"field audience ":  {file: write("- issuer: https://issuer.example.com\n  audience: a\n")},
		"it has no issuer": {file: write("")},
		"no such file":     {file: "/nonexistent/issuers"},
		"twice":            {issuer: "https://a.example.com", audiences: []string{"a"}, file: write("- {issuer: \"https://a.example.com\", audiences: [a]}\n")},
	} {
		_, err := serveConfig{oidc: c}.tokenVerifier()
		require.ErrorContains(t, err, want)
	}
}
