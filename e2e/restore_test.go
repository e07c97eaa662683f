package e2e

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/pool"
	"github.com/hostler/hostler/runtime"
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
		s.apply("kept", kept)
		s.apply("wiped", wiped)
		ada, bob := s.visits("kept", "ada"), s.visits("wiped", "bob")
		ada.does("append", "/state/note", "ada's")
		waiting := s.waits("wiped")
		into := filepath.Join(t.TempDir(), "copy.db")
		require.Contains(t, s.must("backup", into, "--data", s.data), into)

		carl := s.visits("kept", "carl")
		bob.does("append", "/state/note", "bob's")
		bob.leaves()
		require.Equal(t, 1, s.cli("restore", into, "--data", s.data).code, "the server uses the database")
		require.Zero(t, s.end(syscall.SIGTERM))
		require.Contains(t, s.must("restore", into, "--data", s.data), "1 claims ended, 1 claims stand")
		was := rt.incarnation(t, s, ada.Container)
		s.start()

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
	})
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
