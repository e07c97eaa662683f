package e2e

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
)

// misbehavingHooks look around first, so that each tenant's hooks tell what the
// one before has left.
const misbehavingHooks = `
read_only: true
pool: { min_idle: 0, max_size: 1, reuse: wipe }
hooks:
  post_claim:
    - { name: processes, command: [BOX, ps, MARKER] }
    - { name: files, command: [APP, files, /state, /tmp] }
    - { name: environment, command: [BOX, env] }
    - { name: note, command: [APP, append, /state/note, secret] }
    - { name: litter, command: [APP, append, /tmp/litter, secret] }
    - { name: stubborn, command: [APP, stubborn, MARKER], timeout: 3s, on_error: continue }
`

// firstTenant is a name that no random id has in it.
const firstTenant = "the-first-of-them"

// maxGrowthKiB is how much more memory a server may need at its worst for a hook that
// writes a gigabyte.
const maxGrowthKiB = 48 << 10 // KiB

// A hook that does all that a hook must not is ended with everything that it
// started, costs the server nothing, and leaves nothing for the next tenant of
// the same container.
func TestMisbehavingHook(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		marker := "stubborn-" + uuid.NewString()[:8]
		text := strings.ReplaceAll(misbehavingHooks, "MARKER", marker)
		if rt.name() != "process" { // folders of the test are closed to other users
			text += "user: '1000:1000'\n"
		}
		s.apply("stubborn", text)

		before := memory(t, s.cmd.Process.Pid, "VmRSS")
		first := s.claimAndCheck(firstTenant)
		require.Less(t, memory(t, s.cmd.Process.Pid, "VmHWM")-before, maxGrowthKiB, "KiB more than before")
		require.False(t, rt.hasProcess(t, first.Container, marker), "a process of the hook lives")
		incarnation := rt.incarnation(t, s, first.Container)
		_, err := s.Release(t.Context(), first.ID, false)
		require.NoError(t, err)

		second := s.claimAndCheck("second")
		require.Equal(t, claim.Recycled, second.Source)
		require.Equal(t, first.Container, second.Container)
		require.Equal(t, incarnation, rt.incarnation(t, s, second.Container))
		s.requireEnds()
	})
}

// claimAndCheck claims, and checks what the hooks found and what became of the
// stubborn one.
func (s *server) claimAndCheck(tenant string) claim.Claim {
	s.t.Helper()
	c, _, err := s.Claim(s.t.Context(), "stubborn", tenant, waitTimeout)
	require.NoError(s.t, err)
	require.Len(s.t, c.Warnings, 1)
	runs := s.runsOf(hooks.RunFilter{Claim: c.ID})
	output := outputsByHook(runs)
	require.Empty(s.t, output["processes"], "processes that %s finds", tenant)
	require.Empty(s.t, output["files"], "files that %s finds", tenant)
	require.Contains(s.t, output["environment"], "HOSTLER_TENANT="+tenant+"\n")
	require.Equal(s.t, tenant == firstTenant, strings.Contains(output["environment"], firstTenant), output["environment"])

	last := runs[len(runs)-1]
	require.Equal(s.t, "stubborn", last.Hook)
	require.Equal(s.t, hooks.TimedOut, last.State)
	require.True(s.t, last.TimedOut)
	require.True(s.t, last.Killed, "it is deaf to SIGTERM")
	require.True(s.t, last.Stdout.Truncated)
	require.Greater(s.t, last.Stdout.Total, int64(1<<20), "it was not held up")
	require.Less(s.t, len(last.Stdout.String()), 100_000, "only its ends are kept")
	return c
}

const taintingHooks = `
pool: { min_idle: 0, max_size: 1, reuse: wipe }
hooks:
  post_claim: [{ name: spoil, command: [APP, append, /spoilt, x] }]
  pre_release: [{ name: show, command: [APP, read, /spoilt] }]
`

// A container whose own files a tenant has changed cannot be proven clean: the
// next tenant gets another.
func TestUnverifiedWipe(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		s.apply("spoilt", taintingHooks)
		first, _, err := s.Claim(t.Context(), "spoilt", "ada", waitTimeout)
		require.NoError(t, err)
		_, err = s.Release(t.Context(), first.ID, false)
		require.NoError(t, err)

		second, _, err := s.Claim(t.Context(), "spoilt", "bob", waitTimeout)
		require.NoError(t, err)
		require.Equal(t, claim.Fresh, second.Source)
		require.NotEqual(t, first.Container, second.Container)
		f := eventsOf("spoilt", activity.ContainerDestroyed)
		f.Container = first.Container
		require.Contains(t, s.awaitEvent(f, 1).Message, "/spoilt")
		_, err = s.Release(t.Context(), second.ID, false)
		require.NoError(t, err)
		shown := s.runsOf(hooks.RunFilter{Claim: second.ID, Point: hooks.PreRelease})
		require.Equal(t, map[string]string{"show": "x"}, outputsByHook(shown))
		s.requireEngineMatchesRecords()
	})
}
