package e2e

import (
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store/postgrestest"
)

const wipedWorkload = `
pool: { min_idle: 1, max_size: 4, reuse: wipe }
`

// A restored database gives no tenant what is another's: later containers are
// removed, idle ones are replaced, claims whose containers another tenant may
// have had end, and other claims are kept.
func TestRestoredDatabase(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		into := filepath.Join(t.TempDir(), "copy.db")
		runRestoreScenario(t, s, backupMethod{
			backup: func() { require.Contains(t, s.mustCLI("backup", into, "--data", s.data), into) },
			stop: func() {
				require.Equal(t, 1, s.cli("restore", into, "--data", s.data).code, "the server uses the database")
				require.Zero(t, s.stopWith(syscall.SIGTERM))
			},
			restore: func() string { return s.mustCLI("restore", into, "--data", s.data) },
			start:   s.start,
		})
	})
}

// The same holds for a PostgreSQL database with pg_dump and pg_restore, and for
// all servers that use it.
func TestRestoredPostgres(t *testing.T) {
	t.Parallel()
	f := serveFleet(t, 2, "--state-dir", t.TempDir())
	postgres, err := url.Parse(f.store)
	require.NoError(t, err)
	schema := postgres.Query().Get("search_path")
	postgres.RawQuery = ""
	into, named := filepath.Join(t.TempDir(), "copy.dump"), filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.WriteFile(named, []byte(f.store), 0o600))
	tool := func(name string, args ...string) {
		out, err := exec.Command(name, append(args, "--dbname", postgres.String())...).CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
	}
	s := f.servers[0]
	runRestoreScenario(t, s, backupMethod{
		backup: func() { tool("pg_dump", "--format=custom", "--schema="+schema, "--file="+into) },
		stop: func() {
			refused := s.cli("restore", "--store-file", named)
			require.Equal(t, 1, refused.code, "servers use the database")
			require.Contains(t, refused.err, "another server uses the database")
			for _, s := range f.servers {
				require.Zero(t, s.stopWith(syscall.SIGTERM))
			}
		},
		restore: func() string {
			postgrestest.Exec(t, postgres.String(), "DROP SCHEMA "+schema+" CASCADE")
			tool("pg_restore", "--exit-on-error", into)
			var done string
			testenv.AwaitTrue(t, "the servers of the copy to expire", func() bool { // the servers in the copy look alive until their leases expire
				r := s.cli("restore", "--store-file", named)
				done = r.out
				return r.code == 0
			})
			return done
		},
		start: func() {
			for _, s := range f.servers {
				s.start()
			}
		},
	})
}

// backupMethod is a way to copy and restore a database.
type backupMethod struct {
	backup, stop, start func()
	restore             func() string
}

// runRestoreScenario runs claims and releases before and after a copy, restores
// the copy, and checks the result.
func runRestoreScenario(t *testing.T, s *server, by backupMethod) {
	rt := s.rt
	s.apply("kept", statefulWorkload)
	s.apply("wiped", wipedWorkload)
	ada, bob := s.claimAs("kept", "ada"), s.claimAs("wiped", "bob")
	ada.mustRun("append", "/state/note", "ada's")
	waiting := s.awaitIdle("wiped")
	by.backup()

	carl := s.claimAs("kept", "carl")
	bob.mustRun("append", "/state/note", "bob's")
	bob.release()
	by.stop()
	require.Contains(t, by.restore(), "1 claims ended, 1 claims kept")
	was := rt.incarnation(t, s, ada.Container)
	by.start()

	now, err := s.GetClaim(t.Context(), ada.ID)
	require.NoError(t, err)
	require.Equal(t, client.ClaimActive, now.State)
	require.Equal(t, "ada's", ada.mustRun("read", "/state/note"))
	require.Equal(t, was, rt.incarnation(t, s, ada.Container))
	_, err = s.GetClaim(t.Context(), carl.ID)
	require.Equal(t, client.CodeClaimNotFound, problemOf(t, err).Code)
	now, err = s.GetClaim(t.Context(), bob.ID)
	require.NoError(t, err)
	require.Equal(t, client.ClaimReleased, now.State)
	for _, gone := range []string{carl.Container, bob.Container, waiting} {
		testenv.AwaitTrue(t, "the end of container "+gone, func() bool {
			_, err := s.engine.Status(t.Context(), gone)
			return errors.Is(err, runtime.ErrNotFound)
		})
	}
	require.NotEqual(t, waiting, s.awaitIdle("wiped"))
	require.False(t, s.claimAs("wiped", "eve").run("read", "/state/note").OK(), "eve reads what is bob's")
	ada.release()
	require.Equal(t, "ada's", s.claimAs("kept", "ada").mustRun("read", "/state/note"))
	require.Contains(t, s.mustCLI("doctor"), "no problems found")
}

// awaitIdle waits for an idle container and returns its id.
func (s *server) awaitIdle(workload string) string {
	s.t.Helper()
	var id string
	testenv.AwaitTrue(s.t, "an idle container", func() bool {
		all, err := s.Containers(s.t.Context(), client.ContainerFilter{Workload: workload, States: []client.ContainerState{client.ContainerIdle}})
		require.NoError(s.t, err)
		if len(all) > 0 {
			id = all[0].ID
		}
		return id != ""
	})
	return id
}
