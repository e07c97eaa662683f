package e2e

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// What a hook has printed is shown while it runs, and followed until it has ended.
func TestOutputOfRunningHook(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		s.apply("talks", `
pool: { min_idle: 0, max_size: 1 }
hooks:
  post_create: [{ name: talk, command: [BOX, ignore-term], timeout: 40s, grace: 0s, on_error: continue }]
`)
		go s.Claim(t.Context(), "talks", "ada", waitTimeout) //nolint:errcheck // it ends with the test
		started := s.awaitEvent(client.EventFilter{Workload: "talks", Types: []client.EventType{client.EventHookStarted}}, 1)
		var shown commandResult
		s.eventually(func() bool {
			shown = s.cli("logs", started.Run)
			return shown.out != ""
		})
		require.Equal(t, "ignoring\n", shown.out)
		require.Contains(t, shown.err, "attempt 1: running", "before its end")

		followed := s.cli("logs", started.Run, "-f")
		require.Zero(t, followed.code, followed.err)
		require.Equal(t, "ignoring\n", followed.out, "once")
		require.Contains(t, followed.err, "attempt 1: timed_out")
		attempts, err := s.Run(t.Context(), started.Run)
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(attempts, func(r client.Run) bool { return r.Stdout.Head == "ignoring\n" && r.State == client.RunTimedOut }))
	})
}
