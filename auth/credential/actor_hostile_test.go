package credential_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
	"github.com/hostler/hostler/quota"
)

const hostileIssuer = "https://i"

// actorsOf returns the actors of the holders of tokens with names.
func actorsOf(t *testing.T, names ...string) (*credential.Service, []*auth.Principal) {
	t.Helper()
	tokens := issuer{}
	for _, name := range names {
		tokens["eyJ."+name+".sig"] = auth.Subject{Kind: auth.OIDCSubject, Issuer: hostileIssuer, Name: name, Expires: time.Now().Add(time.Hour)}
	}
	s := newService(t, credential.Options{Store: openDatabase(t), Tokens: tokens})
	mustKey(t, s, "first", operator)
	mustBind(t, s, credential.Binding{Name: "all", Kind: auth.OIDCSubject, Issuer: hostileIssuer, Role: auth.Tenant, Tenants: patterns(t, "acme")})
	var all []*auth.Principal
	for _, name := range names {
		all = append(all, mustBe(t, s, "eyJ."+name+".sig"))
	}
	return s, all
}

// The token of a subject that has the name of a key is not shown as one that the key
// has made, and does not use the key's quota.
func TestTokensOfMakersOfOneName(t *testing.T) {
	s, subjects := actorsOf(t, "ci")
	key := mustBe(t, s, mustKey(t, s, "ci", tenantOf(t, "acme")))
	uid := uint32(990)
	user, err := s.Authenticate(t.Context(), auth.Request{UID: &uid})
	require.NoError(t, err)
	for _, maker := range []*auth.Principal{subjects[0], key, user} {
		made := mustBe(t, s, mustToken(t, s, maker, credential.NewToken{Tenant: "acme"}))
		require.Equal(t, "token:"+maker.Actor+"#acme", made.Actor)
		require.Equal(t, quota.KeyOf(maker.Actor), quota.KeyOf(made.Actor))
	}
}

// No subject gets the name of another one, also one that is written like what a name
// becomes that is cut, or one whose characters look alike.
func TestNamesOfSubjectsDiffer(t *testing.T) {
	_, first := actorsOf(t, "ann#b")
	written := first[0].Name
	_, all := actorsOf(t, "ann#b", written, "ann", "ann ", "\u0430nn", "ann\ufe0f", "ann\u00a0", "a\u3164nn", "ann\u2028", "ann\u202e", "e\u0301", "\u00e9")
	seen := map[string]bool{}
	for _, p := range all {
		require.False(t, seen[p.Actor], p.Actor)
		seen[p.Actor] = true
		require.LessOrEqual(t, len(p.Name), 200)
		require.Regexp(t, `^(ann|[^ ]+~[0-9a-f]{32})$`, p.Name)
	}
	require.Len(t, seen, 12)
	_, err := activity.ParsePattern(written)
	require.NoError(t, err)
}
