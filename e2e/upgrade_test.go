package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/clustertest"
	"github.com/hostler/hostler/runtime/shim"
)

// upgradeWorkload is a workload whose tenants have state.
const upgradeWorkload = `
pool: { min_idle: 1, max_size: 4, reuse: same_tenant }
sync: { sink: { type: file }, policy: { manual: true } }
hooks:
  post_claim: [{ name: greet, command: [APP, append, /state/greeted, "yes "] }]
  pre_release: [{ name: flush, command: [APP, append, /state/flushed, "yes "] }]
  pre_destroy: [{ name: bye, command: [BOX, echo, bye] }]
`

// previousPrograms builds the programs of the previous version, and returns the
// directory of the server with hostler-shim next to it.
var previousPrograms = sync.OnceValues(func() (string, error) {
	dir, err := builtPrograms()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "previous")
	c := exec.Command("go", "build", "-trimpath", "-tags=hostler_previous", "-ldflags=-s -w", "-o", dir+"/",
		"../cmd/hostler", "../cmd/hostler-shim")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs of the previous version: %w: %s", err, out)
	}
	return dir, os.Chmod(dir, 0o755)
})

var previousImage = sync.OnceValues(func() (string, error) {
	dir, err := previousPrograms()
	if err != nil {
		return "", err
	}
	r := clustertest.NewRegistry()
	cleanUpAtEnd(func(context.Context) error { r.Close(); return nil })
	return r.Push(runID+"/hostler:previous", map[string]string{"usr/local/bin/hostler-shim": filepath.Join(dir, "hostler-shim")})
})

// downgrade makes the next start run the previous version.
func (s *server) downgrade() {
	s.t.Helper()
	dir, err := previousPrograms()
	require.NoError(s.t, err)
	s.program = filepath.Join(dir, "hostler")
	if s.rt.name() == "kubernetes" {
		image, err := previousImage()
		require.NoError(s.t, err)
		s.args = []string{"--shim-image", image}
	}
}

// upgrade makes the next start run the current version.
func (s *server) upgrade() { s.program, s.args = "", nil }

// versions returns the protocol versions of a workload's containers in a state,
// sorted.
func (s *server) versions(id string, state client.ContainerState) []int {
	s.t.Helper()
	all, err := s.Containers(s.t.Context(), client.ContainerFilter{Workload: id, States: []client.ContainerState{state}})
	require.NoError(s.t, err)
	list := []int{}
	for _, c := range all {
		list = append(list, c.Protocol)
	}
	slices.Sort(list)
	return list
}

// waitFor waits until a workload's idle containers have these versions, and none
// is being destroyed.
func (s *server) waitFor(id string, want ...int) {
	s.t.Helper()
	s.eventually(func() bool {
		return slices.Equal(want, s.versions(id, client.ContainerIdle)) && len(s.versions(id, client.ContainerDestroying)) == 0
	})
	require.Equal(s.t, want, s.versions(id, client.ContainerIdle), "%s", s.eventLog())
}

// An upgraded server continues live claims in containers of the previous version,
// which are destroyed at their release; idle containers are replaced. A
// downgraded server does not touch the containers of the newer one.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		const id, before, now = "w", shim.Version - 1, shim.Version
		s := install(t, rt)
		s.downgrade()
		s.start()
		s.apply(id, upgradeWorkload)
		s.waitFor(id, before)
		bob := s.claimAs(id, "bob")
		bob.mustRun("append", "/state/note", "bob's")
		bob.release()
		ada := s.claimAs(id, "ada")
		ada.mustRun("append", "/state/note", "ada's")
		s.waitFor(id, before, before) // one of them is kept for bob

		s.kill()
		s.upgrade()
		s.start()
		s.waitFor(id, now)
		require.Equal(t, []int{before}, s.versions(id, client.ContainerClaimed))
		replaced := s.events(eventsOf(id, client.EventContainerDestroying))
		require.Len(t, replaced, 2, "%s", s.eventLog())
		for _, e := range replaced {
			require.Contains(t, e.Message, "its protocol version is outdated", "%s", s.eventLog())
		}
		made := s.events(eventsOf(id, client.EventContainerCreated))
		require.Greater(t, replaced[0].Seq, made[len(made)-1].Seq, "the new one is ready first")

		// The live claim continues to work.
		require.Equal(t, "ada's", ada.mustRun("read", "/state/note"))
		require.Equal(t, ada.ID, s.claimAs(id, "ada").ID)
		require.Contains(t, s.mustCLI("get", "claims", ada.ID), ada.Container)
		require.Contains(t, s.mustCLI("sync", ada.ID), "files")
		for _, args := range [][]string{{"claim"}, {"wait", "--type", "review", "--timeout", "1m"}} {
			asked := ada.inside(args...)
			require.Equal(t, 69, asked.ExitCode, "%+v", asked)
			require.Contains(t, asked.Stderr.String(), "an older server has created it")
		}
		ada.mustRun("append", "/state/note", " and more")
		ada.release()
		s.awaitEvent(client.EventFilter{Types: []client.EventType{client.EventContainerDestroyed}, Container: ada.Container}, 1)
		require.Contains(t, s.mustCLI("get", "containers", ada.Container), "its protocol version is outdated")
		require.Len(t, s.events(client.EventFilter{Types: []client.EventType{client.EventHookCompleted}, Container: ada.Container, Point: "pre_destroy"}), 1, "%s", s.eventLog())
		again := s.claimAs(id, "ada")
		require.Equal(t, "ada's and more", again.mustRun("read", "/state/note"))
		require.Equal(t, "yes ", again.mustRun("read", "/state/flushed"))
		require.Equal(t, "yes yes ", again.mustRun("read", "/state/greeted"))
		require.Equal(t, []int{now}, s.versions(id, client.ContainerClaimed))
		back := s.claimAs(id, "bob")
		require.Equal(t, "bob's", back.mustRun("read", "/state/note"))
		back.release()

		s.backAndForth(id, again, before, now)
		require.Empty(t, s.events(eventsOf(id, client.EventClaimFailed)), "%s", s.eventLog())
		for _, point := range []client.Point{client.PostClaim, client.PreRelease} {
			for _, r := range s.runsOf(client.RunFilter{Workload: id, Point: point}) {
				require.Equal(t, client.RunSucceeded, r.State, "%s %s\n%s", r.Point, r.Hook, s.eventLog())
			}
		}
		s.deleteWorkload(id)
		s.requireEnds()
		s.requireNothingLeft()
	})
}

// backAndForth downgrades the server while a tenant holds a container of the
// newer one, and upgrades it again.
func (s *server) backAndForth(id string, holds tenantSession, before, now int) {
	t := s.t
	t.Helper()
	s.waitFor(id, now, now)
	require.Zero(t, s.stopWith(syscall.SIGTERM))
	s.downgrade()
	s.start()
	s.waitFor(id, before, now, now)
	other := s.claimAs(id, "joe")
	require.Equal(t, []int{before, now}, s.versions(id, client.ContainerClaimed))
	require.Equal(t, holds.ID, s.claimAs(id, holds.Tenant).ID)
	refused := s.cli("release", holds.ID)
	require.NotZero(t, refused.code)
	require.Contains(t, refused.err, "container was created by a newer server")
	report := s.cli("doctor")
	require.NotZero(t, report.code)
	require.Contains(t, report.out, "made by a newer server")
	other.release()

	require.Zero(t, s.stopWith(syscall.SIGTERM))
	s.upgrade()
	s.start()
	require.Equal(t, "ada's and more", holds.mustRun("read", "/state/note"), "the container is unchanged")
	holds.release()
	s.eventually(func() bool { return !slices.Contains(s.versions(id, client.ContainerIdle), before) })
}
