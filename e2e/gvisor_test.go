package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/gvisortest"
	"github.com/hostler/hostler/runtime"
)

// gvisorBackend is a separate Docker engine, whose containers run under gVisor.
type gvisorBackend struct {
	dockerBackend
	host string
}

func (b gvisorBackend) image(t testing.TB) string {
	t.Helper()
	ref, err := importImage(b.host)
	require.NoError(t, err)
	return ref
}

func (b gvisorBackend) open(t testing.TB, instance, _ string, secret []byte) runtime.Runtime {
	t.Helper()
	rt, err := openDocker(b.host, instance, secret)
	require.NoError(t, err)
	return rt
}

func (b gvisorBackend) leftovers(t testing.TB, s *server) []string {
	t.Helper()
	e, err := findEngine(b.host)
	require.NoError(t, err)
	return e.ofInstance(t, s.instance)
}

const gvisorHooks = `
runtime: runsc
pool: { min_idle: 1, max_size: 1, reuse: REUSE }
hooks:
  post_claim:
    - { name: kernel, command: [APP, read, /proc/version] }
    - { name: count, command: [APP, append, /state/count, x] }
    - { name: show, command: [APP, read, /state/count] }
  pre_release: [{ name: flush, command: [BOX, err, flushed] }]
  pre_destroy: [{ name: leave, command: [BOX, echo, bye] }]
`

// Under gVisor a container is claimed, its hooks run, and it is released and
// kept for its tenant. Another tenant gets a new container, because a used one
// cannot be proven clean. The same holds when the server is killed in between.
func TestGVisor(t *testing.T) {
	t.Parallel()
	rt := gvisorBackend{host: gvisortest.Host(t)}
	s := install(t, rt)
	s.env = []string{"DOCKER_HOST=" + rt.host}
	s.start()
	for _, reuse := range []string{"same_tenant", "wipe"} {
		id := strings.ReplaceAll(reuse, "_", "-")
		s.apply(id, strings.ReplaceAll(gvisorHooks, "REUSE", reuse))
		s.claimUnderGVisor(id)
		s.deleteWorkload(id)
	}
	s.requireEnds()
	s.requireNothingLeft()
}

// claimUnderGVisor claims and releases for two tenants, one after the other.
func (s *server) claimUnderGVisor(id string) {
	t := s.t
	t.Helper()
	used := map[string]string{} // the container of each tenant
	for i, tenant := range []string{"ada", "ada", "bob"} {
		got, created, err := s.Claim(t.Context(), id, tenant, waitTimeout)
		require.NoError(t, err)
		require.True(t, created)
		output := outputsByHook(s.runsOf(client.RunFilter{Claim: got.ID}))
		require.Contains(t, output["kernel"], "gvisor")
		want := "x"
		if i == 1 && used["ada"] == got.Container {
			want = "xx"
		}
		require.Equal(t, want, output["show"], "what %s finds", tenant)
		if tenant == "bob" {
			require.NotEqual(t, used["ada"], got.Container)
		}
		used[tenant] = got.Container
		if i == 1 {
			s.kill()
			s.start()
		}
		_, err = s.Release(t.Context(), got.ID, false)
		require.NoError(t, err)
		flushed := s.runsOf(client.RunFilter{Claim: got.ID, Point: client.PreRelease})
		require.Len(t, flushed, 1)
		require.Equal(t, "flushed\n", flushed[0].Stderr.String())
	}
}
