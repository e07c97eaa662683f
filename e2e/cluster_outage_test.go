package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

// requireOwnCluster skips a test that takes down parts of the cluster, unless
// REQUIRE names outages: everything else on the cluster goes down as well. Such
// tests run before all others of the package, because they are not parallel.
func requireOwnCluster(t *testing.T) {
	t.Helper()
	if !testenv.IsRequired("outages") {
		t.Skip(testenv.FullSuite + "it needs a cluster without other users: REQUIRE=kubernetes,outages go test ./e2e -run '^TestOutageOf'")
	}
	requireBackend(t, kubernetesBackend{})
}

// clusterPart stops or starts a part of the cluster.
func clusterPart(ctx context.Context, verb string) error {
	c, err := localCluster()
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "../.ci/cluster", verb)
	command.Env = environment("HOSTLER_CLUSTER_DIR=" + c.Dir)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf(".ci/cluster %s: %w: %s", verb, err, out)
	}
	return nil
}

// withPartDown calls do while a part of the cluster is down, and returns when the
// part is available again.
func withPartDown(t *testing.T, part string, do func()) {
	t.Helper()
	back := func() error { return clusterPart(context.Background(), "start-"+part) }
	t.Cleanup(func() {
		if t.Failed() {
			require.NoError(t, back(), "start the part again after a failure")
		}
	})
	require.NoError(t, clusterPart(t.Context(), "stop-"+part))
	do()
	require.NoError(t, back())
}

const clusterOutageHooks = `
pool: { min_idle: 2, max_size: 6, reuse: wipe }
hooks:
  post_claim:
    - { name: mark, command: [APP, append, /state/log, c] }
    - { name: pause, command: [BOX, pause, '%d', MARKER], timeout: 60s }
  pre_release: [{ name: show, command: [APP, read, /state/log] }]
`

// outageScenario is the state when a part of the cluster is taken down: an active
// claim, and one whose hook is running.
type outageScenario struct {
	*server
	held        client.Claim
	incarnation string // of the container of held
	hooked      client.Event
	answer      errgroup.Group
	made        client.Claim
}

// startOutageScenario starts a server with an active claim, and one whose hook
// takes as long as pause.
func startOutageScenario(t *testing.T, pause time.Duration) *outageScenario {
	t.Helper()
	o := &outageScenario{server: serve(t, kubernetesBackend{})}
	marker := "outage-" + uuid.NewString()[:8]
	o.apply("quick", "pool: { min_idle: 1, max_size: 1 }\nhooks: { pre_release: [{ name: show, command: [BOX, echo, hi] }] }\n")
	o.apply("outage", withMarker(fmt.Sprintf(clusterOutageHooks, pause.Milliseconds()), marker))
	var err error
	o.held, _, err = o.Claim(t.Context(), "quick", "ada", waitTimeout)
	require.NoError(t, err)
	o.incarnation = o.rt.incarnation(t, o.server, o.held.Container)
	o.awaitEvent(eventsOf("outage", client.EventContainerCreated), 2)
	o.answer.Go(func() (err error) {
		o.made, _, err = o.Claim(t.Context(), "outage", "bob", waitTimeout)
		return err
	})
	o.hooked = o.awaitEvent(eventsOf("outage", client.EventHookStarted), 2) // the one that pauses
	o.awaitProcess(o.hooked.Container, marker)
	return o
}

// idleContainer returns an idle container of a workload.
func (s *server) idleContainer(workload string) string {
	s.t.Helper()
	waiting, err := s.Containers(s.t.Context(), client.ContainerFilter{Workload: workload, States: []client.ContainerState{client.ContainerIdle}})
	require.NoError(s.t, err)
	require.NotEmpty(s.t, waiting)
	return waiting[0].ID
}

// requireHeld checks that the claim is still active, on the same container.
func (o *outageScenario) requireHeld() {
	o.t.Helper()
	again, created, err := o.Claim(o.t.Context(), "quick", "ada", 0)
	require.NoError(o.t, err)
	require.False(o.t, created)
	require.Equal(o.t, o.held.ID, again.ID)
	require.Equal(o.t, o.held.Container, again.Container)
}

// requireUnharmed checks that the outage has had no effect on claims, hooks and
// containers.
func (o *outageScenario) requireUnharmed() {
	t := o.t
	t.Helper()
	require.NoError(t, o.answer.Wait(), "a claim whose hook was running")
	require.Equal(t, client.ClaimActive, o.made.State)
	for _, r := range o.runsOf(client.RunFilter{Claim: o.made.ID}) {
		require.Equal(t, client.RunSucceeded, r.State, "%s: %s", r.Hook, r.Error)
	}
	o.requireHeld()
	require.Equal(t, o.incarnation, o.rt.incarnation(t, o.server, o.held.Container))
	for id, c := range map[string]client.Claim{"hi\n": o.held, "c": o.made} {
		released, err := o.Release(t.Context(), c.ID, false)
		require.NoError(t, err)
		require.Empty(t, released.Warnings)
		require.Equal(t, id, outputsByHook(o.runsOf(client.RunFilter{Claim: c.ID}))["show"])
	}
	require.Empty(t, o.events(eventsOf("", client.EventContainerDied)), "no container has exited")
	next, _, err := o.Claim(t.Context(), "outage", "cleo", waitTimeout)
	require.NoError(t, err)
	require.NotEmpty(t, next.Container)
	o.releaseAll("outage")
	for _, id := range []string{"quick", "outage"} {
		o.deleteWorkload(id)
		o.requireOnce(id)
	}
	o.requireEnds()
	o.server.requireNothingLeft()
}

// An outage of the kubelet for 30 s has no lasting effect: claims stay active,
// running hooks continue and their outcome is known, and containers are created
// and removed when it is available again.
func TestOutageOfKubelet(t *testing.T) {
	requireOwnCluster(t)
	o := startOutageScenario(t, 10*time.Second)
	waiting := o.idleContainer("outage")
	withPartDown(t, "kubelet", func() {
		o.requireHeld()
		_, err := o.DestroyContainer(t.Context(), waiting, false)
		require.NoError(t, err)
		<-time.After(30 * time.Second) // the hook ends, and the server does not notice
		o.requireHeld()
	})
	f := eventsOf("outage", client.EventContainerDestroyed)
	f.Container = waiting
	o.awaitEvent(f, 1)
	o.requireUnharmed()
}

// A restart of the API server has no effect on active claims and running hooks.
func TestOutageOfAPIServer(t *testing.T) {
	requireOwnCluster(t)
	o := startOutageScenario(t, 15*time.Second)
	waiting := o.idleContainer("outage")
	withPartDown(t, "apiserver", func() {
		o.requireHeld()
		_, err := o.DestroyContainer(t.Context(), waiting, false)
		require.NoError(t, err)
	})
	f := eventsOf("outage", client.EventContainerDestroyed)
	f.Container = waiting
	o.awaitEvent(f, 1)
	o.requireUnharmed()
}
