package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/api/client"
	"github.com/hostler/hostler/claim"
	"github.com/hostler/hostler/hooks"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/pool"
)

// How a storm goes. One hook of a claim in the middle of a kill may wait for a
// takeover, and then for its turn.
const (
	stressTenants    = 200
	maxTenantIdle    = 2 * time.Minute  // between a tenant's release and its next claim, at most
	stressRampUp     = 10 * time.Second // within which all come for the first time
	meanKillInterval = 4 * time.Second  // between two kills, on average
	stressTimeout    = 5 * time.Minute  // for a tenant who wants one thing, whatever happens
)

const stressHooks = `
pool: { min_idle: 4, max_size: %d, reuse: wipe }
hooks:
  post_create: [{ name: make, command: [APP, append, /state/made, m] }]
  post_claim:
    - { name: count, command: [APP, append, /state/count, x] }
    - { name: show, command: [APP, read, /state/count] }
  pre_release: [{ name: bye, command: [APP, read, /state/count] }]
  pre_destroy: [{ name: leave, command: [BOX, echo, bye] }]
`

// stress is many tenants at servers that are killed.
type stress struct {
	f       *fleet
	calm    context.Context //nolint:containedctx // it ends with the storm
	clients []atomic.Pointer[client.Client]

	mu      sync.Mutex        // guards what follows
	holders map[string]string // tenants, by the container that they were told is theirs
	claims  map[string]string // tenants, by claim
	answers map[string]int    // how calls were answered, other than well
	took    []time.Duration   // claims that were answered well
	waited  []time.Duration   // from wanting a claim to having it, however often it was asked for
}

// Tenants claim and release at random while servers are killed and started
// again every few seconds. At the end nothing is lost, doubled or left over.
// REPLICAS_STORM says how long it lasts.
func TestReplicasStress(t *testing.T) {
	lasts := 20 * time.Second
	if text := os.Getenv("REPLICAS_STORM"); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	f := serveFleet(t, 3)
	f.servers[0].apply("crowd", fmt.Sprintf(stressHooks, maxContainers))
	s := &stress{
		f: f, clients: make([]atomic.Pointer[client.Client], len(f.servers)),
		holders: map[string]string{}, claims: map[string]string{}, answers: map[string]int{},
	}
	for i := range f.servers {
		s.clients[i].Store(f.servers[i].Client)
	}
	g, ctx := errgroup.WithContext(t.Context())
	calm, over := context.WithCancel(ctx)
	defer over()
	s.calm = calm
	for i := range stressTenants {
		g.Go(func() error { return s.tenant(ctx, fmt.Sprintf("tenant-%d", i)) })
	}
	kills := s.kill(ctx, lasts)
	over()
	stressed := time.Now()
	err := g.Wait()
	if err != nil {
		t.Log(s.f.servers[0].eventLog())
	}
	require.NoError(t, err)
	t.Logf("%d kills in %s; the last tenant was done %s after", kills, lasts, time.Since(stressed).Round(time.Millisecond))
	s.report()
	s.check()
}

// kill kills servers and starts them again, until the time is over.
func (s *stress) kill(ctx context.Context, lasts time.Duration) int {
	end := time.Now().Add(lasts)
	for kills := 0; ; kills++ {
		wait := meanKillInterval/2 + rand.N(meanKillInterval)
		if time.Now().Add(wait).After(end) || flow.Sleep(ctx, wait) != nil {
			return kills
		}
		i := rand.IntN(len(s.f.servers))
		s.f.servers[i].kill()
		s.f.servers[i].start()
		s.clients[i].Store(s.f.servers[i].Client)
	}
}

// tenant claims and releases until the storm is over, and holds nothing then.
func (s *stress) tenant(ctx context.Context, name string) error {
	for rest := stressRampUp; flow.Sleep(s.calm, rand.N(rest)) == nil; rest = maxTenantIdle {
		c, err := s.claim(ctx, name)
		if err != nil {
			return err
		}
		if err := s.inspect(ctx, c); err != nil {
			return err
		}
		s.mu.Lock()
		delete(s.holders, c.Container)
		s.mu.Unlock()
		if err := s.release(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// retry asks one server after another until one answers well.
func (s *stress) retry(ctx context.Context, what string, ask func(context.Context, *client.Client) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stressTimeout, fmt.Errorf("%s: nobody did it within %s", what, stressTimeout))
	defer cancel()
	for {
		err := ask(ctx, s.clients[rand.IntN(len(s.clients))].Load())
		if err == nil {
			return nil
		}
		answer := "no answer"
		if e, ok := errors.AsType[*client.Error](err); ok {
			answer = fmt.Sprintf("%d %s", e.Status, e.Code)
			if e.Status == 500 {
				answer += ": " + e.Detail
			}
		}
		s.mu.Lock()
		s.answers[answer]++
		s.mu.Unlock()
		if flow.Sleep(ctx, 100*time.Millisecond) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// claim returns the tenant's claim, which nobody else has.
func (s *stress) claim(ctx context.Context, name string) (c claim.Claim, err error) {
	wanted := time.Now()
	err = s.retry(ctx, name+" claims", func(ctx context.Context, to *client.Client) (err error) {
		asked := time.Now()
		c, _, err = to.Claim(ctx, "crowd", name, time.Minute)
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.took = append(s.took, time.Since(asked))
			s.waited = append(s.waited, time.Since(wanted))
		}
		return err
	})
	if err != nil {
		return c, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.holders[c.Container]; other != "" {
		return c, fmt.Errorf("container %s is %s's and %s's", c.Container, other, name)
	}
	if other := s.claims[c.ID]; other != "" || c.Tenant != name || c.State != claim.Active {
		return c, fmt.Errorf("claim %s, which %s had before, is %s of %s for %s", c.ID, other, c.State, c.Tenant, name)
	}
	s.holders[c.Container], s.claims[c.ID] = name, name
	return c, nil
}

// inspect checks that the hooks of a claim have run once, in a container with
// nothing of others in it.
func (s *stress) inspect(ctx context.Context, c claim.Claim) error {
	return s.retry(ctx, c.Tenant+" looks", func(ctx context.Context, to *client.Client) error {
		runs, err := to.Runs(ctx, hooks.RunFilter{Claim: c.ID, Point: hooks.PostClaim})
		if err != nil {
			return err
		}
		if len(runs) != 2 || c.Source != claim.Affinity && outputsByHook(runs)["show"] != "x" {
			s.f.t.Errorf("claim %s (%s): %d runs, and %q is shown", c.ID, c.Source, len(runs), outputsByHook(runs)["show"])
		}
		return nil
	})
}

// release gives the claim back.
func (s *stress) release(ctx context.Context, c claim.Claim) error {
	return s.retry(ctx, c.Tenant+" releases", func(ctx context.Context, to *client.Client) error {
		got, err := to.Release(ctx, c.ID, rand.IntN(10) == 0)
		if err == nil && got.State != claim.Released {
			s.f.t.Errorf("claim %s is %s after its release", c.ID, got.State)
		}
		return err
	})
}

// report tells how it went for the tenants.
func (s *stress) report() {
	s.f.t.Logf("%d claims; answers other than good ones: %v", len(s.took), s.answers)
	for what, all := range map[string][]time.Duration{"answered": s.took, "had, from wanting it": s.waited} {
		slices.Sort(all)
		at := func(percent int) time.Duration { return all[(len(all)-1)*percent/100].Round(time.Millisecond) }
		s.f.t.Logf("claims %s: p50 %s, p95 %s, p99 %s, longest %s", what, at(50), at(95), at(99), at(100))
	}
}

// check looks at everything from outside.
func (s *stress) check() {
	t := s.f.t
	to := s.f.servers[0]
	for answer := range s.answers {
		require.NotRegexp(t, "^500", answer, "no server makes a mistake")
	}
	requireSettled(t, to)
	requireOneTenantEach(t, to.events(eventsOf("crowd", "container")))
	to.deleteWorkload("crowd")
	to.requireEnds()
	to.requireOnce("crowd")
	to.requireNoGaps()
	to.requireEngineMatchesRecords()
	to.requireNothingLeft()
}

// requireSettled waits for what the dead have left to be finished, and checks
// that it is.
func requireSettled(t *testing.T, s *server) {
	t.Helper()
	var live []claim.Claim
	require.Eventually(t, func() bool {
		var err error
		live, err = s.Claims(t.Context(), claim.Filter{Workload: "crowd"})
		require.NoError(t, err)
		return len(live) == 0
	}, waitTimeout, 200*time.Millisecond, "claims that are still there")
	require.Empty(t, live)
	boxes, err := s.Containers(t.Context(), pool.ContainerFilter{States: []pool.State{pool.Claimed}})
	require.NoError(t, err)
	require.Empty(t, boxes, "containers of no claim")
}
