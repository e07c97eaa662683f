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

	"github.com/hostler/hostler/client"
	"github.com/hostler/hostler/internal/flow"
	"github.com/hostler/hostler/internal/testenv"
)

// Parameters of the stress test. After a kill a claim with a hook may wait for a
// takeover, and then for its turn.
const (
	stressTenants    = 200
	maxTenantIdle    = 2 * time.Minute  // maximum time between a tenant's release and its next claim
	stressRampUp     = 10 * time.Second // within which every tenant sends its first claim
	meanKillInterval = 4 * time.Second  // mean time between two kills
	stressTimeout    = 15 * time.Minute // of a call with all of its retries
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

// stress runs many tenants against servers that are killed.
type stress struct {
	f       *fleet
	calm    context.Context //nolint:containedctx // it ends with the kills
	clients []atomic.Pointer[client.Client]

	mu      sync.Mutex        // guards what follows
	holders map[string]string // tenants, by their container
	claims  map[string]string // tenants, by claim
	answers map[string]int    // error responses
	took    []time.Duration   // durations of successful claim calls
	waited  []time.Duration   // durations of claims with all of their retries
}

// Tenants claim and release at random while servers are killed and restarted
// every few seconds. At the end nothing is lost, duplicated or left over.
// REPLICAS_STORM is the duration. What the stress does at random, the kill matrix
// and the tests of replicas do at each step; its load disturbs other tests.
func TestReplicasStress(t *testing.T) {
	testenv.FullOnly(t, "stress", "two hundred tenants and random kills")
	duration := 20 * time.Second
	if text := os.Getenv("REPLICAS_STORM"); text != "" {
		var err error
		duration, err = time.ParseDuration(text)
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
	kills := s.kill(ctx, duration)
	over()
	stressed := time.Now()
	err := g.Wait()
	if err != nil {
		t.Log(s.f.servers[0].eventLog())
	}
	require.NoError(t, err)
	t.Logf("%d kills in %s; the last tenant finished %s later", kills, duration, time.Since(stressed).Round(time.Millisecond))
	s.report()
	s.check()
}

// kill kills and restarts servers for the duration, and returns the number of
// kills.
func (s *stress) kill(ctx context.Context, duration time.Duration) int {
	end := time.Now().Add(duration)
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

// tenant claims and releases until the kills end, and then holds no claim.
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

// retry calls random servers until a call succeeds.
func (s *stress) retry(ctx context.Context, what string, ask func(context.Context, *client.Client) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stressTimeout, fmt.Errorf("%s: no success within %s", what, stressTimeout))
	defer cancel()
	for {
		err := ask(ctx, s.clients[rand.IntN(len(s.clients))].Load())
		if err == nil {
			return nil
		}
		answer := "no response"
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

// claim returns the tenant's claim, and checks that no other tenant has it or its
// container.
func (s *stress) claim(ctx context.Context, name string) (c client.Claim, err error) {
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
		return c, fmt.Errorf("container %s belongs to %s and %s", c.Container, other, name)
	}
	if other := s.claims[c.ID]; other != "" || c.Tenant != name || c.State != client.ClaimActive {
		return c, fmt.Errorf("claim %s, which %s had before, is %s of %s for %s", c.ID, other, c.State, c.Tenant, name)
	}
	s.holders[c.Container], s.claims[c.ID] = name, name
	return c, nil
}

// inspect checks that the hooks of a claim have run once, in a container without
// files of other tenants.
func (s *stress) inspect(ctx context.Context, c client.Claim) error {
	return s.retry(ctx, c.Tenant+" inspects", func(ctx context.Context, to *client.Client) error {
		runs, err := to.Runs(ctx, client.RunFilter{Claim: c.ID, Point: client.PostClaim})
		if err != nil {
			return err
		}
		if len(runs) != 2 || c.Source != client.SourceAffinity && outputsByHook(runs)["show"] != "x" {
			s.f.t.Errorf("claim %s (%s): %d runs, count %q", c.ID, c.Source, len(runs), outputsByHook(runs)["show"])
		}
		return nil
	})
}

// release releases the claim.
func (s *stress) release(ctx context.Context, c client.Claim) error {
	return s.retry(ctx, c.Tenant+" releases", func(ctx context.Context, to *client.Client) error {
		got, err := to.Release(ctx, c.ID, rand.IntN(10) == 0)
		if err == nil && got.State != client.ClaimReleased {
			s.f.t.Errorf("claim %s is %s after its release", c.ID, got.State)
		}
		return err
	})
}

// report logs the error responses and the durations of claims.
func (s *stress) report() {
	s.f.t.Logf("%d claims; error responses: %v", len(s.took), s.answers)
	for what, all := range map[string][]time.Duration{"calls": s.took, "with retries": s.waited} {
		slices.Sort(all)
		at := func(percent int) time.Duration { return all[(len(all)-1)*percent/100].Round(time.Millisecond) }
		s.f.t.Logf("claims, %s: p50 %s, p95 %s, p99 %s, max %s", what, at(50), at(95), at(99), at(100))
	}
}

// check checks the final state.
func (s *stress) check() {
	t := s.f.t
	to := s.f.servers[0]
	for answer := range s.answers {
		require.NotRegexp(t, "^500", answer, "no internal server error")
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

// requireSettled waits until the work of killed servers is finished.
func requireSettled(t *testing.T, s *server) {
	t.Helper()
	var live []client.Claim
	testenv.AwaitTrue(t, "the end of all claims", func() bool {
		var err error
		live, err = s.Claims(t.Context(), client.ClaimFilter{Workload: "crowd"})
		require.NoError(t, err)
		return len(live) == 0
	})
	require.Empty(t, live)
	containers, err := s.Containers(t.Context(), client.ContainerFilter{States: []client.ContainerState{client.ContainerClaimed}})
	require.NoError(t, err)
	require.Empty(t, containers, "containers without a claim")
}
