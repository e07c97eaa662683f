package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/testenv"
)

const allPointsHooks = `
pool: { min_idle: 1, max_size: 1, reuse: wipe }
hooks:
  post_create: [{ name: make, command: [APP, append, /state/log, m] }]
  post_claim: [{ name: claim, command: [APP, append, /state/log, c] }]
  pre_release: [{ name: release, command: [APP, append, /state/log, r] }]
  pre_destroy: [{ name: destroy, command: [APP, append, /state/log, d] }]
`

// crashEvents returns filters for the events at which a server is killed: right
// after each, the action that the event announces is about to start.
func crashEvents() []client.EventFilter {
	at := func(t client.EventType, point client.Point) client.EventFilter {
		return client.EventFilter{Types: []client.EventType{t}, Point: string(point)}
	}
	all := []client.EventFilter{
		at(client.EventContainerCreating, ""), at(client.EventContainerCreated, ""),
		at(client.EventClaimRequested, ""), at(client.EventContainerClaimed, ""), at(client.EventClaimActivated, ""),
		at(client.EventClaimReleasing, ""), at(client.EventClaimReleased, ""), at(client.EventContainerWiped, ""),
		at(client.EventContainerDestroying, ""),
	}
	for _, p := range []client.Point{client.PostCreate, client.PostClaim, client.PreRelease, client.PreDestroy} {
		all = append(all, at(client.EventHookStarted, p), at(client.EventHookCompleted, p))
	}
	return all
}

// A server is killed at any event. The next one loses no claim that was answered,
// starts no hook again, and leaves nothing behind.
func TestKilledAtEveryEvent(t *testing.T) {
	t.Parallel()
	forAnyBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		for i, moment := range crashEvents() {
			id := fmt.Sprintf("round-%d", i)
			moment.Workload = id
			sim := &clientSim{promised: map[string]client.ClaimState{}}
			var busy errgroup.Group
			busy.Go(func() error { return s.killAtEvent(moment) })
			busy.Go(func() error { sim.run(s, id); return nil })
			require.NoError(t, busy.Wait(), "waiting for %s of %s", moment.Types, moment.Point)
			<-s.ended
			s.start()
			sim.check(s)
			s.releaseAll(id)
			s.deleteWorkload(id)
			s.requireEnds()
			s.requireOnce(id)
			s.requireNothingLeft()
		}
	})
}

// killAtEvent kills the server as soon as an event matches.
func (s *server) killAtEvent(moment client.EventFilter) error {
	seen := errors.New("seen")
	err := s.Follow(testenv.Context(s.t), client.EventQuery{EventFilter: moment, After: "0"}, func(client.FollowedEvent) error { return seen })
	if errors.Is(err, seen) {
		return s.cmd.Process.Kill()
	}
	return errors.Join(fmt.Errorf("no matching event within %s", waitTimeout), err)
}

// clientSim simulates tenants that claim one after the other until the server is
// killed, and records what the server has promised them.
type clientSim struct {
	promised map[string]client.ClaimState
}

func (v *clientSim) run(s *server, id string) {
	ctx := s.t.Context()
	if _, err := s.Apply(ctx, id, []byte(workload(s.t, s.rt, id, allPointsHooks))); err != nil {
		return
	}
	for _, tenant := range []string{"ada", "bob"} {
		got, _, err := s.Claim(ctx, id, tenant, waitTimeout)
		if err != nil {
			return
		}
		v.promised[got.ID] = client.ClaimActive
		if _, err := s.GetClaim(ctx, got.ID); err != nil {
			return
		}
		delete(v.promised, got.ID) // unknown until its release is answered
		// Bob's container is discarded, so that all of the events occur.
		if _, err := s.Release(ctx, got.ID, tenant == "bob"); err != nil {
			return
		}
		v.promised[got.ID] = client.ClaimReleased
	}
}

// check checks that the server has kept its promises.
func (v *clientSim) check(s *server) {
	s.t.Helper()
	for id, state := range v.promised {
		got, err := s.GetClaim(s.t.Context(), id)
		require.NoError(s.t, err)
		require.Equal(s.t, state, got.State)
	}
}

// releaseAll releases the live claims of a workload.
func (s *server) releaseAll(id string) {
	s.t.Helper()
	live, err := s.Claims(s.t.Context(), client.ClaimFilter{Workload: id})
	require.NoError(s.t, err)
	for _, c := range live {
		got, err := s.Release(s.t.Context(), c.ID, false)
		require.NoError(s.t, err, "release claim %s, which is %s", c.ID, c.State)
		if c.State == client.ClaimPending && got.State == client.ClaimFailed {
			continue // the new server was completing it
		}
		require.Equal(s.t, client.ClaimReleased, got.State)
	}
}

// requireOnce checks that no hook has started twice for a claim or container.
func (s *server) requireOnce(id string) {
	s.t.Helper()
	begun := map[string]bool{}
	for _, r := range s.runsOf(client.RunFilter{Workload: id}) {
		what := strings.Join([]string{r.Hook, r.Container, r.Claim}, " ")
		require.False(s.t, begun[what], "%s has started twice", what)
		begun[what] = r.State != client.RunSkipped
	}
}
