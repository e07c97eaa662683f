package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/hostler/hostler/auth/oidc"
	"github.com/hostler/hostler/internal/regular"
)

// refreshBefore is how long before its end a token is refreshed.
const refreshBefore = 30 * time.Second

// storedToken is a login on this machine: the credential, and what it is for.
type storedToken struct {
	Server   string    `json:"server"`
	Issuer   string    `json:"issuer"`
	ClientID string    `json:"client_id"`
	Audience string    `json:"audience,omitempty"`
	Token    string    `json:"token"`
	Refresh  string    `json:"refresh_token,omitempty"`
	Expires  time.Time `json:"expires"` // zero: not known
}

// stored returns the credential of a token of an issuer, for a server.
func (l loginConfig) stored(server string, token *oauth2.Token) (storedToken, error) {
	s := storedToken{
		Server: server, Issuer: l.Issuer, ClientID: l.ClientID, Audience: l.Audience,
		Token: token.AccessToken, Refresh: token.RefreshToken, Expires: token.Expiry,
	}
	if l.Audience == "" {
		s.Token, _ = token.Extra("id_token").(string)
	}
	if s.Token == "" {
		return s, errors.New("the issuer has returned no ID token; request the scope openid, or an access token with --audience")
	}
	if end, ok := oidc.Expiry(s.Token); ok && (l.Audience == "" || s.Expires.IsZero() || end.Before(s.Expires)) {
		s.Expires = end
	}
	return s, nil
}

func (s storedToken) write(path string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	return replacePrivate(path, append(text, '\n'))
}

// isValidAt reports whether the token can be sent.
func (s storedToken) isValidAt(now time.Time) bool {
	return s.Token != "" && (s.Expires.IsZero() || now.Add(refreshBefore).Before(s.Expires))
}

// tokenPath returns where the tokens of a context are, next to the file of contexts.
func tokenPath(contexts, name string) string {
	return filepath.Join(filepath.Dir(contexts), "tokens", name+".json")
}

// removeTokens removes the tokens of a context. It waits for a command that refreshes
// them, which would write them again.
func removeTokens(contexts, name string) error {
	unlock, err := lockFile(tokenPath(contexts, name))
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Remove(tokenPath(contexts, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the tokens: %w", err)
	}
	return nil
}

// tokens are the tokens of a context. They may be used by many goroutines at once.
type tokens struct {
	path  string
	name  string
	of    clientContext
	mu    sync.Mutex // guards last, and is held for a refresh, which all wait for
	last  storedToken
	clock func() time.Time
}

// newTokens returns the tokens of a context with a login.
func newTokens(name string, c clientContext) (*tokens, error) {
	path, err := contextPath()
	if err != nil {
		return nil, err
	}
	return &tokens{path: tokenPath(path, name), name: name, of: c, clock: time.Now}, nil
}

// get returns a token that is valid, and refreshes it where that is needed.
func (t *tokens) get(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.isValidAt(t.clock()) {
		return t.last.Token, nil
	}
	s, err := t.read()
	if err == nil && !s.isValidAt(t.clock()) {
		s, err = t.refresh(ctx)
	}
	if err != nil {
		return "", err
	}
	t.last = s
	return s.Token, nil
}

// read reads the token. One of another server, issuer or client is not used.
func (t *tokens) read() (storedToken, error) {
	var s storedToken
	text, err := regular.Read(os.OpenFile, t.path, maxContextFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("the context %s has no login; run `hostler login --context %s`", t.name, t.name)
	}
	if err != nil {
		return s, fmt.Errorf("read the token: %w", err)
	}
	if json.Unmarshal(text, &s) != nil {
		return s, fmt.Errorf("read the token: %s is not valid; run `hostler login --context %s`", t.path, t.name)
	}
	l := t.of.Login
	if s.Server != t.of.Server || s.Issuer != l.Issuer || s.ClientID != l.ClientID || s.Audience != l.Audience {
		return storedToken{}, fmt.Errorf("the login of the context %s is for another server or issuer; run `hostler login --context %s`", t.name, t.name)
	}
	return s, nil
}

// refresh refreshes the token. One process at a time does: an issuer may accept a
// refresh token once, and end the login when it is used again.
func (t *tokens) refresh(ctx context.Context) (storedToken, error) {
	unlock, err := lockFile(t.path)
	if err != nil {
		return storedToken{}, err
	}
	defer unlock()
	s, err := t.read()
	if err != nil || s.isValidAt(t.clock()) { // another process has refreshed it
		return s, err
	}
	if s.Refresh == "" {
		return storedToken{}, fmt.Errorf("the login of the context %s has expired; run `hostler login --context %s`", t.name, t.name)
	}
	// The answer must be kept also if the command is interrupted: the former refresh
	// token may be invalid then.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), issuerTimeout)
	defer cancel()
	c, ctx, err := t.of.Login.endpoint(ctx)
	if err != nil {
		return storedToken{}, fmt.Errorf("refresh the login: %w", err)
	}
	token, err := c.TokenSource(ctx, &oauth2.Token{RefreshToken: s.Refresh}).Token()
	if err != nil {
		return storedToken{}, issuerError("refresh the login", err)
	}
	if s, err = t.of.Login.stored(s.Server, token); err != nil {
		return storedToken{}, err
	}
	return s, s.write(t.path)
}
