package e2e

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
)

// misbehavingHooks first print what they find, so that each tenant's hooks show
// what the tenant before has left.
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
    - { name: misbehave, command: [APP, misbehave, MARKER], timeout: 8s, on_error: continue }
`

// firstTenant is a name that no random id contains.
const firstTenant = "the-first-of-them"

// maxGrowthKiB is the maximum growth of a server's memory for a hook that writes
// a gigabyte.
const maxGrowthKiB = 48 << 10 // KiB

// A misbehaving hook is killed with all processes that it started, costs the
// server little memory, and leaves nothing for the next tenant of the same
// container.
func TestMisbehavingHook(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		marker := "misbehave-" + uuid.NewString()[:8]
		text := strings.ReplaceAll(misbehavingHooks, "MARKER", marker)
		if rt.name() != "process" { // directories of the test are closed to other users
			text += "user: '1000:1000'\n"
		}
		s.apply("misbehaving", text)

		before := memory(t, s.cmd.Process.Pid, "VmRSS")
		first := s.claimAndCheck(firstTenant)
		require.Less(t, memory(t, s.cmd.Process.Pid, "VmHWM")-before, maxGrowthKiB, "KiB more than before")
		require.False(t, rt.hasProcess(t, first.Container, marker), "a process of the hook is alive")
		incarnation := rt.incarnation(t, s, first.Container)
		_, err := s.Release(t.Context(), first.ID, false)
		require.NoError(t, err)

		second := s.claimAndCheck("second")
		require.Equal(t, client.SourceRecycled, second.Source)
		require.Equal(t, first.Container, second.Container)
		require.Equal(t, incarnation, rt.incarnation(t, s, second.Container))
		s.requireEnds()
	})
}

// claimAndCheck claims, and checks what the hooks found and how the misbehaving
// one ended.
func (s *server) claimAndCheck(tenant string) client.Claim {
	s.t.Helper()
	c, _, err := s.Claim(s.t.Context(), "misbehaving", tenant, waitTimeout)
	require.NoError(s.t, err)
	require.Len(s.t, c.Warnings, 1)
	runs := s.runsOf(client.RunFilter{Claim: c.ID})
	output := outputsByHook(runs)
	require.Empty(s.t, output["processes"], "processes that %s finds", tenant)
	require.Empty(s.t, output["files"], "files that %s finds", tenant)
	require.Contains(s.t, output["environment"], "HOSTLER_TENANT="+tenant+"\n")
	require.Equal(s.t, tenant == firstTenant, strings.Contains(output["environment"], firstTenant), output["environment"])

	last := runs[len(runs)-1]
	require.Equal(s.t, "misbehave", last.Hook)
	require.Equal(s.t, client.RunTimedOut, last.State)
	require.True(s.t, last.TimedOut)
	require.True(s.t, last.Killed, "it ignores SIGTERM")
	require.True(s.t, last.Stdout.Truncated)
	require.Greater(s.t, last.Stdout.Total, int64(1<<20), "its output was not blocked")
	require.Less(s.t, len(last.Stdout.String()), 100_000, "only its head and tail are kept")
	return c
}

const taintingHooks = `
pool: { min_idle: 0, max_size: 1, reuse: wipe }
hooks:
  post_claim: [{ name: taint, command: [APP, append, /tainted, x] }]
  pre_release: [{ name: show, command: [APP, read, /tainted] }]
`

// A container whose root filesystem a tenant has changed cannot be proven clean:
// the next tenant gets another one.
func TestUnverifiedWipe(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		s.apply("tainted", taintingHooks)
		first, _, err := s.Claim(t.Context(), "tainted", "ada", waitTimeout)
		require.NoError(t, err)
		_, err = s.Release(t.Context(), first.ID, false)
		require.NoError(t, err)

		second, _, err := s.Claim(t.Context(), "tainted", "bob", waitTimeout)
		require.NoError(t, err)
		require.Equal(t, client.SourceFresh, second.Source)
		require.NotEqual(t, first.Container, second.Container)
		f := eventsOf("tainted", client.EventContainerDestroyed)
		f.Container = first.Container
		require.Contains(t, s.awaitEvent(f, 1).Message, "/tainted")
		_, err = s.Release(t.Context(), second.ID, false)
		require.NoError(t, err)
		shown := s.runsOf(client.RunFilter{Claim: second.ID, Point: client.PreRelease})
		require.Equal(t, map[string]string{"show": "x"}, outputsByHook(shown))
		s.requireEngineMatchesRecords()
	})
}
