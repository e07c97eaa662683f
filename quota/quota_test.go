package quota

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Limits are written as flags have them, and errors name the part.
func TestParseLimits(t *testing.T) {
	l, err := ParseLimits(" claims=10, claims-per-minute=60,state=10GiB,requests-per-second=none")
	require.NoError(t, err)
	require.Equal(t, []int64{10, 60, 10 << 30, Unlimited}, []int64{*l.Claims, *l.ClaimsPerMinute, *l.State, *l.RequestsPerSecond})
	again, err := ParseLimits(l.String())
	require.NoError(t, err)
	require.Equal(t, l, again)
	none, err := ParseLimits("")
	require.NoError(t, err)
	require.Equal(t, Limits{}, none)
	for text, message := range map[string]string{
		"claims":                  `"claims": write it as claims=10`,
		"claim=1":                 `"claim" is not one of`,
		"claims=":                 `claims: "" is not a whole number`,
		"claims=-1":               `claims: "-1" is not`,
		"claims=1.5":              `claims: "1.5" is not`,
		"claims=1,claims=2":       "claims: it is given twice",
		"claims=1,":               `"": write it as`,
		"claims=2000000000":       "claims: ",
		"state=9000000TiB":        "state: ",
		"state=10gb":              `state: "10gb" is not a number of bytes`,
		"claims=1,state=1,rate=3": `"rate" is not one of`,
	} {
		_, err := ParseLimits(text)
		require.ErrorIs(t, err, ErrInvalid, text)
		require.ErrorContains(t, err, message, text)
	}
}

// A token counts for who made it, however that is written, and who has no credential
// has no key.
func TestKeyOf(t *testing.T) {
	for actor, want := range map[string]string{
		"key:ci": "key:ci", "token:ci#alice": "key:ci", "token:key:ci#alice": "key:ci", "token:ci": "key:ci",
		"token:oidc:https://i#sub#alice": "oidc:https://i#sub", "oidc:https://i#sub": "oidc:https://i#sub",
		"token:token:ci#a#b": "key:ci", "cert:web": "cert:web", "unix:0": "unix:0",
		"local": "", "system": "", "link": "", "claim:c1": "", "anonymous": "", "": "",
	} {
		require.Equal(t, want, KeyOf(actor), actor)
	}
}

// A workload has no limit of requests, and no limit is less than none.
func TestCheck(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	require.NoError(t, Scope{Level: Workload}.Check(Limits{Claims: n(-1), State: n(1 << 50)}))
	require.ErrorIs(t, Scope{Level: Workload}.Check(Limits{RequestsPerSecond: n(1)}), ErrInvalid)
	require.ErrorIs(t, Scope{Level: Tenant}.Check(Limits{Claims: n(-2)}), ErrInvalid)
	require.ErrorIs(t, Scope{Level: Tenant}.Check(Limits{RequestsPerSecond: n(1 << 62)}), ErrInvalid)
	for _, s := range []Scope{{"team", "a"}, {Tenant, ""}, {Tenant, "a\x00"}, {Key, "\xff"}} {
		_, err := NewScope(s.Level, s.Name)
		require.ErrorIs(t, err, ErrInvalid)
	}
	s, err := NewScope(Key, "ci")
	require.NoError(t, err)
	require.Equal(t, "key:ci", s.Name)
}

// A rate is exceeded until the claim leaves the window that makes room for one more.
func TestAdmitRate(t *testing.T) {
	now := time.Now()
	limit := int64(3)
	l := Limits{ClaimsPerMinute: &limit}
	nth := func(n int64) (time.Time, error) {
		require.Equal(t, limit, n)
		return now.Add(-45 * time.Second), nil
	}
	require.NoError(t, Scope{}.Admit(l, Usage{ClaimsPerMinute: 2}, now, nth))
	err := Scope{Tenant, "a"}.Admit(l, Usage{ClaimsPerMinute: 3}, now, nth)
	require.Equal(t, &ExceededError{Scope: Scope{Tenant, "a"}, Kind: Rate, Limit: 3, Current: 3, RetryAfter: 15 * time.Second}, err)
	require.Equal(t, "quota of tenant a: claims a minute: 3 of at most 3", err.Error())
	limit = 0
	require.Error(t, Scope{}.Admit(l, Usage{}, now, nil), "0 permits none")
}
