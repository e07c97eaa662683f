// Package googleauth obtains access tokens of Google Cloud for requests of
// hooks, with golang.org/x/oauth2/google. It is the only package that hooks need
// Google's modules for: programs that support it pass a Source to package
// request.
//
// It promises that every call ends soon after its context, and that its errors
// have no part of a key, of a token or of an answer. Caching belongs to package
// request.
package googleauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/hostler/hostler/hooks/request"
)

// scope is the scope of all tokens: the account's roles limit them.
const scope = "https://www.googleapis.com/auth/cloud-platform"

// defaultTimeout bounds the requests for a token of the server's own
// credentials, except those to the metadata server.
const defaultTimeout = 10 * time.Second

// Source obtains tokens. The zero value is ready for use.
type Source struct {
	mu      sync.Mutex // guards pending
	pending *fetch     // of a default token
}

var _ request.Google = (*Source)(nil)

// fetch is a request for a default token.
type fetch struct {
	done  chan struct{} // closed when the fields below are set
	token request.Token
	err   error
}

// ServiceAccountToken implements request.Google.
func (*Source) ServiceAccountToken(ctx context.Context, transport http.RoundTripper, key []byte) (request.Token, error) {
	config, err := google.JWTConfigFromJSON(key, scope)
	if err != nil {
		return request.Token{}, errors.New("the secret is not the JSON key of a service account")
	}
	return obtain(ctx, transport, func(ctx context.Context) (oauth2.TokenSource, error) {
		return config.TokenSource(ctx), nil
	})
}

// DefaultToken implements request.Google. Google's order of credentials applies:
// GOOGLE_APPLICATION_CREDENTIALS, the file of gcloud, the metadata server.
// Concurrent calls share one request.
func (s *Source) DefaultToken(ctx context.Context) (request.Token, error) {
	f := s.join(ctx)
	select {
	case <-f.done:
		return f.token, f.err
	case <-ctx.Done():
		return request.Token{}, fmt.Errorf("no token: %w", context.Cause(ctx))
	}
}

// join returns the pending request for a default token, or starts one. The
// metadata client has no context. It ends after a few requests with timeouts.
func (s *Source) join(ctx context.Context) *fetch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != nil {
		return s.pending
	}
	f := &fetch{done: make(chan struct{})}
	s.pending = f
	ctx = context.WithoutCancel(ctx)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
		defer cancel()
		f.token, f.err = obtain(ctx, &http.Transport{DisableKeepAlives: true}, func(ctx context.Context) (oauth2.TokenSource, error) {
			found, err := google.FindDefaultCredentials(ctx, scope)
			if err != nil {
				return nil, err
			}
			return found.TokenSource, nil
		})
		s.mu.Lock()
		s.pending = nil
		s.mu.Unlock()
		close(f.done)
	}()
	return f
}

// obtain returns a token of a source, which sends its requests with transport
// until ctx ends. It follows no redirects.
func obtain(ctx context.Context, transport http.RoundTripper, open func(context.Context) (oauth2.TokenSource, error)) (request.Token, error) {
	var failed error // of the last request: Google's errors have its URL
	client := &http.Client{
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			var resp *http.Response
			resp, failed = transport.RoundTrip(r.WithContext(ctx)) //nolint:bodyclose // the caller does
			return resp, failed
		}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	source, err := open(context.WithValue(ctx, oauth2.HTTPClient, client))
	var token *oauth2.Token
	if err == nil {
		token, err = source.Token()
	}
	switch {
	case err == nil:
		return request.Token{Value: token.AccessToken, Expires: token.Expiry}, nil
	case failed != nil:
		return request.Token{}, fmt.Errorf("no token: %w", failed)
	}
	return request.Token{}, describe(err)
}

// describe returns an error without what a token endpoint has answered.
func describe(err error) error {
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && e.Response != nil {
		return fmt.Errorf("no token: the token endpoint answered with status %d", e.Response.StatusCode)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("no token: %w", e.Err)
	}
	if e, ok := errors.AsType[net.Error](err); ok {
		return fmt.Errorf("no token: %w", e)
	}
	return errors.New("no token: the server has no usable credentials of Google Cloud")
}

// roundTripper is a function that is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
