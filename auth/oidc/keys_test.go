package oidc

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/internal/oidctest"
)

// clock is a clock that only tests move.
type clock struct {
	base   time.Time
	offset atomic.Int64
}

func (c *clock) now() time.Time          { return c.base.Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// newClockedVerifier returns a verifier with a clock of its own.
func newClockedVerifier(t *testing.T, i *oidctest.Issuer) (*Verifier, *clock) {
	t.Helper()
	v, c := newVerifier(t, i), &clock{base: time.Now()}
	v.now = c.now
	return v, c
}

// Keys are replaced without a restart: a token of a new key is accepted, one of a
// removed key is not, at the latest when the keys are read again.
func TestRotation(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	v, clock := newClockedVerifier(t, i)
	claims := i.Valid(audience, "alice")
	claims["exp"] = time.Now().Add(48 * time.Hour).Unix()
	old := i.Sign(claims)
	_, err := v.Verify(t.Context(), old)
	require.NoError(t, err)
	k1, k2 := i.Key(), oidctest.NewKey(t, "k2")
	i.SetKeys(k2, k1)
	clock.advance(fetchInterval)
	current := i.Sign(claims)
	_, err = v.Verify(t.Context(), current)
	require.NoError(t, err)
	_, err = v.Verify(t.Context(), old)
	require.NoError(t, err)

	i.SetKeys(k2)
	clock.advance(defaultAge)
	requireRefused(t, v, old)
	_, err = v.Verify(t.Context(), current)
	require.NoError(t, err)
	require.Equal(t, 3, i.Requests("/keys"))
}

// The issuer defines how long keys are used, within bounds.
func TestAgeOfKeys(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"": defaultAge, "public, max-age=120": 2 * time.Minute, "max-age=999999999": maxAge, "max-age=0": fetchInterval,
		"no-store": fetchInterval, "max-age=x": defaultAge, "max-age=-5": defaultAge,
	} {
		t.Run(header, func(t *testing.T) {
			t.Parallel()
			i := oidctest.New(t)
			if header != "" {
				i.Header.Set("Cache-Control", header)
			}
			v, clock := newClockedVerifier(t, i)
			token := i.Sign(i.Valid(audience, "alice"))
			for _, step := range []struct {
				wait time.Duration
				want int
			}{{0, 1}, {want - 2*time.Second, 1}, {2 * time.Second, 2}} {
				clock.advance(step.wait)
				_, _ = v.Verify(t.Context(), token) //nolint:errcheck // the requests are counted
				require.Equal(t, step.want, i.Requests("/keys"))
			}
		})
	}
}

// However many tokens with unknown keys arrive at once, and one after the other, one
// request is sent in each interval, and nothing is kept for any of them.
func TestRandomKeysCauseFewRequests(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	v, clock := newClockedVerifier(t, i)
	own := oidctest.NewKey(t, "")
	good, bad := i.Sign(i.Valid(audience, "alice")), i.Valid(audience, "mallory")
	for round := range 3 {
		var g errgroup.Group
		g.SetLimit(20)
		for n := range 1000 {
			g.Go(func() error {
				own := own
				own.ID = fmt.Sprint(round, "-", n)
				_, err := v.Verify(t.Context(), oidctest.Sign(t, own, nil, bad))
				if err == nil {
					return fmt.Errorf("a token of an unknown key was accepted")
				}
				return nil
			})
		}
		require.NoError(t, g.Wait())
		require.Equal(t, round+1, i.Requests("/keys"))
		clock.advance(fetchInterval)
	}
	_, err := v.Verify(t.Context(), good)
	require.NoError(t, err)
}

// While the issuer is unavailable, tokens of known keys are accepted, for a day, and
// for others it is not known.
func TestOutage(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	v, clock := newClockedVerifier(t, i)
	claims := i.Valid(audience, "alice")
	claims["exp"] = time.Now().Add(72 * time.Hour).Unix()
	token, other := i.Sign(claims), oidctest.Sign(t, oidctest.NewKey(t, "k2"), nil, claims)
	_, err := v.Verify(t.Context(), token)
	require.NoError(t, err)
	require.Empty(t, v.Problems())
	i.Server.Close()
	for _, wait := range []time.Duration{fetchInterval, maxAge, time.Second} {
		clock.advance(wait)
		_, err = v.Verify(t.Context(), token)
		require.NoError(t, err)
		_, err = v.Verify(t.Context(), other)
		require.ErrorIs(t, err, auth.ErrUnavailable)
		require.NotErrorIs(t, err, auth.ErrInvalidCredential)
	}
	clock.advance(maxStale)
	_, err = v.Verify(t.Context(), token)
	require.ErrorIs(t, err, auth.ErrUnavailable)
	problems := v.Problems()
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], i.URL())
	require.Contains(t, problems[0], "connection refused")
}

// An issuer that answers slowly, without an end, with a redirect or nonsense has no
// keys, and costs a bounded time and memory.
func TestBadIssuers(t *testing.T) {
	t.Parallel()
	elsewhere := oidctest.New(t)
	for name, serve := range map[string]http.HandlerFunc{
		"slow": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			text := []byte(`{"keys":[` + strings.Repeat(" ", 1<<16))
			for _, err := w.Write(text); err == nil; _, err = w.Write(text[9:]) {
				continue
			}
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL()+"/keys", http.StatusFound)
		},
		"not JSON": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"no keys":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") },
		"an error": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"keys":[]}`, http.StatusInternalServerError)
		},
		"long headers": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) },
		"many keys": func(w http.ResponseWriter, _ *http.Request) {
			key := `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`
			fmt.Fprint(w, `{"keys":[`+strings.Repeat(key+",", maxKeys)+key+`]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := oidctest.New(t)
			i.ServeKeys = serve
			_, err := newVerifier(t, i).Verify(t.Context(), i.Sign(i.Valid(audience, "alice")))
			require.ErrorIs(t, err, auth.ErrUnavailable)
			require.Zero(t, elsewhere.Requests("/keys"))
		})
	}
}

// A client that leaves does not end the request that others wait for.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	v := newVerifier(t, i)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := v.Verify(ctx, i.Sign(i.Valid(audience, "alice")))
	require.NoError(t, err)
}

// A discovery document of another issuer, or with keys on plain HTTP elsewhere, is
// refused.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	token := i.Sign(i.Valid(audience, "alice"))
	i.Issuer = i.URL() + "/"
	v, clock := newClockedVerifier(t, i)
	_, err := v.Verify(t.Context(), token)
	require.ErrorIs(t, err, auth.ErrUnavailable)
	require.ErrorContains(t, err, "slash")
	require.Zero(t, i.Requests("/keys"))
	i.Issuer = i.URL()
	clock.advance(fetchInterval)
	_, err = v.Verify(t.Context(), token)
	require.NoError(t, err)

	s := newSource(Issuer{URL: "https://issuer.example.com"})
	for _, endpoint := range []string{"http://127.0.0.1/keys", "http://issuer.example.com/keys", "file:///etc/passwd", "%"} {
		require.Error(t, s.checkEndpoint(endpoint), endpoint)
	}
	require.NoError(t, s.checkEndpoint("https://keys.example.com/keys?tenant=1"))
}

// An API server of Kubernetes gets a bearer token, another host does not; keys may be
// elsewhere than the issuer.
func TestKeysElsewhere(t *testing.T) {
	t.Parallel()
	i, other := oidctest.NewTLS(t), oidctest.NewTLS(t)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	const name = "https://kubernetes.default.svc.cluster.local"
	i.Issuer = name
	v, err := New(Issuer{URL: name, Audiences: []string{audience}, JWKSURL: i.URL() + "/keys", CAFile: i.CAFile(), TokenFile: file})
	require.NoError(t, err)
	_, err = v.Verify(t.Context(), i.Sign(i.Valid(audience, "system:serviceaccount:apps:bot")))
	require.NoError(t, err)
	require.Equal(t, []string{"Bearer secret"}, i.KeyCredentials())
	require.Zero(t, i.Requests(discoveryPath))

	s := newSource(Issuer{URL: i.URL(), CAFile: other.CAFile(), TokenFile: file})
	client, err := s.client()
	require.NoError(t, err)
	_, _, err = s.get(t.Context(), client, other.URL()+"/keys")
	require.NoError(t, err)
	require.Equal(t, []string{""}, other.KeyCredentials())
	_, err = v.Verify(t.Context(), i.Sign(i.Valid("elsewhere", "system:serviceaccount:apps:bot")))
	require.ErrorIs(t, err, auth.ErrInvalidCredential)
}
