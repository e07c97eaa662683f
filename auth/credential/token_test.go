package credential_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/auth"
	"github.com/hostler/hostler/auth/credential"
)

func mustToken(t testing.TB, s *credential.Service, maker *auth.Principal, n credential.NewToken) string {
	t.Helper()
	token, err := s.CreateToken(t.Context(), maker, n)
	require.NoError(t, err)
	return token.Token
}

// A token acts as one tenant, on what it names, within what its maker may.
func TestToken(t *testing.T) {
	db := openDatabase(t)
	s := newService(t, credential.Options{Store: db})
	op := mustBe(t, s, mustKey(t, s, "op", operator))
	acme := mustBe(t, s, mustKey(t, s, "acme", []auth.Grant{
		{Role: auth.Tenant, Tenants: patterns(t, "acme", "a-*"), Workloads: patterns(t, "web-*", "api")},
		{Role: auth.Tenant, Tenants: patterns(t, "other")}, {Role: auth.Viewer},
	}))
	made, err := s.CreateToken(t.Context(), acme, credential.NewToken{Tenant: "acme"})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(made.Token, "hostlertok_"))
	require.WithinDuration(t, time.Now().Add(credential.DefaultTokenTTL), made.ExpiresAt, time.Minute)
	p := mustBe(t, s, made.Token)
	require.Equal(t, "token:key:acme#acme", p.Actor)
	require.Equal(t, []auth.Grant{{Role: auth.Tenant, Tenants: []activity.Pattern{activity.Exactly("acme")}, Workloads: patterns(t, "web-*", "api")}}, p.Grants)
	roles := []auth.Role{auth.Tenant}
	require.True(t, p.May(roles, "acme", "web-1", "clm_1"))
	for _, other := range [][2]string{{"acme2", "web-1"}, {"other", "web-1"}, {"a-1", "web-1"}, {"acme", "db"}, {"", ""}} {
		require.False(t, p.May(roles, other[0], other[1], "clm_1"), other)
	}
	require.False(t, p.Has(auth.Viewer))
	require.True(t, s.IsCredential(t.Context(), made.Token))
	page, err := db.Events(t.Context(), activity.Filter{Types: []activity.Type{activity.TokenCreated}}, 0, 10)
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	require.Equal(t, "acme", page.Items[0].Tenant)
	require.NotContains(t, string(page.Items[0].Data), made.Token[20:40])

	one := mustBe(t, s, mustToken(t, s, op, credential.NewToken{Tenant: "zed", Claim: "clm_1", Workloads: patterns(t, "web")}))
	require.True(t, one.May(roles, "zed", "web", "clm_1"))
	require.False(t, one.May(roles, "zed", "web", "clm_2"))
	require.False(t, one.May(roles, "zed", "db", "clm_1"))

	for _, refused := range []credential.NewToken{
		{Tenant: "zed"}, {Tenant: "acme", Workloads: patterns(t, "*")}, {Tenant: "acme", Workloads: patterns(t, "web-1", "db")},
		{Tenant: "acme", Workloads: patterns(t, "we*")}, {Tenant: "acme", Workloads: patterns(t, "api*")},
	} {
		_, err := s.CreateToken(t.Context(), acme, refused)
		require.ErrorIs(t, err, credential.ErrForbidden, "%+v", refused)
	}
	mustToken(t, s, acme, credential.NewToken{Tenant: "acme", Workloads: patterns(t, "web-1*", "api")})
	for _, maker := range []*auth.Principal{p, one, nil, auth.WithoutCredentials()} {
		_, err := s.CreateToken(t.Context(), maker, credential.NewToken{Tenant: "acme"})
		require.ErrorIs(t, err, credential.ErrForbidden)
	}
	for _, wrong := range []credential.NewToken{
		{Tenant: ""}, {Tenant: "a*"}, {Tenant: "acme", ExpiresIn: 2 * time.Hour}, {Tenant: "acme", ExpiresIn: -1}, {Tenant: "acme", Claim: strings.Repeat("c", 300)},
	} {
		_, err := s.CreateToken(t.Context(), op, wrong)
		require.ErrorIs(t, err, credential.ErrInvalid)
		require.NotErrorIs(t, err, credential.ErrForbidden)
	}
}

// What a holder changes in a token, or signs itself, is refused.
func TestForgedTokens(t *testing.T) {
	db := openDatabase(t)
	s := newService(t, credential.Options{Store: db})
	op := mustBe(t, s, mustKey(t, s, "op", operator))
	token := mustToken(t, s, op, credential.NewToken{Tenant: "acme"})
	body, sum, ok := strings.Cut(strings.TrimPrefix(token, "hostlertok_"), ".")
	require.True(t, ok)
	raw, err := base64.RawURLEncoding.DecodeString(body)
	require.NoError(t, err)
	for field, value := range map[string]any{"tenant": "other", "claim": "clm_2", "expires": int64(1) << 50, "kind": "user", "maker": "x"} {
		var content map[string]any
		require.NoError(t, json.Unmarshal(raw, &content))
		content[field] = value
		changed, err := json.Marshal(content)
		require.NoError(t, err)
		refused(t, s, "hostlertok_"+base64.RawURLEncoding.EncodeToString(changed)+"."+sum, auth.ErrInvalidCredential)
	}
	for _, forged := range []string{
		"hostlertok_", "hostlertok_.", "hostlertok_" + body, "hostlertok_" + body + ".", token + ".", token + "=", token + "A",
		"hostlertok_" + sum + "." + body, "hostlertok_." + sum, body + "." + sum,
	} {
		refused(t, s, forged, auth.ErrInvalidCredential)
	}
	stranger, err := credential.New(credential.Options{Store: db, Secret: []byte("another installation")})
	require.NoError(t, err)
	require.NoError(t, stranger.Load(t.Context()))
	refused(t, stranger, token, auth.ErrInvalidCredential)
	mustBe(t, newService(t, credential.Options{Store: db}), token)
}

// A token ends at its time, with its maker, and with what its maker may.
func TestTokenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const url = "https://issuer.example"
		people := credential.Binding{Name: "people", Kind: auth.OIDCSubject, Issuer: url, Role: auth.Tenant, TenantClaim: "team"}
		file := writeFile(t, "keys", "ops:"+fileKey+"\nt:"+fileKey+"t role=tenant tenant=*\n")
		s := newService(t, credential.Options{Store: openDatabase(t), KeyFile: file, Tokens: issuer{
			"eyJ.ann.sig": {Kind: auth.OIDCSubject, Issuer: url, Name: "ann", Claims: map[string][]string{"team": {"acme"}}, Expires: time.Now().Add(10 * time.Minute)},
		}})
		run(t, s)
		mustBind(t, s, people)
		_, brief, err := s.CreateKey(t.Context(), credential.NewKey{Name: "brief", Grants: tenantOf(t, "*"), ExpiresIn: time.Minute})
		require.NoError(t, err)
		type held struct {
			token string
			ended <-chan error
		}
		tokens := map[string]held{}
		for name, maker := range map[string]string{"file": fileKey + "t", "brief": brief, "ann": "eyJ.ann.sig", "ops": fileKey, "key": mustKey(t, s, "key", tenantOf(t, "acme"))} {
			token := mustToken(t, s, mustBe(t, s, maker), credential.NewToken{Tenant: "acme", ExpiresIn: time.Hour})
			tokens[name] = held{token, follow(t, s, mustBe(t, s, token))}
		}
		ends := func(name string, cause error) {
			t.Helper()
			refused(t, s, tokens[name].token, auth.ErrInvalidCredential)
			mustEnd(t, tokens[name].ended, cause, 0)
			delete(tokens, name)
			for _, other := range tokens {
				mustLast(t, other.ended)
				mustBe(t, s, other.token)
			}
		}
		_, err = s.RevokeKey(t.Context(), "key")
		require.NoError(t, err)
		ends("key", auth.ErrRevoked)
		pass(time.Minute + time.Second)
		ends("brief", auth.ErrExpired)
		require.NoError(t, writeAgain(file, "ops:"+fileKey+"\nt:"+fileKey+"t role=tenant tenant=b*\n"))
		pass(2 * time.Second)
		ends("file", auth.ErrRevoked)
		people.Subject = new(activity.Exactly("bob"))
		mustBind(t, s, people)
		ends("ann", auth.ErrRevoked)
		require.NoError(t, writeAgain(file, "ops:"+fileKey+"2\n"))
		pass(2 * time.Second)
		ends("ops", auth.ErrRevoked)
	})
}

// A token of a client without credentials ends when the server has some.
func TestTokenOfOpenServer(t *testing.T) {
	s := newService(t, credential.Options{Store: openDatabase(t)})
	token := mustToken(t, s, auth.WithoutCredentials(), credential.NewToken{Tenant: "acme"})
	mustBe(t, s, token)
	mustKey(t, s, "op", operator)
	refused(t, s, token, auth.ErrInvalidCredential)
}
