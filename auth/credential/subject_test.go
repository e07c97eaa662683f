package credential_test

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/claim"
)

// issuer verifies the tokens that it has.
type issuer map[string]auth.Subject

func (i issuer) Verify(_ context.Context, token string) (auth.Subject, error) {
	if token == "eyJ.down.sig" {
		return auth.Subject{}, auth.ErrUnavailable
	}
	s, ok := i[token]
	if !ok {
		return s, auth.ErrInvalidCredential
	}
	return s, nil
}

func mustBind(t testing.TB, s *credential.Service, b credential.Binding) {
	t.Helper()
	_, _, err := s.PutBinding(t.Context(), b)
	require.NoError(t, err)
}

// A holder of a token has the union of what bindings give to it, and tenants only
// from values of the claim, as names.
func TestBindings(t *testing.T) {
	const url = "https://issuer.example"
	subjectOf := func(name string, claims map[string][]string) auth.Subject {
		return auth.Subject{Kind: auth.OIDCSubject, Issuer: url, Name: name, Claims: claims}
	}
	other := subjectOf("ann", nil)
	other.Issuer = url + ".other"
	s := newService(t, credential.Options{Store: openDatabase(t), Tokens: issuer{
		"eyJ.ann.sig":   subjectOf("ann", map[string][]string{"teams": {"acme", "b-*", "", "*"}, "groups": {"x", "builders"}}),
		"eyJ.bob.sig":   subjectOf("bob", nil),
		"eyJ.many.sig":  subjectOf("many", map[string][]string{"teams": make([]string, 101)}),
		"eyJ.odd.sig":   subjectOf("a#b\n"+strings.Repeat("é", 200), map[string][]string{"teams": {"acme"}}),
		"eyJ.other.sig": other,
	}})
	b := credential.Binding{Name: "people", Kind: auth.OIDCSubject, Issuer: url, Role: auth.Tenant, TenantClaim: "teams"}
	_, _, err := s.PutBinding(t.Context(), b)
	require.ErrorIs(t, err, credential.ErrFirst)
	mustKey(t, s, "op", operator)
	mustBind(t, s, b)
	ann := mustBe(t, s, "eyJ.ann.sig")
	require.Equal(t, "oidc:https://issuer.example#ann", ann.Actor)
	require.Equal(t, []auth.Grant{{Role: auth.Tenant, Tenants: []activity.Pattern{activity.Exactly("acme")}}}, ann.Grants)
	for _, token := range []string{"eyJ.bob.sig", "eyJ.many.sig", "eyJ.other.sig", "eyJ.none.sig", "eyJ.ann"} {
		_, err := as(t, s, token)
		require.ErrorIs(t, err, auth.ErrInvalidCredential, token)
	}
	_, err = as(t, s, "eyJ.down.sig")
	require.ErrorIs(t, err, auth.ErrUnavailable)
	odd := mustBe(t, s, "eyJ.odd.sig").Actor
	require.Less(t, len(odd), 300)
	require.Equal(t, 1, strings.Count(odd, "#"))
	require.NotContains(t, odd, "\n")

	b.Name, b.Subject = "empty", new(activity.Pattern)
	_, _, err = s.PutBinding(t.Context(), b)
	require.ErrorIs(t, err, credential.ErrInvalid)
	ended := follow(t, s, ann)
	builders := credential.Binding{
		Name: "builders", Kind: auth.OIDCSubject, Issuer: url, Subject: new(activity.Exactly("ann")),
		Claims: map[string]activity.Pattern{"groups": activity.Exactly("builders")}, Role: auth.Author, Workloads: patterns(t, "*"),
	}
	mustBind(t, s, builders)
	mustEnd(t, ended, auth.ErrRevoked, time.Second)
	ann = mustBe(t, s, "eyJ.ann.sig")
	require.True(t, ann.Has(auth.Author))
	require.True(t, ann.Has(auth.Tenant))
	ended = follow(t, s, ann)
	builders.Subject = new(activity.Exactly("bob"))
	mustBind(t, s, builders)
	mustEnd(t, ended, auth.ErrRevoked, time.Second)
	require.NoError(t, s.DeleteBinding(t.Context(), "people"))
	require.ErrorIs(t, s.DeleteBinding(t.Context(), "people"), credential.ErrNotFound)
	refused := []string{"eyJ.ann.sig", "eyJ.bob.sig"}
	for _, token := range refused {
		_, err := as(t, s, token)
		require.ErrorIs(t, err, auth.ErrInvalidCredential, token)
		require.True(t, s.IsCredential(t.Context(), token), "a token of the issuer is not passed on")
	}
}

// Root and the server's own user are operators over a Unix socket. Others, and
// certificates, need a binding, and a key precedes both.
func TestConnections(t *testing.T) {
	s := newService(t, credential.Options{Store: openDatabase(t)})
	of := func(r auth.Request) (*auth.Principal, error) { return s.Authenticate(t.Context(), r) }
	for _, uid := range []uint32{0, 990} {
		p, err := of(auth.Request{UID: &uid})
		require.NoError(t, err)
		require.True(t, p.Has(auth.Operator))
	}
	user := auth.Request{UID: new(uint32(1000))}
	cert := auth.Request{Certificate: &x509.Certificate{Subject: pkix.Name{CommonName: "web-1"}, NotAfter: time.Now().Add(time.Hour)}}
	nameless := auth.Request{Certificate: &x509.Certificate{NotAfter: time.Now().Add(time.Hour)}}
	for _, r := range []auth.Request{user, cert, nameless} {
		_, err := of(r)
		require.ErrorIs(t, err, auth.ErrInvalidCredential)
	}
	mustBind(t, s, credential.Binding{Name: "u", Kind: auth.UnixSubject, Role: auth.Operator, Subject: new(activity.Exactly("1000"))})
	mustBind(t, s, credential.Binding{Name: "c", Kind: auth.CertSubject, Role: auth.Viewer})
	p, err := of(user)
	require.NoError(t, err)
	require.Equal(t, "unix:1000", p.Actor)
	p, err = of(cert)
	require.NoError(t, err)
	require.Equal(t, "cert:web-1", p.Actor)
	require.False(t, p.Expires.IsZero())
	_, err = of(nameless)
	require.ErrorIs(t, err, auth.ErrInvalidCredential)
	cert.Bearer = "hostler_wrong"
	_, err = of(cert)
	require.ErrorIs(t, err, auth.ErrInvalidCredential)
	expired := auth.Request{Certificate: &x509.Certificate{Subject: pkix.Name{CommonName: "web-1"}, NotAfter: time.Now()}}
	_, err = of(expired)
	require.ErrorIs(t, err, auth.ErrInvalidCredential)
}

// Tenants' names here are those of package claim.
func TestTenantPattern(t *testing.T) {
	require.Equal(t, claim.TenantPattern, credential.TenantPattern)
}
