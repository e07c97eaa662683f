package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/runtime"
)

// statefulWorkload is a workload whose tenants find their state in new
// containers.
const statefulWorkload = `
pool: { min_idle: 0, max_size: 3, reuse: never }
sync: { sink: { type: file }, policy: { manual: true } }
`

// tenantSession is a tenant with a claim.
type tenantSession struct {
	s *server
	client.Claim
}

// claimAs claims for a tenant.
func (s *server) claimAs(workload, tenant string) tenantSession {
	s.t.Helper()
	got, _, err := s.Claim(s.t.Context(), workload, tenant, waitTimeout)
	require.NoError(s.t, err)
	return tenantSession{s, got}
}

// mustRun runs app in the container and returns its output.
func (g tenantSession) mustRun(args ...string) string {
	g.s.t.Helper()
	result := g.run(args...)
	require.True(g.s.t, result.OK(), "app %q: %s", args, result.Stderr)
	return result.Stdout.String()
}

func (g tenantSession) run(args ...string) runtime.Result {
	g.s.t.Helper()
	result, err := g.s.engine.Exec(g.s.t.Context(), g.Container, runtime.Command{
		Args: append([]string{g.s.rt.program(g.s.t, "app")}, args...), Timeout: waitTimeout,
	})
	require.NoError(g.s.t, err)
	return result
}

// release releases the claim.
func (g tenantSession) release() {
	g.s.t.Helper()
	got, err := g.s.Release(g.s.t.Context(), g.ID, false)
	require.NoError(g.s.t, err)
	require.Equal(g.s.t, client.ClaimReleased, got.State)
}

// A tenant's files follow it from container to container, are not visible to
// other tenants, can be uploaded while the claim is active, and can be restored
// from an older snapshot.
func TestStateFollowsTenant(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		s.apply("kept", statefulWorkload)
		first := s.claimAs("kept", "ada")
		first.mustRun("append", "/state/note", "one")
		first.mustRun("bulk", "/state/bulk", "3", "x")
		sum := first.mustRun("sum", "/state/bulk")
		require.Contains(t, s.mustCLI("sync", first.ID), "files")
		require.Contains(t, s.mustCLI("sync", "--workload", "kept", "--tenant", "ada"), "unchanged")
		first.mustRun("append", "/state/note", " two")
		first.release()

		again := s.claimAs("kept", "ada")
		require.NotEqual(t, first.Container, again.Container, "reuse is never")
		require.Equal(t, "one two", again.mustRun("read", "/state/note"))
		require.Equal(t, sum, again.mustRun("sum", "/state/bulk"))
		require.False(t, s.claimAs("kept", "bob").run("read", "/state/note").OK(), "bob reads what is ada's")
		held := s.cli("snapshots", "restore", "x", "--workload", "kept", "--tenant", "ada")
		require.Equal(t, 1, held.code)
		require.Contains(t, held.err, again.ID, "it names the claim in the way")
		again.release()

		all := mustRunJSON[[]client.Snapshot](s, "snapshots", "--workload", "kept", "--tenant", "ada")
		require.Len(t, all, 2, "an unchanged state is not kept twice")
		require.True(t, all[0].Current)
		require.Contains(t, s.mustCLI("snapshots", "restore", all[1].ID, "--workload", "kept", "--tenant", "ada"), "is current")
		back := s.claimAs("kept", "ada")
		require.Equal(t, "one", back.mustRun("read", "/state/note"))
		require.Equal(t, sum, back.mustRun("sum", "/state/bulk"))
		require.Equal(t, 3, s.cli("snapshots", "--workload", "none", "--tenant", "ada").code)
	})
}

// While the upload of a tenant's state fails, its container is retained, and the
// reason is reported. When uploads work again, the server retries by itself.
func TestFailedUploadRetainsContainer(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		s.apply("kept", statefulWorkload)
		ada, bob := s.claimAs("kept", "ada"), s.claimAs("kept", "bob")
		ada.mustRun("append", "/state/note", "the last copy")
		bob.mustRun("append", "/state/note", "of no use")

		// The sink fails also for root, because its parent is a file.
		sink := filepath.Join(s.data, "state", "tenants")
		require.NoError(t, os.MkdirAll(filepath.Dir(sink), 0o700))
		require.NoError(t, os.WriteFile(sink, []byte("in the way"), 0o600))
		refused := s.cli("release", ada.ID)
		require.Equal(t, 7, refused.code, refused.err)
		require.Contains(t, refused.err, "container retained")
		require.Contains(t, refused.err, "hostler release "+ada.ID)
		require.Equal(t, 7, s.cli("release", bob.ID).code)
		table := ""
		s.eventually(func() bool { // during a retry it is releasing
			table = s.mustCLI("get", "claims", "--failed")
			return strings.Contains(table, ada.ID) && strings.Contains(table, "release_failed")
		})
		require.Contains(t, table, ada.ID)
		require.Contains(t, table, "release_failed")
		kept, err := s.engine.Status(t.Context(), ada.Container)
		require.NoError(t, err)
		require.Equal(t, runtime.Running, kept.State, "the container is kept")
		var sick commandResult
		s.eventually(func() bool { // likewise
			sick = s.cli("doctor")
			return strings.Contains(sick.out, "hostler release "+ada.ID)
		})
		require.Equal(t, 1, sick.code)
		require.Contains(t, sick.out, "hostler release "+ada.ID)

		require.Contains(t, s.mustCLI("release", bob.ID, "--discard"), "released")
		require.NoError(t, os.Remove(sink))
		s.awaitEvent(client.EventFilter{Types: []client.EventType{client.EventClaimReleased}, Claim: ada.ID}, 1)
		require.Equal(t, "the last copy", s.claimAs("kept", "ada").mustRun("read", "/state/note"))
		require.False(t, s.claimAs("kept", "bob").run("read", "/state/note").OK(), "bob has discarded it")
		require.NotContains(t, s.mustCLI("get", "claims", "--failed"), ada.ID)
		require.Contains(t, s.mustCLI("doctor"), "no problems found")
	})
}

// largeMiB is the size of a state of many objects and of many messages, in MiB.
const largeMiB = "96"

// A server that is killed during an upload, and then during a download, loses
// nothing and leaves nothing incomplete: the next one finishes the release, and
// the tenant's next container has the whole state.
func TestKilledDuringTransfer(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		path, err := crashingServer()
		require.NoError(t, err)
		s := install(t, rt)
		s.program = path
		s.startToCrash("snapshot/object/after") // the first object is stored, and others are being stored
		s.apply("kept", statefulWorkload)
		ada := s.claimAs("kept", "ada")
		ada.mustRun("bulk", "/state/bulk", largeMiB, "x")
		sum := ada.mustRun("sum", "/state/bulk")

		_, err = s.Release(t.Context(), ada.ID, false)
		require.Error(t, err, "the server is killed before the call ends")
		s.awaitCrash("snapshot/object/after")
		s.startToCrash("snapshot/content/after") // the container has a part of the file
		s.awaitEvent(client.EventFilter{Types: []client.EventType{client.EventClaimReleased}, Claim: ada.ID}, 1)
		all, err := s.Snapshots(t.Context(), "kept", "ada")
		require.NoError(t, err)
		require.Len(t, all, 1)

		_, _, err = s.Claim(t.Context(), "kept", "ada", waitTimeout)
		require.Error(t, err, "the server is killed before the call ends")
		s.awaitCrash("snapshot/content/after")
		s.env = nil
		s.start()
		again := s.claimAs("kept", "ada")
		require.Equal(t, sum, again.mustRun("sum", "/state/bulk"))
		now, err := s.Snapshots(t.Context(), "kept", "ada")
		require.NoError(t, err)
		require.Equal(t, all, now)
		require.NotEqual(t, ada.Container, again.Container)
		again.release()
		s.deleteWorkload("kept")
		s.requireNothingLeft()
	})
}

// startToCrash starts a server that kills itself at a failpoint.
func (s *server) startToCrash(failpoint string) {
	s.t.Helper()
	s.env = []string{"HOSTLER_CRASH_AT=" + failpoint}
	s.start()
}
