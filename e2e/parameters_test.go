package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

const parameterWorkload = `
pool: { min_idle: 0, max_size: 4 }
parameters:
  region: { pattern: "eu|us", default: eu, description: where it runs }
  token: { secret: true }
hooks:
  post_claim:
    - { name: print, script: 'echo "$HOSTLER_PARAM_REGION $HOSTLER_PARAM_TOKEN"; printf %s "$HOSTLER_PARAM_TOKEN" | sha256sum' }
    - name: send
      http: { method: POST, url: "URL/echo?key=${PARAM_TOKEN}", body: '{"region": "${PARAM_REGION}", "token": "${PARAM_TOKEN}"}', keep_response: true, capture: { said: $.echo } }
    - { name: captured, command: [/bin/sh, -c, 'echo "said $SAID"'], environment: { SAID: "${said}" } }
  pre_release:
    - { name: ends, script: 'printf %s "$HOSTLER_PARAM_TOKEN" | sha256sum', on_error: continue }
`

// Hooks get the parameters of their claim, also those of another process of the
// server. The value of a secret one is in no record, log, event or answer. With
// another key its hooks fail, and the claim is still released.
func TestParameters(t *testing.T) {
	t.Parallel()
	forBackends(t, []backend{processBackend{}}, func(t *testing.T, rt backend) {
		r := newReceiver(t)
		credentials := t.TempDir()
		s := serve(t, rt, "--hooks-allow", "127.0.0.1", "--credentials-dir", credentials)
		s.apply("parameters", strings.ReplaceAll(parameterWorkload, "URL", r.URL))
		token := "a-token:" + s.instance
		file := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
		claimArgs := []string{"claim", "parameters", "--tenant", "ann", "--param", "region=us", "--param-file", "token=" + file, "--label", "team=a", "--expires-in", "10m"}
		got := s.cli(claimArgs...)
		require.NotZero(t, got.code)
		require.Contains(t, got.err, "openssl rand -base64 32 > "+filepath.Join(credentials, "parameters.key"))
		writeKey(t, credentials, 'k')

		s.mustCLI(claimArgs...)
		s.mustCLI(claimArgs...)
		for refused, args := range map[string][]string{
			"body.parameters.region: does not match the pattern eu|us (where it runs)": {"--tenant", "eve", "--param", "region=mars"},
			"body.parameters.regoin: is not one of the workload: did you mean region?": {"--tenant", "eve", "--param", "regoin=eu"},
			"body.parameters.region: claim ":                                           {"--tenant", "ann", "--param", "region=eu"},
			"body.labels.Team: ":                                                       {"--tenant", "eve", "--label", "Team=a"},
			"body.environment: \"HOSTLER_X\" is reserved":                              {"--tenant", "eve", "--env", "HOSTLER_X=1"},
			"body.expires_in: ":                                                        {"--tenant", "eve", "--expires-in", "1ms"},
		} {
			got := s.cli(append([]string{"claim", "parameters"}, args...)...)
			require.NotZero(t, got.code)
			require.Contains(t, got.err, refused)
		}
		found, err := s.Claims(t.Context(), client.ClaimFilter{Labels: map[string]string{"team": "a"}})
		require.NoError(t, err)
		require.Len(t, found, 1)
		c := found[0]
		require.Equal(t, map[string]string{"region": "us", "token": "•••"}, c.Parameters)
		sum := sha256.Sum256([]byte(token))
		digest := hex.EncodeToString(sum[:])
		runs := s.runsOf(client.RunFilter{Claim: c.ID})
		require.Equal(t, "us •••\n"+digest+"  -\n", runs[0].Stdout.Head)
		require.Equal(t, 1, r.count("/echo", fmt.Sprintf(`{"region": "us", "token": %q}`, token)), "the receiver gets it")
		require.Contains(t, runs[2].Stdout.Head, "said ")

		s.kill()
		s.start()
		extended := s.mustCLI("extend", c.ID, "30m")
		require.Contains(t, extended, c.ID)
		require.Contains(t, s.mustCLI("get", "claims", "--label", "team=a", "--wide"), "region=us,token=•••")
		_, err = s.Release(t.Context(), c.ID, false)
		require.NoError(t, err)
		runs = s.runsOf(client.RunFilter{Claim: c.ID, Point: client.PreRelease})
		require.Equal(t, digest+"  -\n", runs[0].Stdout.Head)

		s.requireReplacedKey(credentials, token)
		require.Contains(t, s.mustCLI("get", "events", "--after", "0", "--label", "team=a"), "claim.extended")
		shown := s.log.String() + s.mustCLI("get", "events", "--after", "0", "-o", "json") + s.mustCLI("get", "runs", "-o", "json", "--state", "succeeded,failed,start_failed") +
			s.mustCLI("get", "claims", "--state", "released", "-o", "json")
		files, err := filepath.Glob(filepath.Join(s.data, "hostler.db*"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, name := range files {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			shown += string(text)
		}
		require.NotContains(t, shown, token)
		s.requireEnds()
	})
}

// writeKey writes the key of secret parameters.
func writeKey(t *testing.T, dir string, b byte) {
	t.Helper()
	key := hex.EncodeToString([]byte(strings.Repeat(string(rune(b)), 32)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "parameters.key"), []byte(key), 0o600))
}

// requireReplacedKey replaces the key during a claim.
func (s *server) requireReplacedKey(credentials, token string) {
	s.t.Helper()
	c, _, err := s.ClaimWith(s.t.Context(), "parameters", "bob", client.ClaimOptions{Wait: waitTimeout, Parameters: map[string]string{"token": token}})
	require.NoError(s.t, err)
	require.Equal(s.t, "eu", c.Parameters["region"])
	writeKey(s.t, credentials, 'o')
	released, err := s.Release(s.t.Context(), c.ID, false)
	require.NoError(s.t, err)
	require.Equal(s.t, client.ClaimReleased, released.State)
	runs := s.runsOf(client.RunFilter{Claim: c.ID, Point: client.PreRelease})
	require.Equal(s.t, client.RunState("start_failed"), runs[0].State)
	require.Contains(s.t, runs[0].Error, "it cannot be decrypted: parameters.key was replaced")
	require.Contains(s.t, runs[0].Error, "secret parameter token")
}

// A claim ends with its lifetime, also when the server was down at that time.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	forBackends(t, []backend{processBackend{}}, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		s.apply("lifetimes", "pool: { min_idle: 0, max_size: 4 }\n")
		claims := map[string]client.Claim{}
		for tenant, lifetime := range map[string]time.Duration{"short": time.Second, "down": 4 * time.Second, "long": time.Hour} {
			c, _, err := s.ClaimWith(t.Context(), "lifetimes", tenant, client.ClaimOptions{Wait: waitTimeout, ExpiresIn: lifetime})
			require.NoError(t, err)
			claims[tenant] = c
		}
		s.awaitReleased(claims["short"])
		s.kill()
		s.start()
		s.awaitReleased(claims["down"])
		still, err := s.GetClaim(t.Context(), claims["long"].ID)
		require.NoError(t, err)
		require.Equal(t, client.ClaimActive, still.State)
		s.requireEnds()
	})
}

// awaitReleased waits until a claim is released because its lifetime has ended.
func (s *server) awaitReleased(c client.Claim) {
	s.t.Helper()
	s.awaitEvent(client.EventFilter{Types: []client.EventType{client.EventClaimReleased}, Claim: c.ID}, 1)
	got, err := s.GetClaim(s.t.Context(), c.ID)
	require.NoError(s.t, err)
	require.Equal(s.t, client.ClaimReleased, got.State)
	require.Equal(s.t, "its lifetime has ended", got.Reason)
}
