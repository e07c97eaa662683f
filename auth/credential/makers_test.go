package credential_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/quota"
)

// Tokens of makers that have one name are of several actors, and count for the quota
// of their own maker: an issuer decides what its subjects are called.
func TestTokensOfMakersWithOneName(t *testing.T) {
	const one, two = "https://one.example", "https://two.example"
	subjectOf := func(url, name string) auth.Subject {
		return auth.Subject{Kind: auth.OIDCSubject, Issuer: url, Name: name, Expires: time.Now().Add(time.Hour)}
	}
	s := newService(t, credential.Options{Store: openDatabase(t), Tokens: issuer{
		"eyJ.one.sig": subjectOf(one, "1001"), "eyJ.two.sig": subjectOf(two, "1001"), "eyJ.cert.sig": subjectOf(one, "cert:web"),
	}})
	mustKey(t, s, "op", operator)
	for _, b := range []credential.Binding{{Name: "one", Kind: auth.OIDCSubject, Issuer: one}, {Name: "two", Kind: auth.OIDCSubject, Issuer: two}, {Name: "user", Kind: auth.UnixSubject}} {
		b.Role, b.Tenants = auth.Tenant, patterns(t, "acme")
		mustBind(t, s, b)
	}
	user, err := s.Authenticate(t.Context(), auth.Request{UID: new(uint32(1001))})
	require.NoError(t, err)
	makers := []*auth.Principal{user, mustBe(t, s, mustKey(t, s, "1001", tenantOf(t, "acme")))}
	for _, bearer := range []string{"eyJ.one.sig", "eyJ.two.sig", "eyJ.cert.sig"} {
		makers = append(makers, mustBe(t, s, bearer))
	}
	actors := map[string]bool{}
	for _, maker := range makers {
		p := mustBe(t, s, mustToken(t, s, maker, credential.NewToken{Tenant: "acme"}))
		require.False(t, actors[p.Actor], "%s is that of another maker, too", p.Actor)
		actors[p.Actor] = true
		require.Equal(t, maker.Actor, quota.KeyOf(p.Actor))
	}
	require.True(t, actors["token:key:1001#acme"], "of the key")
}
