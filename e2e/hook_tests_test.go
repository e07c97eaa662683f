package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

const testedHooks = `
secrets: { TEST_KEY: { env: HOSTLER_SECRET_TEST_KEY } }
pool: { min_idle: 0, max_size: 1 }
hooks:
  pre_release:
    - { name: request, http: { url: "URL/ok/${TENANT_ID}", headers: { X-Key: "${TEST_KEY}" }, capture: { REQUESTED: $.id } } }
    - { name: write, shell: [APP, script], script: "append /state/written x", environment: { GOT: "${REQUESTED}" } }
    - { name: fails, command: [APP, fail], on_error: retry, retries: 2, on_exhausted: continue }
    - { name: long, command: [APP, hang, MARKER], timeout: 100s, grace: 0s, condition: RELEASE_REASON == tested }
`

// A dry run sends nothing and shows no secret. A test runs the hooks of a point
// once in the container, records them as tests, and changes no claim; its release
// runs the point's own hooks. A test that runs when a claim is released is ended
// first, and one whose server was killed has no known outcome.
func TestHookTests(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		r := newReceiver(t)
		s := install(t, rt, "--hooks-allow", "127.0.0.1")
		s.env = append(s.env, "HOSTLER_SECRET_TEST_KEY=hook-test-key-1")
		s.start()
		marker := "hook-test-" + s.instance
		file := strings.NewReplacer("URL", r.URL, "MARKER", marker).Replace(testedHooks)
		s.apply("tested", file)
		c, _, err := s.Claim(t.Context(), "tested", "ada", waitTimeout)
		require.NoError(t, err)

		dry := s.mustCLI("hooks", "test", "tested", "pre_release", "--var", "TENANT_ID=eve")
		require.Contains(t, dry, r.URL+"/ok/eve")
		require.Contains(t, dry, "header X-Key: •••")
		require.Contains(t, dry, "variable REQUESTED is missing (captured, untrusted)")
		require.NotContains(t, dry, "hook-test-key")
		require.Empty(t, r.requests)
		require.Empty(t, s.runsOf(client.RunFilter{Claim: c.ID}))

		test, err := s.TestHooks(t.Context(), c.ID, client.PreRelease)
		require.NoError(t, err)
		require.Equal(t, []string{"request succeeded", "write succeeded", "fails failed", "long skipped"}, statesOf(test.Runs))
		require.Len(t, r.requests, 1)
		same, err := s.GetClaim(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, client.ClaimActive, same.State)
		require.Empty(t, s.runsOf(client.RunFilter{Claim: c.ID, Point: client.PreRelease}))
		require.Len(t, s.runsOf(client.RunFilter{Claim: c.ID}), 4)

		s.apply("tested", strings.Replace(file, "== tested", "!= tested", 1))
		done, killed := make(chan error, 1), s.Client
		go func() {
			_, err := killed.TestHooks(t.Context(), c.ID, client.PreRelease)
			done <- err
		}()
		testenv.AwaitTrue(t, "the command to run", func() bool { return rt.hasProcess(t, c.Container, marker) })
		s.kill()
		require.Error(t, <-done)
		s.start()
		testenv.AwaitTrue(t, "the run to be unknown", func() bool {
			return len(s.runsOf(client.RunFilter{Claim: c.ID, States: []client.RunState{client.RunUnknown}})) == 1
		})

		s.apply("tested", file) // the release has hooks that end
		released, err := s.Release(t.Context(), c.ID, false)
		require.NoError(t, err)
		require.Equal(t, client.ClaimReleased, released.State)
		require.False(t, rt.hasProcess(t, c.Container, marker))
		require.NotEmpty(t, s.runsOf(client.RunFilter{Claim: c.ID, Point: client.PreRelease}))
		_, err = s.TestHooks(t.Context(), c.ID, client.PreRelease)
		require.ErrorContains(t, err, "not active")
		require.NotContains(t, s.log.String(), "hook-test-key")
		s.requireEnds()
	})
}

// statesOf returns each hook with the state of its run.
func statesOf(runs []client.Run) []string {
	var all []string
	for _, r := range runs {
		all = append(all, r.Hook+" "+string(r.State))
	}
	return all
}
