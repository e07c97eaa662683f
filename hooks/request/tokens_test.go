package request

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/hooks"
)

// fakeGoogle counts the tokens that were obtained.
type fakeGoogle struct {
	mu       sync.Mutex // guards the fields below
	n        int
	validity time.Duration
	err      error
	block    bool // until the context ends
}

func (g *fakeGoogle) token(ctx context.Context, kind string) (Token, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.block {
		<-ctx.Done()
		return Token{}, ctx.Err()
	}
	if g.err != nil {
		return Token{}, g.err
	}
	g.n++
	return Token{Value: "canary-" + kind + "-" + strings.Repeat("x", g.n), Expires: time.Now().Add(g.validity)}, nil
}

func (g *fakeGoogle) DefaultToken(ctx context.Context) (Token, error) { return g.token(ctx, "default") }

func (g *fakeGoogle) ServiceAccountToken(ctx context.Context, _ http.RoundTripper, key []byte) (Token, error) {
	return g.token(ctx, string(key))
}

// A token is cached for its credential, and renewed five minutes before it
// expires. A failed renewal does not matter while the present token is valid.
func TestTokenCache(t *testing.T) {
	pass := func(d time.Duration) { <-time.After(d) }
	synctest.Test(t, func(t *testing.T) {
		google := &fakeGoogle{validity: time.Hour}
		cache := &tokens{google: google, redactor: new(Redactor)}
		message := func(key string) *message {
			return &message{action: hooks.Request{Auth: hooks.Auth{Type: hooks.AuthGCPServiceAccount}}, credential: Secret{Value: key}}
		}
		get := func(key string) string {
			token, err := cache.get(t.Context(), message(key))
			require.NoError(t, err)
			return token
		}
		require.Equal(t, "canary-a-x", get("a"))
		require.Equal(t, "canary-b-xx", get("b"))
		pass(55*time.Minute - time.Second)
		require.Equal(t, "canary-a-x", get("a"))
		pass(2 * time.Second)
		require.Equal(t, "canary-a-xxx", get("a"))
		require.Equal(t, "•••", cache.redactor.Redact("canary-a-xxx"))

		pass(56 * time.Minute)
		google.err = errors.New("down")
		require.Equal(t, "canary-a-xxx", get("a"))
		google.block = true
		started := time.Now()
		require.Equal(t, "canary-a-xxx", get("a"))
		require.Equal(t, renewTimeout, time.Since(started))
		pass(4 * time.Minute)
		google.block = false
		_, err := cache.get(t.Context(), message("a"))
		require.EqualError(t, err, "down")
	})
}

// Concurrent attempts share one request for a token, and each ends with its own
// context.
func TestTokenIsSharedByConcurrentAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		google := &fakeGoogle{validity: time.Hour}
		cache := &tokens{google: google, hasDefault: true, redactor: new(Redactor), hosts: rules{hosts: []string{"a"}}}
		m := &message{action: hooks.Request{Auth: hooks.Auth{Type: hooks.AuthGCP}}, url: mustURL("https://a")}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				_, err := cache.get(t.Context(), m)
				require.NoError(t, err) //nolint:testifylint // the test ends anyway
			})
		}
		wg.Wait()
		require.Equal(t, 1, google.n)

		<-time.After(2 * time.Hour)
		google.block = true
		for range 3 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := cache.get(ctx, m)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
		}
		started := time.Now()
		wg.Wait()
		require.Equal(t, time.Second, time.Since(started))
	})
}

// A token that cannot be obtained fails the attempt, which may be repeated. The
// server's own credentials go only where the operator permits it.
func TestGoogleCredentials(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.Header.Get("Authorization")))
	}))
	t.Cleanup(server.Close)
	roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	plain := receive(t, nil)
	t.Setenv("HOSTLER_SECRET_KEY", "service-account-key")
	for name, test := range map[string]struct {
		options Options
		auth    hooks.AuthType
		url     string
		state   hooks.RunState
		want    string
	}{
		"default":        {Options{GoogleDefault: true, GoogleHosts: []string{"localhost", "example.com"}}, hooks.AuthGCP, "", hooks.Succeeded, "Bearer •••"},
		"key":            {Options{}, hooks.AuthGCPServiceAccount, "", hooks.Succeeded, "Bearer •••"},
		"not permitted":  {Options{GoogleHosts: []string{"example.com"}}, hooks.AuthGCP, "", hooks.StartFailed, "does not permit its own credentials"},
		"another host":   {Options{GoogleDefault: true}, hooks.AuthGCP, "", hooks.StartFailed, "are not sent to example.com"},
		"plain":          {Options{GoogleDefault: true, GoogleHosts: []string{"127.0.0.1", "example.com"}}, hooks.AuthGCP, plain.URL, hooks.StartFailed, "https only"},
		"token endpoint": {Options{Google: &fakeGoogle{err: errors.New("no token")}}, hooks.AuthGCPServiceAccount, "", hooks.Failed, "authenticate as gcp_service_account: no token"},
		"hangs":          {Options{Google: &fakeGoogle{block: true}}, hooks.AuthGCPServiceAccount, "", hooks.TimedOut, "authenticate as gcp_service_account"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.options.Google == nil {
				test.options.Google = &fakeGoogle{validity: time.Hour}
			}
			test.options.RootCAs = roots
			test.options.Allow = []string{"127.0.0.1"}
			_, test.options.resolver = serveDNS(t, map[string][]string{"example.com": {"127.0.0.1"}})
			x := newExecutor(t, test.options)
			if test.url == "" {
				test.url = strings.Replace(server.URL, "127.0.0.1", "example.com", 1) // in the certificate
			}
			a := attemptOf(hooks.Request{URL: template(t, test.url), KeepResponse: true, Auth: hooks.Auth{Type: test.auth}})
			if test.auth == hooks.AuthGCPServiceAccount {
				a.Action = hooks.Request{URL: template(t, test.url), KeepResponse: true, Auth: hooks.Auth{Type: test.auth, Secret: "KEY"}}
			}
			a.Timeout = time.Minute
			if test.state == hooks.TimedOut {
				a.Timeout = 2 * time.Second
			}
			a.Secrets = map[string]hooks.Secret{"KEY": {Env: "HOSTLER_SECRET_KEY"}}
			res := x.Execute(t.Context(), a)
			require.Equal(t, test.state, res.State, "%v", res.Err)
			if test.state == hooks.Succeeded {
				require.Equal(t, test.want, res.Detail.Response)
				return
			}
			require.ErrorContains(t, res.Err, test.want)
			require.Equal(t, test.state != hooks.StartFailed, ending(x, res).MayRetry)
		})
	}
	require.Empty(t, plain.all())
	x := newExecutor(t, Options{GoogleDefault: true})
	res := send(t, x, hooks.Request{URL: template(t, server.URL), Auth: hooks.Auth{Type: hooks.AuthGCP}})
	require.ErrorContains(t, res.Err, "no support")
}
