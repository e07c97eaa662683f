package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/client"
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

// Many more tenants than containers claim at once: each is served once, and no
// container has two tenants at a time.
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
		require.Len(t, s.events(eventsOf("crowd", client.EventClaimActivated)), tenants)
		require.Len(t, s.events(eventsOf("crowd", client.EventClaimReleased)), tenants)
		require.Empty(t, s.events(eventsOf("crowd", client.EventClaimFailed)))
		s.requireEnds()
	})
}

// claimTwiceAndRelease claims twice and releases.
func (s *server) claimTwiceAndRelease(ctx context.Context, tenant string) error {
	c, created, err := s.Claim(ctx, "crowd", tenant, waitTimeout)
	if err != nil {
		return fmt.Errorf("%s: %w", tenant, err)
	}
	again, recreated, err := s.Claim(ctx, "crowd", tenant, waitTimeout)
	if err != nil {
		return fmt.Errorf("second claim of %s: %w", tenant, err)
	}
	if !created || recreated || again.ID != c.ID || again.Container != c.Container || again.State != client.ClaimActive {
		return fmt.Errorf("%s has claim %s (created: %t), and the second time %s (created: %t)", tenant, c.ID, created, again.ID, recreated)
	}
	runs, err := s.Runs(ctx, client.RunFilter{Claim: c.ID})
	if err != nil {
		return err
	}
	if output := outputsByHook(runs)["show"]; len(runs) != 2 || output != "x" {
		return fmt.Errorf("%s: %d runs, count %q", tenant, len(runs), output)
	}
	_, err = s.Release(ctx, c.ID, false)
	return err
}

// requireOneTenantEach checks in the events that no container had two tenants at
// a time.
func requireOneTenantEach(t testing.TB, events []client.Event) {
	t.Helper()
	holds, alive := map[string]string{}, map[string]bool{}
	for _, e := range events {
		switch e.Type {
		case client.EventContainerCreating:
			alive[e.Container] = true
		case client.EventContainerClaimed:
			require.Empty(t, holds[e.Container], "the holder when %s gets %s", e.Tenant, e.Container)
			holds[e.Container] = e.Tenant
		case client.EventContainerReleased, client.EventContainerDestroying:
			delete(holds, e.Container)
		case client.EventContainerDestroyed:
			delete(alive, e.Container)
		}
		require.LessOrEqual(t, len(alive), maxContainers)
	}
	for id := range holds {
		for _, e := range events {
			if e.Container == id {
				t.Logf("%d %s %s %s %s %s", e.Seq, e.Time.Format(time.TimeOnly), e.Type, e.Tenant, e.Claim, e.Message)
			}
		}
	}
	require.Empty(t, holds)
}
