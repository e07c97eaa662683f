package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/oidc"
	"github.com/hostler/hostler/internal/regular"
)

// oidcConfig is whose tokens the server accepts, in addition to its own keys.
type oidcConfig struct {
	issuer    string
	audiences []string
	jwksURL   string
	caFile    string
	tokenFile string
	file      string // with more issuers
}

// flags defines the flags of serve.
func (c *oidcConfig) flags(f *pflag.FlagSet) {
	f.StringVar(&c.issuer, "oidc-issuer", "", "URL of an OpenID Connect issuer whose tokens are accepted; bindings give their holders roles")
	f.StringSliceVar(&c.audiences, "oidc-audience", nil, "audiences (aud) of the tokens that are accepted; a token needs one of them")
	f.StringVar(&c.jwksURL, "oidc-jwks-uri", "", "URL of the issuer's keys, where its discovery document cannot be read or names another one")
	f.StringVar(&c.caFile, "oidc-ca-file", "", "file with the certificates that the issuer's is verified with (default: the system's)")
	f.StringVar(&c.tokenFile, "oidc-token-file", "", "file with a bearer token for requests to the issuer, as API servers of Kubernetes need one")
	f.StringVar(&c.file, "oidc-file", "", "YAML file with a list of issuers, each with issuer, audiences, jwks_uri, ca_file and token_file")
}

// issuerFile is an issuer in the file of issuers.
type issuerFile struct {
	Issuer    string   `yaml:"issuer"`
	Audiences []string `yaml:"audiences"`
	JWKSURL   string   `yaml:"jwks_uri"`
	CAFile    string   `yaml:"ca_file"`
	TokenFile string   `yaml:"token_file"`
}

// maxIssuerFile bounds the file of issuers.
const maxIssuerFile = 1 << 20

// readIssuers reads the file of issuers.
func readIssuers(path string) ([]oidc.Issuer, error) {
	text, err := regular.Read(os.OpenFile, path, maxIssuerFile)
	if err != nil {
		return nil, fmt.Errorf("--oidc-file: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var all []issuerFile
	if err := d.Decode(&all); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("--oidc-file %s: %w", path, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("--oidc-file %s: it has no issuer", path)
	}
	var issuers []oidc.Issuer
	for _, i := range all {
		issuers = append(issuers, oidc.Issuer{URL: i.Issuer, Audiences: i.Audiences, JWKSURL: i.JWKSURL, CAFile: i.CAFile, TokenFile: i.TokenFile})
	}
	return issuers, nil
}

// tokenVerifier returns what verifies the tokens of the configured issuers; nil
// without one, since issuers are credentials: with them a server is not open.
func (c serveConfig) tokenVerifier() (auth.TokenVerifier, error) {
	o := c.oidc
	var issuers []oidc.Issuer
	switch {
	case o.issuer != "":
		issuers = append(issuers, oidc.Issuer{
			URL: o.issuer, Audiences: o.audiences, JWKSURL: o.jwksURL, CAFile: o.caFile, TokenFile: o.tokenFile,
		})
	case len(o.audiences) > 0 || o.jwksURL != "" || o.caFile != "" || o.tokenFile != "":
		return nil, errors.New("--oidc-audience, --oidc-jwks-uri, --oidc-ca-file and --oidc-token-file are for the issuer of --oidc-issuer: name it")
	}
	if o.file != "" {
		more, err := readIssuers(o.file)
		if err != nil {
			return nil, err
		}
		issuers = append(issuers, more...)
	}
	if len(issuers) == 0 {
		return nil, nil
	}
	v, err := oidc.New(issuers...)
	if err != nil {
		return nil, fmt.Errorf("issuers of tokens: %w", err)
	}
	return v, nil
}
