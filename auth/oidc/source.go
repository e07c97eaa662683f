package oidc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/internal/regular"
)

// Limits of requests to issuers.
const (
	fetchTimeout = 5 * time.Second // of the discovery and the keys together
	maxDocument  = 1 << 20
	maxFile      = 1 << 20
)

// discoveryPath is where an issuer describes itself, below its URL.
const discoveryPath = "/.well-known/openid-configuration"

// Metadata is what an issuer describes of itself.
type Metadata struct {
	Issuer          string   `json:"issuer"`
	JWKSURL         string   `json:"jwks_uri"`
	TokenURL        string   `json:"token_endpoint"`
	DeviceAuthURL   string   `json:"device_authorization_endpoint"`
	ScopesSupported []string `json:"scopes_supported"`
}

// source reads the keys of an issuer.
type source struct{ Issuer }

func newSource(i Issuer) source { return source{i} }

// Client returns an HTTP client for requests to an issuer, with its CA file. It
// follows no redirects: they lead to hosts that are not configured.
func (i Issuer) Client() (*http.Client, error) { return newSource(i).client() }

func (s source) client() (*http.Client, error) {
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    fetchTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		DisableKeepAlives:      true, // requests are rare
	}
	if s.CAFile != "" {
		text, err := regular.Read(os.OpenFile, s.CAFile, maxFile)
		if err != nil {
			return nil, fmt.Errorf("read the CA file: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read the CA file %s: it has no certificate", s.CAFile)
		}
	}
	return &http.Client{
		Transport: transport, Timeout: fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// Discover returns what an issuer describes of itself.
func Discover(ctx context.Context, i Issuer) (Metadata, error) {
	if err := checkURL(i.URL); err != nil {
		return Metadata{}, fmt.Errorf("issuer %.200q: %w", i.URL, err)
	}
	s := newSource(i)
	client, err := s.client()
	if err != nil {
		return Metadata{}, err
	}
	return s.discover(ctx, client)
}

func (s source) discover(ctx context.Context, client *http.Client) (Metadata, error) {
	text, _, err := s.get(ctx, client, strings.TrimSuffix(s.URL, "/")+discoveryPath)
	if err != nil {
		return Metadata{}, fmt.Errorf("read the discovery document: %w", err)
	}
	var m Metadata
	if json.Unmarshal(text, &m) != nil {
		return Metadata{}, errors.New("read the discovery document: it is not valid")
	}
	if m.Issuer != s.URL {
		return Metadata{}, fmt.Errorf("the discovery document is of the issuer %.200q; the URL must be the same, also in a slash at its end", m.Issuer)
	}
	for _, endpoint := range []string{m.JWKSURL, m.TokenURL, m.DeviceAuthURL} {
		if endpoint == "" {
			continue
		}
		if err := s.checkEndpoint(endpoint); err != nil {
			return Metadata{}, fmt.Errorf("the discovery document names %.200q: %w", endpoint, err)
		}
	}
	return m, nil
}

// checkEndpoint returns an error unless an endpoint of the discovery document is
// https, or the issuer and the endpoint are on this machine.
func (s source) checkEndpoint(text string) error {
	if strings.HasPrefix(text, "http:") && strings.HasPrefix(s.URL, "https:") {
		return errors.New("it is not an https URL")
	}
	return checkEndpoint(text)
}

// fetch reads the keys.
func (s source) fetch(ctx context.Context) (fetched, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTimeout, errors.New("the issuer does not answer"))
	defer cancel()
	client, err := s.client()
	if err != nil {
		return fetched{}, err
	}
	address := s.JWKSURL
	if address == "" {
		m, err := s.discover(ctx, client)
		if err != nil {
			return fetched{}, err
		}
		if address = m.JWKSURL; address == "" {
			return fetched{}, errors.New("the discovery document names no keys (jwks_uri)")
		}
	}
	text, age, err := s.get(ctx, client, address)
	if err != nil {
		return fetched{}, fmt.Errorf("read the keys: %w", err)
	}
	keys, err := parseKeys(text)
	if err != nil {
		return fetched{}, fmt.Errorf("read the keys: %w", err)
	}
	return fetched{keys, age}, nil
}

// get returns a document and how long it may be kept.
func (s source) get(ctx context.Context, client *http.Client, address string) ([]byte, time.Duration, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, errors.New("the address is not valid")
	}
	r.Header.Set("Accept", "application/json, application/jwk-set+json")
	if err := s.authorize(r); err != nil {
		return nil, 0, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("%s answers with status %d", r.URL.Host, resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return nil, 0, err
	}
	if len(text) > maxDocument {
		return nil, 0, fmt.Errorf("%s answers with more than %d bytes", r.URL.Host, maxDocument)
	}
	return text, ageOf(resp.Header), nil
}

// authorize adds the bearer token to a request to the host that it is for.
func (s source) authorize(r *http.Request) error {
	home := s.JWKSURL
	if home == "" {
		home = s.URL
	}
	u, err := url.Parse(home)
	if s.TokenFile == "" || err != nil || u.Scheme != r.URL.Scheme || u.Host != r.URL.Host {
		return nil
	}
	token, err := regular.Read(os.OpenFile, s.TokenFile, maxFile)
	if err != nil {
		return fmt.Errorf("read the token file: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return nil
}

// ageOf returns how long a document may be kept; 0 if that is not defined.
func ageOf(h http.Header) time.Duration {
	for directive := range strings.SplitSeq(h.Get("Cache-Control"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch strings.ToLower(name) {
		case "no-store", "no-cache":
			return time.Second
		case "max-age":
			seconds, err := strconv.Atoi(strings.Trim(value, `"`))
			if err == nil && seconds >= 0 {
				return time.Duration(min(max(seconds, 1), int(maxAge/time.Second))) * time.Second
			}
		}
	}
	return 0
}
