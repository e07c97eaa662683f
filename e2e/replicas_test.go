package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/internal/testenv"
)

// Any server serves any call, independent of which made the claim and which is
// the leader, and followers of the event log on any server miss nothing.
func TestReplicasServeAnyCall(t *testing.T) {
	t.Parallel()
	f := serveFleet(t, 3)
	f.servers[1].apply("crowd", fmt.Sprintf(crowdHooks, maxContainers))
	var followers, tenants errgroup.Group
	for _, s := range f.servers {
		followers.Go(func() error { return s.followTo(t.Context(), client.EventWorkloadDeleted) })
	}
	for i := range 12 {
		tenants.Go(func() error { return f.claimAndReleaseOnAll(t.Context(), fmt.Sprintf("tenant-%d", i), i) })
	}
	require.NoError(t, tenants.Wait())
	s := f.servers[2]
	requireOneTenantEach(t, s.events(eventsOf("crowd", "container")))
	require.Len(t, s.events(eventsOf("crowd", client.EventClaimActivated)), 12)
	require.Empty(t, s.events(eventsOf("crowd", client.EventClaimFailed)))
	s.deleteWorkload("crowd")
	require.NoError(t, followers.Wait())
	s.requireEnds()
	s.requireNoGaps()
	s.requireNothingLeft()
}

// Every server reports the error of a pool that cannot be filled.
func TestReplicasReportPoolError(t *testing.T) {
	t.Parallel()
	f := serveFleet(t, 2)
	leader, others := f.leader()
	leader.apply("broken", "pool: { min_idle: 1, max_size: 2 }\nhooks: { post_create: [{ command: [BOX, exit, '3'] }] }\n")
	others[0].awaitEvent(eventsOf("broken", client.EventPoolWarning), 1)
	testenv.AwaitTrue(t, "the error from a server that is not the leader", func() bool {
		_, _, err := others[0].Claim(t.Context(), "broken", "ada", 0)
		refused, ok := errors.AsType[*client.Error](err)
		return ok && refused.Code == client.CodePoolNotReady && strings.Contains(refused.Detail, "container creation failed")
	})
	leader.deleteWorkload("broken")
}

// followTo follows the event log from its beginning to an event of that type. It
// returns an error if a sequence number is missing.
func (s *server) followTo(ctx context.Context, last client.EventType) error {
	seq, seen := int64(0), errors.New("seen")
	err := s.Follow(ctx, client.EventQuery{After: "0"}, func(e client.FollowedEvent) error {
		if seq++; e.Seq != seq {
			return fmt.Errorf("event %d follows event %d", e.Seq, seq-1)
		}
		if e.Type == last {
			return seen
		}
		return nil
	})
	if !errors.Is(err, seen) {
		return fmt.Errorf("after event %d: %w", seq, err)
	}
	return nil
}

// claimAndReleaseOnAll claims from all servers concurrently, and then releases on
// all servers concurrently.
func (f *fleet) claimAndReleaseOnAll(ctx context.Context, tenant string, i int) error {
	got := make([]client.Claim, len(f.servers))
	made := make([]bool, len(f.servers))
	var g errgroup.Group
	for n, s := range f.servers {
		g.Go(func() (err error) {
			got[n], made[n], err = s.Claim(ctx, "crowd", tenant, waitTimeout)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("%s: %w", tenant, err)
	}
	creators := 0
	for n := range f.servers {
		if got[n].ID != got[0].ID || got[n].State != client.ClaimActive {
			return fmt.Errorf("%s has claims %s and %s (%s)", tenant, got[0].ID, got[n].ID, got[n].State)
		}
		if made[n] {
			creators++
		}
	}
	if creators != 1 {
		return fmt.Errorf("%d servers report that they created the claim of %s", creators, tenant)
	}
	for n, s := range f.servers {
		g.Go(func() error {
			c, err := s.Release(ctx, got[0].ID, n == i%3)
			if err == nil && c.State != client.ClaimReleased {
				err = fmt.Errorf("the claim of %s is %s", tenant, c.State)
			}
			return err
		})
	}
	return g.Wait()
}

// requireScenarios checks the scenarios on the server that has taken over.
func requireScenarios(t *testing.T, successor *server, all map[string]*crashScenario) {
	t.Helper()
	letGo(all)
	for id, c := range all {
		c.s = successor
		crashScenarios()[id].after(c)
		successor.deleteWorkload(id)
	}
	successor.requireEnds()
	successor.requireNoGaps()
	successor.requireNothingLeft()
}

// When a server is killed, during any operation and whether or not it is the
// leader, another one takes over from it.
func TestReplicaKilled(t *testing.T) {
	t.Parallel()
	t.Run("leader", func(t *testing.T) {
		t.Parallel()
		f := serveFleet(t, 2)
		victim, others := f.leader()
		all, end := prepareScenarios(t, victim, "idle", "held", "in-create", "in-claim", "in-claim-2", "in-release", "in-destroy")
		victim.kill()
		end()
		killed := time.Now()
		others[0].log.await(t, "that it leads", isLeaderLine)
		t.Logf("another server leads after %s", time.Since(killed).Round(time.Millisecond))
		requireScenarios(t, others[0], all)
	})
	t.Run("other", func(t *testing.T) {
		t.Parallel()
		f := serveFleet(t, 3)
		_, others := f.leader()
		all, end := prepareScenarios(t, others[0], "held", "in-claim", "in-claim-2", "in-release")
		others[0].kill()
		end()
		requireScenarios(t, others[1], all)
	})
}

// A server that is suspended until another one has taken over, and then resumed,
// does no harm: the other one has finished its work, it does not touch tenants
// and their containers, and it exits.
func TestStalledReplicaIsFenced(t *testing.T) {
	t.Parallel()
	f := serveFleet(t, 2)
	stalled, others := f.leader()
	all, end := prepareScenarios(t, stalled, "held", "in-claim-2", "in-release")
	stalled.signal(syscall.SIGSTOP)
	others[0].log.await(t, "that it leads", isLeaderLine)
	letGo(all)
	others[0].awaitEvent(eventsOf("in-claim-2", client.EventClaimActivated), 1)
	others[0].awaitEvent(eventsOf("in-release", client.EventClaimReleased), 1)
	stalled.signal(syscall.SIGCONT)
	<-stalled.ended
	end()
	require.Equal(t, 1, stalled.cmd.ProcessState.ExitCode())
	line, _, _ := stalled.log.find(func(l logLine) bool { return l.hasMessage("fenced by another server; exiting") })
	require.NotNil(t, line, "it logs the reason")
	requireScenarios(t, others[0], all)
	stalled.start()
	stalled.requireEngineMatchesRecords()
}

// Neither does a server that is disconnected from the database until another one
// has taken over.
func TestPartitionedReplicaIsFenced(t *testing.T) {
	t.Parallel()
	f := serveFleet(t, 0)
	proxy, store := f.proxyStore()
	f.add(store)
	partitioned, _ := f.leader()
	f.add(f.store)
	other := f.servers[1]
	all, end := prepareScenarios(t, partitioned, "held", "in-claim-2", "in-release")
	proxy.cut()
	other.log.await(t, "that it leads", isLeaderLine)
	letGo(all)
	other.awaitEvent(eventsOf("in-claim-2", client.EventClaimActivated), 1)
	other.awaitEvent(eventsOf("in-release", client.EventClaimReleased), 1)
	proxy.restore(t)
	<-partitioned.ended
	end()
	require.Equal(t, 1, partitioned.cmd.ProcessState.ExitCode())
	requireScenarios(t, other, all)
}

// Servers that were all disconnected from the database for longer than their
// leases continue afterwards: none treats the others as expired.
func TestDatabaseOutageForAllReplicas(t *testing.T) {
	t.Parallel()
	f := serveFleet(t, 0)
	proxy, store := f.proxyStore()
	f.add(store)
	f.add(store)
	f.servers[0].apply("kept", countingHooks)
	got, _, err := f.servers[1].Claim(t.Context(), "kept", "ada", waitTimeout)
	require.NoError(t, err)
	proxy.cut()
	require.NoError(t, flow.Sleep(t.Context(), longOutage))
	proxy.restore(t)
	for _, s := range f.servers {
		testenv.AwaitTrue(t, "the same claim", func() bool {
			again, _, err := s.Claim(t.Context(), "kept", "ada", waitTimeout)
			return err == nil && again.ID == got.ID
		})
	}
	testenv.AwaitTrue(t, "the release", func() bool { // it may have no lease yet
		_, err := f.servers[0].Release(t.Context(), got.ID, true)
		return err == nil
	})
	f.servers[1].deleteWorkload("kept") // needs a leader
	for _, s := range f.servers {
		_, ended, _ := s.log.find(func(logLine) bool { return false })
		require.False(t, ended, "no server was taken over from")
	}
}

// longOutage is longer than a lease and its margin.
const longOutage = 25 * time.Second

// A server that gets SIGTERM and waits for a hook longer than its lease keeps its
// lease and its leadership: no other server starts the work that it has started.
// Its remaining work is then taken over.
func TestReplicaStopDuringHook(t *testing.T) {
	t.Parallel()
	f := serveFleet(t, 2)
	leader, others := f.leader()
	leader.apply("kept", "pool: { min_idle: 1, max_size: 1, reuse: wipe, claim_idle_ttl: 2s }\nhooks: { pre_release: [{ command: [APP, hang], timeout: 75s }] }\n")
	leader.apply("going", "pool: { min_idle: 1, max_size: 1 }\nhooks: { pre_destroy: [{ command: [BOX, pause, '30000'], timeout: 60s }, { command: [BOX, pause, '3000'] }] }\n")
	// Before the hook starts that is to outlast the stop.
	container := leader.awaitEvent(eventsOf("going", client.EventContainerCreated), 1).Container
	leader.claimAs("kept", "ada") // idle, so no request waits for the release
	begun := leader.awaitEvent(eventsOf("kept", client.EventHookStarted), 1)
	_, err := leader.DestroyContainer(t.Context(), container, false)
	require.NoError(t, err)
	leader.awaitEvent(eventsOf("going", client.EventHookStarted), 1)
	stopped := time.Now()
	require.Zero(t, leader.stopWith(syscall.SIGTERM))
	others[0].log.await(t, "that it takes over", func(l logLine) bool {
		return l.hasMessage("taking over from expired server")
	})
	require.Greater(t, time.Since(stopped), 40*time.Second, "it was treated as expired")
	others[0].awaitEvent(eventsOf("kept", client.EventClaimReleased), 1)
	runs := others[0].runsOf(client.RunFilter{Claim: begun.Claim})
	require.Len(t, runs, 1)
	require.Equal(t, client.RunTimedOut, runs[0].State)
	gone := eventsOf("going", client.EventContainerDestroyed)
	gone.Container = container
	others[0].awaitEvent(gone, 1)
	runs = others[0].runsOf(client.RunFilter{Container: container})
	require.Len(t, runs, 2)
	for _, r := range runs {
		require.Equal(t, client.RunSucceeded, r.State)
	}
}

// A server that gets SIGTERM hands over at once, and no server waits for its
// remaining work.
func TestReplicaGracefulStop(t *testing.T) {
	t.Parallel()
	f := serveFleet(t, 2)
	leader, others := f.leader()
	leader.apply("kept", countingHooks)
	got, _, err := leader.Claim(t.Context(), "kept", "ada", waitTimeout)
	require.NoError(t, err)
	stopped := time.Now()
	require.Zero(t, leader.stopWith(syscall.SIGTERM))
	others[0].log.await(t, "that it leads", isLeaderLine)
	t.Logf("another server leads %s after SIGTERM", time.Since(stopped).Round(time.Millisecond))
	again, made, err := others[0].Claim(t.Context(), "kept", "ada", waitTimeout)
	require.NoError(t, err)
	require.False(t, made)
	require.Equal(t, got.ID, again.ID)
	leader.start()
	released, err := leader.Release(t.Context(), got.ID, true)
	require.NoError(t, err)
	require.Equal(t, client.ClaimReleased, released.State)
	container, err := others[0].Container(t.Context(), got.Container)
	require.NoError(t, err)
	require.Contains(t, []client.ContainerState{client.ContainerDestroying, client.ContainerDestroyed}, container.State)
	leader.deleteWorkload("kept")
	leader.requireEnds()
	leader.requireNothingLeft()
}
