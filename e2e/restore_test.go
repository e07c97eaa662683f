package e2e

import (
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
	"github.com/hostler/hostler/store/postgrestest"
)

const wiped = `
pool: { min_idle: 1, max_size: 4, reuse: wipe }
`

// A copy of the database that takes its place again leaves nobody with what is
// another's: what was made since is removed, what waited is replaced, claims
// whose containers somebody else may have had end, and the others stand.
func TestRestoredDatabase(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		into := filepath.Join(t.TempDir(), "copy.db")
		goBack(t, s, travel{
			copy: func() { require.Contains(t, s.must("backup", into, "--data", s.data), into) },
			stop: func() {
				require.Equal(t, 1, s.cli("restore", into, "--data", s.data).code, "the server uses the database")
				require.Zero(t, s.end(syscall.SIGTERM))
			},
			restore: func() string { return s.must("restore", into, "--data", s.data) },
			start:   s.start,
		})
	})
}

// The same holds for a database of PostgreSQL, by its own means, and for all
// servers that use it.
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
	goBack(t, s, travel{
		copy: func() { tool("pg_dump", "--format=custom", "--schema="+schema, "--file="+into) },
		stop: func() {
			refused := s.cli("restore", "--store-file", named)
			require.Equal(t, 1, refused.code, "servers use the database")
			require.Contains(t, refused.err, "another server uses the database")
			for _, s := range f.servers {
				require.Zero(t, s.end(syscall.SIGTERM))
			}
		},
		restore: func() string {
			postgrestest.Exec(t, postgres.String(), "DROP SCHEMA "+schema+" CASCADE")
			tool("pg_restore", "--exit-on-error", into)
			var done string
			require.Eventually(t, func() bool { // the servers of the copy seem to live for their lease
				r := s.cli("restore", "--store-file", named)
				done = r.out
				return r.code == 0
			}, patience, time.Second, "servers that are in the copy alone")
			return done
		},
		start: func() {
			for _, s := range f.servers {
				s.start()
			}
		},
	})
}

// travel is how a database is copied and put back.
type travel struct {
	copy, stop, start func()
	restore           func() string
}

// goBack has tenants come and go around a copy that is put back later.
func goBack(t *testing.T, s *server, by travel) {
	rt := s.rt
	s.apply("kept", kept)
	s.apply("wiped", wiped)
	ada, bob := s.visits("kept", "ada"), s.visits("wiped", "bob")
	ada.does("append", "/state/note", "ada's")
	waiting := s.waits("wiped")
	by.copy()

	carl := s.visits("kept", "carl")
	bob.does("append", "/state/note", "bob's")
	bob.leaves()
	by.stop()
	require.Contains(t, by.restore(), "1 claims ended, 1 claims stand")
	was := rt.incarnation(t, s, ada.Container)
	by.start()

	now, err := s.ClaimRecord(t.Context(), ada.ID)
	require.NoError(t, err)
	require.Equal(t, claim.Active, now.State)
	require.Equal(t, "ada's", ada.does("read", "/state/note"))
	require.Equal(t, was, rt.incarnation(t, s, ada.Container))
	_, err = s.ClaimRecord(t.Context(), carl.ID)
	require.Equal(t, api.ClaimNotFound, problem(t, err).Code)
	now, err = s.ClaimRecord(t.Context(), bob.ID)
	require.NoError(t, err)
	require.Equal(t, claim.Released, now.State)
	for _, gone := range []string{carl.Container, bob.Container, waiting} {
		require.Eventually(t, func() bool {
			_, err := s.engine.Status(t.Context(), gone)
			return errors.Is(err, runtime.ErrNotFound)
		}, patience, 50*time.Millisecond, "container %s is left", gone)
	}
	require.NotEqual(t, waiting, s.waits("wiped"))
	require.False(t, s.visits("wiped", "eve").tries("read", "/state/note").OK(), "eve reads what is bob's")
	ada.leaves()
	require.Equal(t, "ada's", s.visits("kept", "ada").does("read", "/state/note"))
	require.Contains(t, s.must("doctor"), "nothing is wrong")
}

// waits is a container that is idle, as soon as there is one.
func (s *server) waits(workload string) string {
	s.t.Helper()
	var id string
	require.Eventually(s.t, func() bool {
		all, err := s.Containers(s.t.Context(), pool.ContainerFilter{Workload: workload, States: []pool.State{pool.Idle}})
		require.NoError(s.t, err)
		if len(all) > 0 {
			id = all[0].ID
		}
		return id != ""
	}, patience, 20*time.Millisecond, "nothing is idle")
	return id
}
