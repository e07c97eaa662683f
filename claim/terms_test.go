package claim_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/e2e/flowtest"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
)

const parameterWorkload = `
id: w
image: box
command: [box, idle]
pool: { min_idle: 0, max_size: 4, reuse: wipe }
parameters:
  region: { pattern: "eu|us", default: eu }
  project: { required: true, max_length: 8, description: the project }
  token: { secret: true }
hooks:
  post_claim: [{ name: migrate, command: [box, echo, migrated] }]
`

// sealer marks what it seals.
type sealer struct{}

func (sealer) Seal(c, name, value string) (string, error) { return c + name + value, nil }

func (sealer) Open(c, name, sealed string) (string, error) {
	value, ok := strings.CutPrefix(sealed, c+name)
	if !ok {
		return "", errors.New("not sealed for it")
	}
	return value, nil
}

func request(parameters map[string]string) claim.Request {
	return claim.Request{Workload: "w", Tenant: "ada", Parameters: parameters}
}

// The parameters of a claim are those that the workload declares, with defaults.
// Each refusal names the field, and never has a value.
func TestParametersAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(parameterWorkload)
		h.Claims.Sealer = sealer{}
		tests := []struct {
			given map[string]string
			want  string
		}{
			{nil, "parameters.project: is required: give it a value (the project)"},
			{map[string]string{"projct": "v4lue"}, "parameters.projct: is not one of the workload: did you mean project?"},
			{map[string]string{"project": "123456789"}, "parameters.project: is 9 bytes long: at most 8 are allowed"},
			{map[string]string{"project": "a", "region": "eu2"}, "parameters.region: does not match the pattern eu|us"},
			{map[string]string{"project": "a", "region": "v4lue\neu"}, "does not match"},
			{map[string]string{"project": "a\x00"}, "without NUL"},
			{map[string]string{"project": "a\xff"}, "UTF-8"},
			{map[string]string{"project": "a", "token": "v4lue"}, "shorter than 8 bytes"},
			{map[string]string{"\x1b[2J": "a"}, `parameters."\x1b[2J"`},
		}
		for _, tt := range tests {
			_, _, err := h.Claims.Claim(t.Context(), request(tt.given))
			invalid, ok := errors.AsType[*claim.RequestError](err)
			require.True(t, ok, "%v: %v", tt.given, err)
			require.Contains(t, invalid.Error(), tt.want)
			require.NotContains(t, err.Error(), "v4lue")
		}
		require.Empty(t, h.Events(activity.ClaimRequested), "nothing is recorded of them")

		c, created, err := h.Claims.Claim(t.Context(), request(map[string]string{"project": "p", "token": "a secret"}))
		require.NoError(t, err)
		require.True(t, created)
		require.Equal(t, map[string]string{"project": "p", "region": "eu", "token": claim.Hidden}, c.Parameters)
		require.Equal(t, map[string]string{"token": c.ID + "tokena secret"}, c.Sealed)
	})
}

// A repeated claim returns the existing one if it gives equal values or none. Labels
// and the lifetime stay.
func TestRepeatedClaimWithParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(parameterWorkload)
		h.Claims.Sealer = sealer{}
		first := request(map[string]string{"project": "p", "token": "a secret"})
		first.Labels = map[string]string{"team": "a"}
		c, _, err := h.Claims.Claim(t.Context(), first)
		require.NoError(t, err)
		for _, same := range []map[string]string{nil, {"project": "p"}, {"region": "eu"}, {"token": "a secret"}} {
			r := request(same)
			r.Labels, r.ExpiresIn = map[string]string{"team": "b"}, time.Hour
			again, created, err := h.Claims.Claim(t.Context(), r)
			require.NoError(t, err, "%v", same)
			require.False(t, created)
			require.Equal(t, c, again)
		}
		for name, value := range map[string]string{"project": "other", "region": "us", "token": "another secret", "unknown": "x"} {
			_, _, err := h.Claims.Claim(t.Context(), request(map[string]string{name: value}))
			require.ErrorIs(t, err, pool.ErrConflict)
			require.ErrorContains(t, err, "parameters."+name)
		}
		_, _, err = h.Claims.Claim(t.Context(), request(map[string]string{"token": claim.Hidden}))
		require.ErrorIs(t, err, pool.ErrConflict, "the placeholder is not the value")
		h.Claims.Sealer = nil
		_, _, err = h.Claims.Claim(t.Context(), request(map[string]string{"token": "a secret"}))
		require.ErrorIs(t, err, pool.ErrConflict, "it cannot be known to be the same")
	})
}

// Of concurrent requests with other parameters, one makes the claim and each other
// gets an error of its own.
func TestConcurrentClaimsWithOtherParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(parameterWorkload)
		results := make([]error, 20)
		var g errgroup.Group
		for i := range results {
			g.Go(func() error {
				value := fmt.Sprint("p", i/2)
				if i%5 == 0 {
					value = "longer than permitted"
				}
				_, _, results[i] = h.Claims.Claim(t.Context(), request(map[string]string{"project": value}))
				return nil
			})
		}
		require.NoError(t, g.Wait())
		succeeded := 0
		for i, err := range results {
			_, invalid := errors.AsType[*claim.RequestError](err)
			switch {
			case err == nil:
				succeeded++
			case invalid:
				require.Zero(t, i%5, "an error of another request: %v", err)
			default:
				require.ErrorIs(t, err, pool.ErrConflict)
			}
		}
		require.Contains(t, []int{1, 2}, succeeded)
	})
}

// Without a key, a secret parameter is refused, and claims without one are not.
func TestSecretParameterNeedsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(parameterWorkload)
		_, _, err := h.Claims.Claim(t.Context(), request(map[string]string{"project": "p", "token": "a secret"}))
		require.ErrorIs(t, err, claim.ErrNotConfigured)
		_, _, err = h.Claims.Claim(t.Context(), request(map[string]string{"project": "p"}))
		require.NoError(t, err)
	})
}

// A lifetime begins when the claim is active. Only that of an active claim that has
// one can be extended, within the bound.
func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := flowtest.New(t)
		h.Apply(smallWorkload(2))
		r := claim.Request{Workload: "w", Tenant: "ada", ExpiresIn: time.Hour}
		c, _, err := h.Claims.Claim(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, c.ActiveAt.Add(time.Hour), *c.ExpiresAt)
		for n := range 2 {
			got, err := h.Claims.Extend(t.Context(), c.ID, 30*time.Minute)
			require.NoError(t, err)
			require.Equal(t, c.ExpiresAt.Add(time.Duration(n+1)*30*time.Minute), *got.ExpiresAt)
		}
		require.Len(t, h.Events(activity.ClaimExtended), 2)
		for _, by := range []time.Duration{0, -time.Hour, time.Millisecond, claim.MaxLifetime, claim.MaxLifetime + 1, 1<<63 - 1} {
			_, err = h.Claims.Extend(t.Context(), c.ID, by)
			_, ok := errors.AsType[*claim.RequestError](err)
			require.True(t, ok, "%s: %v", by, err)
		}
		_, err = h.Claims.Extend(t.Context(), "x", time.Hour)
		require.ErrorIs(t, err, claim.ErrClaimNotFound)
		h.Release(c)
		_, err = h.Claims.Extend(t.Context(), c.ID, time.Hour)
		require.ErrorIs(t, err, claim.ErrNotActive)
		endless := h.Claim("w", "bob")
		require.Nil(t, endless.ExpiresAt)
		_, err = h.Claims.Extend(t.Context(), endless.ID, time.Hour)
		require.ErrorIs(t, err, claim.ErrNoLifetime)
	})
}

// FuzzRequest checks that what a claim may have is bounded, and that an error never
// has a value.
func FuzzRequest(f *testing.F) {
	f.Add("team", "a", "NAME", "value")
	f.Add("Team", "\n", "HOSTLER_X", "\x00")
	f.Add("a/b", strings.Repeat("é", 129), "1", strings.Repeat("v", 5000))
	f.Fuzz(func(t *testing.T, label, text, variable, value string) {
		const marker = "m4rk3r-of-a-value"
		r := claim.Request{
			Labels: map[string]string{label: text + marker}, Environment: map[string]string{variable: value + marker},
		}
		err := r.Check()
		if err != nil {
			if !strings.Contains(label+variable, marker) {
				require.NotContains(t, err.Error(), marker)
			}
			return
		}
		require.LessOrEqual(t, len(label), 63)
		require.LessOrEqual(t, len(text), 4*claim.MaxLabelValue)
		require.LessOrEqual(t, len(value), runtime.MaxEnvironmentValue)
		require.NotContains(t, label+text+variable+value, "\x00")
		require.False(t, strings.HasPrefix(variable, "HOSTLER_"))
	})
}

// The bounds of labels, the environment and the lifetime of a request.
func TestRequestBounds(t *testing.T) {
	many := func(n int, format, value string) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprintf(format, i)] = value
		}
		return all
	}
	for name, tt := range map[string]struct {
		r     claim.Request
		field string // "": it is permitted
	}{
		"labels":              {claim.Request{Labels: many(16, "l%d", strings.Repeat("é", 128))}, ""},
		"too many labels":     {claim.Request{Labels: many(17, "l%d", "")}, "labels"},
		"long label":          {claim.Request{Labels: many(1, "l%d", strings.Repeat("é", 129))}, "labels.l0"},
		"label with a tab":    {claim.Request{Labels: many(1, "l%d", "a\tb")}, "labels.l0"},
		"name of a label":     {claim.Request{Labels: many(1, "L%d", "")}, "labels.L0"},
		"long name":           {claim.Request{Labels: map[string]string{strings.Repeat("a", 64): ""}}, "labels." + strings.Repeat("a", 64)},
		"environment":         {claim.Request{Environment: many(64, "V%d", strings.Repeat("v", 500))}, ""},
		"too many variables":  {claim.Request{Environment: many(65, "V%d", "")}, "environment"},
		"long variable":       {claim.Request{Environment: many(1, "V%d", strings.Repeat("v", 4097))}, "environment"},
		"large environment":   {claim.Request{Environment: many(9, "V%d", strings.Repeat("v", 4096))}, "environment"},
		"variable of Hostler": {claim.Request{Environment: many(1, "HOSTLER_%d", "")}, "environment"},
		"a second":            {claim.Request{ExpiresIn: time.Second}, ""},
		"thirty days":         {claim.Request{ExpiresIn: 720 * time.Hour}, ""},
		"too short":           {claim.Request{ExpiresIn: time.Second - 1}, "expires_in"},
		"negative":            {claim.Request{ExpiresIn: -1}, "expires_in"},
		"too long":            {claim.Request{ExpiresIn: 720*time.Hour + 1}, "expires_in"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.r.Check()
			if tt.field == "" {
				require.NoError(t, err)
				return
			}
			invalid, ok := errors.AsType[*claim.RequestError](err)
			require.True(t, ok)
			require.Equal(t, tt.field, invalid.Field)
		})
	}
}
