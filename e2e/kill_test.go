package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/api"
	"github.com/hostler/hostler/api/client"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
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
func crashEvents() []activity.Filter {
	at := func(t activity.Type, point hooks.Point) activity.Filter {
		return activity.Filter{Types: []activity.Type{t}, Point: string(point)}
	}
	all := []activity.Filter{
		at(activity.ContainerCreating, ""), at(activity.ContainerCreated, ""),
		at(activity.ClaimRequested, ""), at(activity.ContainerClaimed, ""), at(activity.ClaimActivated, ""),
		at(activity.ClaimReleasing, ""), at(activity.ClaimReleased, ""), at(activity.ContainerWiped, ""),
		at(activity.ContainerDestroying, ""),
	}
	for _, p := range []hooks.Point{hooks.PostCreate, hooks.PostClaim, hooks.PreRelease, hooks.PreDestroy} {
		all = append(all, at(activity.HookStarted, p), at(activity.HookCompleted, p))
	}
	return all
}

// A server is killed at any event. The next one loses no claim that was answered,
// starts no hook again, and leaves nothing behind.
func TestKilledAtEveryEvent(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		for i, moment := range crashEvents() {
			id := fmt.Sprintf("round-%d", i)
			moment.Workload = id
			sim := &clientSim{promised: map[string]claim.State{}}
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
func (s *server) killAtEvent(moment activity.Filter) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), waitTimeout)
	defer cancel()
	seen := errors.New("seen")
	err := s.Follow(ctx, client.EventQuery{Filter: moment, After: "0"}, func(api.FollowedEvent) error { return seen })
	if errors.Is(err, seen) {
		return s.cmd.Process.Kill()
	}
	return errors.Join(fmt.Errorf("no matching event within %s", waitTimeout), err)
}

// clientSim simulates tenants that claim one after the other until the server is
// killed, and records what the server has promised them.
type clientSim struct {
	promised map[string]claim.State
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
		v.promised[got.ID] = claim.Active
		if _, err := s.GetClaim(ctx, got.ID); err != nil {
			return
		}
		delete(v.promised, got.ID) // unknown until its release is answered
		// Bob's container is discarded, so that all of the events occur.
		if _, err := s.Release(ctx, got.ID, tenant == "bob"); err != nil {
			return
		}
		v.promised[got.ID] = claim.Released
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
	live, err := s.Claims(s.t.Context(), claim.Filter{Workload: id})
	require.NoError(s.t, err)
	for _, c := range live {
		got, err := s.Release(s.t.Context(), c.ID, false)
		require.NoError(s.t, err, "release claim %s, which is %s", c.ID, c.State)
		if c.State == claim.Pending && got.State == claim.Failed {
			continue // the new server was completing it
		}
		require.Equal(s.t, claim.Released, got.State)
	}
}

// requireOnce checks that no hook has started twice for a claim or container.
func (s *server) requireOnce(id string) {
	s.t.Helper()
	begun := map[string]bool{}
	for _, r := range s.runsOf(hooks.RunFilter{Workload: id}) {
		what := strings.Join([]string{r.Hook, r.Container, r.Claim}, " ")
		require.False(s.t, begun[what], "%s has started twice", what)
		begun[what] = r.State != hooks.Skipped
	}
}
