package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/activity"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
)

const (
	tenants       = 50
	maxContainers = 10
)

const crowdHooks = `
pool: { min_idle: 4, max_size: %d, reuse: wipe }
hooks:
  post_claim:
    - { name: count, command: [APP, append, /state/count, x] }
    - { name: show, command: [APP, read, /state/count] }
`

// Many more tenants than containers, all at once: each is served, each once,
// and no container has two of them at a time.
func TestManyTenants(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, rt backend) {
		s := serve(t, rt)
		s.apply("crowd", fmt.Sprintf(crowdHooks, maxContainers))
		var g errgroup.Group
		for i := range tenants {
			g.Go(func() error { return s.claimTwiceAndRelease(t.Context(), fmt.Sprintf("tenant-%d", i)) })
		}
		require.NoError(t, g.Wait())
		requireOneTenantEach(t, s.events(eventsOf("crowd", "container")))
		require.Len(t, s.events(eventsOf("crowd", activity.ClaimActivated)), tenants)
		require.Len(t, s.events(eventsOf("crowd", activity.ClaimReleased)), tenants)
		require.Empty(t, s.events(eventsOf("crowd", activity.ClaimFailed)))
		s.requireEnds()
	})
}

// claimTwiceAndRelease claims, asks again, and releases.
func (s *server) claimTwiceAndRelease(ctx context.Context, tenant string) error {
	c, created, err := s.Claim(ctx, "crowd", tenant, waitTimeout)
	if err != nil {
		return fmt.Errorf("%s: %w", tenant, err)
	}
	again, anew, err := s.Claim(ctx, "crowd", tenant, waitTimeout)
	if err != nil {
		return fmt.Errorf("%s asks again: %w", tenant, err)
	}
	if !created || anew || again.ID != c.ID || again.Container != c.Container || again.State != claim.Active {
		return fmt.Errorf("%s has %s (new: %t), and when asking again %s (new: %t)", tenant, c.ID, created, again.ID, anew)
	}
	runs, err := s.Runs(ctx, hooks.RunFilter{Claim: c.ID})
	if err != nil {
		return err
	}
	if output := outputsByHook(runs)["show"]; len(runs) != 2 || output != "x" {
		return fmt.Errorf("%s: %d runs, and the hook has run %q before it is shown", tenant, len(runs), output)
	}
	_, err = s.Release(ctx, c.ID, false)
	return err
}

// requireOneTenantEach reads from the log who had which container when.
func requireOneTenantEach(t testing.TB, events []activity.Event) {
	t.Helper()
	holds, alive := map[string]string{}, map[string]bool{}
	for _, e := range events {
		switch e.Type {
		case activity.ContainerCreating:
			alive[e.Container] = true
		case activity.ContainerClaimed:
			require.Empty(t, holds[e.Container], "the holder when %s gets %s", e.Tenant, e.Container)
			holds[e.Container] = e.Tenant
		case activity.ContainerReleased, activity.ContainerDestroying:
			delete(holds, e.Container)
		case activity.ContainerDestroyed:
			delete(alive, e.Container)
		}
		require.LessOrEqual(t, len(alive), maxContainers)
	}
	require.Empty(t, holds)
}
