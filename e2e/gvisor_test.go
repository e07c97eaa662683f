package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/gvisortest"
	"github.com/hostler/hostler/runtime"
)

// gvisorBackend is a Docker engine of its own, whose containers run under
// gVisor.
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

func (b gvisorBackend) left(t testing.TB, s *server) []string {
	t.Helper()
	e, err := findEngine(b.host)
	require.NoError(t, err)
	return e.ofInstance(t, s.instance)
}

const gvisorHooks = `
pool: { min_idle: 1, max_size: 1, reuse: wipe }
hooks:
  post_claim:
    - { name: kernel, command: [APP, read, /proc/version] }
    - { name: count, command: [APP, append, /state/count, x] }
    - { name: show, command: [APP, read, /state/count] }
  pre_release: [{ name: flush, command: [BOX, err, flushed] }]
  pre_destroy: [{ name: leave, command: [BOX, echo, bye] }]
`

// Under gVisor a container is claimed, its hooks run, it is released, emptied
// and claimed by another tenant, who finds nothing of the first; a server that
// is killed meanwhile changes none of it.
func TestGVisor(t *testing.T) {
	t.Parallel()
	rt := gvisorBackend{host: gvisortest.Host(t)}
	s := install(t, rt)
	s.env = []string{"DOCKER_HOST=" + rt.host}
	s.start()
	s.apply("walled", gvisorHooks)
	var containers []string
	for _, tenant := range []string{"ada", "bob", "eve"} {
		got, created, err := s.Claim(t.Context(), "walled", tenant, patience)
		require.NoError(t, err)
		require.True(t, created)
		containers = append(containers, got.Container)
		said := outputs(s.runsOf(hooks.RunFilter{Claim: got.ID}))
		require.Contains(t, said["kernel"], "gvisor")
		require.Equal(t, "x", said["show"], "%s finds nothing of the tenant before", tenant)
		if tenant == "bob" {
			s.kill()
			s.start()
		}
		_, err = s.Release(t.Context(), got.ID, false)
		require.NoError(t, err)
		flushed := s.runsOf(hooks.RunFilter{Claim: got.ID, Point: hooks.PreRelease})
		require.Len(t, flushed, 1)
		require.Equal(t, "flushed\n", flushed[0].Stderr.String())
	}
	require.Equal(t, []string{containers[0], containers[0], containers[0]}, containers, "one container served all")
	s.delete("walled")
	require.Len(t, s.events(of("walled", activity.ContainerDestroyed)), 1)
	s.requireEnds()
	s.requireNothingLeft()
}
